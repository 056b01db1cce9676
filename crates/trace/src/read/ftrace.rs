//! Text of the kernel's own tracing (`trace_pipe`, `trace-cmd report`) with the events of the block
//! layer: `fio-12 [001] ..... 45.678901: block_bio_queue: 7,0 R 2048 + 8 [fio]`.

use super::{Event, Gathered};
use crate::TraceError;

pub(super) fn is_meant(line: &str) -> bool {
    line.contains(": block_") || line.starts_with("# tracer:") || line.contains(" EVENTS]")
}

struct Line<'a> {
    time: u64,
    event: &'a str,
    device: &'a str,
    kind: &'a str,
    sector: u64,
    sectors: u64,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (head, tail) = line.split_once(": block_")?;
    let (seconds, fraction) = head.rsplit(' ').next()?.split_once('.')?;
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let time = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (event, rest) = tail.split_once(": ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let plus = words.iter().position(|word| *word == "+")?;
    Some(Line {
        time,
        event,
        device: words.first()?,
        kind: words.get(1)?,
        sector: words.get(plus.checked_sub(1)?)?.parse().ok()?,
        sectors: words.get(plus + 1)?.parse().ok()?,
    })
}

/// As applications asked (`block_bio_queue`), else as the driver was given (`block_rq_issue`).
pub(super) fn read(text: &str, into: &mut Gathered) -> Result<(), TraceError> {
    let lines = || text.lines().filter_map(parse);
    let asked = lines().any(|line| line.event == "bio_queue");
    let start = if asked { "bio_queue" } else { "rq_issue" };
    let lost = |line: &&str| line.contains(" EVENTS]") && line.contains("LOST ");
    for line in text.lines().filter(lost) {
        let n = line.split("LOST ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        (0..n.unwrap_or(1u64).min(1 << 20))
            .for_each(|_| into.add(Event::Other("lost by the recorder")));
    }
    for line in lines() {
        let (disk, offset) = (line.device.to_owned(), line.sector.saturating_mul(512));
        if line.event == "rq_complete" && line.sectors > 0 {
            into.add(Event::Completed { time: line.time, disk, offset });
        } else if line.event == start {
            into.add(match () {
                () if line.kind.contains('D') => Event::Other("discards"),
                () if line.sectors == 0 && line.kind.contains('F') => Event::Other("flushes"),
                () if !line.kind.contains(['R', 'W']) => Event::Other("neither read nor write"),
                () => Event::Request {
                    time: line.time,
                    disk,
                    offset,
                    len: line.sectors.saturating_mul(512),
                    write: line.kind.contains('W'),
                },
            });
        }
    }
    Ok(())
}
