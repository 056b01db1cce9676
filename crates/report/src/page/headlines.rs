//! The figures that matter most: what the method tracks, then loads that stand alone.

use super::{Field, Sheet};
use crate::figures::describe;
use analysis::{SteadyGroup, felt, in_rounds, steady_groups, step_path, summarize};
use base::sample::StreamSample;
use store::{CellRecord, RunFile};

/// Rows of the table at most.
const ROWS_MAX: usize = 14;

/// The table; none when nothing was measured.
pub(super) fn sheet(run: &RunFile) -> Option<Sheet> {
    let groups = steady_groups(run);
    let mut rows = tracked(run, &groups);
    rows.extend(alone(run, &groups));
    rows.truncate(ROWS_MAX);
    const HEAD: [&str; 9] =
        ["measured", "load", "IOPS", "MB/s", "MiB/s", "mean ms", "p99 ms", "p99.99 ms", "max ms"];
    (!rows.is_empty()).then(|| Sheet {
        title: "Results at a glance".into(),
        head: HEAD.map(String::from).to_vec(),
        rows,
    })
}

/// A row over several cells: means of rates, merged latencies.
fn row(name: String, load: &str, cells: &[&CellRecord]) -> Vec<Field> {
    let n = cells.len() as f64;
    let all: Vec<_> = cells.iter().map(|cell| summarize(cell)).collect();
    let mut merged = StreamSample::default();
    cells.iter().for_each(|cell| merged.merge(&cell.merged()));
    let hist = felt(&merged);
    let at = |percent| hist.percentile_ns(percent).map(|ns| ns as f64);
    let bandwidth = all.iter().map(|s| s.bandwidth_bytes).sum::<f64>() / n;
    vec![
        Field::text(name),
        Field::text(load),
        Field::iops(all.iter().map(|s| s.iops).sum::<f64>() / n),
        Field::bandwidth(bandwidth),
        Field::bandwidth_binary(bandwidth),
        Field::millis(hist.mean_ns()),
        Field::millis(at(99.0)),
        Field::millis(at(99.99)),
        Field::millis(hist.max_ns().map(|ns| ns as f64)),
    ]
}

/// Cells whose value was tracked, over the window.
fn tracked(run: &RunFile, groups: &[SteadyGroup]) -> Vec<Vec<Field>> {
    let mut rows = Vec::new();
    for group in groups {
        for series in group.evidence["tracked"].as_array().into_iter().flatten() {
            let name = series["name"].as_str().unwrap_or_default();
            let named =
                |row: &&analysis::WindowRow| !row.label.is_empty() && name.contains(&row.label);
            let Some(found) = group.rows.iter().find(named) else { continue };
            let (from, to) = group.window;
            let within = |cell: &&CellRecord| {
                let place = analysis::place_in_rounds(group, cell);
                cell.label == found.label
                    && cell.status == "done"
                    && place.is_some_and(|(n, step)| step == found.step && (from..=to).contains(&n))
            };
            let cells: Vec<&CellRecord> = run.cells.iter().filter(within).collect();
            if !cells.is_empty() {
                let path = step_path(&group.path);
                let name = format!("{path} {} (steady state)", found.label);
                rows.push(row(name, &found.describe, &cells));
            }
        }
    }
    rows
}

/// Loads outside of rounds, those of one step together.
fn alone(run: &RunFile, groups: &[SteadyGroup]) -> Vec<Vec<Field>> {
    let counts = |cell: &&CellRecord| {
        cell.counted && cell.verb != "fill" && !in_rounds(groups, cell) && !cell.totals.is_empty()
    };
    let name = |cell: &CellRecord| {
        format!("{} {}", step_path(&cell.path), cell.label).trim_end().to_owned()
    };
    let mut steps: Vec<(String, Vec<&CellRecord>)> = Vec::new();
    for cell in run.cells.iter().filter(counts) {
        let step = name(cell);
        match steps.iter().position(|(name, _)| *name == step) {
            Some(at) => steps[at].1.push(cell),
            None if steps.len() < ROWS_MAX => steps.push((step, vec![cell])),
            None => {}
        }
    }
    steps.into_iter().map(|(name, cells)| row(name, &describe(cells[0]), &cells)).collect()
}
