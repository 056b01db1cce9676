//! A curve: the maximum in closed loop, then shares of it as open-loop rates, then the highest rate
//! under a limit.

use crate::cell::{CellResult, Place};
use crate::error::RunError;
use crate::run::Runner;
use analysis::Status;
use base::units::{format_latency, format_rate};
use engine::Outcome;
use plan::{Cell, Coordinate, Curve, Demand, Load, Rates, Search};
use serde_json::json;

/// Arrivals that may wait at an overloaded point, in seconds of its rate.
const BACKLOG_SECONDS: f64 = 10.0;
/// Rates that a search tries at most.
const TRIES: u32 = 40;
/// A search gives up beyond these percents of the maximum.
const RANGE: (f64, f64) = (0.5, 400.0);

impl Runner<'_> {
    /// Runs a curve; gives how its last cell ended.
    pub(crate) fn run_curve(&mut self, curve: &Curve, place: &Place) -> Result<Outcome, RunError> {
        let maximum = self.run_cell(&curve.cell, &at_load(place, "load", "max"))?;
        if maximum.outcome != Outcome::Completed {
            return Ok(maximum.outcome);
        }
        let mut found = Bracket::default();
        for percent in &curve.percents {
            let cell = self.point(curve, &maximum, *percent, curve.rates);
            let here = at_load(place, "load", &format!("{percent}%"));
            let result = self.run_cell(&cell, &here)?;
            if result.outcome != Outcome::Completed {
                return Ok(result.outcome);
            }
            if let Some(search) = &curve.search {
                found.hint(*percent, passes(&result, search));
            }
            if let (Some(stop), Some(mean)) = (curve.stop, result.service_ns)
                && mean > stop.0 as f64
            {
                let (mean, stop) = (format_latency(mean), format_latency(stop.0 as f64));
                self.note(&format!(
                    "{}: the curve ends at {percent}%: {mean} on average is above {stop}",
                    place.path
                ))?;
                break;
            }
        }
        match &curve.search {
            Some(search) => self.search(curve, search, &maximum, found, place),
            None => Ok(Outcome::Completed),
        }
    }

    /// Halves the interval between a rate that always stays under the limit and one that never does.
    fn search(
        &mut self,
        curve: &Curve,
        search: &Search,
        maximum: &CellResult,
        mut found: Bracket,
        place: &Place,
    ) -> Result<Outcome, RunError> {
        for _ in 0..TRIES {
            let Some(percent) = found.next(search.tolerance) else { break };
            let mut passed = 0;
            for repeat in 1..=search.repeats {
                // A rate that is searched for is not rounded.
                let cell = self.point(curve, maximum, percent, Rates::Exact);
                let mut here = at_load(place, "search", &format!("{percent:.3}%"));
                here.label += &format!(" #{repeat}");
                here.iteration = repeat;
                let result = self.run_cell(&cell, &here)?;
                if result.outcome != Outcome::Completed {
                    return Ok(result.outcome);
                }
                passed += u32::from(passes(&result, search));
            }
            found.judge(percent, passed, search.repeats);
        }
        self.conclude_search(search, maximum, &found, place)?;
        Ok(Outcome::Completed)
    }

    fn conclude_search(
        &mut self,
        search: &Search,
        maximum: &CellResult,
        found: &Bracket,
        place: &Place,
    ) -> Result<(), RunError> {
        let rate = |percent: f64| maximum.iops * percent / 100.0;
        let what = format!(
            "p{} <= {} in {} of {} repeats",
            search.percent,
            format_latency(search.limit.0 as f64),
            search.repeats,
            search.repeats
        );
        let text = match (found.always, found.never) {
            (Some(low), Some(high)) => format!(
                "{}: highest rate with {what}: {} IOPS; no repeat of {} IOPS stayed under the limit",
                place.path,
                format_rate(rate(low)),
                format_rate(rate(high))
            ),
            (Some(low), None) => format!(
                "{}: {what} also at the highest rate tried: {} IOPS",
                place.path,
                format_rate(rate(low))
            ),
            (None, _) => format!(
                "{}: {what} at no rate tried, down to {} IOPS",
                place.path,
                format_rate(rate(found.never.unwrap_or(RANGE.0)))
            ),
        };
        let evidence = json!({
            "percentile": search.percent, "limit_ns": search.limit.0, "repeats": search.repeats,
            "iops": found.always.map(rate), "iops_never": found.never.map(rate),
            "percent_of_maximum": found.always, "tried": found.tried,
        });
        let word = Status::Info.word();
        Ok(self.writer.verdict(None, "highest-rate", word, &text, &evidence)?)
    }

    /// The cell of one point: every load at its share of its own maximum, the mean over its targets.
    fn point(&self, curve: &Curve, maximum: &CellResult, percent: f64, rounding: Rates) -> Cell {
        let n = self.beds.len();
        let mut streams = maximum.stream_iops.iter();
        let mut rates = Vec::new();
        for load in &curve.cell.loads {
            let used = (0..n).filter(|t| load.targets.is_empty() || load.targets.contains(t));
            let found: Vec<f64> = used.filter_map(|_| streams.next().copied()).collect();
            rates.push(found.iter().sum::<f64>() / found.len().max(1) as f64);
        }
        // Loads that share workers are drawn by weight from one common schedule.
        let shared: f64 = curve
            .cell
            .loads
            .iter()
            .zip(&rates)
            .filter(|(load, _)| load.weight.is_some())
            .map(|(_, rate)| rate)
            .sum();
        let at = |(load, rate): (&Load, &f64)| {
            let maximum = if load.weight.is_some() { shared } else { *rate };
            let rate_iops = rounding.rate(maximum, percent);
            let backlog = (rate_iops * BACKLOG_SECONDS).max(1000.0) as u64;
            let demand = Demand::Open { rate_iops, arrival: curve.arrival, backlog };
            Load { demand, depth: curve.depth, ..load.clone() }
        };
        let loads = curve.cell.loads.iter().zip(&rates).map(at).collect();
        Cell { loads, window: curve.cell.window, until: None, stability: None }
    }
}

fn at_load(place: &Place, axis: &str, value: &str) -> Place {
    Place {
        label: format!("{axis}={value}"),
        coordinates: vec![Coordinate { axis: axis.into(), value: value.into() }],
        ..place.clone()
    }
}

fn passes(result: &CellResult, search: &Search) -> bool {
    // Without enough I/Os for the percentile nothing is shown.
    let found = result.felt.percentile_ns(search.percent);
    found.is_some_and(|ns| ns <= search.limit.0)
}

/// What is known of rates, in percent of the maximum.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// Highest rate below `never` whose every repeat passed.
    always: Option<f64>,
    /// Lowest rate of which none passed.
    never: Option<f64>,
    /// Rates of which some passed.
    mixed: Vec<f64>,
    /// Points of the curve: where to begin.
    hints: (Option<f64>, Option<f64>),
    /// What was tried, with the repeats that passed.
    tried: Vec<(f64, u32)>,
}

impl Bracket {
    /// A point of the curve, measured once.
    fn hint(&mut self, percent: f64, passed: bool) {
        match passed {
            true if self.hints.1.is_none() => {
                self.hints.0 = Some(self.hints.0.map_or(percent, |high| high.max(percent)));
            }
            true => {}
            false => self.hints.1 = Some(self.hints.1.map_or(percent, |low| low.min(percent))),
        }
    }

    fn judge(&mut self, percent: f64, passed: u32, repeats: u32) {
        self.tried.push((percent, passed));
        if passed == repeats {
            self.always = Some(self.always.map_or(percent, |high| high.max(percent)));
        } else if passed == 0 {
            self.never = Some(self.never.map_or(percent, |low| low.min(percent)));
        } else {
            self.mixed.push(percent);
        }
    }

    /// The rate to try next; none when the interval is narrow enough, or cannot get narrower.
    fn next(&self, tolerance: f64) -> Option<f64> {
        let lowest = self.tried.iter().map(|(percent, _)| *percent).reduce(f64::min);
        let highest = self.tried.iter().map(|(percent, _)| *percent).reduce(f64::max);
        let (Some(low), Some(high)) = (self.always, self.never) else {
            let down = lowest.map_or(self.hints.0.unwrap_or(50.0), |percent| percent * 0.8);
            let up = highest.map_or(self.hints.1.unwrap_or(100.0), |percent| percent * 1.15);
            let next = match (self.always, self.never) {
                (None, _) => down,
                _ => self.hints.1.filter(|hint| highest.is_some_and(|h| h < *hint)).unwrap_or(up),
            };
            return (RANGE.0..=RANGE.1).contains(&next).then_some(next);
        };
        // Rates that pass now and then stay between the two: both sides of them are narrowed.
        let inside =
            || self.mixed.iter().copied().filter(|percent| low < *percent && *percent < high);
        let first = inside().reduce(f64::min).unwrap_or(high);
        let last = inside().reduce(f64::max).unwrap_or(low);
        let gaps = [(low, first), (last, high)];
        let wide = |gap: &&(f64, f64)| (gap.1 - gap.0) / gap.1 * 100.0 > tolerance;
        gaps.iter().find(wide).map(|(a, b)| (a + b) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for `edge` with a band around it in which repeats disagree.
    fn search(edge: f64, band: f64, hints: &[f64]) -> Bracket {
        let mut found = Bracket::default();
        hints.iter().for_each(|percent| found.hint(*percent, *percent <= edge));
        for _ in 0..TRIES {
            let Some(percent) = found.next(2.0) else { break };
            let passed = match percent {
                p if p <= edge - band => 3,
                p if p >= edge + band => 0,
                _ => 1,
            };
            found.judge(percent, passed, 3);
        }
        found
    }

    #[test]
    fn the_edge_lies_in_the_interval() {
        for edge in [0.9, 17.0, 63.0, 99.0, 130.0, 210.0] {
            for hints in [&[][..], &[50.0, 100.0], &[10.0, 60.0, 70.0, 120.0]] {
                let found = search(edge, 0.0, hints);
                let (low, high) = (found.always.unwrap(), found.never.unwrap());
                assert!(low <= edge && edge <= high, "{edge}: {low} .. {high}");
                assert!((high - low) / high < 0.0201, "{edge}: {low} .. {high}");
                assert!(found.tried.len() < 30, "{edge}: {}", found.tried.len());
            }
        }
    }

    #[test]
    fn where_repeats_disagree_the_interval_says_so() {
        let found = search(70.0, 3.0, &[60.0, 80.0]);
        let (low, high) = (found.always.unwrap(), found.never.unwrap());
        assert!((64.5..=67.0).contains(&low), "{low}");
        assert!((73.0..75.5).contains(&high), "{high}");
    }

    #[test]
    fn a_limit_that_always_or_never_holds_ends_the_search() {
        assert!(search(1000.0, 0.0, &[100.0]).never.is_none());
        assert!(search(0.0, 0.0, &[100.0]).always.is_none());
    }

    #[test]
    fn rates_as_vdbench_makes_them() {
        // Published output of a run whose maximum was 916.
        for (percent, rate) in
            [(1.0, 10.0), (15.0, 140.0), (20.0, 190.0), (25.0, 230.0), (40.0, 370.0)]
        {
            assert_eq!(Rates::Vdbench.rate(916.4, percent), rate);
        }
        assert_eq!(Rates::Vdbench.rate(123_456.0, 50.0), 61_800.0);
        assert_eq!(Rates::Vdbench.rate(2000.0, 50.0), 1000.0, "1000 itself is a multiple of ten");
        assert_eq!(Rates::Vdbench.rate(2004.0, 50.0), 1100.0);
        assert_eq!(Rates::Exact.rate(916.0, 40.0), 366.4);
    }
}
