//! Text of blkparse in its default format:
//! `8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]`.

use super::{Event, Gathered};
use crate::TraceError;

/// A recording has queue events (Q: as the application asked) or, when it was filtered, issue events
/// (D: as the driver was given).
pub(super) fn is_meant(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_device = |word: &str| {
        word.split_once(',').is_some_and(|(major, minor)| {
            major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()
        })
    };
    let device = words.next().is_some_and(is_device);
    device && words.next().is_some_and(|cpu| cpu.parse::<u32>().is_ok())
}

struct Line<'a> {
    device: &'a str,
    time: u64,
    action: &'a str,
    kind: &'a str,
    sector: u64,
    sectors: u64,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [device, _cpu, _sequence, time, _pid, action, kind, rest @ ..] = words.as_slice() else {
        return None;
    };
    let (seconds, fraction) = time.split_once('.')?;
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (sector, sectors) = match rest {
        [sector, "+", sectors, ..] => (sector.parse().ok()?, sectors.parse().ok()?),
        _ => (0, 0),
    };
    Some(Line { device, time, action, kind, sector, sectors })
}

pub(super) fn read(text: &str, into: &mut Gathered) -> Result<(), TraceError> {
    let lines = || text.lines().filter(|line| is_meant(line.trim())).filter_map(parse);
    let start = if lines().any(|line| line.action == "Q") { "Q" } else { "D" };
    for line in lines() {
        if line.action == "C" && line.kind.contains(['R', 'W']) {
            let (disk, offset) = (line.device.to_owned(), line.sector.saturating_mul(512));
            into.add(Event::Completed { time: line.time, disk, offset });
        }
        if line.action == start {
            into.add(event(&line));
        }
    }
    Ok(())
}

fn event(line: &Line<'_>) -> Event {
    let kind = line.kind;
    if kind.contains('D') {
        return Event::Other("discards");
    }
    if line.sectors == 0 {
        return Event::Other(if kind.contains('F') { "flushes" } else { "without data" });
    }
    if !kind.contains(['R', 'W']) {
        return Event::Other("neither read nor write");
    }
    Event::Request {
        time: line.time,
        disk: line.device.to_owned(),
        offset: line.sector.saturating_mul(512),
        len: line.sectors.saturating_mul(512),
        write: kind.contains('W'),
    }
}
