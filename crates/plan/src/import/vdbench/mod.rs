//! Parameter files of VDBench for raw devices and files (`docs/import.md`).

mod load;
mod objects;
mod run;
mod syntax;
mod value;

use super::told::Told;
use super::{Imported, Surroundings, word};
use crate::reader::PlanErrors;
use objects::Objects;
use std::fmt::Write as _;

/// Reads a parameter file; `variables` are those of VDBench's command line.
///
/// # Errors
/// Every mistake with file and line, and every construct without which a run would not be the same.
pub fn vdbench_parameters(
    file: &str,
    text: &str,
    variables: &[(String, String)],
    around: &dyn Surroundings,
) -> Result<Imported, PlanErrors> {
    let stream = syntax::read(file, text, variables, around);
    let objects = objects::objects(stream.items);
    let mut told = Told { notes: stream.notes, errors: stream.errors };
    told.errors.extend(objects.errors.iter().cloned());
    told.notes.extend(objects.notes.iter().cloned());
    general(&objects, &mut told);
    let targets = targets(&objects, &mut told);
    let mut plan = head(file);
    let mut names = Vec::new();
    for run in &objects.runs {
        run::steps(&mut plan, run, &objects, (&targets, &mut names), &mut told);
    }
    if objects.runs.is_empty() && told.errors.is_empty() {
        told.errors.push(super::mistake(file, 1, "there is no run (rd=) in it"));
    }
    told.sort();
    if told.errors.is_empty() {
        Ok(Imported { plan, targets, notes: told.notes })
    } else {
        Err(PlanErrors(told.errors))
    }
}

fn head(file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or(file);
    let name = word(stem.rsplit_once('.').map_or(stem, |(name, _)| name), 60);
    let mut out = String::new();
    let name = if name.is_empty() { "vdbench".into() } else { name };
    let _ = writeln!(out, "name = \"{name}\"\ntitle = \"from {}\"", word(stem, 60));
    out
}

/// The files and devices of all SDs, each once.
fn targets(objects: &Objects, told: &mut Told) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for storage in &objects.storage {
        let lun = load::lun(storage);
        if lun.is_empty() {
            told.refuse(storage, format!("{}: it has no lun", storage.name));
        } else if !all.contains(&lun) {
            all.push(lun);
        }
        if storage.option("openflags").is_none() {
            told.note(
                storage,
                format!(
                    "{}: without openflags=o_direct VDBench goes through the page cache; here I/O is direct",
                    storage.name
                ),
            );
        }
    }
    all
}

/// What stands before the first object.
fn general(objects: &Objects, told: &mut Told) {
    for item in &objects.general {
        let off = item.values.first().is_some_and(|value| value == "no");
        let key = item.key.as_str();
        match key {
            "validate" if !off => told.note(
                item,
                "validate: what the run wrote is checked wherever it is read; blocks are not read before they \
                 are written again",
            ),
            "journal" if !off => {
                told.note(item, "journal: keep one with --journal FILE; check with fathom verify --journal")
            }
            "data_errors" if objects.validates() => {}
            "concatenatesds" if !off => {
                told.refuse(item, "concatenatesds: SDs are measured side by side")
            }
            "force_error_after" => told.refuse(item, "force_error_after: errors are not planted"),
            "startcmd" | "endcmd" => told.note(item, format!("{key}: commands are not run")),
            "formatsds" if !off => told.note(item, "formatsds: files are laid out by a fill step"),
            "loop" => told.note(item, "loop: the runs are made once"),
            "dedupsets" | "deduphotsets" | "dedupflipflop" | "dedupacross" | "dedupmaxkey" => {
                told.note(item, format!("{key}: duplicates are spread evenly"));
            }
            "pattern" | "pattern_buffer" => {
                told.note(item, format!("{key}: data is random, or as the ratios say"));
            }
            "data_errors" | "abort_failed_skew" => {
                told.note(
                    item,
                    format!("{key}: the first I/O error ends a load; rates are checked"),
                );
            }
            "dedupratio" if objects.validates() => {
                told.note(item, "dedupratio: a block that is checked has no duplicate");
            }
            "compratio" | "compression" | "dedupratio" | "dedupunit" => {}
            _ => told.free(item, format!("{key}: it is about VDBench's own working or output")),
        }
    }
}

#[cfg(test)]
mod tests;
