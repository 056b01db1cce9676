//! A parameter file as VDBench reads it: one stream of `keyword=value` items, each of which belongs to the
//! object opened last.

use crate::import::{Note, Surroundings, mistake};
use crate::reader::PlanError;

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// In small letters.
    pub(super) key: String,
    /// One value, or those of a list.
    pub(super) values: Vec<String>,
    pub(super) file: String,
    pub(super) line: usize,
}

/// What reading gives.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) items: Vec<Item>,
    pub(super) notes: Vec<Note>,
    pub(super) errors: Vec<PlanError>,
}

/// Reads a file, with what it includes, and with `$name` and `!name` replaced.
pub(super) fn read(
    file: &str,
    text: &str,
    variables: &[(String, String)],
    around: &dyn Surroundings,
) -> Stream {
    let mut stream = Stream::default();
    let mut names: Vec<&(String, String)> = variables.iter().collect();
    // The longest first, so that $a does not eat the beginning of $ab.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    lines(file, text, (&names, around, false), &mut stream);
    stream
}

type Around<'a> = (&'a [&'a (String, String)], &'a dyn Surroundings, bool);

fn lines(file: &str, text: &str, around: Around<'_>, stream: &mut Stream) {
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        let bare = whole.trim_start();
        if bare.is_empty() || bare.starts_with(['/', '#', '*']) {
            continue;
        }
        if bare.to_ascii_lowercase().starts_with("eof") {
            return;
        }
        let bare = replaced(before_blank(bare), around.0);
        if let Some(path) = bare.strip_prefix("include=") {
            include(file, line, path, around, stream);
            continue;
        }
        for part in parts(&bare) {
            item(file, line, &part, stream);
        }
    }
}

/// What follows the first blank outside of quotes is a comment.
fn before_blank(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

fn replaced(line: &str, variables: &[&(String, String)]) -> String {
    let mut line = line.to_owned();
    for (name, value) in variables {
        for sign in ['$', '!'] {
            line = line.replace(&format!("{sign}{name}"), value);
        }
    }
    line
}

fn include(file: &str, line: usize, path: &str, around: Around<'_>, stream: &mut Stream) {
    let (names, surroundings, nested) = around;
    if nested {
        stream.errors.push(mistake(
            file,
            line,
            "an included file includes another: VDBench forbids it",
        ));
        return;
    }
    let path = match file.rsplit_once('/') {
        Some((folder, _)) if !path.starts_with('/') => format!("{folder}/{path}"),
        _ => path.to_owned(),
    };
    match surroundings.include(&path) {
        Ok(text) => lines(&path, &text, (names, surroundings, true), stream),
        Err(why) => stream.errors.push(mistake(file, line, format!("include={path}: {why}"))),
    }
}

/// Divides at commas outside of quotes and parentheses.
fn parts(line: &str) -> Vec<String> {
    let (mut quoted, mut depth) = (false, 0usize);
    let mut all = vec![String::new()];
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = all.last_mut() {
            last.push(c);
        }
    }
    // A line that ends in a comma goes on in the next.
    if all.len() > 1 && all.last().is_some_and(String::is_empty) {
        all.pop();
    }
    all
}

fn item(file: &str, line: usize, part: &str, stream: &mut Stream) {
    if part.is_empty() {
        stream.notes.push(Note {
            file: file.to_owned(),
            line,
            text: "two commas with nothing in between".into(),
            differs: false,
        });
        return;
    }
    let Some((key, value)) = part.split_once('=') else {
        stream.errors.push(mistake(file, line, format!("`{part}`: expected keyword=value")));
        return;
    };
    let value = value.trim();
    let list = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let values = match list {
        Some(inner) => parts(inner),
        None => vec![value.to_owned()],
    };
    let values: Vec<String> =
        values.into_iter().map(|v| v.trim_matches('"').trim().to_owned()).collect();
    if let Some(open) = values.iter().find(|value| value.starts_with(['$', '!'])) {
        let name = open.trim_start_matches(['$', '!']);
        let message = format!("{key}={open}: give it a value: --set {name}=...");
        stream.errors.push(mistake(file, line, message));
        return;
    }
    let key = key.trim().to_ascii_lowercase();
    stream.items.push(Item { key, values, file: file.to_owned(), line });
}
