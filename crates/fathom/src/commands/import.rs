//! Other tools' files: as plans, and `fathom plan convert`.

use crate::args::{Convert, Json};
use crate::commands::parse_settings;
use crate::exit::{Exit, usage};
use crate::print;
use plan::Plan;
use plan::import::{
    Fate, Imported, Row, Surroundings, fio_arguments, fio_jobs, iometer_configuration, table,
    vdbench_parameters,
};
use serde_json::{Value, json};

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

/// The tool that a file belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Fio,
    Vdbench,
    Iometer,
    /// A recording, whoever made it.
    Trace,
}

/// By the ending of its name.
fn tool_of(name: &str) -> Option<Tool> {
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match () {
        () if ends(&[".fio", ".job", ".ini"]) => Some(Tool::Fio),
        () if ends(&[".vdb", ".parm", ".vdbench"]) => Some(Tool::Vdbench),
        () if ends(&[".icf"]) => Some(Tool::Iometer),
        () if ends(&TRACE_ENDINGS) => Some(Tool::Trace),
        () => None,
    }
}

/// Endings that recordings usually have; a plan may name any file.
const TRACE_ENDINGS: [&str; 7] =
    [".csv", ".iolog", ".blkparse", ".blktrace", ".blktrace.0", ".spc", ".trace"];

/// A plan that replays a recording; `--set` changes how.
fn replay(name: &str) -> Imported {
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let plan = format!(
        "name = \"replay\"\ntitle = \"Replay of a recording\"\nscratch = \"$size\"\n\n[params]\n\
         speed = {{ default = \"1\", about = \"recorded seconds in a second, or max\" }}\n\
         fit = {{ default = \"auto\", about = \"addresses: auto, scale or wrap\" }}\n\
         read = {{ default = 50, min = 0, max = 100, about = \"100 replays reads only, 0 writes only\" }}\n\
         depth = {{ default = 256, min = 1, max = 4096, about = \"most requests on their way\" }}\n\
         size = {{ default = \"1GiB\", min = \"16MiB\", about = \"size of the scratch file\" }}\n\n\
         [[step]]\nname = \"replay\"\nload = {{ trace = \"{quoted}\", speed = \"$speed\", fit = \"$fit\", \
         read = \"$read\", depth = \"$depth\" }}\n"
    );
    Imported { plan, targets: Vec::new(), notes: Vec::new() }
}

/// Whether a file is one of another tool, by its name.
pub(crate) fn is_meant(name: &str) -> bool {
    tool_of(name).is_some()
}

/// Reads a file; `settings` are variables where its tool has some, and are used up then.
fn read(name: &str, settings: &mut Vec<(String, String)>) -> anyhow::Result<Imported> {
    if tool_of(name) == Some(Tool::Trace) {
        return Ok(replay(name));
    }
    let text = std::fs::read(name)
        .map_err(|error| usage(format!("{name}: the file cannot be read: {error}")))?;
    // Old files are often not in UTF-8; what matters in them is ASCII.
    let text = String::from_utf8_lossy(&text);
    match tool_of(name) {
        Some(Tool::Vdbench) => {
            Ok(vdbench_parameters(name, &text, &std::mem::take(settings), &Host)?)
        }
        Some(Tool::Iometer) => Ok(iometer_configuration(name, &text)?),
        _ => Ok(fio_jobs(name, &text, &Host)?),
    }
}

/// The plan of another tool's file, and the targets it names. Says what differs.
pub(crate) fn plan(
    name: &str,
    settings: &[(String, String)],
) -> anyhow::Result<(Plan, Vec<String>)> {
    let mut settings = settings.to_vec();
    let found = read(name, &mut settings)?;
    found.notes.iter().filter(|note| note.differs).for_each(|note| eprintln!("fathom: {note}"));
    Ok((plan::parse(name, &found.plan, &settings)?, found.targets))
}

/// The plan of options of fio's command line, or of a job file alone, and the targets they name.
pub(crate) fn fio_plan(arguments: &[String]) -> anyhow::Result<(Plan, Vec<String>)> {
    let found = match arguments {
        [file] if !file.starts_with('-') => read(file, &mut Vec::new())?,
        _ => fio_arguments(arguments)?,
    };
    found.notes.iter().filter(|note| note.differs).for_each(|note| eprintln!("fathom: {note}"));
    Ok((plan::parse("fio", &found.plan, &[])?, found.targets))
}

/// `fathom plan convert`.
pub(crate) fn convert(args: &Convert) -> anyhow::Result<Exit> {
    let found = match args.file.as_deref() {
        Some(file) if is_meant(file) => read(file, &mut parse_settings(&args.settings)?)?,
        Some(file) => {
            return Err(usage(format!(
                "{file}: job files of fio end in .fio, .job or .ini, parameter files of VDBench in .vdb \
                 or .parm, configurations of Iometer in .icf, recordings in .csv, .iolog and others; rename it"
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

/// `fathom plan options`: found by importing a file with each of them.
pub(crate) fn options(args: &Json) -> anyhow::Result<Exit> {
    let rows = table();
    if args.json {
        let row = |row: &Row| {
            json!({
                "place": row.place, "name": row.name, "value": row.value, "fate": row.fate.word(),
                "text": row.text,
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        print::json(&json!({"fathom_json": report::JSON_VERSION, "options": rows}))?;
        return Ok(Exit::Done);
    }
    let head = ["Place", "Option", "Tried with", "Becomes", "Told"];
    let line = |row: &Row| {
        let cells = [row.place, row.name, row.value, row.fate.word(), row.text.as_str()];
        cells.map(str::to_owned).to_vec()
    };
    print::out(&report::table_of(&head, &rows.iter().map(line).collect::<Vec<_>>()))?;
    for fate in [Fate::Honoured, Fate::NotNeeded, Fate::Warned, Fate::Refused] {
        let count = rows.iter().filter(|row| row.fate == fate).count();
        print::out(&format!("{} {}\n", count, fate.word()))?;
    }
    Ok(Exit::Done)
}
