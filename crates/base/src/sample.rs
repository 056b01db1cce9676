//! What a back end hands over once an interval, in real or virtual time.

use crate::hist::{Hist, Lateness, Response, Service, Submission};
use crate::units::Nanos;

/// One direction of one stream in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Bytes completed.
    pub bytes: u64,
    /// I/Os that ended in an error; they are in no histogram.
    pub errors: u64,
    /// Time inside the submitting system call.
    pub submission: Hist<Submission>,
    /// Issue to completion; its count is the number of I/Os completed.
    pub service: Hist<Service>,
    /// Intended start to completion; empty in closed loop, where it equals the service time.
    pub response: Hist<Response>,
}

impl Side {
    /// I/Os completed.
    pub fn ios(&self) -> u64 {
        self.service.count()
    }

    /// Adds another side's counts.
    pub fn merge(&mut self, other: &Side) {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.submission.merge(&other.submission);
        self.service.merge(&other.service);
        self.response.merge(&other.response);
    }
}

/// One stream (a load on a target) in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamSample {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// Intended start to actual start; empty in closed loop.
    pub lateness: Hist<Lateness>,
    /// Arrivals that found every slot taken.
    pub waited: u64,
    /// Arrivals shed because the backlog was full, or never served before the end.
    pub shed: u64,
}

impl StreamSample {
    /// Adds another sample's counts.
    pub fn merge(&mut self, other: &StreamSample) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.lateness.merge(&other.lateness);
        self.waited += other.waited;
        self.shed += other.shed;
    }

    /// I/Os completed, both directions.
    pub fn ios(&self) -> u64 {
        self.reads.ios() + self.writes.ios()
    }

    /// Bytes completed, both directions.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// I/Os that ended in an error, both directions.
    pub fn errors(&self) -> u64 {
        self.reads.errors + self.writes.errors
    }
}

/// CPU time of the workers. Threads the kernel hands punted requests to are not in it; a cell with
/// such threads says so in its verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
}

impl CpuUse {
    /// Both together, in ns.
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Adds another use.
    pub fn merge(&mut self, other: CpuUse) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
    }
}

/// One interval of a cell, all streams.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalSample {
    /// Number within the cell, ramp included, from 0.
    pub seq: u32,
    /// Start on the run's clock.
    pub start: Nanos,
    /// Length.
    pub len: Nanos,
    /// Whether it belongs to the ramp and does not count.
    pub ramp: bool,
    /// In the order of the cell's streams.
    pub streams: Vec<StreamSample>,
    /// CPU time of the workers.
    pub cpu: CpuUse,
}
