//! What a plan says, after every check: plan > step > cell, in the words of the glossary.

use crate::method::{Points, Purge, Rounds, Setting, Until};
use crate::params::Param;
use base::units::{Bytes, Nanos, format_block, format_rate};
use serde::{Deserialize, Serialize};

/// Most outstanding I/Os a worker may have.
pub const DEPTH_MAX: u32 = 4096;
/// Most workers a load may have on one target.
pub const WORKERS_MAX: u32 = 1024;
/// Largest block.
pub const BLOCK_MAX: Bytes = Bytes(64 << 20);
/// Most entries in a block mix or a zone list.
pub const MIX_MAX: usize = 64;

/// A whole plan, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Short name, used in file names.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What `--set` may change, with the values in force.
    pub params: Vec<Param>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Length of one stored interval.
    pub interval: Nanos,
    /// Size of the scratch file where the target is a folder or none.
    pub scratch: Bytes,
    /// What the plan claims to follow, when it does.
    pub claim: Option<Claim>,
    /// The method, in order.
    pub steps: Vec<Step>,
    /// The text it was read from, for the run file.
    pub source: String,
}

impl Plan {
    /// The capacity that its first step leaves usable, when that makes the rest spare.
    pub fn over_provision(&self) -> Option<Extent> {
        match &self.steps.first()?.verb {
            Verb::Set(setting) => setting.over_provision,
            _ => None,
        }
    }

    /// Whether any step writes to the target.
    pub fn writes(&self) -> bool {
        self.steps.iter().any(Step::writes)
    }
}

/// The document a plan follows, and where this run does not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Short name of the method, such as `PTS`.
    pub method: String,
    /// How it follows it, such as `modelled on SNIA PTS 2.0.2`.
    pub standard: String,
    /// Points of the document that were not checked against its text.
    pub unverified: Vec<String>,
    /// Where parameters differ from the method; not the method any more when there is one.
    pub deviations: Vec<String>,
}

/// One step: a verb with a name.
#[derive(Clone, Debug)]
pub struct Step {
    /// Unique among its siblings.
    pub name: String,
    /// The method allows no gap in it: when a run is cut inside, the whole step is repeated.
    pub continuous: bool,
    /// What it did to the drive may be taken over from an earlier run, if nothing was written since.
    pub reuse: bool,
    /// What it does.
    pub verb: Verb,
}

impl Step {
    /// Whether this step or a child of it writes to the target.
    pub fn writes(&self) -> bool {
        self.verb.cells().any(Cell::writes)
            || matches!(&self.verb, Verb::Purge(purge) if *purge != Purge::None)
            || matches!(&self.verb, Verb::Set(setting) if setting.over_provision.is_some())
            || self.verb.children().iter().any(Step::writes)
    }
}

/// The verbs.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Writes up to an amount; no measurement is claimed of it.
    Fill(Cell),
    /// One measurement.
    Load(Cell),
    /// A measurement over axes.
    Sweep(Sweep),
    /// The maximum, then percents of it as open-loop rates.
    Curve(Curve),
    /// The children again and again.
    Repeat(Repeat),
    /// Nothing, for a time.
    Idle(Nanos),
    /// Puts the media in the state of never having been written.
    Purge(Purge),
    /// Changes how the drive is set up.
    Set(Setting),
    /// The children until steady.
    Rounds(Rounds),
    /// Chooses cells of an earlier sweep and runs the children at each.
    Points(Points),
    /// The steps of another plan.
    Group(Vec<Step>),
}

impl Verb {
    /// The steps below this one.
    pub fn children(&self) -> &[Step] {
        match self {
            Verb::Repeat(repeat) => &repeat.steps,
            Verb::Rounds(rounds) => &rounds.steps,
            Verb::Points(points) => &points.steps,
            Verb::Group(steps) => steps,
            _ => &[],
        }
    }

    /// The steps below this one, to be changed.
    pub(crate) fn children_mut(&mut self) -> Option<&mut Vec<Step>> {
        match self {
            Verb::Repeat(repeat) => Some(&mut repeat.steps),
            Verb::Rounds(rounds) => Some(&mut rounds.steps),
            Verb::Points(points) => Some(&mut points.steps),
            Verb::Group(steps) => Some(steps),
            _ => None,
        }
    }

    /// The cells of this step itself, in order; those of a curve after its first have rates that are
    /// not known yet.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        let (one, many): (Option<&Cell>, &[SweepCell]) = match self {
            Verb::Fill(cell) | Verb::Load(cell) => (Some(cell), &[]),
            Verb::Curve(curve) => (Some(&curve.cell), &[]),
            Verb::Sweep(sweep) => (None, &sweep.cells),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().map(|point| &point.cell))
    }

    /// The word of the plan language.
    pub fn word(&self) -> &'static str {
        match self {
            Verb::Fill(_) => "fill",
            Verb::Load(_) => "load",
            Verb::Sweep(_) => "sweep",
            Verb::Curve(_) => "curve",
            Verb::Repeat(_) => "repeat",
            Verb::Idle(_) => "idle",
            Verb::Purge(_) => "purge",
            Verb::Set(_) => "set",
            Verb::Rounds(_) => "rounds",
            Verb::Points(_) => "points",
            Verb::Group(_) => "plan",
        }
    }
}

/// One measurement: loads side by side for one window.
#[derive(Clone, Debug)]
pub struct Cell {
    /// At least one.
    pub loads: Vec<Load>,
    /// When it starts to count and when it ends.
    pub window: Window,
    /// Ends before its window when it is steady.
    pub until: Option<Until>,
    /// A part of the counted time over which the spread of the rate is stated beside the whole.
    pub stability: Option<(Nanos, Nanos)>,
}

impl Cell {
    /// Whether any load writes.
    pub fn writes(&self) -> bool {
        self.loads.iter().any(Load::writes)
    }

    /// A block that is no multiple of a target's unit: the cell cannot run there.
    pub fn block_off(&self, unit: Bytes) -> Option<Bytes> {
        let blocks = self
            .loads
            .iter()
            .flat_map(|load| load.read_blocks.0.iter().chain(&load.write_blocks.0));
        blocks.map(|&(block, _)| block).find(|block| !block.0.is_multiple_of(unit.0))
    }
}

/// When a cell starts to count and when it ends: at its time or its amount, whichever is first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Runs before counting starts.
    pub ramp: Nanos,
    /// Counts for this long.
    pub time: Option<Nanos>,
    /// Ends after this much, on each target.
    pub amount: Option<Amount>,
}

/// How much is to be read or written on each target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Absolute.
    Bytes(Bytes),
    /// Times the range of the load.
    Passes(f64),
    /// Times the capacity of the target, whatever the range.
    Capacities(f64),
}

impl Amount {
    /// Bytes on a target of `size` for a load whose range has `range_bytes`.
    pub fn on(self, range_bytes: u64, size: Bytes) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes.0,
            Amount::Passes(passes) => (range_bytes as f64 * passes) as u64,
            Amount::Capacities(times) => (size.0 as f64 * times) as u64,
        }
    }
}

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
}

impl Pattern {
    fn short(&self) -> &'static str {
        match self {
            Pattern::Sequential(_) => "SEQ",
            Pattern::Random => "RND",
            Pattern::Jumps(_) => "JUMP",
            Pattern::RandomOnce => "ONCE",
            Pattern::Zipf(_) => "ZIPF",
            Pattern::Zones(_) => "ZONE",
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
}

impl Arrival {
    /// The word of the plan language.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Poisson => "poisson",
            Arrival::Uniform => "uniform",
            Arrival::Deterministic => "deterministic",
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

/// A measurement over axes, already expanded in the order of the axes.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Names of the axes, outermost first.
    pub axes: Vec<String>,
    /// One cell for each combination.
    pub cells: Vec<SweepCell>,
    /// Skip the rest of the innermost axis when a cell adds less IOPS than this share (percent).
    pub stop_gain_percent: Option<f64>,
}

/// A cell of a sweep and where it stands on the axes.
#[derive(Clone, Debug)]
pub struct SweepCell {
    /// `block=4k depth=32`.
    pub label: String,
    /// Value on each axis, as written.
    pub coordinates: Vec<Coordinate>,
    /// What is measured.
    pub cell: Cell,
}

/// One axis value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coordinate {
    /// Name of the axis.
    pub axis: String,
    /// Value as written.
    pub value: String,
}

/// The maximum, then percents of it as open-loop rates.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The closed-loop cell that finds the maximum.
    pub cell: Cell,
    /// Points in percent of the maximum, in order.
    pub percents: Vec<f64>,
    /// Arrivals at the points.
    pub arrival: Arrival,
    /// Outstanding I/Os each worker may have at the points.
    pub depth: u32,
}

/// The children again and again.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// How often it counts.
    pub times: u32,
    /// How often it runs before it counts: the results are kept and marked, and left out of peak
    /// and mean.
    pub discard: u32,
    /// Rest between two times.
    pub gap: Nanos,
    /// What is repeated.
    pub steps: Vec<Step>,
}
