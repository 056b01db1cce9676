//! Other tools' files: as plans, and `fathom plan convert`.

use crate::args::Convert;
use crate::exit::{Exit, usage};
use crate::print;
use plan::Plan;
use plan::import::{Imported, Surroundings, fio_arguments, fio_jobs};

/// Files and the environment, for what a job file asks of them.
struct Host;

impl Surroundings for Host {
    fn include(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> String {
        std::env::var(name).unwrap_or_default()
    }
}

/// Whether a file is one of another tool, by its name.
pub(crate) fn is_meant(name: &str) -> bool {
    [".fio", ".job", ".ini"].iter().any(|ending| name.ends_with(ending))
}

fn read(name: &str) -> anyhow::Result<Imported> {
    let text = std::fs::read_to_string(name)
        .map_err(|error| usage(format!("{name}: the job file cannot be read: {error}")))?;
    Ok(fio_jobs(name, &text, &Host)?)
}

/// The plan of another tool's file, and the targets it names. Says what differs.
pub(crate) fn plan(
    name: &str,
    settings: &[(String, String)],
) -> anyhow::Result<(Plan, Vec<String>)> {
    let found = read(name)?;
    found.notes.iter().filter(|note| note.differs).for_each(|note| eprintln!("fathom: {note}"));
    Ok((plan::parse(name, &found.plan, settings)?, found.targets))
}

/// `fathom plan convert`.
pub(crate) fn convert(args: &Convert) -> anyhow::Result<Exit> {
    let found = match args.file.as_deref() {
        Some(file) if is_meant(file) => read(file)?,
        Some(file) => {
            return Err(usage(format!(
                "{file}: job files of fio end in .fio, .job or .ini; those of other tools cannot be \
                 read by this version"
            )));
        }
        None => fio_arguments(&args.fio)?,
    };
    let name = args.file.as_deref().unwrap_or("the command line");
    plan::parse(name, &found.plan, &[])?;
    for note in &found.notes {
        eprintln!("fathom: {note}{}", if note.differs { "" } else { " (nothing differs)" });
    }
    if !found.targets.is_empty() {
        eprintln!("fathom: targets: {}", found.targets.join(" "));
    }
    print::out(&found.plan)?;
    Ok(Exit::Done)
}
