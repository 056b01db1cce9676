//! The tail of a single load: nines, what lies between them, the histogram with its confidence line, and
//! where in time it happened.

use super::{Chapter, course, describe, figure, name_of};
use crate::chart::{Axis, Chart, Grid, Mark, Place, Scale, Series, Side, Style, Unit};
use crate::page::{Block, Field, Section, Sheet};
use analysis::{Moment, felt, moments};
use base::hist::{BUCKETS, Hist, Response, bucket_low, bucket_mid, bucket_width};
use base::units::{format_latency, format_rate, three_digits};
use std::rc::Rc;
use store::{CellRecord, StoreError, Telemetry};

/// Intervals from which a course in time is worth a figure.
const COURSE_MIN: usize = 5;
/// Columns of a heat map at most.
const HEAT_COLUMNS: usize = 480;
/// Rows of a heat map in each power of ten.
const HEAT_ROWS: f64 = 8.0;

/// Everything about one load.
pub(crate) fn section(
    chapter: &Chapter<'_>,
    cell: &CellRecord,
) -> Result<Option<Section>, StoreError> {
    let hist = felt(&cell.merged());
    let Some((low, high)) = hist.min_ns().zip(hist.max_ns()) else { return Ok(None) };
    let what = format!("{}, {}", name_of(chapter, cell), describe(cell));
    let mut section = Section::new(&what, 3);
    let mut heat = Heat::new(low, high, cell);
    let all = Rc::new(moments(chapter.run, cell, |_, hist| heat.add(hist))?);
    chapter.courses.keep(cell, &all);
    let telemetry = telemetry(chapter, cell);
    if all.len() >= COURSE_MIN {
        course::add(&mut section, chapter, &what, (&all, &telemetry));
        let mut map = heat.grid(&what, &all);
        (map.lanes, map.marks) = course::lanes(chapter, &all, &telemetry);
        figure(&mut section, map);
    }
    figure(&mut section, confidence(&what, cell, &hist));
    figure(&mut section, nines(&what, &hist));
    figure(&mut section, between(&what, &hist));
    section.add(Block::Table(table(&what, &hist)));
    Ok(Some(section))
}

/// Temperature and host CPU while the cell ran.
fn telemetry<'r>(chapter: &Chapter<'r>, cell: &CellRecord) -> Vec<&'r Telemetry> {
    let end = cell.start.0.saturating_add(cell.len.0).saturating_add(1_000_000_000);
    let from = chapter.telemetry.partition_point(|t| t.at.0 < cell.start.0);
    chapter.telemetry[from..].iter().take_while(|t| t.at.0 <= end).collect()
}

/// Counts of I/Os by time and latency.
struct Heat {
    low: f64,
    rows: usize,
    columns: usize,
    every: usize,
    counts: Vec<Vec<f64>>,
    seen: usize,
    /// The row of each bucket of a histogram.
    row_of: Vec<usize>,
}

impl Heat {
    fn new(low_ns: u64, high_ns: u64, cell: &CellRecord) -> Heat {
        let low = (low_ns.max(1) as f64).log10().floor();
        let high = (high_ns.max(2) as f64 * 1.001).log10();
        // A row stays free above the largest, so that it is seen.
        let rows = ((high - low) * HEAT_ROWS).ceil() as usize + 1;
        let intervals = cell.intervals.max(1) as usize;
        let every = intervals.div_ceil(HEAT_COLUMNS);
        let row_of = |bucket: usize| {
            let row = ((bucket_mid(bucket).max(1) as f64).log10() - low) * HEAT_ROWS;
            (row.max(0.0) as usize).min(rows - 1)
        };
        let row_of = (0..BUCKETS).map(row_of).collect();
        Heat { low, rows, columns: 0, every, counts: vec![Vec::new(); rows], seen: 0, row_of }
    }

    fn add(&mut self, hist: &Hist<Response>) {
        if self.seen.is_multiple_of(self.every) {
            self.columns += 1;
            self.counts.iter_mut().for_each(|row| row.push(0.0));
        }
        self.seen += 1;
        for (bucket, n) in hist.buckets() {
            let row = self.row_of[bucket];
            self.counts[row][self.columns - 1] += n as f64;
        }
    }

    fn grid(self, what: &str, all: &[Moment]) -> Grid {
        let span = all[all.len() - 1].at_s - all[0].at_s;
        let values = self
            .counts
            .iter()
            .map(|row| row.iter().map(|n| if *n > 0.0 { *n } else { f64::NAN }).collect())
            .collect();
        let top = 10f64.powf(self.low + self.rows as f64 / HEAT_ROWS);
        let mut largest: Vec<(f64, f64)> = Vec::new();
        for chunk in all.chunks(self.every) {
            let best = chunk.iter().filter(|m| m.max_ns.is_finite());
            if let Some(m) = best.max_by(|a, b| a.max_ns.total_cmp(&b.max_ns)) {
                largest.push((m.at_s - all[0].at_s, m.max_ns));
            }
        }
        Grid {
            title: format!("Latency over time, each I/O counted: {what}"),
            note: "A field's colour is the number of I/Os with this latency in this time. Below: temperature, \
                   CPU and events on the same axis."
                .into(),
            columns: Side {
                range: (0.0, span.max(1e-9)),
                unit: Unit::Seconds,
                ..Side::named("time", Vec::new())
            },
            rows: Side {
                range: (10f64.powf(self.low), top),
                unit: Unit::Nanos,
                scale: Scale::Log,
                ..Side::named("latency", Vec::new())
            },
            values,
            texts: Vec::new(),
            log: true,
            meaning: "I/Os in a field".into(),
            points: Some(("largest latency of each time".into(), largest)),
            lanes: Vec::new(),
            marks: Vec::new(),
        }
    }
}

/// I/Os by latency as columns, their cumulative share as a line: the confidence level plot of the PTS.
fn confidence(what: &str, cell: &CellRecord, hist: &Hist<Response>) -> Chart {
    const BINS: usize = 120;
    let (low, high) = (hist.min_ns().unwrap_or(0) as f64, hist.max_ns().unwrap_or(1) as f64);
    let five = hist.percentile_ns(99.999).map(|ns| ns as f64);
    // Linear up to a little beyond the five nines, as the PTS draws it.
    let top = five.map_or(high, |five| (five * 1.1).min(high)).max(low * 1.001 + 1.0);
    let width = (top / BINS as f64).max(1.0);
    let mut counts = vec![0.0; BINS];
    for (bucket, n) in hist.buckets() {
        let bin = (bucket_mid(bucket) as f64 / width) as usize;
        if let Some(count) = counts.get_mut(bin) {
            *count += n as f64;
        }
    }
    let bars = counts.iter().enumerate().map(|(n, c)| ((n as f64 + 0.5) * width, *c)).collect();
    let mut below = 0u64;
    let mut line = vec![(0.0, 0.0)];
    for (bucket, n) in hist.buckets() {
        below += n;
        let edge = (bucket_low(bucket) + bucket_width(bucket)) as f64;
        if edge <= top {
            line.push((edge, below as f64 / hist.count() as f64 * 100.0));
        }
    }
    let mut marks: Vec<Mark> = Vec::new();
    let mut mark = |name: &str, ns: Option<f64>| {
        if let Some(ns) = ns.filter(|ns| *ns <= top) {
            marks.push(Mark { text: format!("{name} {}", format_latency(ns)), at: Place::X(ns) });
        }
    };
    mark("mean (ART)", hist.mean_ns());
    for (name, percent) in [("3 nines", 99.9), ("4 nines", 99.99), ("5 nines", 99.999)] {
        mark(name, hist.percentile_ns(percent).map(|ns| ns as f64));
    }
    let point = super::points::Point::of_cell(cell);
    Chart {
        title: format!("Response time histogram, confidence level: {what}"),
        note: format!(
            "{} IOPS, {} MB/s, largest (MRT) {}, {} I/Os; bins of {}.",
            format_rate(point.iops),
            three_digits(point.bandwidth / 1e6),
            format_latency(high),
            hist.count(),
            format_latency(width)
        ),
        x: Axis { range: Some((0.0, top)), ..Axis::linear("latency", Unit::Nanos) },
        y: Axis::log("I/Os in a bin", Unit::Plain),
        y2: Some(Axis {
            range: Some((0.0, 100.0)),
            ..Axis::linear("cumulative share", Unit::Percent)
        }),
        series: vec![
            Series::new("I/Os in a bin", Style::Bars, 0, bars),
            Series::new("cumulative share", Style::Line, 1, line).on_the_right(),
        ],
        marks,
    }
}

const NINES: [f64; 8] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999];

fn nines(what: &str, hist: &Hist<Response>) -> Chart {
    let had: Vec<(f64, u64)> =
        NINES.iter().filter_map(|p| Some((*p, hist.percentile_ns(*p)?))).collect();
    let mut names: Vec<String> = had.iter().map(|(p, _)| analysis::percentile_name(*p)).collect();
    names.push("max".into());
    let mut bars: Vec<(f64, f64)> =
        had.iter().enumerate().map(|(n, (_, ns))| (n as f64, *ns as f64)).collect();
    bars.push((had.len() as f64, hist.max_ns().unwrap_or(0) as f64));
    Chart {
        title: format!("Nines: {what}"),
        note: "A percentile is left out where fewer than 10 I/Os lie beyond it.".into(),
        x: Axis::named("percentile", names),
        y: Axis::log("latency", Unit::Nanos),
        y2: None,
        series: vec![Series::new("latency", Style::Bars, 0, bars)],
        marks: Vec::new(),
    }
}

/// Latency over the share of I/Os below it, each nine as wide as the one before.
fn between(what: &str, hist: &Hist<Response>) -> Chart {
    let total = hist.count() as f64;
    let mut below = 0u64;
    let mut line = Vec::new();
    for (bucket, n) in hist.buckets() {
        below += n;
        let beyond = hist.count() - below;
        if beyond >= base::hist::SAMPLES_BEYOND_MIN {
            line.push((-(beyond as f64 / total).log10(), bucket_mid(bucket) as f64));
        }
    }
    let last = line.last().map_or(1.0, |(x, _)| x.ceil().max(1.0));
    let x = Axis {
        scale: Scale::Nines,
        range: Some((0.0, last)),
        ..Axis::linear("share of I/Os below (-log10 of the rest)", Unit::Plain)
    };
    Chart {
        title: format!("Between the nines: {what}"),
        note: "Drawn as far as 10 I/Os lie beyond.".into(),
        x,
        y: Axis::log("latency", Unit::Nanos),
        y2: None,
        series: vec![Series::new("latency", Style::Line, 0, line)],
        marks: Vec::new(),
    }
}

fn table(what: &str, hist: &Hist<Response>) -> Sheet {
    let mut rows: Vec<Vec<Field>> = NINES
        .iter()
        .map(|percent| {
            let value = hist.percentile_ns(*percent).map(|ns| ns as f64);
            let beyond = hist.count() as f64 * (1.0 - percent / 100.0);
            vec![
                Field::text(analysis::percentile_name(*percent)),
                Field::millis(value),
                Field::Number(beyond.round(), format!("{beyond:.0}")),
            ]
        })
        .collect();
    for (name, value) in [
        ("minimum", hist.min_ns().map(|ns| ns as f64)),
        ("mean (ART)", hist.mean_ns()),
        ("maximum (MRT)", hist.max_ns().map(|ns| ns as f64)),
    ] {
        rows.push(vec![Field::text(name), Field::millis(value), Field::text("")]);
    }
    Sheet {
        title: format!("Latencies: {what}"),
        head: ["percentile", "latency ms", "I/Os beyond"].map(String::from).to_vec(),
        rows,
    }
}
