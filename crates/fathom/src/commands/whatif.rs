//! `fathom whatif`: the same plan on a virtual drive before and after a change of its setup, for every
//! set of constants that its calibration leaves open. The answer is an envelope, never one number.

use crate::args::Whatif;
use crate::commands::load_plan;
use crate::exit::{Exit, usage};
use crate::print;
use base::units::{format_rate, three_digits};
use engine::Engine;
use plan::Plan;
use runner::{Progress, RunOptions, Targets};
use serde_json::json;
use sim::{Profile, VirtualTarget};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use store::RunFile;

/// Simulated I/Os behind an entry of a table: enough for rates, which is what is compared.
const SAMPLES: u32 = 10_000;

/// A cell of the plan: its IOPS before and after, for each set of constants.
struct Row {
    name: String,
    describe: String,
    before: Vec<f64>,
    after: Vec<f64>,
}

pub(crate) fn run(args: &Whatif) -> anyhow::Result<Exit> {
    if args.over_provision.is_none() && args.power.is_none() {
        return Err(usage("nothing is changed: give --over-provision SIZE, --power WATT or both"));
    }
    let plan = load_plan(&args.plan, &args.settings)?;
    let (base, changed) = setups(args)?;
    let envelope = base.profile.envelope();
    let mut rows: Vec<Row> = Vec::new();
    for (why, profile) in &envelope {
        eprintln!("fathom: {}: {why}", plan.name);
        let before = cells_of(&plan, &base, profile)?;
        let after = cells_of(&plan, &changed, profile)?;
        for (name, describe, iops) in before {
            let Some((_, _, then)) = after.iter().find(|(other, ..)| *other == name) else {
                continue;
            };
            match rows.iter_mut().find(|row| row.name == name) {
                Some(row) => {
                    row.before.push(iops);
                    row.after.push(*then);
                }
                None => rows.push(Row { name, describe, before: vec![iops], after: vec![*then] }),
            }
        }
    }
    show(args, &base, &changed, &envelope, &rows)?;
    Ok(Exit::Done)
}

/// The drive as it is, and as it would be.
fn setups(args: &Whatif) -> anyhow::Result<(VirtualTarget, VirtualTarget)> {
    let text = format!("sim:{},noise=0,samples={SAMPLES}", args.profile);
    let mut changed = text.clone();
    if let Some(size) = &args.over_provision {
        changed.push_str(&format!(",over-provision={size}"));
    }
    if let Some(watt) = &args.power {
        changed.push_str(&format!(",power={watt}"));
    }
    let parse = |text: &str| VirtualTarget::parse(text).map_err(usage);
    Ok((parse(&text)?, parse(&changed)?))
}

/// Runs the plan; gives name, load and IOPS of each cell that counts, over the window of its rounds.
fn cells_of(
    plan: &Plan,
    target: &VirtualTarget,
    profile: &Profile,
) -> anyhow::Result<Vec<(String, String, f64)>> {
    static RUNS: AtomicBool = AtomicBool::new(false);
    let file = scratch_file();
    let targets = [VirtualTarget { profile: profile.clone(), ..target.clone() }];
    let options = RunOptions {
        plan,
        targets: Targets::Virtual(&targets),
        destroy: &[],
        read_only: false,
        engine: Engine::Uring,
        file: file.clone(),
        ledger: None,
        reuse: false,
    };
    let result = runner::run(&options, &mut |_: Progress<'_>| {}, &RUNS);
    let cells = result.map_err(anyhow::Error::from).and_then(|_| Ok(read(&RunFile::open(&file)?)));
    remove(&file);
    cells
}

fn read(run: &RunFile) -> Vec<(String, String, f64)> {
    let groups = analysis::steady_groups(run);
    let mut cells = Vec::new();
    for group in &groups {
        for row in &group.rows {
            let name = format!("{}/{} {}", group.path, row.step, row.label);
            cells.push((name.trim_end().to_owned(), row.describe.clone(), row.iops));
        }
    }
    for cell in &run.cells {
        let counts = cell.counted && cell.verb != "fill" && cell.status == "done";
        if counts && !analysis::in_rounds(&groups, cell) {
            let name = format!("{} {}", cell.path, cell.label);
            let describe = cell.streams.first().map(|s| s.describe.clone()).unwrap_or_default();
            cells.push((name.trim_end().to_owned(), describe, analysis::summarize(cell).iops));
        }
    }
    cells
}

fn scratch_file() -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("fathom-whatif-{}-{n}.fathom", std::process::id()))
}

fn remove(file: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{ending}", file.display()));
    }
}

/// Least and greatest value, wider by what the model is known to be off.
fn widened(values: impl Iterator<Item = f64>, error_percent: f64) -> (f64, f64) {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    (least * (1.0 - error_percent / 100.0), most * (1.0 + error_percent / 100.0))
}

fn show(
    args: &Whatif,
    base: &VirtualTarget,
    changed: &VirtualTarget,
    envelope: &[(String, Profile)],
    rows: &[Row],
) -> anyhow::Result<()> {
    let error = base.profile.error_percent();
    let ratio = |row: &Row| {
        widened(row.after.iter().zip(&row.before).map(|(after, before)| after / before), error)
    };
    if args.json {
        let row = |row: &Row| {
            let ((b0, b1), (a0, a1)) = (
                widened(row.before.iter().copied(), error),
                widened(row.after.iter().copied(), error),
            );
            let (r0, r1) = ratio(row);
            json!({
                "cell": row.name, "load": row.describe, "before_iops": [b0, b1],
                "after_iops": [a0, a1], "ratio": [r0, r1],
            })
        };
        return Ok(print::json(&json!({
            "fathom_json": report::JSON_VERSION,
            "profile": base.profile.name, "before": base.name, "after": changed.name,
            "constants": envelope.iter().map(|(why, _)| why).collect::<Vec<_>>(),
            "error_percent": error,
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        }))?);
    }
    let span = |(least, most): (f64, f64), text: &dyn Fn(f64) -> String| {
        format!("{} .. {}", text(least), text(most))
    };
    let line = |row: &Row| {
        vec![
            row.name.clone(),
            row.describe.clone(),
            span(widened(row.before.iter().copied(), error), &format_rate),
            span(widened(row.after.iter().copied(), error), &format_rate),
            span(ratio(row), &three_digits),
        ]
    };
    let body: Vec<Vec<String>> = rows.iter().map(line).collect();
    let mut text =
        format!("{}\nbefore: {}\nafter:  {}\n\n", base.profile.model, base.name, changed.name);
    text.push_str(&report::table_of(
        &["Cell", "Load", "IOPS before", "IOPS after", "Ratio"],
        &body,
    ));
    text.push_str(&format!(
        "\nA prediction by simulation: each range spans {} sets of constants that the calibration leaves \
         open, and {error:.1} % besides, the largest known error of the profile on figures it was not \
         made from.\n",
        envelope.len()
    ));
    Ok(print::out(&text)?)
}
