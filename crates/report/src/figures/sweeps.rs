//! Sweeps: tables, 2D and 3D plots over one or two axes, and load curves with their knee.

use super::crossed::Crossed;
use super::points::{ALL_FIGURES, PERCENTS, Point, all_figures};
use super::{Chapter, coordinates, figure};
use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::{Block, Field, Section, Sheet};
use base::units::{format_latency, format_rate, parse_bytes};
use store::CellRecord;

/// Sweeps and curves of a chapter that are not inside of rounds.
pub(crate) fn sections(chapter: &Chapter<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for cell in chapter.outside_rounds() {
        let path = analysis::step_path(&cell.path);
        if !matches!(cell.verb.as_str(), "sweep" | "curve") || seen.contains(&path) {
            continue;
        }
        let same = |other: &&CellRecord| analysis::step_path(&other.path) == path && other.counted;
        let cells: Vec<&CellRecord> = chapter
            .outside_rounds()
            .into_iter()
            .filter(same)
            .filter(|c| c.status == "done")
            .collect();
        let points: Vec<Point> = cells.iter().map(|cell| Point::of_cell(cell)).collect();
        seen.push(path.clone());
        if points.len() < 2 {
            continue;
        }
        let short = path.strip_prefix(&format!("{}/", chapter.name)).unwrap_or(&path).to_owned();
        let mut section = Section::new(&short, 3);
        if cell.verb == "curve" {
            curve(&mut section, &short, &points);
        } else {
            add(&mut section, &short, &points, true);
        }
        sections.push(section);
    }
    sections
}

/// Tables and plots of one sweep.
pub(crate) fn add(section: &mut Section, what: &str, points: &[Point], latency: bool) {
    let axes = points.first().map_or(0, |point| point.coordinates.len());
    match axes {
        1 => one_axis(section, what, points),
        2 => Crossed::of(points).add(section, what, latency),
        _ => {}
    }
}

/// Values of an axis, small to large where they are sizes or numbers.
pub(super) fn values(points: &[Point], axis: &str) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in points.iter().filter_map(|point| point.at(axis)) {
        if !seen.iter().any(|known| known == value) {
            seen.push(value.to_owned());
        }
    }
    if seen.iter().all(|value| size(value).is_some()) {
        seen.sort_by(|a, b| size(a).partial_cmp(&size(b)).unwrap_or(std::cmp::Ordering::Equal));
    }
    seen
}

/// A value as a number: a size, a count, a percentage.
pub(super) fn size(value: &str) -> Option<f64> {
    let plain = value.trim_end_matches('%');
    plain.parse().ok().or_else(|| parse_bytes(plain).ok().map(|bytes| bytes.0 as f64))
}

pub(super) type Get = fn(&Point) -> Option<f64>;

/// A figure of points: name, unit of the axis, how a table shows it, and how it is had.
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) table: &'static str,
    pub(super) unit: Unit,
    pub(super) get: Get,
    pub(super) field: fn(Option<f64>) -> Field,
}

fn na(value: Option<f64>, field: fn(f64) -> Field) -> Field {
    value.map_or_else(|| Field::text("n/a"), field)
}

pub(super) const IOPS: Shown = Shown {
    name: "IOPS",
    table: "IOPS",
    unit: Unit::Plain,
    get: |p| Some(p.iops),
    field: |v| na(v, Field::iops),
};
pub(super) const BANDWIDTH: Shown = Shown {
    name: "bandwidth",
    table: "MB/s",
    unit: Unit::Rate,
    get: |p| Some(p.bandwidth),
    field: |v| na(v, Field::bandwidth),
};
pub(super) const MEAN: Shown = Shown {
    name: "mean latency (ART)",
    table: "mean latency (ART), ms",
    unit: Unit::Nanos,
    get: |p| p.mean_ns,
    field: Field::millis,
};
pub(super) const FIVE_NINES: Shown = Shown {
    name: "99.999 % latency",
    table: "99.999 % latency, ms",
    unit: Unit::Nanos,
    get: |p| p.five_nines_ns,
    field: Field::millis,
};
pub(super) const LARGEST: Shown = Shown {
    name: "largest latency (MRT)",
    table: "largest latency (MRT), ms",
    unit: Unit::Nanos,
    get: |p| p.max_ns,
    field: Field::millis,
};
pub(super) const CPU: Shown = Shown {
    name: "CPU of the load's threads",
    table: "CPU of the load's threads, % of one CPU",
    unit: Unit::Percent,
    get: |p| Some(p.cpu * 100.0),
    field: |v| Field::percent(v, 1),
};

pub(super) const SYSTEM: Shown = Shown {
    name: "system CPU of the host (SYS CPU %)",
    table: "system CPU of the host, % of all CPUs",
    unit: Unit::Percent,
    get: |p| p.host_system.map(|share| share * 100.0),
    field: |v| Field::percent(v, 1),
};

pub(super) fn label_of(axis: &str) -> &str {
    match axis {
        "read" => "read share, %",
        "block" => "block size",
        "depth" => "queue depth of a worker",
        other => other,
    }
}

/// How an axis of these values is drawn.
pub(super) fn axis_of(name: &str, values: &[String]) -> (Axis, Vec<f64>) {
    let numbers: Vec<f64> = values.iter().filter_map(|value| size(value)).collect();
    let wide = numbers.len() == values.len()
        && numbers.first().is_some_and(|first| *first > 0.0)
        && numbers.last().zip(numbers.first()).is_some_and(|(last, first)| last / first >= 8.0);
    if wide {
        let unit = if name == "block" { Unit::Binary } else { Unit::Plain };
        return (Axis::log(label_of(name), unit), numbers);
    }
    let places = (0..values.len()).map(|n| n as f64).collect();
    (Axis::named(label_of(name), values.to_vec()), places)
}

fn wide(points: &[Point], get: Get) -> bool {
    let (low, high) = points
        .iter()
        .filter_map(get)
        .filter(|v| *v > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
    high > low * 20.0
}

pub(super) fn up(shown: &Shown, points: &[Point]) -> Axis {
    match wide(points, shown.get) {
        true => Axis::log(shown.name, shown.unit),
        false => Axis::linear(shown.name, shown.unit),
    }
}

fn one_axis(section: &mut Section, what: &str, points: &[Point]) {
    let axis = points[0].coordinates[0].0.clone();
    let values = values(points, &axis);
    let at = |value: &String| points.iter().find(|point| point.at(&axis) == Some(value));
    let (x, places) = axis_of(&axis, &values);
    let style = if x.names.is_empty() { Style::Marked } else { Style::Bars };
    let line = |get: Get| -> Vec<(f64, f64)> {
        let of = |(x, value): (&f64, &String)| Some((*x, get(at(value)?)?));
        places.iter().zip(&values).filter_map(of).collect()
    };
    for shown in [&IOPS, &BANDWIDTH] {
        figure(
            section,
            Chart {
                title: format!("{} over {axis}: {what}", shown.name),
                note: String::new(),
                x: x.clone(),
                y: Axis::linear(shown.name, shown.unit),
                y2: None,
                series: vec![Series::new(shown.name, style, 0, line(shown.get))],
                marks: Vec::new(),
            },
        );
    }
    let latencies = percentile_lines(points, |point| {
        let value = point.at(&axis)?;
        places.get(values.iter().position(|known| known == value)?).copied()
    });
    if points.iter().any(|point| point.mean_ns.is_some()) {
        figure(
            section,
            Chart {
                title: format!("Latency over {axis}: {what}"),
                note: "Lines are percentiles; one is left out where fewer than 10 I/Os lie beyond."
                    .into(),
                x,
                y: Axis::log("latency", Unit::Nanos),
                y2: None,
                series: latencies,
                marks: Vec::new(),
            },
        );
    }
    if matches!(axis.as_str(), "depth" | "workers") {
        curve(section, what, points);
    }
    let row = |value: &String| {
        let mut row = vec![Field::text(value)];
        if let Some(point) = at(value) {
            row.extend(all_figures(point));
        }
        row
    };
    section.add(Block::Table(Sheet {
        title: what.to_owned(),
        head: std::iter::once(label_of(&axis)).chain(ALL_FIGURES).map(String::from).collect(),
        rows: values.iter().map(row).collect(),
    }));
}

/// Mean, percentiles and maximum as lines, with the surface between p50 and p99.
fn percentile_lines(points: &[Point], x: impl Fn(&Point) -> Option<f64>) -> Vec<Series> {
    let line = |name: &str, style, color, get: &dyn Fn(&Point) -> Option<f64>| {
        let mut line: Vec<(f64, f64)> =
            points.iter().filter_map(|point| Some((x(point)?, get(point)?))).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(name, style, color, line)
    };
    let mut series = Vec::new();
    let median = line("p50", Style::Marked, 0, &|p| {
        p.percentiles_ns[0].and(p.percentiles_ns[1]).and(p.percentiles_ns[0])
    });
    let high = line("p99", Style::Marked, 1, &|p| p.percentiles_ns[0].and(p.percentiles_ns[1]));
    if median.x.len() > 1 {
        series.push(Series {
            name: "p50 to p99".into(),
            style: Style::Band,
            low: median.y.clone(),
            ..high.clone()
        });
    }
    series.push(line("mean", Style::Marked, 6, &|p| p.mean_ns));
    for (n, percent) in PERCENTS.iter().enumerate() {
        series.push(line(&analysis::percentile_name(*percent), Style::Marked, n, &|p| {
            p.percentiles_ns[n]
        }));
    }
    series.push(line("maximum", Style::Dashed, 7, &|p| p.max_ns));
    series.retain(|s| !s.x.is_empty());
    series
}

/// Latency against load, with the knee and the highest rate below a limit.
fn curve(section: &mut Section, what: &str, points: &[Point]) {
    const LIMITS_NS: [f64; 5] = [100e3, 200e3, 500e3, 1e6, 5e6];
    let mut sorted: Vec<Point> = points.to_vec();
    sorted.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    let load: Vec<(f64, f64)> =
        sorted.iter().filter_map(|p| Some((p.iops, p.percentiles_ns[1].or(p.mean_ns)?))).collect();
    let knee = analysis::knee(&load);
    let marks = knee.map(|rate| Mark {
        text: format!("knee at {} IOPS", format_rate(rate)),
        at: Place::X(rate),
    });
    figure(
        section,
        Chart {
            title: format!("Latency against load: {what}"),
            note:
                "The knee is where the distance to the line from the first to the highest load is \
                   largest, both axes scaled to 1, on p99."
                    .into(),
            x: Axis::linear("IOPS", Unit::Plain),
            y: Axis::log("latency", Unit::Nanos),
            y2: None,
            series: percentile_lines(&sorted, |p| Some(p.iops)),
            marks: marks.into_iter().collect(),
        },
    );
    let below = |limit: &f64| {
        let rate = load.iter().filter(|(_, ns)| ns <= limit).map(|(rate, _)| *rate);
        let best = rate.fold(0.0, f64::max);
        vec![
            Field::text(format_latency(*limit)),
            if best > 0.0 { Field::iops(best) } else { Field::text("none of the measured") },
        ]
    };
    section.add(Block::Table(Sheet {
        title: format!("Highest measured rate under a limit of p99: {what}"),
        head: vec!["p99 at most".into(), "IOPS".into()],
        rows: LIMITS_NS.iter().map(below).collect(),
    }));
    let row = |point: &Point| {
        let name = point.coordinates.iter().map(|(a, v)| format!("{a} {v}")).collect::<Vec<_>>();
        let service = point.service_ns.map(Field::millis).to_vec();
        [vec![Field::text(name.join(" "))], all_figures(point), service].concat()
    };
    if points.iter().any(|p| p.at("load").is_some()) {
        // Both truths: times from when an I/O was due, and from when it found a free slot.
        let head = std::iter::once("point").chain(ALL_FIGURES);
        let head = head.chain(["service mean ms", "service p99 ms"]);
        section.add(Block::Table(Sheet {
            title: format!("Points of the curve: {what}"),
            head: head.map(String::from).collect(),
            rows: points.iter().map(row).collect(),
        }));
    }
}

/// Whether a cell stands on the axes of a sweep.
pub(crate) fn on_axes(cell: &CellRecord) -> bool {
    !coordinates(cell).is_empty()
}
