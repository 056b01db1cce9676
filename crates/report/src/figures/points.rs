//! What a cell amounts to, in the figures that charts and tables are made of.

use super::{Chapter, coordinates, describe, name_of};
use crate::page::{Block, Field, Section, Sheet};
use analysis::felt;
use analysis::{WindowRow, summarize};
use store::CellRecord;

/// A cell, or the mean of a cell over a window of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) coordinates: Vec<(String, String)>,
    pub(crate) describe: String,
    pub(crate) iops: f64,
    pub(crate) bandwidth: f64,
    pub(crate) mean_ns: Option<f64>,
    /// p50, p99, p99.9, p99.99; none for a mean over rounds, which would average percentiles.
    pub(crate) percentiles_ns: [Option<f64>; 4],
    pub(crate) five_nines_ns: Option<f64>,
    pub(crate) max_ns: Option<f64>,
    /// Mean and p99 of the service time: what closed-loop tools see, whatever waited before.
    pub(crate) service_ns: [Option<f64>; 2],
    /// CPUs' worth of the workers' time.
    pub(crate) cpu: f64,
    /// Share of all the host's CPUs that the kernel used, 0 to 1, where it was sampled.
    pub(crate) host_system: Option<f64>,
}

/// The percentiles of a point.
pub(crate) const PERCENTS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

impl Point {
    pub(crate) fn of_cell(cell: &CellRecord) -> Point {
        let summary = summarize(cell);
        let hist = felt(&cell.merged());
        let at = |percent| hist.percentile_ns(percent).map(|ns| ns as f64);
        let counts = cell.merged();
        let mut service = counts.reads.service.clone();
        service.merge(&counts.writes.service);
        Point {
            coordinates: coordinates(cell),
            describe: describe(cell),
            iops: summary.iops,
            bandwidth: summary.bandwidth_bytes,
            mean_ns: hist.mean_ns(),
            percentiles_ns: PERCENTS.map(at),
            five_nines_ns: at(99.999),
            max_ns: hist.max_ns().map(|ns| ns as f64),
            service_ns: [service.mean_ns(), service.percentile_ns(99.0).map(|ns| ns as f64)],
            cpu: summary.cpu,
            host_system: None,
        }
    }

    pub(crate) fn of_row(row: &WindowRow) -> Point {
        Point {
            coordinates: row.coordinates.clone(),
            describe: row.describe.clone(),
            iops: row.iops,
            bandwidth: row.bandwidth_bytes,
            mean_ns: row.mean_ns,
            percentiles_ns: [None; 4],
            five_nines_ns: row.five_nines_ns,
            max_ns: row.max_ns.map(|ns| ns as f64),
            service_ns: [None; 2],
            cpu: row.cpu,
            host_system: None,
        }
    }

    pub(crate) fn at(&self, axis: &str) -> Option<&str> {
        self.coordinates.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }
}

/// Heads of [`all_figures`].
pub(crate) const ALL_FIGURES: [&str; 11] = [
    "IOPS",
    "MB/s",
    "MiB/s",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "p99.99 ms",
    "p99.999 ms",
    "max ms",
    "CPU %",
];

/// A point as fields of a table.
pub(crate) fn all_figures(point: &Point) -> Vec<Field> {
    let [p50, p99, p999, p9999] = point.percentiles_ns;
    vec![
        Field::iops(point.iops),
        Field::bandwidth(point.bandwidth),
        Field::bandwidth_binary(point.bandwidth),
        Field::millis(point.mean_ns),
        Field::millis(p50),
        Field::millis(p99),
        Field::millis(p999),
        Field::millis(p9999),
        Field::millis(point.five_nines_ns),
        Field::millis(point.max_ns),
        Field::percent(Some(point.cpu * 100.0), 1),
    ]
}

/// Mean of a series of the host while these cells ran; none when it was not sampled then.
pub(crate) fn host_mean(chapter: &Chapter<'_>, cells: &[&CellRecord], name: &str) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0);
    for cell in cells {
        let end = cell.start.0.saturating_add(cell.len.0);
        let from = chapter.telemetry.partition_point(|t| t.at.0 < cell.start.0);
        let during = chapter.telemetry[from..].iter().take_while(|t| t.at.0 <= end);
        for sample in during.filter(|t| t.source == "host" && t.name == name) {
            sum += sample.value;
            n += 1;
        }
    }
    (n > 0).then(|| sum / f64::from(n))
}

/// A table of loads: what every chapter ends with.
pub(crate) fn section(chapter: &Chapter<'_>) -> Option<Section> {
    const ROWS_MAX: usize = 200;
    let cells = chapter.outside_rounds();
    if cells.is_empty() {
        return None;
    }
    let mut section = Section::new("All loads", 3);
    let rows: Vec<_> = cells.iter().take(ROWS_MAX).map(|cell| row(chapter, cell)).collect();
    if cells.len() > ROWS_MAX {
        section.add(Block::Text(format!(
            "The first {ROWS_MAX} of {} cells; all of them: fathom export RUN --format csv --table cells.",
            cells.len()
        )));
    }
    section.add(Block::Table(Sheet {
        title: "Loads outside of rounds; latency is response time where a rate is set, else service time"
            .into(),
        head: ["step", "load"].into_iter().chain(ALL_FIGURES).map(String::from).collect(),
        rows,
    }));
    Some(section)
}

fn row(chapter: &Chapter<'_>, cell: &CellRecord) -> Vec<Field> {
    let point = Point::of_cell(cell);
    let mark = match (cell.status.as_str(), cell.counted) {
        ("done", true) => "",
        ("done", false) => " (not counted)",
        ("failed", _) => " (FAILED)",
        _ => " (cut short)",
    };
    let round = if cell.iteration > 0 { format!(" #{}", cell.iteration) } else { String::new() };
    let mut fields = vec![
        Field::text(format!("{}{round}{mark}", name_of(chapter, cell))),
        Field::text(point.describe.clone()),
    ];
    fields.extend(all_figures(&point));
    fields
}
