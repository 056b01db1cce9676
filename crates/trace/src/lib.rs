//! Recorded I/O of a block device: reading what others recorded, telling its character, and making a
//! plan that behaves like it. Pure: text and bytes in, requests out.

mod character;
mod model;
mod read;

pub use character::{Character, Reuse, SizeShare};
pub use model::plan_of;
pub use read::{Options, TimeUnit, read, read_parts};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Since the first request, in ns.
    pub time: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes, above zero.
    pub len: u32,
    /// Write or read.
    pub write: bool,
}

/// Requests in the order of their times; at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The format that was found, for people.
    pub format: &'static str,
    /// The requests.
    pub requests: Vec<Request>,
    /// What was left out or changed, for people: one line each.
    pub notes: Vec<String>,
    /// Mean number of requests on their way, where the recording has completions.
    pub depth: Option<f64>,
}

impl Trace {
    /// From the first request to the last, in ns.
    pub fn span(&self) -> u64 {
        self.requests.last().map_or(0, |request| request.time)
    }

    /// First byte behind every request.
    pub fn end(&self) -> u64 {
        self.requests.iter().map(|r| r.offset + u64::from(r.len)).max().unwrap_or(0)
    }

    /// Longest request of one direction, in bytes; 0 without any.
    pub fn longest(&self, write: bool) -> u32 {
        let of = self.requests.iter().filter(|request| request.write == write);
        of.map(|request| request.len).max().unwrap_or(0)
    }

    /// As comma-separated values that [`read`] reads: `time_ns,type,offset,size`.
    pub fn to_csv(&self) -> String {
        let mut out = String::from("time_ns,type,offset,size\n");
        for Request { time, offset, len, write } in &self.requests {
            let kind = if *write { 'W' } else { 'R' };
            out += &format!("{time},{kind},{offset},{len}\n");
        }
        out
    }
}

/// Why a recording cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceError(pub String);
