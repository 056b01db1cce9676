//! Sections and options of a job file, as fio reads them: comments anywhere in a line, any section whose name
//! begins with `global` is one, the last of equal options wins.

use crate::import::{Surroundings, mistake};
use crate::reader::PlanError;

/// Files that include files that include files.
const DEPTH_MAX: usize = 16;

/// An option as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// None for an option without a value, which means yes.
    pub(super) value: Option<String>,
    pub(super) file: String,
    pub(super) line: usize,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) entries: Vec<Entry>,
}

impl Section {
    pub(super) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// The sections of a file in order.
pub(super) fn sections(
    file: &str,
    text: &str,
    around: &dyn Surroundings,
    errors: &mut Vec<PlanError>,
) -> Vec<Section> {
    let mut found = Vec::new();
    read(file, text, (around, 0), &mut found, errors);
    found
}

fn read(
    file: &str,
    text: &str,
    (around, depth): (&dyn Surroundings, usize),
    found: &mut Vec<Section>,
    errors: &mut Vec<PlanError>,
) {
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        let bare = whole.split([';', '#']).next().unwrap_or_default().trim();
        if bare.is_empty() {
            continue;
        }
        if let Some(rest) = bare.strip_prefix('[') {
            match rest.split_once(']') {
                Some((name, _)) if depth == 0 => found.push(Section {
                    name: name.to_owned(),
                    file: file.to_owned(),
                    line,
                    entries: Vec::new(),
                }),
                Some(_) => errors.push(mistake(file, line, "an included file holds no sections")),
                None => errors.push(mistake(file, line, "a section's name ends with ]")),
            }
            continue;
        }
        if found.is_empty() {
            errors.push(mistake(file, line, "an option stands before the first [section]"));
            continue;
        }
        if let Some(path) = bare.strip_prefix("include").filter(|p| p.starts_with([' ', '\t'])) {
            include(file, line, path.trim(), (around, depth), found, errors);
            continue;
        }
        let entry = entry(file, line, bare, around);
        if let Some(section) = found.last_mut() {
            section.entries.push(entry);
        }
    }
}

fn include(
    file: &str,
    line: usize,
    path: &str,
    (around, depth): (&dyn Surroundings, usize),
    found: &mut Vec<Section>,
    errors: &mut Vec<PlanError>,
) {
    if depth + 1 >= DEPTH_MAX {
        return errors.push(mistake(file, line, "too many files include each other"));
    }
    // Relative to the file that includes it.
    let path = match file.rsplit_once('/') {
        Some((folder, _)) if !path.starts_with('/') => format!("{folder}/{path}"),
        _ => path.to_owned(),
    };
    match around.include(&path) {
        Ok(text) => read(&path, &text, (around, depth + 1), found, errors),
        Err(why) => errors.push(mistake(file, line, format!("include {path}: {why}"))),
    }
}

fn entry(file: &str, line: usize, bare: &str, around: &dyn Surroundings) -> Entry {
    let (key, value) = match bare.split_once('=') {
        Some((key, value)) => (key.trim(), Some(variables(value.trim(), around))),
        None => (bare, None),
    };
    Entry { key: key.to_owned(), value, file: file.to_owned(), line }
}

/// `${NAME}` stands for a variable of the environment.
fn variables(value: &str, around: &dyn Surroundings) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&around.variable(name));
        rest = tail;
    }
    out + rest
}

/// The command-line form: `--name=job` begins a job, what stands before the first is for all.
pub(super) fn of_arguments(arguments: &[String], errors: &mut Vec<PlanError>) -> Vec<Section> {
    const FILE: &str = "the command line";
    let section = |name: &str, line| Section {
        name: name.to_owned(),
        file: FILE.to_owned(),
        line,
        entries: Vec::new(),
    };
    let mut found = vec![section("global", 0)];
    for (at, argument) in arguments.iter().enumerate() {
        let line = at + 1;
        let Some(option) = argument.strip_prefix("--") else {
            errors.push(mistake(FILE, line, format!("{argument}: options begin with --")));
            continue;
        };
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (option, None),
        };
        if key == "name" {
            let name = value.unwrap_or_default();
            found.push(section(&name, line));
        } else if let Some(last) = found.last_mut() {
            // On the command line fio takes - and _ alike.
            let key = key.replace('-', "_");
            last.entries.push(Entry { key, value, file: FILE.to_owned(), line });
        }
    }
    found
}
