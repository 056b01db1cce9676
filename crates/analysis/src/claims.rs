//! Steady-state claims of a stored run: what each rests on, its window tables, and which cells hang
//! on it.

use crate::summary::summarize;
use serde_json::Value;
use std::collections::BTreeMap;
use store::{CellRecord, RunFile, VerdictRow};

/// A claim that values were steady, or that they were not.
#[derive(Clone, Debug)]
pub struct SteadyGroup {
    /// Path of the rounds, or of the load.
    pub path: String,
    /// The rule was met.
    pub reached: bool,
    /// In words, with the drive fills.
    pub text: String,
    /// Everything it rests on: see `docs/run-file.md`.
    pub evidence: Value,
    /// First and last value of the window.
    pub window: (u32, u32),
    /// Cells of a round, averaged over the window; empty for a load.
    pub rows: Vec<WindowRow>,
    /// The last cell of the group.
    last_cell: i64,
}

/// A cell of a round, over the window.
#[derive(Clone, Debug)]
pub struct WindowRow {
    /// Path below the round.
    pub step: String,
    /// What tells it from its siblings.
    pub label: String,
    /// Place on the axes of its sweep: axis and value.
    pub coordinates: Vec<(String, String)>,
    /// Short form of its load.
    pub describe: String,
    /// Rounds it was measured in.
    pub rounds: u32,
    /// Mean over the rounds.
    pub iops: f64,
    /// Mean over the rounds, bytes per second.
    pub bandwidth_bytes: f64,
    /// Mean over the rounds of the mean latency (ART), ns.
    pub mean_ns: Option<f64>,
    /// Mean over the rounds of the 99.999 % latency (five nines), ns; none unless every round has it.
    pub five_nines_ns: Option<f64>,
    /// Largest latency of all rounds (MRT), ns.
    pub max_ns: Option<u64>,
    /// Host CPU of the workers, in CPUs.
    pub cpu: f64,
}

/// All steady-state claims of a run, in order.
pub fn steady_groups(run: &RunFile) -> Vec<SteadyGroup> {
    let claims = run.verdicts.iter().filter(|verdict| verdict.name == "steady-state");
    claims.filter_map(|verdict| group_of(run, verdict)).collect()
}

fn group_of(run: &RunFile, verdict: &VerdictRow) -> Option<SteadyGroup> {
    let path = verdict.evidence["group"].as_str()?.to_owned();
    let number = |key: &str| verdict.evidence[key].as_u64().unwrap_or(0) as u32;
    let window = (number("first"), number("last"));
    let within: Vec<(&CellRecord, u32, &str)> = run
        .cells
        .iter()
        .filter_map(|cell| round_of(&path, &cell.path).map(|(round, step)| (cell, round, step)))
        .collect();
    let last_cell = within.iter().map(|(cell, ..)| cell.id).max().or(verdict.cell)?;
    Some(SteadyGroup {
        rows: rows_of(&within, window),
        reached: verdict.status != "fail",
        text: verdict.text.clone(),
        evidence: verdict.evidence.clone(),
        window,
        last_cell,
        path,
    })
}

/// Round and step of a cell that stands in the rounds at `group`.
fn round_of<'p>(group: &str, path: &'p str) -> Option<(u32, &'p str)> {
    let rest = path.strip_prefix(group)?.strip_prefix('#')?;
    let (round, step) = rest.split_once('/')?;
    Some((round.parse().ok()?, step))
}

fn rows_of(cells: &[(&CellRecord, u32, &str)], window: (u32, u32)) -> Vec<WindowRow> {
    let mut order: Vec<(String, String)> = Vec::new();
    let mut found: BTreeMap<(String, String), Vec<&CellRecord>> = BTreeMap::new();
    for (cell, round, step) in cells {
        let counts = cell.status == "done" && cell.counted && (window.0..=window.1).contains(round);
        if !counts {
            continue;
        }
        let key = ((*step).to_owned(), cell.label.clone());
        if !found.contains_key(&key) {
            order.push(key.clone());
        }
        found.entry(key).or_default().push(cell);
    }
    order.iter().map(|key| row_of(key, &found[key])).collect()
}

fn row_of(key: &(String, String), cells: &[&CellRecord]) -> WindowRow {
    let n = cells.len() as f64;
    let summaries: Vec<_> = cells.iter().map(|cell| summarize(cell)).collect();
    // Response times merge per I/O, over both directions.
    let both: Vec<_> = cells
        .iter()
        .map(|cell| {
            let merged = cell.merged();
            let mut all = merged.reads;
            all.merge(&merged.writes);
            all
        })
        .collect();
    let mean_of = |values: Vec<Option<f64>>| -> Option<f64> {
        let all: Option<Vec<f64>> = values.into_iter().collect();
        all.map(|all| all.iter().sum::<f64>() / n)
    };
    let nines = |side: &base::sample::Side| match side.response.is_empty() {
        true => side.service.percentile_ns(99.999),
        false => side.response.percentile_ns(99.999),
    };
    let mean = |side: &base::sample::Side| match side.response.is_empty() {
        true => side.service.mean_ns(),
        false => side.response.mean_ns(),
    };
    let most = |side: &base::sample::Side| side.service.max_ns().max(side.response.max_ns());
    WindowRow {
        step: key.0.clone(),
        label: key.1.clone(),
        coordinates: coordinates_of(cells[0]),
        describe: cells[0].streams.first().map(|s| s.describe.clone()).unwrap_or_default(),
        rounds: cells.len() as u32,
        iops: summaries.iter().map(|s| s.iops).sum::<f64>() / n,
        bandwidth_bytes: summaries.iter().map(|s| s.bandwidth_bytes).sum::<f64>() / n,
        mean_ns: mean_of(both.iter().map(mean).collect()),
        five_nines_ns: mean_of(both.iter().map(|side| nines(side).map(|ns| ns as f64)).collect()),
        max_ns: both.iter().filter_map(most).max(),
        cpu: summaries.iter().map(|s| s.cpu).sum::<f64>() / n,
    }
}

/// The coordinates of a cell as pairs.
pub fn coordinates_of(cell: &CellRecord) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = cell.coordinates.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|c| (word(&c["axis"]), word(&c["value"]))).collect()
}

/// A path without the numbers of repetitions.
pub fn step_path(path: &str) -> String {
    let plain = |part: &str| part.split('#').next().unwrap_or_default().to_owned();
    path.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// Cells whose figures are results: done, counted, no fill, and of rounds only those in the window.
pub fn result_cells<'r>(run: &'r RunFile, groups: &[SteadyGroup]) -> Vec<&'r CellRecord> {
    let in_window = |cell: &CellRecord| {
        let place = groups.iter().find_map(|group| {
            let (round, _) = place_in_rounds(group, cell)?;
            Some((group.window.0..=group.window.1).contains(&round))
        });
        place.unwrap_or(true)
    };
    let counts = |cell: &&CellRecord| {
        cell.counted && cell.status == "done" && cell.verb != "fill" && !cell.totals.is_empty()
    };
    run.cells.iter().filter(counts).filter(|cell| in_window(cell)).collect()
}

/// Round and step of a cell that stands in the rounds of a group.
pub fn place_in_rounds<'c>(group: &SteadyGroup, cell: &'c CellRecord) -> Option<(u32, &'c str)> {
    round_of(&group.path, &cell.path)
}

/// Whether a cell is one of a round of some group.
pub fn in_rounds(groups: &[SteadyGroup], cell: &CellRecord) -> bool {
    groups.iter().any(|group| round_of(&group.path, &cell.path).is_some())
}

/// The claim that a cell hangs on: its own group, or the last one before it since the last purge.
pub fn claim_of<'g>(
    run: &RunFile,
    groups: &'g [SteadyGroup],
    cell: &CellRecord,
) -> Option<&'g SteadyGroup> {
    let own = groups
        .iter()
        .find(|group| round_of(&group.path, &cell.path).is_some() || group.path == cell.path);
    own.or_else(|| {
        let before = groups.iter().rfind(|group| group.last_cell < cell.id)?;
        let ended = run.cells.iter().find(|other| other.id == before.last_cell)?.start;
        let purged = |event: &&store::Event| {
            event.kind == "purge" && event.at >= ended && event.at <= cell.start
        };
        (cell.verb != "fill" && !run.events.iter().any(|event| purged(&event))).then_some(before)
    })
}

/// Rows by columns of a table over the two axes of a sweep.
pub struct Pivot<'r> {
    /// Name of the rows' axis.
    pub row_axis: String,
    /// Name of the columns' axis.
    pub column_axis: String,
    /// Values of the columns.
    pub columns: Vec<String>,
    /// Value of each row, with a cell for each column.
    pub rows: Vec<(String, Vec<Option<&'r WindowRow>>)>,
}

/// The rows of one sweep over two axes as a table: the inner axis down, the outer one across.
pub fn pivot<'r>(rows: &[&'r WindowRow]) -> Option<Pivot<'r>> {
    let first = rows.first()?;
    let [(outer, _), (inner, _)] = first.coordinates.as_slice() else {
        return None;
    };
    let same = |row: &&&WindowRow| {
        row.coordinates.len() == 2
            && row.coordinates[0].0 == *outer
            && row.coordinates[1].0 == *inner
    };
    if rows.iter().filter(same).count() != rows.len() || rows.len() < 4 {
        return None;
    }
    let values = |axis: usize| {
        let mut seen: Vec<String> = Vec::new();
        for row in rows {
            let value = &row.coordinates[axis].1;
            if !seen.contains(value) {
                seen.push(value.clone());
            }
        }
        seen
    };
    let columns = values(0);
    let at = |column: &str, line: &str| {
        rows.iter().find(|r| r.coordinates[0].1 == column && r.coordinates[1].1 == line).copied()
    };
    let lines = values(1)
        .into_iter()
        .map(|line| {
            let cells = columns.iter().map(|column| at(column, &line)).collect();
            (line, cells)
        })
        .collect();
    Some(Pivot { row_axis: inner.clone(), column_axis: outer.clone(), columns, rows: lines })
}
