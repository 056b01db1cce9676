//! The verbs of a method: purge, settings, rounds until steady, operating points.

use crate::cell::Place;
use crate::error::RunError;
use crate::observe::Progress;
use crate::run::{Measured, Runner};
use analysis::{Figures, Status, TimedSteady, Tracked, all_steady};
use engine::Outcome;
use plan::{
    Cell, Coordinate, Load, Pick, PickRule, Points, Rounds, SteadyRule, Step, Take, Track, Verb,
};
use serde_json::{Value, json};

impl Runner<'_> {
    /// Runs the children until all tracked values are steady, or as often as is allowed.
    pub(crate) fn rounds(&mut self, rounds: &Rounds, place: &Place) -> Result<Outcome, RunError> {
        let mut tracked: Vec<Tracked> = rounds
            .track
            .iter()
            .map(|track| Tracked { name: track.describe(), values: Vec::new() })
            .collect();
        let mut reached = false;
        for round in 1..=rounds.most {
            let inner = Place {
                path: format!("{}#{round}", place.path),
                iteration: round,
                ..place.clone()
            };
            self.give_up(&inner.path, "the round was cut, and a round allows no gap")?;
            let outcome = self.steps(&rounds.steps, &inner)?;
            if outcome != Outcome::Completed {
                return Ok(outcome);
            }
            self.mark_done(&inner.path)?;
            for (track, series) in rounds.track.iter().zip(&mut tracked) {
                series.values.push(self.tracked_value(track, &inner.path));
            }
            self.observer.on(Progress::Round {
                path: &place.path,
                round,
                most: Some(rounds.most),
                tracked: &tracked,
                rule: rounds.rule,
            });
            reached = round >= rounds.rule.window && all_steady(&tracked, rounds.rule);
            if reached {
                break;
            }
        }
        let done = tracked.first().map_or(0, |series| series.values.len() as u32);
        let first = done.saturating_sub(rounds.rule.window) + 1;
        self.windows.insert(place.path.clone(), (first, done));
        let claim = SteadyClaim {
            group: &place.path,
            unit: "round",
            rule: rounds.rule,
            tracked: &tracked,
            reached,
        };
        self.conclude(None, &claim)?;
        Ok(Outcome::Completed)
    }

    fn tracked_value(&self, track: &Track, round: &str) -> f64 {
        let path = format!("{round}/{}", track.step);
        let found = self
            .measured
            .iter()
            .rev()
            .find(|cell| cell.path == path && cell.coordinates == track.at);
        found.and_then(|cell| cell.figures.get(track.figure, track.way)).unwrap_or(f64::NAN)
    }

    /// A load that was to end when steady has ended.
    pub(crate) fn conclude_timed(
        &mut self,
        cell: i64,
        place: &Place,
        timed: &TimedSteady,
        rule: SteadyRule,
    ) -> Result<(), RunError> {
        let tracked = [timed.series.clone()];
        let reached = timed.steady();
        let claim =
            SteadyClaim { group: &place.path, unit: "value", rule, tracked: &tracked, reached };
        self.conclude(Some(cell), &claim)
    }

    /// Stores a verdict on steady state with all its evidence, and what the drive fills say of it.
    fn conclude(&mut self, cell: Option<i64>, claim: &SteadyClaim<'_>) -> Result<(), RunError> {
        let (fills, of_kind) = (self.histories.fills(), self.histories.fills_of_kind());
        let evidence = claim.evidence(fills, of_kind);
        let status = if claim.reached { Status::Pass } else { Status::Fail };
        let text = claim.text(fills);
        self.writer.verdict(cell, "steady-state", status.word(), &text, &evidence)?;
        self.observer.on(Progress::Note(&text));
        self.worst = self.worst.max(status);
        let warning = fills_warning(fills, of_kind);
        if let Some(warning) = warning.filter(|_| claim.reached) {
            let status = Status::Warning;
            self.writer.verdict(cell, "drive-fills", status.word(), &warning, &evidence)?;
            self.observer.on(Progress::Note(&warning));
            self.worst = self.worst.max(status);
        }
        Ok(())
    }

    /// Chooses operating points and runs the children at each.
    pub(crate) fn points(&mut self, points: &Points, place: &Place) -> Result<Outcome, RunError> {
        let candidates = self.candidates(points, place);
        let mut chosen: Vec<(String, Candidate)> = Vec::new();
        // Points between others are found last, and run in their order.
        let between = |pick: &&Pick| matches!(pick.rule, PickRule::Between(..));
        let first = points.picks.iter().filter(|pick| !between(pick));
        for pick in first.chain(points.picks.iter().filter(between)) {
            match choose(pick, &candidates, &chosen) {
                Some(found) => chosen.push((pick.name.clone(), found)),
                None => self.no_point(pick, points)?,
            }
        }
        let place_of = |name: &String| points.picks.iter().position(|pick| pick.name == *name);
        chosen.sort_by_key(|(name, _)| place_of(name));
        for (name, found) in &chosen {
            let at: Vec<String> =
                found.coordinates.iter().map(|c| format!("{}={}", c.axis, c.value)).collect();
            let inner = Place {
                path: format!("{}/{name}", place.path),
                label: at.join(" "),
                coordinates: std::iter::once(Coordinate {
                    axis: "point".into(),
                    value: name.clone(),
                })
                .chain(found.coordinates.iter().cloned())
                .collect(),
                ..place.clone()
            };
            if !self.replaying(&inner.path) {
                self.event("point", &format!("{}: {}", inner.path, at.join(" ")))?;
            }
            let steps = adapted(&points.steps, &points.take, &found.loads);
            let outcome = self.steps(&steps, &inner)?;
            if outcome != Outcome::Completed {
                return Ok(outcome);
            }
            self.mark_done(&inner.path)?;
        }
        Ok(Outcome::Completed)
    }

    fn no_point(&mut self, pick: &Pick, points: &Points) -> Result<(), RunError> {
        let text = format!("no cell of {} qualifies as the point `{}`", points.from, pick.name);
        self.writer.verdict(None, "points", Status::Warning.word(), &text, &Value::Null)?;
        self.note(&text)
    }

    /// The cells a point may be chosen from, each with the mean of its figures over the window.
    fn candidates(&self, points: &Points, place: &Place) -> Vec<Candidate> {
        let above = place.path.rsplit_once('/').map_or(String::new(), |(up, _)| format!("{up}/"));
        let wanted = format!("{above}{}", points.from);
        let mut found: Vec<Candidate> = Vec::new();
        for cell in self.measured.iter().filter(|cell| self.in_window(cell, &wanted)) {
            match found.iter_mut().find(|other| other.coordinates == cell.coordinates) {
                Some(other) => other.figures.push(cell.figures.clone()),
                None => found.push(Candidate {
                    coordinates: cell.coordinates.clone(),
                    figures: vec![cell.figures.clone()],
                    loads: cell.loads.clone(),
                }),
            }
        }
        found.retain(|candidate| {
            points.below.is_none_or(|(figure, limit)| {
                candidate.mean(figure).is_some_and(|value| value < limit)
            })
        });
        found
    }

    /// Whether a cell belongs to a sweep, and to the window of its rounds where it stands in some.
    fn in_window(&self, cell: &Measured, wanted: &str) -> bool {
        if without_rounds(&cell.path) != wanted {
            return false;
        }
        let mut path = String::new();
        for part in cell.path.split('/') {
            if !path.is_empty() {
                path.push('/');
            }
            if let Some((name, round)) = part.rsplit_once('#') {
                let group = format!("{path}{name}");
                if let (Some(&(first, last)), Ok(round)) =
                    (self.windows.get(&group), round.parse::<u32>())
                    && !(first..=last).contains(&round)
                {
                    return false;
                }
            }
            path.push_str(part);
        }
        true
    }
}

/// What drive fills say against a claim of steady state; none when nothing.
fn fills_warning(fills: Option<f64>, of_kind: f64) -> Option<String> {
    match fills {
        None => Some(
            "nothing is known of what was written to the drive since its last purge".to_owned(),
        ),
        Some(fills) if fills < 1.0 => Some(format!(
            "the drive was filled only {fills:.2} times since its purge: this may be a false plateau, \
             before all flash was written once"
        )),
        // The spare is fresh until it is written too, and what follows rings for a fill.
        Some(fills) if fills < 2.0 => Some(format!(
            "the drive was filled only {fills:.2} times since its purge: its spare flash may still be \
             fresh, and the plateau a false one"
        )),
        // The cleaning of the flash follows a change between sequential and random for about a fill.
        Some(_) if of_kind < 1.0 => Some(format!(
            "only {of_kind:.2} drive fills were written since the writes changed between sequential \
             and random: a plateau within the first fill after it may be a false one"
        )),
        Some(_) => None,
    }
}

/// A path without the numbers of rounds and repetitions.
fn without_rounds(path: &str) -> String {
    let names = path.split('/').map(|part| part.split('#').next().unwrap_or(part));
    names.collect::<Vec<_>>().join("/")
}

/// What is claimed of a group of values.
struct SteadyClaim<'c> {
    group: &'c str,
    /// What one value is: a round, or a value every so often.
    unit: &'c str,
    rule: SteadyRule,
    tracked: &'c [Tracked],
    reached: bool,
}

impl SteadyClaim<'_> {
    fn count(&self) -> u32 {
        self.tracked.first().map_or(0, |series| series.values.len() as u32)
    }

    fn first(&self) -> u32 {
        self.count().saturating_sub(self.rule.window) + 1
    }

    fn text(&self, fills: Option<f64>) -> String {
        let fills =
            fills.map_or(String::new(), |fills| format!(", {fills:.2} drive fills since purge"));
        let (first, last, unit) = (self.first(), self.count(), self.unit);
        match self.reached {
            true => {
                format!("steady state reached: {unit}s {first} to {last} of {}{fills}", self.group)
            }
            false => format!(
                "steady state not reached: {} after {last} {unit}s{fills}; the window is {unit}s \
                 {first} to {last}",
                self.group
            ),
        }
    }

    fn evidence(&self, fills: Option<f64>, of_kind: f64) -> Value {
        let series = |series: &Tracked| {
            let mut window = series.last_window(self.rule).as_json();
            window["name"] = series.name.clone().into();
            window["values"] = series.values.clone().into();
            window
        };
        json!({
            "group": self.group, "unit": self.unit, "reached": self.reached,
            "first": self.first(), "last": self.count(),
            "rule": {
                "window": self.rule.window, "range_percent": self.rule.range_percent,
                "slope_percent": self.rule.slope_percent,
            },
            "tracked": self.tracked.iter().map(series).collect::<Vec<_>>(),
            "fills_since_purge": fills, "fills_since_change": of_kind,
        })
    }
}

/// A cell that may be an operating point.
#[derive(Clone)]
struct Candidate {
    coordinates: Vec<Coordinate>,
    /// Of each round of the window.
    figures: Vec<Figures>,
    loads: Vec<Load>,
}

impl Candidate {
    /// Mean of a figure over the window.
    fn mean(&self, figure: plan::Figure) -> Option<f64> {
        let values: Vec<f64> =
            self.figures.iter().filter_map(|f| f.get(figure, plan::Way::Both)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

fn choose(
    pick: &Pick,
    candidates: &[Candidate],
    chosen: &[(String, Candidate)],
) -> Option<Candidate> {
    let with_mean = |figure| {
        candidates.iter().filter_map(move |candidate| Some((candidate.mean(figure)?, candidate)))
    };
    match &pick.rule {
        PickRule::Highest(figure) => with_mean(*figure)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, candidate)| candidate.clone()),
        PickRule::At(place) => candidates.iter().find(|c| c.coordinates == *place).cloned(),
        PickRule::Between(figure, a, b) => {
            let of = |name: &String| {
                chosen.iter().find(|(known, _)| known == name).and_then(|(_, c)| c.mean(*figure))
            };
            let middle = (of(a)? + of(b)?) / 2.0;
            with_mean(*figure)
                .min_by(|a, b| (a.0 - middle).abs().total_cmp(&(b.0 - middle).abs()))
                .map(|(_, candidate)| candidate.clone())
        }
    }
}

/// Steps whose loads take over fields of a chosen cell's load.
fn adapted(steps: &[Step], take: &[Take], from: &[Load]) -> Vec<Step> {
    let Some(source) = from.first() else {
        return steps.to_vec();
    };
    let cell = |cell: &Cell| {
        let mut cell = cell.clone();
        for load in &mut cell.loads {
            for field in take {
                match field {
                    Take::Depth => load.depth = source.depth,
                    Take::Workers => load.workers = source.workers,
                    Take::Read => load.read_percent = source.read_percent,
                    Take::Demand => load.demand = source.demand,
                    Take::Block => {
                        load.read_blocks = source.read_blocks.clone();
                        load.write_blocks = source.write_blocks.clone();
                    }
                }
            }
        }
        cell
    };
    let step = |step: &Step| {
        let verb = match &step.verb {
            Verb::Fill(inner) => Verb::Fill(cell(inner)),
            Verb::Load(inner) => Verb::Load(cell(inner)),
            other => other.clone(),
        };
        Step { verb, ..step.clone() }
    };
    steps.iter().map(step).collect()
}
