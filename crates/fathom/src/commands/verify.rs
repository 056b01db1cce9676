//! `fathom verify`: reads a target and checks what verified writes left on it.

use crate::args::Verify;
use crate::commands::run::{
    INTERRUPT, engine_of, find_targets, finish, run_file, settings_folder, watch_signals,
};
use crate::exit::{Exit, usage};
use crate::live::Live;
use crate::print;
use base::units::Bytes;
use runner::{Journaling, RunOptions};
use std::path::Path;
use store::RunFile;

/// Every byte once.
const PLAN: &str = r#"
name = "verify"
title = "Checks what verified writes left"

[[step]]
name = "read-back"
load = { pattern = "sequential", block = "128k", depth = 16, amount = "1x", verify = { stop_after = 0 } }
"#;

/// Wrong places that are printed; the run file has more.
const PRINTED: usize = 20;

pub(crate) fn run(args: &Verify) -> anyhow::Result<Exit> {
    let plan = plan::parse("verify", PLAN, &[])?;
    if let Some(folder) = args.targets.iter().find(|path| path.is_dir()) {
        let path = folder.display();
        return Err(usage(format!(
            "{path}: is a folder; name the device or file that was written"
        )));
    }
    let found = find_targets(&args.targets, Bytes(0))?;
    let file = run_file(args.output.as_deref(), &plan.name, &found.short_name());
    watch_signals()?;
    let options = RunOptions {
        plan: &plan,
        targets: found.targets(),
        destroy: &[],
        read_only: true,
        engine: engine_of(args.engine)?,
        file: file.clone(),
        ledger: None,
        settings: settings_folder(),
        telemetry: None,
        placement: plan::Placement::default(),
        before: &[],
        reuse: false,
        journaling: match &args.journal {
            Some(path) => Journaling::Check(path.clone()),
            None => Journaling::Stamps,
        },
    };
    let mut live = Live::new(args.quiet);
    let result = runner::run(&options, &mut live, &INTERRUPT);
    live.finish();
    let end = result?;
    drop(found);
    let exit = finish(args.json, &file, &end)?;
    if !args.json {
        print_places(&file)?;
    }
    Ok(exit)
}

fn print_places(file: &Path) -> anyhow::Result<()> {
    let run = RunFile::open(file)?;
    let places: Vec<&str> =
        run.events.iter().filter(|e| e.kind == "mismatch").map(|e| e.text.as_str()).collect();
    for place in places.iter().take(PRINTED) {
        print::out(&format!("\n{place}\n"))?;
    }
    if places.len() > PRINTED {
        let more = places.len() - PRINTED;
        print::out(&format!("\nand {more} more places, as events in {}\n", file.display()))?;
    }
    Ok(())
}
