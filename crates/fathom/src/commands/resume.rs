//! `fathom resume`.

use crate::args::Resume;
use crate::commands::run::{
    INTERRUPT, find_targets, finish, ledger_folder, settings_folder, watch_signals,
};
use crate::exit::{Exit, usage};
use crate::live::Live;
use engine::Engine;
use runner::RunOptions;
use std::path::PathBuf;
use store::{RunFile, State};

pub(crate) fn run(args: &Resume) -> anyhow::Result<Exit> {
    let cut = RunFile::open(&args.run)?;
    if matches!(cut.state, State::Running | State::Done | State::Invalid) {
        let (file, state) = (args.run.display(), cut.state.word());
        return Err(usage(format!("{file}: the run is {state}: there is nothing to resume")));
    }
    let settings: Vec<(String, String)> =
        serde_json::from_str::<std::collections::BTreeMap<String, String>>(cut.meta("settings"))
            .unwrap_or_default()
            .into_iter()
            .collect();
    // The plan as it was run, not as a file of that name may be now.
    let plan = plan::parse(cut.meta("plan_name"), cut.meta("plan_source"), &settings)?;
    let paths: Vec<PathBuf> = cut
        .targets
        .iter()
        .map(|target| {
            let name = target["name"].as_str().unwrap_or_default();
            PathBuf::from(name.strip_prefix("scratch file in ").unwrap_or(name))
        })
        .collect();
    let engine = match cut.meta("engine") {
        "sync" => Engine::Sync,
        "fio" => Engine::Fio,
        _ => Engine::Uring,
    };
    let read_only = args.read_only || cut.meta("read_only") == "true";
    let placement = args.placement.clone();
    let placement = placement.unwrap_or_else(|| cut.meta("placement").parse().unwrap_or_default());
    drop(cut);
    let found = find_targets(&paths, plan.scratch)?;
    watch_signals()?;
    let options = RunOptions {
        plan: &plan,
        targets: found.targets(),
        destroy: &args.destroy,
        read_only,
        engine,
        file: args.run.clone(),
        ledger: ledger_folder(args.no_ledger),
        settings: settings_folder(),
        telemetry: args.telemetry.0,
        placement,
        before: &[],
        reuse: false,
        journaling: runner::Journaling::Off,
    };
    let mut live = Live::new(args.quiet);
    let result = runner::resume(&options, &mut live, &INTERRUPT);
    live.finish();
    let end = result?;
    drop(found);
    finish(args.json, &args.run, &end)
}
