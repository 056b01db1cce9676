//! `fathom run`.

use crate::args::{EngineName, JournalFlush, Run};
use crate::commands::{import, load_plan, parse_settings};
use crate::exit::{Exit, usage};
use crate::live::Live;
use crate::print;
use base::clock::unix_ms;
use base::units::Bytes;
use drive::{Subject, resolve};
use engine::Engine;
use plan::{Extent, Plan};
use runner::{Journaling, RunEnd, RunOptions, Targets, default_file_name};
use sim::VirtualTarget;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use store::RunFile;

/// Set by Ctrl-C and by a request to terminate.
pub(crate) static INTERRUPT: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(args: &Run) -> anyhow::Result<Exit> {
    let (plan, paths) = plan_and_targets(args)?;
    let found = find_targets(&paths, plan.scratch)?;
    let engine = engine_of(args.engine)?;
    let (found, before) = match plan.over_provision().filter(|_| !args.read_only) {
        Some(capacity) => over_provision(found, capacity, &args.destroy)?,
        None => (found, Vec::new()),
    };
    let file = run_file(args.output.as_deref(), &plan.name, &found.short_name());
    watch_signals()?;
    let options = RunOptions {
        plan: &plan,
        targets: found.targets(),
        destroy: &args.destroy,
        read_only: args.read_only,
        engine,
        file: file.clone(),
        ledger: ledger_folder(args.no_ledger),
        settings: settings_folder(),
        telemetry: args.telemetry.0,
        placement: args.placement.clone(),
        before: &before,
        reuse: args.reuse,
        journaling: journaling(args),
    };
    let mut live = Live::new(args.quiet);
    let was_there = file.exists();
    let result = runner::run(&options, &mut live, &INTERRUPT);
    live.finish();
    let end = result.inspect_err(|_error| {
        if file.exists() && !was_there {
            eprintln!("fathom: what was measured is kept in {}", file.display());
        }
    })?;
    drop(found);
    finish(args.json, &file, &end)
}

fn journaling(args: &Run) -> Journaling {
    match &args.journal {
        Some(path) => Journaling::Keep {
            path: path.clone(),
            flush: args.journal_flush == JournalFlush::Batch,
        },
        None => Journaling::Off,
    }
}

/// The plan, and what it runs on: as typed, else as a job file names it, else this folder.
fn plan_and_targets(args: &Run) -> anyhow::Result<(Plan, Vec<PathBuf>)> {
    if !import::is_meant(&args.plan) {
        let plan = load_plan(&args.plan, &args.settings)?;
        return Ok((plan, or_here(args.targets.clone())));
    }
    let (plan, named) = import::plan(&args.plan, &parse_settings(&args.settings)?)?;
    if !named.is_empty() && !args.targets.is_empty() && args.targets.len() != named.len() {
        return Err(usage(format!(
            "{}: the jobs run on {} targets ({}); name as many, or none",
            args.plan,
            named.len(),
            named.join(", ")
        )));
    }
    let paths = match args.targets.is_empty() {
        true => named.into_iter().map(PathBuf::from).collect(),
        false => args.targets.clone(),
    };
    Ok((plan, or_here(paths)))
}

fn or_here(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    if paths.is_empty() { vec![PathBuf::from(".")] } else { paths }
}

/// Targets of the command line.
pub(crate) enum Found {
    Host(Vec<Subject>),
    Virtual(Vec<VirtualTarget>),
}

impl Found {
    pub(crate) fn targets(&self) -> Targets<'_> {
        match self {
            Found::Host(subjects) => Targets::Host(subjects),
            Found::Virtual(drives) => Targets::Virtual(drives),
        }
    }

    /// For the name of the run file.
    pub(crate) fn short_name(&self) -> String {
        match self {
            Found::Host(subjects) => match subjects.as_slice() {
                [one] => one.short_name(),
                several => format!("{}-targets", several.len()),
            },
            Found::Virtual(drives) => match drives.as_slice() {
                [one] => format!("sim-{}", one.profile.name),
                several => format!("{}-targets", several.len()),
            },
        }
    }
}

/// Finds targets by what was typed: of this host or virtual, not both.
pub(crate) fn find_targets(paths: &[PathBuf], scratch: Bytes) -> anyhow::Result<Found> {
    let meant = |path: &&PathBuf| VirtualTarget::is_meant(&path.to_string_lossy());
    let n_virtual = paths.iter().filter(meant).count();
    if n_virtual == paths.len() && n_virtual > 0 {
        let parse = |path: &PathBuf| VirtualTarget::parse(&path.to_string_lossy()).map_err(usage);
        let mut drives = paths.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
        // Equal drives in one run are different drives.
        for (index, drive) in drives.iter_mut().enumerate() {
            drive.setup.seed += index as u64;
        }
        return Ok(Found::Virtual(drives));
    }
    if n_virtual > 0 {
        return Err(usage(
            "virtual drives and targets of this host have different clocks: run them apart",
        ));
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for path in paths {
        let subject = resolve(path, scratch).map_err(runner::RunError::from)?;
        if subjects.iter().any(|other| same_target(other, &subject)) {
            return Err(usage(format!("{}: is named twice", path.display())));
        }
        subjects.push(subject);
    }
    Ok(Found::Host(subjects))
}

/// Makes the targets anew with a smaller capacity. Gives them as they are then, and what was done.
fn over_provision(
    found: Found,
    capacity: Extent,
    destroy: &[String],
) -> anyhow::Result<(Found, Vec<String>)> {
    match found {
        Found::Virtual(drives) => {
            let smaller = |drive: &VirtualTarget| drive.over_provisioned(capacity).map_err(usage);
            let drives = drives.iter().map(smaller).collect::<anyhow::Result<Vec<_>>>()?;
            let said = drives.iter().map(|d| format!("{}: {} usable", d.name, d.size())).collect();
            Ok((Found::Virtual(drives), said))
        }
        Found::Host(subjects) => {
            let (mut paths, mut said) = (Vec::new(), Vec::new());
            for subject in &subjects {
                let (path, text) = runner::over_provision(subject, capacity, destroy)?;
                // Should the run not start, it is said all the same.
                eprintln!("fathom: {text}");
                paths.push(path);
                said.push(text);
            }
            drop(subjects);
            Ok((find_targets(&paths, Bytes(0))?, said))
        }
    }
}

pub(crate) fn engine_of(name: EngineName) -> anyhow::Result<Engine> {
    let engine = match name {
        EngineName::Uring => Engine::Uring,
        EngineName::Sync => Engine::Sync,
        EngineName::Fio => Engine::Fio,
    };
    if engine == Engine::Fio && engine::fio_version().is_none() {
        return Err(usage("--engine fio: fio is not installed (apt-get install fio)"));
    }
    Ok(engine)
}

/// Where what outlasts a run is kept: the state folder of the user (XDG base directories).
pub(crate) fn state_folder() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))?;
    Some(state.join("fathom"))
}

/// Where the ledger is, when one is kept.
pub(crate) fn ledger_folder(without: bool) -> Option<PathBuf> {
    Some(state_folder()?.join("ledger")).filter(|_| !without)
}

/// Where changed settings of drives are remembered. Without a home it is a folder of this boot: a
/// power cycle resets what is set.
pub(crate) fn settings_folder() -> PathBuf {
    state_folder().unwrap_or_else(|| PathBuf::from("/run/fathom")).join("settings")
}

/// Two names of one target.
fn same_target(a: &Subject, b: &Subject) -> bool {
    match (a.device(), b.device()) {
        (Some(a), Some(b)) => a.name == b.name,
        (None, None) => {
            let real = |s: &Subject| std::fs::canonicalize(&s.path).ok();
            real(a) == real(b)
        }
        _ => false,
    }
}

pub(crate) fn run_file(output: Option<&Path>, plan: &str, target: &str) -> PathBuf {
    match output {
        Some(path) if path.is_dir() => path.join(default_file_name(plan, target, unix_ms())),
        Some(path) => path.to_owned(),
        None => default_file_name(plan, target, unix_ms()),
    }
}

/// The first signal ends the run cleanly, the second at once.
pub(crate) fn watch_signals() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if INTERRUPT.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\nfathom: stopping; everything measured is kept (again to leave at once)");
    })?;
    Ok(())
}

/// Shows the result and says where it is.
pub(crate) fn finish(json: bool, file: &Path, end: &RunEnd) -> anyhow::Result<Exit> {
    let run = RunFile::open(file)?;
    if json {
        print::json(&report::document(&run))?;
    } else {
        print::out(&format!("{}\nRun file: {}\n", report::show(&run), file.display()))?;
    }
    if let Some(message) = &end.message {
        eprintln!("fathom: {message}");
    }
    Ok(end.state.into())
}
