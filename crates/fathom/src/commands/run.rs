//! `fathom run`.

use crate::args::{EngineName, Run};
use crate::commands::load_plan;
use crate::exit::{Exit, usage};
use crate::live::Live;
use crate::print;
use base::clock::unix_ms;
use drive::{Subject, resolve};
use engine::Engine;
use runner::{RunEnd, RunOptions, default_file_name};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use store::{RunFile, State};

/// Set by Ctrl-C and by a request to terminate.
static INTERRUPT: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(args: &Run) -> anyhow::Result<Exit> {
    let plan = load_plan(&args.plan, &args.settings)?;
    let here = [PathBuf::from(".")];
    let paths = if args.targets.is_empty() { &here[..] } else { &args.targets };
    let mut subjects: Vec<Subject> = Vec::new();
    for path in paths {
        if path.to_string_lossy().starts_with("sim:") {
            return Err(usage(format!("{}: this version has no virtual drives", path.display())));
        }
        let subject = resolve(path, plan.scratch).map_err(runner::RunError::from)?;
        if subjects.iter().any(|other| same_target(other, &subject)) {
            return Err(usage(format!("{}: is named twice", path.display())));
        }
        subjects.push(subject);
    }
    let engine = match args.engine {
        EngineName::Uring => Engine::Uring,
        EngineName::Sync => Engine::Sync,
        EngineName::Fio => Engine::Fio,
    };
    if engine == Engine::Fio && engine::fio_version().is_none() {
        return Err(usage("--engine fio: fio is not installed (apt-get install fio)"));
    }
    let file = run_file(args.output.as_deref(), &plan.name, &subjects);
    watch_signals()?;
    let options = RunOptions {
        plan: &plan,
        subjects: &subjects,
        destroy: &args.destroy,
        read_only: args.read_only,
        engine,
        file: file.clone(),
    };
    let mut live = Live::new(args.quiet);
    let result = runner::run(&options, &mut live, &INTERRUPT);
    live.finish();
    let end = result.inspect_err(|_error| {
        if file.exists() {
            eprintln!("fathom: what was measured is kept in {}", file.display());
        }
    })?;
    drop(options);
    drop(subjects);
    finish(args, &file, &end)
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

fn run_file(output: Option<&Path>, plan: &str, subjects: &[Subject]) -> PathBuf {
    match output {
        Some(path) if path.is_dir() => path.join(default_file_name(plan, subjects, unix_ms())),
        Some(path) => path.to_owned(),
        None => default_file_name(plan, subjects, unix_ms()),
    }
}

/// The first signal ends the run cleanly, the second at once.
fn watch_signals() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if INTERRUPT.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\nfathom: stopping; everything measured is kept (again to leave at once)");
    })?;
    Ok(())
}

/// Shows the result and says where it is.
fn finish(args: &Run, file: &Path, end: &RunEnd) -> anyhow::Result<Exit> {
    let run = RunFile::open(file)?;
    if args.json {
        print::json(&report::document(&run))?;
    } else {
        print::out(&format!("{}\nRun file: {}\n", report::show(&run), file.display()))?;
    }
    if let Some(message) = &end.message {
        eprintln!("fathom: {message}");
    }
    Ok(match end.state {
        State::Done | State::Running | State::CutOff => Exit::Done,
        State::Invalid => Exit::NotValid,
        State::Interrupted => Exit::Interrupted,
        State::Failed => Exit::Failed,
    })
}
