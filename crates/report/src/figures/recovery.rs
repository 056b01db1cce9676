//! What idle time gives back (host idle recovery), and what a change of stimulus costs (cross stimulus
//! recovery), by the order of loads and idle times.

use super::points::Point;
use super::{Chapter, LONG, describe, name_of};
use crate::page::{Block, Field, Section, Sheet};
use analysis::summarize;
use store::{CellRecord, StoreError};

/// Tables of recovery of a chapter.
pub(crate) fn sections(chapter: &Chapter<'_>) -> Result<Vec<Section>, StoreError> {
    let mut sections = Vec::new();
    sections.extend(idle(chapter));
    sections.extend(cross(chapter)?);
    Ok(sections)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

const IDLE_HEAD: [&str; 8] = [
    "wait state",
    "idle s",
    "accesses",
    "mean IOPS of accesses",
    "lowest",
    "highest",
    "baseline IOPS after it",
    "gain %",
];

/// Mean of the accesses of each wait state against the continuous load after it.
fn idle(chapter: &Chapter<'_>) -> Option<Section> {
    let mut states: Vec<(String, Vec<&CellRecord>)> = Vec::new();
    for cell in chapter.outside_rounds() {
        let waited = cell.facts["gap_before_ns"].as_u64().is_some_and(|gap| gap > 0);
        let step = analysis::step_path(&cell.path);
        match states.iter_mut().find(|(name, _)| *name == step) {
            Some((_, cells)) => cells.push(cell),
            None if waited || cell.iteration == 1 => states.push((step, vec![cell])),
            None => {}
        }
    }
    states.retain(|(_, cells)| {
        let waited = |c: &&&CellRecord| c.facts["gap_before_ns"].as_u64().is_some_and(|g| g > 0);
        cells.len() > LONG && cells.iter().skip(1).filter(waited).count() + 1 == cells.len()
    });
    if states.is_empty() {
        return None;
    }
    let baseline_before = states.first().and_then(|(_, cells)| {
        let first = cells.first()?.id;
        chapter.cells.iter().rfind(|cell| cell.id < first && cell.verb == "load")
    });
    let row = |(name, cells): &(String, Vec<&CellRecord>)| {
        let gap = cells.last().and_then(|c| c.facts["gap_before_ns"].as_f64()).unwrap_or(0.0);
        let rates: Vec<f64> = cells.iter().map(|cell| summarize(cell).iops).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let last = cells.last().map_or(0, |cell| cell.id);
        let after = chapter.cells.iter().find(|cell| cell.id > last && cell.verb == "load");
        let baseline = after.or(baseline_before).map_or(f64::NAN, |cell| summarize(cell).iops);
        let gain = (mean / baseline - 1.0) * 100.0;
        vec![
            Field::text(
                analysis::step_path(name).trim_start_matches(&format!("{}/", chapter.name)),
            ),
            Field::Number(gap / 1e9, format!("{:.3}", gap / 1e9)),
            Field::Number(rates.len() as f64, rates.len().to_string()),
            Field::iops(mean),
            Field::iops(rates.iter().copied().fold(f64::INFINITY, f64::min)),
            Field::iops(rates.iter().copied().fold(0.0, f64::max)),
            Field::iops(baseline),
            Field::Number(gain, format!("{gain:+.2}")),
        ]
    };
    let mut section = Section::new("Recovery by idle time", 3);
    section.add(Block::Table(Sheet {
        title: format!("Recovery by idle time: {}", chapter.name),
        head: IDLE_HEAD.map(String::from).to_vec(),
        rows: states.iter().map(row).collect(),
    }));
    Some(section)
}

/// A load that comes again after another: how long until it regains its first mean.
fn cross(chapter: &Chapter<'_>) -> Result<Option<Section>, StoreError> {
    let cells: Vec<&CellRecord> = chapter
        .outside_rounds()
        .into_iter()
        .filter(|cell| cell.iteration <= 1 && cell.verb == "load" && !super::sweeps::on_axes(cell))
        .collect();
    let Some((first, last)) = cells.iter().enumerate().find_map(|(n, cell)| {
        let again = cells[n + 1..].iter().skip(1).find(|other| {
            describe(other) == describe(cell) && parent(&other.path) == parent(&cell.path)
        })?;
        Some((*cell, *again))
    }) else {
        return Ok(None);
    };
    let group: Vec<&CellRecord> =
        cells.iter().copied().filter(|cell| (first.id..=last.id).contains(&cell.id)).collect();
    let mut rows = Vec::new();
    for cell in &group {
        rows.push(stimulus(chapter, cell, first)?);
    }
    let mut section = Section::new("Recovery between stimuli", 3);
    section.add(Block::Text(
        "Final is the mean of the last tenth of a group. Recovery time is counted from the start of the \
         group until an interval's rate regains the mean of the first group."
            .into(),
    ));
    section.add(Block::Table(Sheet {
        title: format!("Recovery between stimuli: {}", chapter.name),
        head: [
            "group",
            "load",
            "mean MB/s",
            "final MB/s",
            "peak of mean latency, ms",
            "largest latency (MRT), ms",
            "recovery time, s",
        ]
        .map(String::from)
        .to_vec(),
        rows,
    }));
    Ok(Some(section))
}

fn stimulus(
    chapter: &Chapter<'_>,
    cell: &CellRecord,
    first: &CellRecord,
) -> Result<Vec<Field>, StoreError> {
    let all = chapter.courses.of(chapter.run, cell)?;
    let point = Point::of_cell(cell);
    let tail = &all[all.len() - all.len().div_ceil(10)..];
    let last = tail.iter().map(|m| m.bandwidth).sum::<f64>() / tail.len().max(1) as f64;
    let peak = all.iter().map(|m| m.mean_ns).filter(|v| v.is_finite()).fold(f64::NAN, f64::max);
    let wanted = summarize(first).bandwidth_bytes;
    let regained = all.iter().find(|m| m.bandwidth >= wanted);
    let start = cell.start.as_secs_f64();
    let recovery = match (cell.id == first.id || describe(cell) != describe(first), regained) {
        (true, _) => Field::text(""),
        (false, Some(m)) => Field::Number(m.at_s - start, format!("{:.1}", m.at_s - start)),
        (false, None) => Field::text("not regained"),
    };
    Ok(vec![
        Field::text(name_of(chapter, cell)),
        Field::text(describe(cell)),
        Field::bandwidth(point.bandwidth),
        Field::bandwidth(last),
        Field::millis(peak.is_finite().then_some(peak)),
        Field::millis(point.max_ns),
        recovery,
    ])
}
