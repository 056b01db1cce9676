//! Values in columns: MSR Cambridge, FIU, SPC, and files whose first line names its columns.

use super::{Event, Gathered, Options, TimeUnit, at_line};
use crate::TraceError;

/// Where things stand in a line.
#[derive(Clone, Debug)]
struct Columns {
    format: &'static str,
    separator: Option<char>,
    time: usize,
    time_ns: f64,
    kind: usize,
    offset: usize,
    offset_unit: u64,
    size: usize,
    size_unit: u64,
    disk: Option<usize>,
    names: bool,
    /// Nothing says the unit of its times.
    guessed: bool,
}

fn split(line: &str, separator: Option<char>) -> Vec<&str> {
    match separator {
        Some(separator) => line.split(separator).map(str::trim).collect(),
        None => line.split_whitespace().collect(),
    }
}

/// Read or write; none for what is neither.
fn direction(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" | "rs" | "ra" | "rm" | "readrequest" => Some(false),
        "w" | "write" | "ws" | "wfs" | "wm" | "writerequest" => Some(true),
        _ => None,
    }
}

fn columns(first: &str, options: &Options) -> Result<Columns, TraceError> {
    let separator = [',', ';', '\t'].into_iter().find(|separator| first.contains(*separator));
    let words = split(first, separator);
    let is_kind = |at: usize| words.get(at).is_some_and(|word| direction(word).is_some());
    let number = |at: usize| words.get(at).is_some_and(|word| word.parse::<f64>().is_ok());
    let base = Columns {
        format: "CSV",
        separator,
        time: 0,
        time_ns: 1e9,
        kind: 0,
        offset: 0,
        offset_unit: 1,
        size: 0,
        size_unit: 1,
        disk: None,
        names: false,
        guessed: false,
    };
    let unit = |fallback: TimeUnit| options.time_unit.unwrap_or(fallback).ns();
    if words.len() >= 6 && is_kind(3) && number(4) && number(5) {
        let time_ns = unit(TimeUnit::FileTime);
        let format = "MSR Cambridge";
        return Ok(Columns { format, time_ns, kind: 3, offset: 4, size: 5, disk: Some(2), ..base });
    }
    if words.len() >= 5 && is_kind(3) && number(0) && number(4) {
        let (format, time_ns) = ("SPC", unit(TimeUnit::Seconds));
        let disk = Some(0);
        return Ok(Columns {
            format,
            time: 4,
            time_ns,
            kind: 3,
            offset: 1,
            offset_unit: 512,
            size: 2,
            disk,
            ..base
        });
    }
    if words.len() >= 6 && is_kind(5) && number(3) && number(4) {
        let (format, time_ns) = ("FIU", unit(TimeUnit::Nanoseconds));
        return Ok(Columns {
            format,
            time_ns,
            kind: 5,
            offset: 3,
            offset_unit: 512,
            size: 4,
            size_unit: 512,
            ..base
        });
    }
    named(&words, options, base)
}

/// By the names in the first line.
fn named(words: &[&str], options: &Options, mut base: Columns) -> Result<Columns, TraceError> {
    let names: Vec<String> =
        words.iter().map(|word| word.to_ascii_lowercase().replace([' ', '-', '"'], "_")).collect();
    let find = |wanted: &[&str]| {
        names.iter().position(|name| wanted.iter().any(|w| name.trim_matches('_').starts_with(w)))
    };
    let missing = |what: &str| {
        TraceError(format!(
            "is no recording that fathom knows: its first line is no header with a column for {what}; \
             blktrace, blkparse, fio iolog, MSR Cambridge, FIU, SPC and CSV with a header can be read"
        ))
    };
    let time = find(&["time", "ts", "arrival"]).ok_or_else(|| missing("the time"))?;
    let kind = find(&["type", "iotype", "io_type", "op", "rw", "direction", "command"])
        .ok_or_else(|| missing("reads and writes"))?;
    let offset = find(&["offset", "byte", "address"]);
    let sector = find(&["lba", "sector", "block"]);
    let size = find(&["size", "len", "bytes"]);
    let sectors = find(&["nsectors", "sectors", "blocks", "count"]);
    let (offset, offset_unit) = offset
        .map(|at| (at, 1))
        .or_else(|| sector.map(|at| (at, 512)))
        .ok_or_else(|| missing("the address"))?;
    let (size, size_unit) = size
        .map(|at| (at, 1))
        .or_else(|| sectors.map(|at| (at, 512)))
        .ok_or_else(|| missing("the size"))?;
    let ends = |unit: &str| names[time].trim_matches('_').ends_with(unit);
    let unit = match () {
        () if ends("_ns") => Some(TimeUnit::Nanoseconds),
        () if ends("_us") => Some(TimeUnit::Microseconds),
        () if ends("_ms") => Some(TimeUnit::Milliseconds),
        () if ends("_s") => Some(TimeUnit::Seconds),
        () => None,
    };
    let said = options.time_unit.or(unit);
    let time_ns = said.unwrap_or(TimeUnit::Seconds).ns();
    base.guessed = said.is_none();
    let disk = find(&["disk", "lun", "device", "asu", "volume"]);
    Ok(Columns {
        time,
        time_ns,
        kind,
        offset,
        offset_unit,
        size,
        size_unit,
        disk,
        names: true,
        ..base
    })
}

/// A time in ns, exact where it is a whole number or has up to nine decimals.
fn time_of(word: &str, unit_ns: f64) -> Option<u64> {
    if let Ok(whole) = word.parse::<u64>() {
        return whole.checked_mul(unit_ns as u64);
    }
    let (whole, fraction) = word.split_once('.')?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    whole.checked_mul(unit_ns as u64)?.checked_add((fraction * unit_ns).round() as u64)
}

pub(super) fn read(
    text: &str,
    first: &str,
    options: &Options,
    into: &mut Gathered,
) -> Result<&'static str, TraceError> {
    let columns = columns(first, options)?;
    if columns.guessed {
        into.note("its times are taken as seconds: nothing says their unit");
    }
    let lines = text.lines().enumerate().map(|(number, line)| (number, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    for (number, line) in lines.skip(usize::from(columns.names)) {
        let words = split(line, columns.separator);
        let event = event(&words, &columns).map_err(|why| at_line(number, why))?;
        into.add(event);
    }
    Ok(columns.format)
}

fn event(words: &[&str], columns: &Columns) -> Result<Event, &'static str> {
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let Some(write) = direction(word(columns.kind)) else {
        return match word(columns.kind) {
            "" => Err("has too few columns"),
            _ => Ok(Event::Other("neither read nor write")),
        };
    };
    let number = |at: usize, unit: u64| word(at).parse::<u64>().ok()?.checked_mul(unit);
    Ok(Event::Request {
        time: time_of(word(columns.time), columns.time_ns).ok_or("its time is no number")?,
        disk: columns.disk.map_or("", word).to_owned(),
        offset: number(columns.offset, columns.offset_unit).ok_or("its address is no number")?,
        len: number(columns.size, columns.size_unit).ok_or("its size is no number")?,
        write,
    })
}
