//! The course of a chapter in time, where its loads follow each other without a sweep: accesses between
//! idle times, stimuli that cross, the fills before them.

use super::{Chapter, LONG, coordinates, figure, name_of};
use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::Section;
use analysis::Moment;
use base::units::{Nanos, format_span};
use std::collections::BTreeMap;
use store::{CellRecord, StoreError};

/// Intervals that a cell must have to be a course of its own.
const COURSE_MIN: u32 = 10;

/// How long a point of a course is.
pub(crate) fn each_point(all: &[Moment]) -> String {
    match all {
        // The first may be a shorter ramp.
        [.., a, b] => {
            let step = Nanos::from_secs_f64(b.at_s - a.at_s);
            format!("Each point is the mean of {}; extremes are never left out.", format_span(step))
        }
        _ => String::new(),
    }
}

/// Mean, percentiles and maximum of each moment.
pub(crate) fn latency_lines(all: &[Moment], place: &dyn Fn(&Moment) -> f64) -> Vec<Series> {
    const LINES: [(&str, usize, usize); 4] =
        [("p50", 0, 2), ("p99", 1, 0), ("p99.9", 2, 3), ("p99.999 (5 nines)", 4, 5)];
    let line = |name: &str, color, get: &dyn Fn(&Moment) -> f64| {
        let points = all.iter().map(|m| (place(m), get(m))).collect();
        Series::new(name, Style::Line, color, points)
    };
    let mut series = vec![line("maximum", 7, &|m| m.max_ns), line("mean", 6, &|m| m.mean_ns)];
    series.extend(LINES.map(|(name, at, color)| line(name, color, &|m| m.percentiles_ns[at])));
    series.retain(|s| s.y.iter().any(|v| v.is_finite()));
    series
}

/// A piece of the course: a cell of a long repetition is one point, others have their intervals.
struct Piece {
    name: String,
    moments: Vec<Moment>,
}

/// The course of the whole chapter.
pub(crate) fn section(chapter: &Chapter<'_>) -> Result<Option<Section>, StoreError> {
    let cells: Vec<&CellRecord> =
        chapter.outside_rounds().into_iter().filter(|c| coordinates(c).is_empty()).collect();
    let own: Vec<&str> = chapter.groups.iter().map(|group| group.path.as_str()).collect();
    let cells: Vec<&CellRecord> =
        cells.into_iter().filter(|cell| !own.contains(&cell.path.as_str())).collect();
    let mut of_step: BTreeMap<String, usize> = BTreeMap::new();
    let key = |cell: &CellRecord| analysis::step_path(&cell.path);
    cells.iter().for_each(|cell| *of_step.entry(key(cell)).or_default() += 1);
    let mut pieces: Vec<Piece> = Vec::new();
    for cell in &cells {
        let many = of_step[&key(cell)] > LONG;
        if !many && cell.intervals < COURSE_MIN {
            continue;
        }
        let moments = match many {
            true => vec![mean_of(cell)],
            false => chapter.courses.of(chapter.run, cell)?.to_vec(),
        };
        let name = name_of(chapter, cell);
        match pieces.iter_mut().find(|piece| piece.name == name) {
            Some(piece) => piece.moments.extend(moments),
            None => pieces.push(Piece { name, moments }),
        }
    }
    if pieces.len() < 2 || pieces.len() > 16 {
        return Ok(None);
    }
    Ok(Some(draw(chapter, &pieces)))
}

fn mean_of(cell: &CellRecord) -> Moment {
    let point = super::points::Point::of_cell(cell);
    Moment {
        at_s: cell.start.as_secs_f64() + cell.len.as_secs_f64() / 2.0,
        iops: point.iops,
        bandwidth: point.bandwidth,
        mean_ns: point.mean_ns.unwrap_or(f64::NAN),
        max_ns: point.max_ns.unwrap_or(f64::NAN),
        cpu: point.cpu,
        ..Moment::default()
    }
}

fn draw(chapter: &Chapter<'_>, pieces: &[Piece]) -> Section {
    let mut section = Section::new("Course in time", 3);
    let all = pieces.iter().flat_map(|piece| &piece.moments);
    let start = all.clone().map(|m| m.at_s).fold(f64::INFINITY, f64::min);
    let marks: Vec<Mark> = pieces
        .iter()
        .filter_map(|piece| {
            let at = piece.moments.first()?.at_s - start;
            Some(Mark { text: piece.name.clone(), at: Place::X(at) })
        })
        .collect();
    let lines = |get: &dyn Fn(&Moment) -> f64| -> Vec<Series> {
        let line = |(n, piece): (usize, &Piece)| {
            let points = piece.moments.iter().map(|m| (m.at_s - start, get(m))).collect();
            Series::new(&piece.name, Style::Line, n, points)
        };
        pieces.iter().enumerate().map(line).collect()
    };
    let chart = |what: &str, y: Axis, series: Vec<Series>| Chart {
        title: format!("{what} over time: {}", chapter.name),
        note: "Each point is one interval, or one access between two idle times.".into(),
        x: Axis::linear("time", Unit::Seconds),
        y,
        y2: None,
        series,
        marks: marks.clone(),
    };
    figure(&mut section, chart("IOPS", Axis::linear("IOPS", Unit::Plain), lines(&|m| m.iops)));
    figure(
        &mut section,
        chart("Bandwidth", Axis::linear("bandwidth", Unit::Rate), lines(&|m| m.bandwidth)),
    );
    let line = |name: &str, color, get: &dyn Fn(&Moment) -> f64| {
        let points = all.clone().map(|m| (m.at_s - start, get(m))).collect();
        Series::new(name, Style::Line, color, points)
    };
    let mut both = chart(
        "Bandwidth, mean and largest latency",
        Axis::linear("bandwidth", Unit::Rate),
        vec![
            line("bandwidth", 0, &|m| m.bandwidth),
            line("mean latency (ART)", 6, &|m| m.mean_ns).on_the_right(),
            line("largest latency (MRT)", 7, &|m| m.max_ns).on_the_right(),
        ],
    );
    both.y2 = Some(Axis::log("latency", Unit::Nanos));
    figure(&mut section, both);
    section
}
