//! `fathom fio`: options of fio's command line, and fio's output.

use crate::args::Fio;
use crate::commands::import::fio_plan;
use crate::commands::run::{
    INTERRUPT, find_targets, ledger_folder, run_file, settings_folder, watch_signals,
};
use crate::exit::{Exit, usage};
use crate::live::Live;
use crate::print;
use base::units::Nanos;
use engine::Engine;
use report::{fio_json, fio_text};
use runner::{Journaling, RunOptions};
use std::path::PathBuf;
use store::RunFile;

/// What the options say of output; the rest is of the jobs.
#[derive(Default)]
struct Output {
    json: bool,
    text: bool,
    file: Option<PathBuf>,
}

/// Takes the options of output out; `--output-format=json,normal` prints both.
fn output(arguments: &[String]) -> anyhow::Result<(Output, Vec<String>)> {
    let mut found = Output::default();
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (key, value) =
            word.split_once('=').map_or((word.as_str(), None), |(k, v)| (k, Some(v)));
        let key = key.trim_start_matches('-');
        if !word.starts_with("--") || !["output", "output-format", "eta"].contains(&key) {
            rest.push(word.clone());
            continue;
        }
        let value = match value {
            Some(value) => value.to_owned(),
            None => words.next().cloned().unwrap_or_default(),
        };
        match key {
            "output" => found.file = Some(PathBuf::from(value)),
            "output-format" => {
                for format in value.split(',') {
                    match format {
                        "json" | "json+" => found.json = true,
                        "normal" => found.text = true,
                        other => {
                            let text = format!(
                                "--output-format={other}: normal, json and json+ are there"
                            );
                            return Err(usage(text));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found.text |= !found.json;
    Ok((found, rest))
}

pub(crate) fn run(args: &Fio) -> anyhow::Result<Exit> {
    let (output, arguments) = output(&args.fio)?;
    let (plan, named) = fio_plan(&arguments)?;
    let mut paths: Vec<PathBuf> = named.into_iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        paths.push(PathBuf::from("."));
    }
    let found = find_targets(&paths, plan.scratch)?;
    let file = run_file(args.run_file.as_deref(), &plan.name, &found.short_name());
    watch_signals()?;
    let options = RunOptions {
        plan: &plan,
        targets: found.targets(),
        destroy: &args.destroy,
        read_only: false,
        engine: Engine::Uring,
        file: file.clone(),
        ledger: ledger_folder(false),
        settings: settings_folder(),
        telemetry: Some(Nanos(1_000_000_000)),
        placement: plan::Placement::default(),
        before: &[],
        reuse: false,
        journaling: Journaling::Off,
    };
    let mut live = Live::new(false);
    let result = runner::run(&options, &mut live, &INTERRUPT);
    live.finish();
    let end = result?;
    drop(found);
    let run = RunFile::open(&file)?;
    let document = fio_json(&run)?;
    let mut text = String::new();
    if output.json {
        text += &serde_json::to_string_pretty(&document)?;
        text.push('\n');
    }
    if output.text {
        text += &fio_text(&document);
    }
    match &output.file {
        Some(path) => report::write_file(path, text.as_bytes())?,
        None => print::out(&text)?,
    }
    eprintln!("fathom: run file: {}", file.display());
    if let Some(message) = &end.message {
        eprintln!("fathom: {message}");
    }
    Ok(end.state.into())
}
