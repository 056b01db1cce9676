//! fio's job files and command lines (`docs/import.md` lists what becomes of each option).

mod job;
mod load;
mod options;
mod syntax;
mod value;

use super::told::Told;
use super::{Imported, Note, Surroundings, word};
use crate::reader::{PlanError, PlanErrors};
use job::Options;
use load::Job;
pub(super) use options::names;
use std::fmt::Write as _;
use syntax::{Section, of_arguments, sections};

/// Longest name of a step.
const NAME_MAX: usize = 60;

/// Reads a job file.
///
/// # Errors
/// Every mistake with file and line, and every construct without which a job would not be the same.
pub fn fio_jobs(file: &str, text: &str, around: &dyn Surroundings) -> Result<Imported, PlanErrors> {
    let mut errors = Vec::new();
    let found = sections(file, text, around, &mut errors);
    let stem = file.rsplit('/').next().unwrap_or(file);
    import(stem.trim_end_matches(".fio"), file, &found, errors)
}

/// Reads the command-line form: `--name=job --rw=randread ...`.
///
/// # Errors
/// As [`fio_jobs`].
pub fn fio_arguments(arguments: &[String]) -> Result<Imported, PlanErrors> {
    let mut errors = Vec::new();
    let found = of_arguments(arguments, &mut errors);
    import("fio", "the command line", &found, errors)
}

fn import(
    name: &str,
    file: &str,
    found: &[Section],
    errors: Vec<PlanError>,
) -> Result<Imported, PlanErrors> {
    let mut told = Told { errors, ..Told::default() };
    let mut globals: Vec<&Section> = Vec::new();
    let mut jobs: Vec<Job> = Vec::new();
    for section in found {
        if section.is_global() {
            globals.push(section);
            continue;
        }
        let options = Options::of(&globals, section, &mut told);
        jobs.extend(load::job(section, &options, &mut told));
    }
    if jobs.is_empty() && told.errors.is_empty() {
        told.errors.push(super::mistake(file, 1, "there is no job in it"));
    }
    if !told.errors.is_empty() {
        told.sort();
        return Err(PlanErrors(told.errors));
    }
    let targets = targets(&jobs, file, &mut told);
    let plan = plan_text(name, file, &jobs, &targets, &mut told);
    if !told.errors.is_empty() {
        return Err(PlanErrors(told.errors));
    }
    told.sort();
    Ok(Imported { plan, targets, notes: told.notes })
}

/// The files of all jobs, each once.
fn targets(jobs: &[Job], file: &str, told: &mut Told) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in jobs.iter().flat_map(|job| &job.files) {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    for job in jobs.iter().filter(|job| job.files.len() > 1) {
        told.note(
            &job.head,
            format!(
                "[{}]: fio shares the iodepth, size and rate of a job among its files; here each of the {} \
                 gets them whole",
                job.name,
                job.files.len()
            ),
        );
    }
    let without = jobs.iter().filter(|job| job.files.is_empty()).count();
    if without > 0 && (jobs.len() > 1 || !all.is_empty()) {
        told.notes.push(Note {
            file: file.to_owned(),
            line: 0,
            text: format!(
                "{without} jobs name no file: fio makes one for each; here they share the target, or one \
                 scratch file"
            ),
            differs: true,
        });
    }
    all
}

/// Jobs between two walls run side by side: a step.
fn plan_text(name: &str, file: &str, jobs: &[Job], targets: &[String], told: &mut Told) -> String {
    let mut out =
        format!("name = \"{}\"\ntitle = \"from {}\"\n", word(name, NAME_MAX), word(file, NAME_MAX));
    if let Some(seed) = jobs.iter().find_map(|job| job.seed) {
        let _ = writeln!(out, "seed = {}", seed.min(i64::MAX as u64));
    }
    let scratch = jobs.iter().filter_map(|job| job.scratch).max();
    if let Some(bytes) = scratch {
        let _ = writeln!(out, "scratch = \"{bytes}\"");
    }
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in jobs {
        match groups.last_mut() {
            Some(group) if !job.stonewall => group.push(job),
            _ => groups.push(vec![job]),
        }
    }
    let mut names: Vec<String> = Vec::new();
    for group in groups {
        step(&mut out, &group, (targets, &mut names), told);
    }
    out
}

fn step(
    out: &mut String,
    group: &[&Job],
    (targets, names): (&[String], &mut Vec<String>),
    told: &mut Told,
) {
    let Some(first) = group.first() else { return };
    let mut name = word(&first.name, NAME_MAX);
    if name.is_empty() || names.contains(&name) {
        name = format!("{name}-{}", names.len() + 1);
    }
    names.push(name.clone());
    together(group, told);
    let delay = group.iter().map(|job| job.delay_s).fold(0.0, f64::max);
    if delay > 0.0 {
        let _ = write!(out, "\n[[step]]\nname = \"{name}-delay\"\nidle = \"{delay}s\"\n");
    }
    let _ = write!(out, "\n[[step]]\nname = \"{name}\"\n");
    let time = group.iter().filter_map(|job| job.time_s).fold(0.0, f64::max);
    let ramp = group.iter().map(|job| job.ramp_s).fold(0.0, f64::max);
    if time > 0.0 {
        let _ = writeln!(out, "time = \"{time}s\"");
    }
    if ramp > 0.0 {
        let _ = writeln!(out, "ramp = \"{ramp}s\"");
    }
    match group_amount(group) {
        Some(amount) => {
            let _ = writeln!(out, "amount = \"{amount}\"");
        }
        None if time > 0.0 || group.iter().all(|job| job.replays) => {}
        None => told.refuse(
            &first.head,
            "jobs side by side without a runtime move a size and a share; give both alike, or a runtime",
        ),
    }
    loads(out, group, targets, |job| &job.loads);
    if group.iter().any(|job| !job.read_back.is_empty()) {
        let _ = write!(out, "\n[[step]]\nname = \"{name}-verify\"\namount = \"1x\"\n");
        loads(out, group, targets, |job| &job.read_back);
    }
}

fn loads(out: &mut String, group: &[&Job], targets: &[String], of: impl Fn(&Job) -> &Vec<String>) {
    for job in group {
        for load in of(job) {
            let _ = write!(out, "\n[[step.load]]\n{load}\n");
            let on: Vec<String> = job
                .files
                .iter()
                .filter_map(|file| targets.iter().position(|target| target == file))
                .map(|n| (n + 1).to_string())
                .collect();
            if !on.is_empty() && on.len() < targets.len() {
                let _ = writeln!(out, "targets = [{}]", on.join(", "));
            }
        }
    }
}

/// What jobs side by side have apart in fio, and together here.
fn together(group: &[&Job], told: &mut Told) {
    let Some((first, rest)) = group.split_first() else { return };
    for job in rest {
        if job.time_s != first.time_s || job.ramp_s != first.ramp_s || job.delay_s != first.delay_s
        {
            told.note(
                &job.head,
                format!(
                    "[{}] has another runtime, ramp_time or startdelay than [{}] beside it: here they \
                     begin and end together, with the longest",
                    job.name, first.name
                ),
            );
        }
        if job.time_s.is_none() && job.amount != first.amount {
            told.note(
                &job.head,
                format!(
                    "[{}] moves another amount than [{}] beside it: here each moves as much as the one \
                     that moves most",
                    job.name, first.name
                ),
            );
        }
    }
}

/// What each load of a step moves before it ends: the most that one does.
fn group_amount(group: &[&Job]) -> Option<String> {
    let all: Vec<&String> = group.iter().map(|job| job.amount.as_ref()).collect::<Option<_>>()?;
    let bytes: Option<Vec<u64>> = all.iter().map(|text| text.parse().ok()).collect();
    if let Some(most) = bytes.and_then(|bytes| bytes.into_iter().max()) {
        return Some(most.to_string());
    }
    let passes: Option<Vec<f64>> =
        all.iter().map(|text| text.strip_suffix('x')?.parse().ok()).collect();
    passes.map(|passes| format!("{}x", passes.into_iter().fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests;
