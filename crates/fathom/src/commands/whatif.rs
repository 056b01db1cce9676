//! `fathom whatif`: the same plan on a virtual drive before and after a change of its setup, for every
//! set of constants that its calibration leaves open. The answer is an envelope, never one number.

use crate::args::Whatif;
use crate::commands::load_plan;
use crate::commands::run::{INTERRUPT, watch_signals};
use crate::exit::{Exit, usage};
use crate::print;
use base::units::{format_rate, three_digits};
use engine::Engine;
use plan::{Placement, Plan};
use runner::{Progress, RunOptions, Targets};
use serde_json::{Value, json};
use sim::{Profile, VirtualTarget};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use store::{RunFile, State};

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
    let mut invalid = false;
    watch_signals()?;
    for (why, profile) in &envelope {
        eprintln!("fathom: {}: {why}", plan.name);
        let Some((before, valid)) = cells_of(&plan, &base, profile)? else {
            return Ok(Exit::Interrupted);
        };
        let Some((after, valid_after)) = cells_of(&plan, &changed, profile)? else {
            return Ok(Exit::Interrupted);
        };
        invalid |= !(valid && valid_after);
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
    show(args, (&base, &changed), &envelope, &rows, !invalid)?;
    Ok(if invalid { Exit::NotValid } else { Exit::Done })
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

/// Name, load and IOPS of the cells of a run, and whether the run is valid.
type Cells = (Vec<(String, String, f64)>, bool);

/// Runs the plan; gives each cell that counts, over the window of its rounds; none when interrupted.
fn cells_of(
    plan: &Plan,
    target: &VirtualTarget,
    profile: &Profile,
) -> anyhow::Result<Option<Cells>> {
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
        settings: PathBuf::new(),
        telemetry: None,
        placement: Placement::default(),
        before: &[],
        reuse: false,
        journaling: runner::Journaling::Off,
    };
    let result = runner::run(&options, &mut |_: Progress<'_>| {}, &INTERRUPT);
    let cells = result.map_err(anyhow::Error::from).and_then(|end| match end.state {
        State::Interrupted => Ok(None),
        State::Done | State::Invalid => {
            Ok(Some((read(&RunFile::open(&file)?), end.state == State::Done)))
        }
        _ => Err(anyhow::anyhow!("{}: {}", target.name, end.message.unwrap_or_default())),
    });
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

fn ratio(row: &Row, error_percent: f64) -> (f64, f64) {
    let ratios = row.after.iter().zip(&row.before).map(|(after, before)| after / before);
    widened(ratios, error_percent)
}

fn as_json(
    (base, changed): (&VirtualTarget, &VirtualTarget),
    envelope: &[(String, Profile)],
    rows: &[Row],
    valid: bool,
) -> Value {
    let error = base.profile.error_percent();
    let span = |values: &[f64]| <[f64; 2]>::from(widened(values.iter().copied(), error));
    let row = |row: &Row| {
        json!({
            "cell": row.name, "load": row.describe, "before_iops": span(&row.before),
            "after_iops": span(&row.after), "ratio": <[f64; 2]>::from(ratio(row, error)),
        })
    };
    json!({
        "fathom_json": report::JSON_VERSION,
        "profile": base.profile.name, "before": base.name, "after": changed.name,
        "constants": envelope.iter().map(|(why, _)| why).collect::<Vec<_>>(),
        "error_percent": error, "valid": valid,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn show(
    args: &Whatif,
    (base, changed): (&VirtualTarget, &VirtualTarget),
    envelope: &[(String, Profile)],
    rows: &[Row],
    valid: bool,
) -> anyhow::Result<()> {
    let error = base.profile.error_percent();
    if args.json {
        return Ok(print::json(&as_json((base, changed), envelope, rows, valid))?);
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
            span(ratio(row, error), &three_digits),
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
    if !valid {
        text.push_str(
            "NOT VALID: at least one of the runs is not valid by its own method (steady state).\n",
        );
    }
    Ok(print::out(&text)?)
}
