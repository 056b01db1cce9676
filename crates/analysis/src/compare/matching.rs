//! Which cells mean the same, and which of them may be compared.

use super::Arm;
use crate::claims::{
    SteadyGroup, claim_of, coordinates_of, result_cells, steady_groups, step_path,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use store::{CellRecord, RunFile, State};

/// Drive fills since the last purge from which a drive counts as preconditioned.
const FILLED: f64 = 1.0;

/// Cells that mean the same in the reference and in another arm, by run.
pub(super) struct Matched<'r> {
    pub(super) load: String,
    pub(super) step: String,
    pub(super) arm: usize,
    pub(super) sides: [Vec<(&'r RunFile, Vec<&'r CellRecord>)>; 2],
    /// Why they may not be compared.
    pub(super) forbidden: Option<String>,
}

pub(super) struct Matches<'r> {
    pub(super) pairs: Vec<Matched<'r>>,
    pub(super) unmatched: Vec<(usize, String)>,
}

/// What a cell means: its loads without their names; for a point of a curve its place on the curve in the
/// stead of its rate, which is another on each drive.
fn meaning(cell: &CellRecord) -> String {
    let on_curve = coordinates_of(cell).into_iter().find(|(axis, _)| axis == "load");
    let mut loads = cell.spec["loads"].clone();
    for load in loads.as_array_mut().into_iter().flatten() {
        if let Some(fields) = load.as_object_mut() {
            fields.remove("name");
            fields.remove("describe");
            // Older run files do not tell what is the default.
            if fields.get("range") == Some(&serde_json::json!(["0%", "100%"])) {
                fields.remove("range");
            }
            if fields.get("align_bytes") == Some(&Value::Null) {
                fields.remove("align_bytes");
            }
            if on_curve.is_some() {
                fields.remove("demand");
            }
        }
    }
    let point = on_curve.map_or(String::new(), |(_, value)| value);
    // A load that is measured after idle times, or in a mix of steps, is another one than the same by itself.
    let waits = cell.facts["gap_before_ns"].as_u64().is_some_and(|gap| gap > 1_000_000_000);
    format!("{loads}{point}{}", if waits { " after idle" } else { "" })
}

fn short(cell: &CellRecord) -> String {
    let mut text: Vec<&str> = cell.streams.iter().map(|s| s.describe.as_str()).collect();
    text.dedup();
    let point = coordinates_of(cell).into_iter().find(|(axis, _)| axis == "load");
    let point = point.map_or(String::new(), |(_, value)| format!(" at {value}"));
    let text = text.join(" + ");
    let text = if point.is_empty() {
        text
    } else {
        text.split('@').next().unwrap_or("").trim().to_owned()
    };
    format!("{text}{point}")
}

/// Meanings of an arm in order, with their cells by run.
type Found<'r> = Vec<(String, Vec<(&'r RunFile, Vec<&'r CellRecord>)>)>;

fn of_arm<'r>(arm: &Arm<'r>) -> Found<'r> {
    let mut all: Found<'r> = Vec::new();
    for run in &arm.runs {
        let cells: Vec<(&CellRecord, String, String)> = result_cells(run, &steady_groups(run))
            .into_iter()
            .map(|cell| (cell, meaning(cell), step_path(&cell.path)))
            .collect();
        let mut steps: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, key, step) in &cells {
            steps.entry(key).or_default().insert(step);
        }
        for (cell, key, step) in &cells {
            // The same load in several steps of a plan is measured in several states of the drive.
            let several = steps[key.as_str()].len() > 1;
            let key = if several { format!("{key}{step}") } else { key.clone() };
            let at = all.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                all.push((key, Vec::new()));
                all.len() - 1
            });
            match all[at].1.last_mut() {
                Some((last, cells)) if std::ptr::eq(*last, *run) => cells.push(cell),
                _ => all[at].1.push((run, vec![cell])),
            }
        }
    }
    all
}

pub(super) fn matched<'r>(arms: &[Arm<'r>]) -> Matches<'r> {
    let mut pairs = Vec::new();
    let mut unmatched = Vec::new();
    let Some((reference, others)) = arms.split_first() else {
        return Matches { pairs, unmatched };
    };
    let base = of_arm(reference);
    // Claims are read from the whole run: once, not once a cell.
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    let claims: Claims<'_> = runs.map(|run| (run.path(), steady_groups(run))).collect();
    let name = |cells: &[(&RunFile, Vec<&CellRecord>)]| short(cells[0].1[0]);
    for (n, arm) in others.iter().enumerate() {
        let arm_number = n + 1;
        let found = of_arm(arm);
        for (key, theirs) in &found {
            if !base.iter().any(|(known, _)| known == key) {
                unmatched.push((arm_number, name(theirs)));
            }
        }
        for (key, ours) in &base {
            let Some((_, theirs)) = found.iter().find(|(known, _)| known == key) else {
                unmatched.push((0, name(ours)));
                continue;
            };
            let first = ours[0].1[0];
            pairs.push(Matched {
                load: name(ours),
                step: first.path.clone(),
                arm: arm_number,
                forbidden: forbidden(ours, theirs, &claims),
                sides: [ours.clone(), theirs.clone()],
            });
        }
    }
    unmatched.dedup();
    Matches { pairs, unmatched }
}

type Side<'s, 'r> = &'s [(&'r RunFile, Vec<&'r CellRecord>)];

/// Steady-state claims of each run.
type Claims<'r> = BTreeMap<&'r Path, Vec<SteadyGroup>>;

/// What the method says against it.
fn forbidden(ours: Side<'_, '_>, theirs: Side<'_, '_>, claims: &Claims<'_>) -> Option<String> {
    for (run, cells) in ours.iter().chain(theirs) {
        if let Some(why) = not_valid(run, cells, claims) {
            let name = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Some(format!("{name}: {why}"));
        }
    }
    let [a, b] = [ours, theirs].map(fills);
    let state = |fills: Option<f64>| fills.map(|fills| fills >= FILLED);
    match (state(a), state(b)) {
        (Some(x), Some(y)) if x != y => Some(format!(
            "different preconditioning: {:.2} and {:.2} drive fills since the purge",
            a.unwrap_or(0.0),
            b.unwrap_or(0.0)
        )),
        _ => None,
    }
}

fn not_valid(run: &RunFile, cells: &[&CellRecord], claims: &Claims<'_>) -> Option<String> {
    if run.state == State::Running {
        return Some("the run goes on".into());
    }
    let groups = claims.get(run.path())?;
    for cell in cells {
        let claim = claim_of(run, groups, cell).filter(|claim| !claim.reached);
        if claim.is_some() {
            return Some("steady state was not reached".into());
        }
        let failed = |v: &&store::VerdictRow| v.status == "fail" && v.cell == Some(cell.id);
        if let Some(verdict) = run.verdicts.iter().find(failed) {
            return Some(format!("not valid: {}", verdict.text));
        }
    }
    None
}

/// Drive fills since the purge when the first of the cells had ended; none where nobody knows.
fn fills(side: Side<'_, '_>) -> Option<f64> {
    let of = |cell: &CellRecord| match &cell.facts["fills_since_purge"] {
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    side.first().and_then(|(_, cells)| of(cells.first()?))
}
