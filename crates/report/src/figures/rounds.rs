//! Rounds until steady: convergence, the window with the lines of the method, its table, and the sweeps
//! inside, averaged over the window.

use super::points::Point;
use super::{Chapter, coordinates, figure, sweeps};
use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::{Block, Field, Notice, Section, Sheet, Weight};
use analysis::{SteadyGroup, WindowRow, place_in_rounds, summarize};
use serde_json::Value;
use store::CellRecord;

/// What a tracked value is, by the name the method gave it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Iops,
    Bandwidth,
    Latency,
}

impl Kind {
    pub(crate) fn of(name: &str) -> Kind {
        match name {
            n if n.ends_with("iops") => Kind::Iops,
            n if n.ends_with("bandwidth") => Kind::Bandwidth,
            _ => Kind::Latency,
        }
    }

    pub(crate) fn axis(self) -> Axis {
        match self {
            Kind::Iops => Axis::linear("IOPS", Unit::Plain),
            Kind::Bandwidth => Axis::linear("bandwidth", Unit::Rate),
            Kind::Latency => Axis::linear("latency", Unit::Nanos),
        }
    }
}

pub(crate) fn tracked(group: &SteadyGroup) -> Vec<&Value> {
    let list = group.evidence["tracked"].as_array();
    list.map(|list| list.iter().collect()).unwrap_or_default()
}

fn name_of(series: &Value) -> &str {
    series["name"].as_str().unwrap_or_default()
}

/// Everything about one group of rounds.
pub(crate) fn section(chapter: &Chapter<'_>, group: &SteadyGroup) -> Section {
    let short = short_path(chapter, group);
    let mut section = Section::new(format!("{short}: rounds"), 3);
    section.add(verdict(group));
    convergence(&mut section, chapter, group, &short);
    windows(&mut section, group, &short);
    section.add(Block::Table(evidence(group, &short)));
    let steps = steps_of(group);
    for step in steps {
        let rows = group.rows.iter().filter(|row| row.step == step);
        let points: Vec<Point> = rows.map(|row| point_of(chapter, group, row)).collect();
        let latency = tracked(group).iter().any(|s| Kind::of(name_of(s)) == Kind::Latency);
        let (from, to) = group.window;
        let what = format!("{short}, {step}, mean of rounds {from} to {to}");
        sweeps::add(&mut section, &what, &points, latency);
    }
    section
}

/// A cell over the window, with what the host's CPUs did meanwhile.
fn point_of(chapter: &Chapter<'_>, group: &SteadyGroup, row: &WindowRow) -> Point {
    let (from, to) = group.window;
    let within = |cell: &&&CellRecord| {
        cell.label == row.label
            && place_in_rounds(group, cell)
                .is_some_and(|(round, step)| step == row.step && (from..=to).contains(&round))
    };
    let cells: Vec<&CellRecord> = chapter.cells.iter().filter(within).copied().collect();
    let host_system = super::points::host_mean(chapter, &cells, "cpu_system_share");
    Point { host_system, ..Point::of_row(row) }
}

pub(crate) fn short_path(chapter: &Chapter<'_>, group: &SteadyGroup) -> String {
    let plain = analysis::step_path(&group.path);
    plain.strip_prefix(&format!("{}/", chapter.name)).unwrap_or(&plain).to_owned()
}

fn steps_of(group: &SteadyGroup) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for row in &group.rows {
        if !steps.contains(&row.step) {
            steps.push(row.step.clone());
        }
    }
    steps
}

pub(crate) fn verdict(group: &SteadyGroup) -> Block {
    Block::Notice(Notice {
        weight: if group.reached { Weight::Good } else { Weight::Invalid },
        title: if group.reached { "Steady state" } else { "Steady state not reached" }.into(),
        text: group.text.clone(),
        figure: None,
    })
}

/// Values over all rounds: one chart for each value of the outer axis that a tracked value has.
fn convergence(section: &mut Section, chapter: &Chapter<'_>, group: &SteadyGroup, short: &str) {
    let cells: Vec<(&CellRecord, u32, &str)> = chapter
        .cells
        .iter()
        .filter(|cell| cell.status == "done")
        .filter_map(|cell| place_in_rounds(group, cell).map(|(round, step)| (*cell, round, step)))
        .collect();
    for step in steps_of(group) {
        let of_step: Vec<_> = cells.iter().filter(|(.., s)| *s == step).copied().collect();
        let outer = of_step.first().map(|(cell, ..)| coordinates(cell)).unwrap_or_default();
        let kinds = kinds_of(group, &step);
        match outer.as_slice() {
            [] => converge(section, group, &format!("{short}, {step}"), &of_step, &kinds),
            [(axis, _)] => {
                // One axis: a chart for each value, as read and write differ by orders of magnitude.
                for value in values(&of_step, axis) {
                    let some = with(&of_step, axis, &value);
                    let what = format!("{short}, {step}, {axis} {value}");
                    converge(section, group, &what, &some, &kinds);
                }
            }
            [(axis, _), ..] => {
                for value in tracked_values(group, axis, &values(&of_step, axis)) {
                    let some = with(&of_step, axis, &value);
                    let what = format!("{short}, {step}, {axis} {value}");
                    converge(section, group, &what, &some, &kinds);
                }
            }
        }
    }
}

type InRound<'r> = (&'r CellRecord, u32, &'r str);

fn values(cells: &[InRound<'_>], axis: &str) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for (cell, ..) in cells {
        for (name, value) in coordinates(cell) {
            if name == axis && !seen.contains(&value) {
                seen.push(value);
            }
        }
    }
    seen
}

fn with<'r>(cells: &[InRound<'r>], axis: &str, value: &str) -> Vec<InRound<'r>> {
    let has = |cell: &CellRecord| coordinates(cell).iter().any(|(a, v)| a == axis && v == value);
    cells.iter().filter(|(cell, ..)| has(cell)).copied().collect()
}

/// Values of an axis that a tracked value names (`read=0`); all when none does.
fn tracked_values(group: &SteadyGroup, axis: &str, all: &[String]) -> Vec<String> {
    let names: Vec<&str> = tracked(group).into_iter().map(name_of).collect();
    let is_named = |value: &&String| {
        let word = format!("{axis}={value}");
        names.iter().any(|name| name.split([' ', ',', '/']).any(|part| part == word))
    };
    let named: Vec<String> = all.iter().filter(is_named).cloned().collect();
    if named.is_empty() { all.iter().take(3).cloned().collect() } else { named }
}

/// What is drawn of a step: its tracked kind, IOPS otherwise; of latencies mean and maximum.
fn kinds_of(group: &SteadyGroup, step: &str) -> Vec<(Kind, &'static str)> {
    let own = tracked(group).into_iter().find(|series| name_of(series).contains(step));
    match own.map(|series| Kind::of(name_of(series))) {
        Some(Kind::Latency) => {
            vec![(Kind::Latency, "mean latency"), (Kind::Latency, "largest latency")]
        }
        Some(Kind::Bandwidth) => vec![(Kind::Bandwidth, "bandwidth")],
        _ => vec![(Kind::Iops, "IOPS")],
    }
}

fn converge(
    section: &mut Section,
    group: &SteadyGroup,
    what: &str,
    cells: &[InRound<'_>],
    kinds: &[(Kind, &str)],
) {
    for (kind, name) in kinds {
        let value = |cell: &CellRecord| {
            let summary = summarize(cell);
            let point = || Point::of_cell(cell);
            match (kind, *name) {
                (Kind::Iops, _) => summary.iops,
                (Kind::Bandwidth, _) => summary.bandwidth_bytes,
                (Kind::Latency, "largest latency") => point().max_ns.unwrap_or(f64::NAN),
                (Kind::Latency, _) => point().mean_ns.unwrap_or(f64::NAN),
            }
        };
        let mut labels: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (cell, round, _) in cells {
            let label = coordinates(cell).last().map_or(String::new(), |(a, v)| format!("{a} {v}"));
            let at = (f64::from(*round), value(cell));
            match labels.iter_mut().find(|(name, _)| *name == label) {
                Some((_, points)) => points.push(at),
                None => labels.push((label, vec![at])),
            }
        }
        let rounds = cells.iter().map(|(_, round, _)| *round).max().unwrap_or(1);
        let series = labels
            .into_iter()
            .enumerate()
            .map(|(n, (label, points))| Series::new(&label, Style::Marked, n, points));
        let (from, to) = group.window;
        figure(
            section,
            Chart {
                title: format!("Steady-state convergence: {name}, {what}"),
                note: format!("Each point is a round; the window is rounds {from} to {to}."),
                x: Axis {
                    range: Some((0.5, f64::from(rounds) + 0.5)),
                    ..Axis::linear("round", Unit::Plain)
                },
                y: kind.axis(),
                y2: None,
                series: series.collect(),
                marks: vec![Mark {
                    text: "window".into(),
                    at: Place::Span(f64::from(from) - 0.4, f64::from(to) + 0.4),
                }],
            },
        );
    }
}

/// The window of each tracked value, with the lines of the method.
pub(crate) fn windows(section: &mut Section, group: &SteadyGroup, short: &str) {
    for series in tracked(group) {
        figure(section, window(group, series, short));
    }
}

/// Pairs of a round and its value.
fn pairs(value: &Value) -> Vec<(f64, f64)> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|pair| Some((pair[0].as_f64()?, pair[1].as_f64()?))).collect()
}

/// What a tracked value of a group is. A load that is its own group tracks its rate, and has its path as
/// the name.
fn kind_of(group: &SteadyGroup, series: &Value) -> Kind {
    match name_of(series) == group.path {
        true => Kind::Iops,
        false => Kind::of(name_of(series)),
    }
}

fn window(group: &SteadyGroup, series: &Value, short: &str) -> Chart {
    let number = |key: &str| series[key].as_f64().unwrap_or(f64::NAN);
    let points = pairs(&series["points"]);
    let (first, last) = (f64::from(group.window.0), f64::from(group.window.1));
    let average = number("average");
    let half = group.evidence["rule"]["range_percent"].as_f64().unwrap_or(20.0) / 200.0;
    let level = |name: &str, style, color, y: f64| {
        Series::new(name, style, color, vec![(first, y), (last, y)])
    };
    let fit = |x: f64| number("slope") * x + number("intercept");
    let unit = if group.evidence["unit"] == "round" { "round" } else { "value" };
    Chart {
        title: format!("Steady-state window: {short}, {}", name_of(series)),
        note: format!(
            "Range {:.4} of {:.4} allowed, slope excursion {:.4} of {:.4} allowed; fit {:.4}*R + {:.4}, \
             correlation {:.3}.",
            number("range"),
            number("range_allowed"),
            number("slope_excursion"),
            number("slope_allowed"),
            number("slope"),
            number("intercept"),
            number("correlation")
        ),
        x: Axis { range: Some((first - 0.3, last + 0.3)), ..Axis::linear(unit, Unit::Plain) },
        y: Axis { zero: false, ..kind_of(group, series).axis() },
        y2: None,
        series: vec![
            Series::new("measured", Style::Marked, 0, points),
            level("average", Style::Line, 6, average),
            level(
                &format!("{:.0} % of average", 100.0 + half * 100.0),
                Style::Dashed,
                1,
                average * (1.0 + half),
            ),
            level(
                &format!("{:.0} % of average", 100.0 - half * 100.0),
                Style::Dashed,
                1,
                average * (1.0 - half),
            ),
            Series::new("best fit", Style::Dashed, 2, vec![(first, fit(first)), (last, fit(last))]),
        ],
        marks: Vec::new(),
    }
}

/// The verification table.
pub(crate) fn evidence(group: &SteadyGroup, short: &str) -> Sheet {
    let row = |series: &Value| {
        let kind = kind_of(group, series);
        let scale = if kind == Kind::Latency { 1e-6 } else { 1.0 };
        let number = |key: &str| {
            let value = series[key].as_f64().unwrap_or(f64::NAN) * scale;
            Field::Number(value, format!("{value:.4}"))
        };
        let unit = match kind {
            Kind::Iops => "IOPS",
            Kind::Bandwidth => "B/s",
            Kind::Latency => "ms",
        };
        let correlation = series["correlation"].as_f64().unwrap_or(f64::NAN);
        let (slope, intercept) = (number("slope"), number("intercept"));
        vec![
            Field::text(name_of(series)),
            Field::text(unit),
            Field::text(if series["steady"] == true { "yes" } else { "NO" }),
            Field::text(format!("{} to {}", group.window.0, group.window.1)),
            number("average"),
            number("range_allowed"),
            number("range"),
            number("slope_allowed"),
            number("slope_excursion"),
            Field::text(format!("{}*R + {}", slope.shown(), intercept.shown())),
            Field::Number(correlation, format!("{correlation:.3}")),
        ]
    };
    Sheet {
        title: format!("Steady-state verification: {short}"),
        head: [
            "tracked value",
            "unit",
            "steady",
            "window",
            "average",
            "allowed range",
            "measured range",
            "allowed slope excursion",
            "measured slope excursion",
            "fit",
            "correlation",
        ]
        .map(String::from)
        .to_vec(),
        rows: tracked(group).into_iter().map(row).collect(),
    }
}

/// Several groups of a chapter that have the same sweep over one axis, side by side: throughput by block
/// size.
pub(crate) fn across_groups(chapter: &Chapter<'_>) -> Option<Section> {
    let one_axis = |row: &&WindowRow| row.coordinates.len() == 1;
    let groups: Vec<&&SteadyGroup> = chapter
        .groups
        .iter()
        .filter(|group| group.rows.iter().filter(one_axis).count() >= 2)
        .collect();
    if groups.len() < 2 {
        return None;
    }
    let columns: Vec<String> = groups[0].rows.iter().filter(one_axis).map(label).collect();
    let same = |group: &&&&SteadyGroup| {
        group.rows.iter().filter(one_axis).map(label).collect::<Vec<_>>() == columns
    };
    let groups: Vec<&&SteadyGroup> = groups.iter().filter(same).copied().collect();
    let names: Vec<String> = groups.iter().map(|group| load_of(group)).collect();
    let mut section = Section::new("Side by side", 3);
    let value = |group: &SteadyGroup, column: usize| {
        group.rows.iter().filter(one_axis).nth(column).map_or(f64::NAN, |row| row.bandwidth_bytes)
    };
    let series = columns.iter().enumerate().map(|(n, name)| {
        let points = groups.iter().enumerate().map(|(x, group)| (x as f64, value(group, n)));
        Series::new(name, Style::Bars, n, points.collect())
    });
    let title = format!("{}: bandwidth of each", chapter.name);
    figure(
        &mut section,
        Chart {
            title: title.clone(),
            note: "Means of the steady-state windows.".into(),
            x: Axis::named("block size", names.clone()),
            y: Axis::linear("bandwidth", Unit::Rate),
            y2: None,
            series: series.collect(),
            marks: Vec::new(),
        },
    );
    let row = |(name, group): (&String, &&&SteadyGroup)| {
        let mut row = vec![Field::text(name)];
        row.extend((0..columns.len()).map(|n| Field::bandwidth(value(group, n))));
        row
    };
    section.add(Block::Table(Sheet {
        title: format!("{title}, MB/s"),
        head: std::iter::once("load".to_owned()).chain(columns.clone()).collect(),
        rows: names.iter().zip(&groups).map(row).collect(),
    }));
    Some(section)
}

fn label(row: &WindowRow) -> String {
    row.coordinates.iter().map(|(axis, value)| format!("{axis} {value}")).collect()
}

/// The block size of a group's load, from its short form.
fn load_of(group: &SteadyGroup) -> String {
    let first = group.rows.first().map(|row| row.describe.as_str()).unwrap_or_default();
    first.split(' ').next().unwrap_or(&group.path).to_owned()
}
