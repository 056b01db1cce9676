//! A load that runs until it is steady: over time, over bytes written and over drive fills.

use super::{Chapter, describe, figure, rounds, timeline};
use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::{Block, Section};
use analysis::Moment;
use analysis::SteadyGroup;
use store::{CellRecord, StoreError};

/// Everything about one such load.
pub(crate) fn section(chapter: &Chapter<'_>, group: &SteadyGroup) -> Result<Section, StoreError> {
    let short = rounds::short_path(chapter, group);
    let mut section = Section::new(format!("{short}: saturation"), 3);
    section.add(rounds::verdict(group));
    if let Some(cell) = chapter.cells.iter().find(|cell| cell.path == group.path) {
        course(&mut section, chapter, cell, &short)?;
    }
    tracked(&mut section, group, &short);
    rounds::windows(&mut section, group, &short);
    section.add(Block::Table(rounds::evidence(group, &short)));
    Ok(section)
}

/// All tracked values, the window marked: with one a period, the course as the rule sees it.
fn tracked(section: &mut Section, group: &SteadyGroup, short: &str) {
    let (from, to) = group.window;
    for series in rounds::tracked(group) {
        let list = series["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values: Vec<f64> = list.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect();
        let points = values.iter().enumerate().map(|(n, v)| (n as f64 + 1.0, *v)).collect();
        figure(
            section,
            Chart {
                title: format!("Steady-state convergence: IOPS, {short}"),
                note: format!("Each point is a value of the rule; the window is {from} to {to}."),
                x: Axis {
                    range: Some((0.5, values.len() as f64 + 0.5)),
                    ..Axis::linear("value", Unit::Plain)
                },
                y: Axis::linear("IOPS", Unit::Plain),
                y2: None,
                series: vec![Series::new("IOPS", Style::Marked, 0, points)],
                marks: vec![Mark {
                    text: "window".into(),
                    at: Place::Span(f64::from(from) - 0.4, f64::from(to) + 0.4),
                }],
            },
        );
    }
}

/// Where a moment stands across.
type Across<'f> = &'f dyn Fn(&Moment) -> f64;

fn course(
    section: &mut Section,
    chapter: &Chapter<'_>,
    cell: &CellRecord,
    short: &str,
) -> Result<(), StoreError> {
    let all = chapter.courses.of(chapter.run, cell)?;
    let Some(first) = all.first() else { return Ok(()) };
    let start = first.at_s;
    let what = format!("{short}, {}", describe(cell));
    let capacity: f64 = cell
        .streams
        .iter()
        .filter_map(|stream| chapter.run.targets.get(stream.target)?["size_bytes"].as_f64())
        .sum();
    let note = format!(
        "{} Bytes and drive fills count from the start of this load.",
        timeline::each_point(&all)
    );
    let time = |m: &Moment| m.at_s - start;
    let written = |m: &Moment| m.written;
    let fills = |m: &Moment| m.written / capacity.max(1.0);
    let axes: [(&str, Axis, Across<'_>); 3] = [
        ("time", Axis::linear("time", Unit::Seconds), &time),
        ("bytes written (TGBW)", Axis::linear("bytes written (TGBW)", Unit::Bytes), &written),
        ("drive fills", Axis::linear("drive fills", Unit::Plain), &fills),
    ];
    for (name, x, place) in axes {
        if name != "time" && all.last().is_none_or(|last| last.written <= 0.0) {
            continue;
        }
        let chart = |title: String, y: Axis, series: Vec<Series>| Chart {
            title,
            note: note.clone(),
            x: x.clone(),
            y,
            y2: None,
            series,
            marks: Vec::new(),
        };
        for (scale, y) in [
            ("", Axis::linear("IOPS", Unit::Plain)),
            (", logarithmic", Axis::log("IOPS", Unit::Plain)),
        ] {
            let points = all.iter().map(|m| (place(m), m.iops)).collect();
            let line = Series::new("IOPS", Style::Line, 0, points);
            figure(section, chart(format!("IOPS over {name}{scale}: {what}"), y, vec![line]));
        }
        let lines = timeline::latency_lines(&all, place);
        let y = Axis::log("latency", Unit::Nanos);
        figure(section, chart(format!("Latency over {name}: {what}"), y, lines));
    }
    Ok(())
}
