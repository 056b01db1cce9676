//! What a reader must know first: whether the figures are valid, what was found, and the figures that
//! matter most.

use super::{Block, Notice, Section, Weight, headlines};
use crate::text::state_line;
use base::units::{Nanos, format_span};
use store::{CellRecord, RunFile, State, VerdictRow};

/// The summary.
pub(super) fn section(run: &RunFile, figures: &[Section], found: &[analysis::Insight]) -> Section {
    let mut section = Section::new("Summary", 2);
    section.add(Block::Notice(verdict(run)));
    for finding in found {
        section.add(Block::Notice(notice_of(finding, figures)));
    }
    for notice in checks(run) {
        section.add(Block::Notice(notice));
    }
    if let Some(sheet) = headlines::sheet(run) {
        section.add(Block::Table(sheet));
    }
    let measured: u64 = run.cells.iter().map(|cell| cell.len.0).sum();
    let mut facts = vec![
        ("Started".to_owned(), moment(run.meta("started_unix_ms"))),
        ("Ended".to_owned(), moment(run.meta("ended_unix_ms"))),
        (
            "Measured".to_owned(),
            format!("{} in {} cells", format_span(Nanos(measured)), run.cells.len()),
        ),
        ("Run file".to_owned(), file_name(run)),
    ];
    facts.extend(run.targets.iter().map(|target| {
        let text = |key: &str| target["facts"][key].as_str().unwrap_or_default().to_owned();
        let size = base::units::Bytes(target["size_bytes"].as_u64().unwrap_or(0));
        let name = target["name"].as_str().unwrap_or_default();
        let words = [name.to_owned(), text("model"), base::units::format_bytes_decimal(size)];
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        ("Target".to_owned(), words.join(", "))
    }));
    section.add(Block::Facts(facts));
    section
}

/// The file's name without the folder: a report may be published.
pub(super) fn file_name(run: &RunFile) -> String {
    run.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A Unix time in milliseconds as a date.
pub(super) fn moment(unix_ms: &str) -> String {
    let time = unix_ms.parse().ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "n/a".into(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn verdict(run: &RunFile) -> Notice {
    let warned = run.verdicts.iter().filter(|verdict| verdict.status == "warning").count();
    let (weight, title) = match run.state {
        State::Done if warned == 0 => (Weight::Good, "Valid".to_owned()),
        State::Done => (Weight::Warning, format!("Valid, with {warned} warnings")),
        State::Running => (Weight::Note, "The run goes on".to_owned()),
        State::Invalid => (Weight::Invalid, "Not valid".to_owned()),
        _ => (Weight::Invalid, "Not complete".to_owned()),
    };
    let text = match run.state {
        State::Done => format!("No check failed. Passed: {}.", passed(run)),
        state => state_line(state).to_owned(),
    };
    Notice { weight, title, text, figure: None }
}

/// Names of the checks that were made and passed: what was not checked is not claimed.
fn passed(run: &RunFile) -> String {
    let names =
        run.verdicts.iter().filter(|v| v.status == "pass").map(|v| v.name.replace('-', " "));
    let names: std::collections::BTreeSet<String> = names.collect();
    match names.is_empty() {
        true => "none, as none could be made here".into(),
        false => names.into_iter().collect::<Vec<_>>().join(", "),
    }
}

fn notice_of(finding: &analysis::Insight, figures: &[Section]) -> Notice {
    let titles =
        figures.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Figure(figure) => Some(figure.title().to_owned()),
            _ => None,
        });
    let shows = |title: &String| {
        title.starts_with(finding.kind.figure())
            && finding.place.as_ref().is_none_or(|place| stands_for(title, place))
    };
    let titles: Vec<String> = titles.collect();
    let figure = titles.iter().find(|title| shows(title));
    Notice {
        weight: if finding.kind.is_trouble() { Weight::Warning } else { Weight::Note },
        title: finding.title.clone(),
        text: finding.text.clone(),
        figure: figure.cloned(),
    }
}

/// Whether a title names a step: whole, or without the chapter it stands in.
fn stands_for(title: &str, path: &str) -> bool {
    let step = analysis::step_path(path);
    let inner = step.split_once('/').map(|(_, inner)| inner);
    title.contains(&step) || inner.is_some_and(|inner| title.contains(inner))
}

/// Verdicts that are no plain pass, those of one text together.
fn checks(run: &RunFile) -> Vec<Notice> {
    let mut all: Vec<(Notice, Vec<String>)> = Vec::new();
    for (word, weight, title) in [
        ("fail", Weight::Invalid, "check failed, "),
        ("warning", Weight::Warning, ""),
        ("info", Weight::Note, ""),
    ] {
        // A plateau that came too early is told as a finding.
        let told = |row: &&VerdictRow| row.status == word && row.name != "drive-fills";
        for row in run.verdicts.iter().filter(told) {
            let cell = run.cells.iter().find(|cell| Some(cell.id) == row.cell);
            let name = cell.map(cell_name).unwrap_or_default();
            match all.iter_mut().find(|(notice, _)| notice.text == row.text) {
                Some((_, names)) => names.push(name),
                None => {
                    let text = row.text.clone();
                    let title = format!("{title}{}", row.name.replace('-', " "));
                    all.push((Notice { weight, title, text, figure: None }, vec![name]));
                }
            }
        }
    }
    let with_names = |(notice, names): (Notice, Vec<String>)| {
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let text = match names.as_slice() {
            [] => notice.text,
            [one] => format!("{one}: {}", notice.text),
            [one, more @ ..] => format!("{one} and {} more: {}", more.len(), notice.text),
        };
        Notice { text, ..notice }
    };
    all.into_iter().map(with_names).collect()
}

fn cell_name(cell: &CellRecord) -> String {
    match cell.label.is_empty() {
        true => cell.path.clone(),
        false => format!("{} {}", cell.path, cell.label),
    }
}
