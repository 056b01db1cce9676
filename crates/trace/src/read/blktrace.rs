//! Binary recordings of blktrace: records of 48 bytes (`struct blk_io_trace`, include/uapi/linux/
//! blktrace_api.h) and what they carry, in the byte order of the machine that wrote them.

use super::{Event, Gathered};
use crate::TraceError;

/// Upper 24 bits of the magic number; the lowest 8 are the version.
const MAGIC: u32 = 0x65_61_74_00;
const RECORD: usize = 48;
const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
// Categories, in the upper 16 bits of the action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const PC: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

fn little(bytes: &[u8]) -> Option<bool> {
    let magic: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    match (u32::from_le_bytes(magic) & !0xff, u32::from_be_bytes(magic) & !0xff) {
        (MAGIC, _) => Some(true),
        (_, MAGIC) => Some(false),
        _ => None,
    }
}

pub(super) fn is_meant(bytes: &[u8]) -> bool {
    little(bytes).is_some()
}

struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    carried: usize,
}

fn record(bytes: &[u8], little: bool) -> Option<Record> {
    let part = bytes.get(..RECORD)?;
    let number = |at: usize, len: usize| {
        let digits = part[at..at + len].iter();
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if little { digits.rev().fold(0, add) } else { digits.fold(0, add) }
    };
    (number(0, 4) as u32 & !0xff == MAGIC).then(|| Record {
        time: number(8, 8),
        sector: number(16, 8),
        bytes: number(24, 4) as u32,
        action: number(28, 4) as u32,
        device: number(36, 4) as u32,
        carried: number(46, 2) as usize,
    })
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Result<Record, TraceError>> + '_ {
    let is_little = little(bytes).unwrap_or(true);
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| rest.len() >= RECORD)?;
        match record(rest, is_little) {
            Some(found) => {
                at += RECORD + found.carried;
                Some(Ok(found))
            }
            None => {
                let byte = at;
                at = bytes.len();
                Some(Err(TraceError(format!("byte {byte}: is no record of blktrace"))))
            }
        }
    })
}

pub(super) fn read(bytes: &[u8], into: &mut Gathered) -> Result<(), TraceError> {
    let is = |action: u32| move |found: &Record| found.action & 0xffff == action;
    let start = match records(bytes).flatten().any(|found| is(QUEUE)(&found)) {
        true => QUEUE,
        false => ISSUE,
    };
    for found in records(bytes) {
        let found = found?;
        let kinds = found.action >> 16;
        if kinds & NOTIFY != 0 {
            continue;
        }
        let disk = format!("{},{}", found.device >> 20, found.device & 0xf_ffff);
        let offset = found.sector.saturating_mul(512);
        if is(COMPLETE)(&found) {
            into.add(Event::Completed { time: found.time, disk, offset });
        } else if is(start)(&found) {
            into.add(match () {
                () if kinds & DISCARD != 0 => Event::Other("discards"),
                () if kinds & PC != 0 => Event::Other("commands past the block layer"),
                () if found.bytes == 0 && kinds & FLUSH != 0 => Event::Other("flushes"),
                () => Event::Request {
                    time: found.time,
                    disk,
                    offset,
                    len: u64::from(found.bytes),
                    write: kinds & WRITE != 0,
                },
            });
        }
    }
    Ok(())
}
