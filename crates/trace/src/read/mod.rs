//! Which format it is, and what all formats share.
//!
//! | format | from |
//! |---|---|
//! | blktrace | `blktrace` (binary, one file or one for each CPU), `blkparse -d` |
//! | blkparse | `blkparse` in its default text format |
//! | ftrace | events of the block layer as the kernel prints them (`trace_pipe`) |
//! | fio iolog 2 and 3 | `write_iolog` |
//! | MSR Cambridge | SNIA IOTTA: `timestamp,host,disk,type,offset,size,response`, Windows file times |
//! | FIU | SNIA IOTTA: `ts pid process lba blocks type major minor hash` |
//! | SPC | `asu,lba,size,opcode,timestamp` |
//! | CSV | any with a line of names that say time, type, offset or lba, and size or length |

mod blkparse;
mod blktrace;
mod csv;
mod ftrace;
mod iolog;

use crate::{Request, Trace, TraceError};
use std::collections::BTreeMap;

/// What the reader of a recording may be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only requests of this disk, by the name or number that the recording has for it.
    pub disk: Option<String>,
    /// Unit of its times, where the format does not say.
    pub time_unit: Option<TimeUnit>,
}

/// Units of time in recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// 1e-9 s.
    Nanoseconds,
    /// 1e-7 s, as Windows counts.
    FileTime,
    /// 1e-6 s.
    Microseconds,
    /// 1e-3 s.
    Milliseconds,
    /// 1 s.
    Seconds,
}

impl TimeUnit {
    /// In ns.
    pub fn ns(self) -> f64 {
        match self {
            TimeUnit::Nanoseconds => 1.0,
            TimeUnit::FileTime => 100.0,
            TimeUnit::Microseconds => 1e3,
            TimeUnit::Milliseconds => 1e6,
            TimeUnit::Seconds => 1e9,
        }
    }
}

/// What a line or a record of a recording is.
pub(crate) enum Event {
    Request {
        /// On the recording's own clock, in ns.
        time: u64,
        disk: String,
        offset: u64,
        len: u64,
        write: bool,
    },
    /// A request was completed.
    Completed { time: u64, disk: String, offset: u64 },
    /// Left out, by what it is: `flush`, `discard`.
    Other(&'static str),
}

/// Reads a recording.
///
/// # Errors
/// When the format is not known, a line cannot be read, or nothing is in it.
pub fn read(bytes: &[u8], options: &Options) -> Result<Trace, TraceError> {
    read_parts(&[bytes], options)
}

/// Reads a recording of several files, as blktrace makes one for each CPU.
///
/// # Errors
/// As [`read`].
pub fn read_parts(parts: &[&[u8]], options: &Options) -> Result<Trace, TraceError> {
    let mut gathered = Gathered::default();
    let mut format = "";
    for bytes in parts {
        format = read_part(bytes, options, &mut gathered)?;
    }
    gathered.finish(format, options)
}

fn read_part(
    bytes: &[u8],
    options: &Options,
    into: &mut Gathered,
) -> Result<&'static str, TraceError> {
    if blktrace::is_meant(bytes) {
        blktrace::read(bytes, into)?;
        return Ok("blktrace");
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| TraceError("is neither text nor a recording of blktrace".into()))?;
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(first) = first else {
        return Err(TraceError("is empty".into()));
    };
    if let Some(version) = first.strip_prefix("fio version ") {
        return match version.trim_end_matches(" iolog").trim() {
            "2" => iolog::read_2(text, into).map(|()| "fio iolog 2"),
            "3" => iolog::read_3(text, options, into).map(|()| "fio iolog 3"),
            other => Err(TraceError(format!("fio iolog of version {other}; 2 and 3 can be read"))),
        };
    }
    if text.lines().take(64).any(ftrace::is_meant) {
        ftrace::read(text, into)?;
        return Ok("ftrace");
    }
    if blkparse::is_meant(first) {
        blkparse::read(text, into)?;
        return Ok("blkparse");
    }
    csv::read(text, first, options, into)
}

/// An error with the line it is on.
pub(crate) fn at_line(number: usize, why: &str) -> TraceError {
    TraceError(format!("line {}: {why}", number + 1))
}

/// What was read so far.
#[derive(Default)]
pub(crate) struct Gathered {
    requests: Vec<(u64, u16, Request)>,
    disks: BTreeMap<String, u16>,
    completed: BTreeMap<(u16, u64), Vec<u64>>,
    others: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
}

/// Longest request; nothing issues longer ones.
const LEN_MAX: u64 = 64 << 20;

impl Gathered {
    /// Something to know of the whole recording, told once.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|note| note == text) {
            self.notes.push(text.to_owned());
        }
    }

    fn disk(&mut self, name: &str) -> Option<u16> {
        if let Some(index) = self.disks.get(name) {
            return Some(*index);
        }
        let index = u16::try_from(self.disks.len()).ok()?;
        self.disks.insert(name.to_owned(), index);
        Some(index)
    }

    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::Other(what) => *self.others.entry(what).or_default() += 1,
            Event::Completed { time, disk, offset } => {
                if let Some(disk) = self.disk(&disk) {
                    self.completed.entry((disk, offset)).or_default().push(time);
                }
            }
            Event::Request { len: 0, .. } => *self.others.entry("without data").or_default() += 1,
            Event::Request { time, disk, offset, len, write } => {
                let Some(disk) = self.disk(&disk) else {
                    *self.others.entry("of too many disks").or_default() += 1;
                    return;
                };
                if len > LEN_MAX || offset.checked_add(len).is_none_or(|end| end > 1 << 60) {
                    *self.others.entry("beyond any disk").or_default() += 1;
                    return;
                }
                let request = Request { time, offset, len: len as u32, write };
                self.requests.push((time, disk, request));
            }
        }
    }

    fn finish(mut self, format: &'static str, options: &Options) -> Result<Trace, TraceError> {
        let mut notes = std::mem::take(&mut self.notes);
        for (what, n) in &self.others {
            notes.push(format!("left out: {n} {what}"));
        }
        if let Some(wanted) = &options.disk {
            let names: Vec<&str> = self.disks.keys().map(String::as_str).collect();
            let Some(index) = self.disks.get(wanted).copied() else {
                return Err(TraceError(format!("no disk `{wanted}`; it has {}", names.join(", "))));
            };
            self.requests.retain(|(_, disk, _)| *disk == index);
            self.disks.retain(|_, disk| *disk == index);
        }
        if self.requests.is_empty() {
            return Err(TraceError("has no read and no write".into()));
        }
        self.requests.sort_by_key(|(time, ..)| *time);
        let depth = self.depth();
        let bases = self.bases(&mut notes);
        let first = self.requests[0].0;
        let requests = self.requests.into_iter().map(|(time, disk, request)| Request {
            time: time - first,
            offset: request.offset + bases.get(&disk).copied().unwrap_or(0),
            ..request
        });
        Ok(Trace { format, requests: requests.collect(), notes, depth })
    }

    /// Where each disk starts when several are laid end to end.
    fn bases(&self, notes: &mut Vec<String>) -> BTreeMap<u16, u64> {
        let mut ends: BTreeMap<u16, u64> = BTreeMap::new();
        for (_, disk, request) in &self.requests {
            let end = ends.entry(*disk).or_default();
            *end = (*end).max(request.offset + u64::from(request.len));
        }
        if ends.len() > 1 {
            let name = |index: &u16| {
                self.disks.iter().find(|(_, disk)| *disk == index).map_or("", |(name, _)| name)
            };
            let names: Vec<&str> = ends.keys().map(name).collect();
            notes.push(format!(
                "{} disks ({}) are laid end to end; --disk NAME takes one of them",
                ends.len(),
                names.join(", ")
            ));
        }
        let mut base = 0;
        ends.into_iter()
            .map(|(disk, end)| {
                let here = base;
                base += end.next_multiple_of(1 << 20);
                (disk, here)
            })
            .collect()
    }

    /// Mean number of requests on their way (Little's law: the sum of their times over the whole).
    fn depth(&mut self) -> Option<f64> {
        if self.completed.is_empty() {
            return None;
        }
        self.completed.values_mut().for_each(|times| times.sort_unstable());
        let (mut busy, mut n) = (0.0, 0);
        for (time, disk, request) in &self.requests {
            let times = self.completed.get(&(*disk, request.offset));
            let end = times.and_then(|t| t.get(t.partition_point(|end| end < time)));
            if let Some(end) = end {
                busy += (end - time) as f64;
                n += 1;
            }
        }
        let span = self.requests.last()?.0 - self.requests.first()?.0;
        (n > 0 && span > 0).then(|| busy / span as f64)
    }
}

#[cfg(test)]
mod tests;
