//! Text logs of fio (`write_iolog`), version 2 without times but with waits, version 3 with a time in
//! front of each line.

use super::{Event, Gathered, Options, TimeUnit, at_line};
use crate::TraceError;

/// What an action is, besides reads and writes.
fn other(action: &str) -> Option<&'static str> {
    match action {
        "sync" | "datasync" => Some("flushes"),
        "trim" => Some("discards"),
        _ => None,
    }
}

struct Action<'a> {
    file: &'a str,
    name: &'a str,
    numbers: Option<(u64, u64)>,
}

fn action<'a>(words: &[&'a str]) -> Option<Action<'a>> {
    match words {
        [file, name] => Some(Action { file, name, numbers: None }),
        [file, name, a] => Some(Action { file, name, numbers: Some((a.parse().ok()?, 0)) }),
        [file, name, a, b, ..] => {
            let numbers = Some((a.parse().ok()?, b.parse().ok()?));
            Some(Action { file, name, numbers })
        }
        _ => None,
    }
}

fn take(action: &Action<'_>, time: u64, into: &mut Gathered) -> Result<(), &'static str> {
    match (action.name, action.numbers) {
        ("add" | "open" | "close", _) => {}
        ("read" | "write", Some((offset, len))) => into.add(Event::Request {
            time,
            disk: action.file.to_owned(),
            offset,
            len,
            write: action.name == "write",
        }),
        (name, _) => into.add(Event::Other(other(name).ok_or("an action that fio has not")?)),
    }
    Ok(())
}

fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let all = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("fio version"));
    all.skip(1)
        .map(|(number, line)| (number, line.split_whitespace().collect()))
        .filter(|(_, words): &(_, Vec<&str>)| !words.is_empty())
}

/// `file action [offset length]`, and `file wait MICROSECONDS`, counted from the wait before.
pub(super) fn read_2(text: &str, into: &mut Gathered) -> Result<(), TraceError> {
    let mut time = 0u64;
    for (number, words) in lines(text) {
        let found = action(&words).ok_or_else(|| at_line(number, "is no action on a file"))?;
        if let ("wait", Some((microseconds, _))) = (found.name, found.numbers) {
            time = time.saturating_add(microseconds.saturating_mul(1000));
            continue;
        }
        take(&found, time, into).map_err(|why| at_line(number, why))?;
    }
    Ok(())
}

/// `time file action [offset length]`; times are in microseconds since fio 3.31, in milliseconds before.
pub(super) fn read_3(text: &str, options: &Options, into: &mut Gathered) -> Result<(), TraceError> {
    if options.time_unit.is_none() {
        into.note("its times are taken as microseconds, as fio writes them since 3.31");
    }
    let unit = options.time_unit.unwrap_or(TimeUnit::Microseconds).ns();
    for (number, words) in lines(text) {
        let time = words.first().and_then(|word| word.parse::<u64>().ok());
        let (Some(time), Some(found)) = (time, action(&words[1..])) else {
            return Err(at_line(number, "is no time and action on a file"));
        };
        let time = (time as f64 * unit) as u64;
        take(&found, time, into).map_err(|why| at_line(number, why))?;
    }
    Ok(())
}
