//! Iometer's configuration files (.icf, version 1.1.0) (`docs/import.md`).
//!
//! A file is text in blocks: `'NAME ====` opens one, `'END name` closes it, lines that begin with an
//! apostrophe say what the lines after them hold.

mod blocks;
mod spec;

use super::told::Told;
use super::{Imported, word};
use crate::reader::PlanErrors;
use blocks::{Config, Cycle, Worker, config};
use spec::{Row, Spec};
use std::fmt::Write as _;

/// Steps of one file.
const STEPS_MAX: usize = 1000;

/// Reads a configuration file.
///
/// # Errors
/// Every mistake with file and line, and every construct without which a test would not be the same.
pub fn iometer_configuration(file: &str, text: &str) -> Result<Imported, PlanErrors> {
    let mut told = Told::default();
    let config = config(file, text, &mut told);
    let targets = targets(&config);
    let mut plan = String::new();
    let stem = file.rsplit('/').next().unwrap_or(file);
    let name = word(stem.rsplit_once('.').map_or(stem, |(name, _)| name), 60);
    let name = if name.is_empty() { "iometer".into() } else { name };
    let _ = writeln!(plan, "name = \"{name}\"\ntitle = \"from {}\"", word(stem, 60));
    let n = steps(&mut plan, &config, &targets, &mut told);
    if n == 0 && told.errors.is_empty() {
        let text = "no worker has an access specification: nothing would be measured";
        told.errors.push(super::mistake(file, 1, text));
    }
    told.sort();
    match told.errors.is_empty() {
        true => Ok(Imported { plan, targets, notes: told.notes }),
        false => Err(PlanErrors(told.errors)),
    }
}

/// The targets of all workers, each once.
fn targets(config: &Config) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in config.workers.iter().flat_map(|worker| &worker.targets) {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all
}

/// A step for each access specification, cycling depth or workers inside; gives how many.
fn steps(out: &mut String, config: &Config, targets: &[String], told: &mut Told) -> usize {
    let longest = config.workers.iter().map(|worker| worker.specs.len()).max().unwrap_or(0);
    let mut n = 0;
    for place in 0..longest {
        for (suffix, workers) in cycles(config, told) {
            let mut loads = String::new();
            let mut name = String::new();
            for worker in workers {
                let Some(spec_name) = worker.specs.get(place) else { continue };
                let Some(spec) = config.specs.iter().find(|spec| spec.name == *spec_name) else {
                    let text = format!("there is no access specification `{spec_name}`");
                    told.refuse(&worker.at, text);
                    continue;
                };
                if name.is_empty() {
                    name = format!("{}{suffix}", word(&spec.name, 40));
                }
                worker_loads(&mut loads, &worker, spec, targets, told);
            }
            if loads.is_empty() {
                continue;
            }
            n += 1;
            if n > STEPS_MAX {
                told.refuse(&config.at, format!("more than {STEPS_MAX} steps"));
                return n;
            }
            let seconds = config.run_seconds.max(1.0);
            let _ = write!(out, "\n[[step]]\nname = \"{n}-{name}\"\ntime = \"{seconds}s\"\n");
            if config.ramp_seconds > 0.0 {
                let _ = writeln!(out, "ramp = \"{}s\"", config.ramp_seconds);
            }
            out.push_str(&loads);
        }
    }
    n
}

/// What a test type makes of the workers: them all once, or in turns.
fn cycles(config: &Config, told: &mut Told) -> Vec<(String, Vec<Worker>)> {
    let all = config.workers.clone();
    match config.cycle {
        Cycle::Normal => vec![(String::new(), all)],
        Cycle::Outstanding(range) => {
            let depths = range.values();
            let at = |depth: &u32| {
                let workers = all.iter().map(|worker| Worker { depth: *depth, ..worker.clone() });
                (format!("-q{depth}"), workers.collect())
            };
            depths.iter().map(at).collect()
        }
        Cycle::Workers(range) => {
            let counts = range.values();
            let first = |count: &u32| {
                let n = (*count as usize).min(all.len());
                (format!("-w{count}"), all[..n].to_vec())
            };
            if counts.last().is_some_and(|last| *last as usize > all.len()) {
                told.note(&config.at, "worker cycling ends with the workers that the file has");
            }
            counts.iter().filter(|n| **n as usize <= all.len()).map(first).collect()
        }
        Cycle::Refused => Vec::new(),
    }
}

/// The rows of a specification as loads that share one worker, by their shares.
fn worker_loads(
    out: &mut String,
    worker: &Worker,
    spec: &Spec,
    targets: &[String],
    told: &mut Told,
) {
    let several = spec.rows.len() > 1;
    for (index, row) in spec.rows.iter().enumerate() {
        let _ = write!(
            out,
            "\n[[step.load]]\nname = \"{}-{}\"\n{}\nread = {}\nblock = \"{}\"\ndepth = {}\n",
            word(&worker.name, 40),
            index + 1,
            pattern(row),
            row.reads,
            row.size,
            worker.depth
        );
        if let Some(align) = row.align {
            let _ = writeln!(out, "align = \"{align}\"");
        }
        if several {
            let _ = writeln!(out, "weight = {}", row.share);
        }
        if let Some(range) = worker.range {
            let _ = writeln!(out, "range = [\"{}\", \"{}\"]", range.0, range.1);
        }
        let on: Vec<String> = worker
            .targets
            .iter()
            .filter_map(|name| targets.iter().position(|target| target == name))
            .map(|n| (n + 1).to_string())
            .collect();
        if !on.is_empty() && on.len() < targets.len() {
            let _ = writeln!(out, "targets = [{}]", on.join(", "));
        }
    }
    if worker.targets.len() > 1 {
        told.note(
            &worker.at,
            format!(
                "{}: Iometer has the outstanding I/Os for each target, in one thread; here each of the {} targets \
                 has a thread with as many",
                worker.name,
                worker.targets.len()
            ),
        );
    }
}

fn pattern(row: &Row) -> String {
    match row.random {
        random if random >= 100.0 => "pattern = \"random\"".into(),
        random if random <= 0.0 => "pattern = \"sequential\"".into(),
        random => format!("pattern = \"random\"\nrandom = {random}"),
    }
}

#[cfg(test)]
mod tests;
