//! A load: an access pattern with a demand.

use base::units::{Bytes, format_block, format_rate};
use std::sync::Arc;
use trace::Trace;

/// An access pattern with a demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Name within the cell.
    pub name: String,
    /// Where the next I/O goes.
    pub pattern: Pattern,
    /// Sizes of reads.
    pub read_blocks: BlockMix,
    /// Sizes of writes.
    pub write_blocks: BlockMix,
    /// Share of reads in percent, 0..=100.
    pub read_percent: f64,
    /// Part of the target that is used.
    pub range: (Extent, Extent),
    /// Addresses are multiples of this; the block size when none.
    pub align: Option<Bytes>,
    /// Outstanding I/Os of each worker.
    pub depth: u32,
    /// Threads on each target.
    pub workers: u32,
    /// Closed or open loop.
    pub demand: Demand,
    /// What is written.
    pub data: Data,
    /// Share of the I/Os among loads that run in the same workers; none for workers of its own.
    pub weight: Option<f64>,
    /// Indexes of the targets it runs on; all when empty.
    pub targets: Vec<usize>,
    /// What it reads is checked against what the run wrote.
    pub verify: Option<Verify>,
}

/// How data are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Wrong places after which the run fails; 0: it goes on whatever it finds.
    pub stop_after: u64,
}

impl Verify {
    /// Wrong places after which a run fails where the plan does not say: as VDBench's `data_errors`.
    pub const STOP_AFTER: u64 = 50;
}

impl Load {
    /// Whether it writes at all.
    pub fn writes(&self) -> bool {
        self.read_percent < 100.0
    }

    /// Whether it reads at all.
    pub fn reads(&self) -> bool {
        self.read_percent > 0.0
    }

    /// The largest block it may issue.
    pub fn block_max(&self) -> Bytes {
        let of = |used: bool, mix: &BlockMix| if used { mix.max() } else { Bytes(0) };
        of(self.reads(), &self.read_blocks).max(of(self.writes(), &self.write_blocks))
    }

    /// The usual short form: `RND4K R70 Q32T4`, with the rate when it is open-loop.
    pub fn describe(&self) -> String {
        if let Pattern::Trace(TraceUse { file, speed, .. }) = &self.pattern {
            let name = file.rsplit('/').next().unwrap_or(file);
            let only = match self.read_percent {
                100.0 => " reads",
                0.0 => " writes",
                _ => "",
            };
            return match speed {
                Some(1.0) => format!("TRACE {name}{only}"),
                Some(speed) => format!("TRACE {name}{only} x{speed}"),
                None => format!("TRACE {name}{only} Q{}T{}", self.depth, self.workers),
            };
        }
        let mix = if self.reads() { &self.read_blocks } else { &self.write_blocks };
        let block = match mix.0.as_slice() {
            [(only, _)] => format_block(*only).to_uppercase(),
            _ => "MIX".into(),
        };
        let direction = match self.read_percent {
            100.0 => "read".into(),
            0.0 => "write".into(),
            share => format!("{share:.0}/{:.0}", 100.0 - share),
        };
        let head = format!("{}{block} {direction}", self.pattern.short());
        match self.demand {
            Demand::Closed => format!("{head} Q{}T{}", self.depth, self.workers),
            Demand::Open { rate_iops, .. } => format!("{head} {} IOPS", format_rate(rate_iops)),
        }
    }
}

/// Where the next I/O goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Ascending, wrapping at the end of the range; the pointer is kept across cells.
    Sequential(Streams),
    /// Uniform over the range, with repetition.
    Random,
    /// This percent of the I/Os go to a random place, the others go on where the last one ended.
    Jumps(f64),
    /// Each block once per pass, in random order.
    RandomOnce,
    /// Zipf-distributed popularity, hot blocks spread over the range.
    Zipf(f64),
    /// Shares of the accesses go to shares of the range.
    Zones(Vec<Zone>),
    /// As [`Pattern::Zones`], but only this percent of the I/Os, the others go on where the last one ended.
    ZoneJumps(Vec<Zone>, f64),
    /// What was recorded, in its order.
    Trace(TraceUse),
}

/// A recording, and how it is replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceUse {
    /// The file, or several with commas between, as blktrace makes one for each CPU.
    pub file: String,
    /// Only requests of this disk of the recording.
    pub disk: Option<String>,
    /// Recorded seconds in a second; none: as fast as it goes.
    pub speed: Option<f64>,
    /// How its addresses come onto the target.
    pub fit: Fit,
    /// The requests, once they are read.
    pub trace: Option<Arc<Trace>>,
}

/// How the addresses of a recording come onto a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// As they are when the target is large enough, else scaled.
    #[default]
    Auto,
    /// Pieces of a mebibyte are spread over the range, what is within one stays together.
    Scale,
    /// As they are, beginning anew at the end of the range.
    Wrap,
}

impl Pattern {
    fn short(&self) -> &'static str {
        match self {
            Pattern::Sequential(_) => "SEQ",
            Pattern::Random => "RND",
            Pattern::Jumps(_) => "JUMP",
            Pattern::RandomOnce => "ONCE",
            Pattern::Zipf(_) => "ZIPF",
            Pattern::Zones(_) | Pattern::ZoneJumps(..) => "ZONE",
            Pattern::Trace(_) => "TRACE",
        }
    }
}

/// How workers share a sequential pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// All workers of a target continue one stream.
    Shared,
    /// Each worker has its part of the range and its own stream.
    PerWorker,
}

/// A zone: `access` percent of the I/Os in `size` percent of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Percent of accesses.
    pub access: f64,
    /// Percent of the range.
    pub size: f64,
}

/// Block sizes with weights; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockMix(pub Vec<(Bytes, f64)>);

impl BlockMix {
    /// A single size.
    pub fn one(block: Bytes) -> BlockMix {
        BlockMix(vec![(block, 1.0)])
    }

    /// The largest size.
    pub fn max(&self) -> Bytes {
        self.0.iter().map(|&(block, _)| block).max().unwrap_or_default()
    }

    /// The smallest size.
    pub fn min(&self) -> Bytes {
        self.0.iter().map(|&(block, _)| block).min().unwrap_or_default()
    }
}

/// A place on a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Percent of its size.
    Percent(f64),
    /// Bytes from its start.
    Bytes(Bytes),
}

impl Extent {
    /// The byte on a target of `size`, not beyond its end.
    pub fn resolve(self, size: Bytes) -> Bytes {
        match self {
            Extent::Percent(share) => Bytes((size.0 as f64 * share / 100.0) as u64),
            Extent::Bytes(bytes) => bytes.min(size),
        }
    }
}

/// Closed or open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Each completion starts the next I/O.
    Closed,
    /// I/Os start by schedule whatever the target does; response time counts from the schedule.
    Open {
        /// Arrivals per second on each target, over all workers.
        rate_iops: f64,
        /// Distribution of the gaps.
        arrival: Arrival,
        /// Arrivals that may wait, over all workers of a target; more are shed and counted.
        backlog: u64,
    },
}

/// Distribution of the gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Exponential gaps: independent arrivals.
    Poisson,
    /// Gaps uniform between zero and twice the mean.
    Uniform,
    /// Equal gaps.
    Deterministic,
    /// The times of a recording.
    Recorded,
}

impl Arrival {
    /// The word of the plan language.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Poisson => "poisson",
            Arrival::Uniform => "uniform",
            Arrival::Deterministic => "deterministic",
            Arrival::Recorded => "recorded",
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    /// Size before over size after compression, each unit for itself; 1 is incompressible.
    pub compress_ratio: f64,
    /// Blocks written over distinct blocks written; 1 is no duplicate.
    pub dedup_ratio: f64,
    /// Unit of both ratios.
    pub unit: Bytes,
    /// All bytes zero.
    pub zero: bool,
}

impl Default for Data {
    fn default() -> Self {
        Data { compress_ratio: 1.0, dedup_ratio: 1.0, unit: Bytes(4096), zero: false }
    }
}
