//! What a plan says, after every check: plan > step > cell, in the words of the glossary.

use crate::load::{Arrival, Extent, Load, Pattern};
use crate::method::{Points, Purge, Rounds, Setting, Until};
use crate::params::Param;
use base::units::{Bytes, Nanos};
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

    /// Whether any load checks what it reads: then every write of the plan is one that can be checked.
    pub fn verifies(&self) -> bool {
        let mut found = false;
        each_load(&self.steps, &mut |load| found |= load.verify.is_some());
        found
    }

    /// Every load, to be looked at.
    pub fn each_load(&self, mut take: impl FnMut(&Load)) {
        each_load(&self.steps, &mut take);
    }

    /// The largest unit that every write of the plan consists of, up to a mebibyte.
    pub fn write_unit(&self) -> Bytes {
        let mut unit = 1 << 20;
        each_load(&self.steps, &mut |load| {
            if let (Pattern::Trace(_), true) = (&load.pattern, load.writes()) {
                unit = 512;
            }
            if load.writes() {
                load.write_blocks.0.iter().for_each(|(block, _)| unit = gcd(unit, block.0));
                // What is read moves a stream, too.
                if load.reads() {
                    load.read_blocks.0.iter().for_each(|(block, _)| unit = gcd(unit, block.0));
                }
                unit = load.align.map_or(unit, |align| gcd(unit, align.0));
            }
        });
        Bytes(unit)
    }
}

fn each_load(steps: &[Step], take: &mut impl FnMut(&Load)) {
    for step in steps {
        step.verb.cells().flat_map(|cell| &cell.loads).for_each(&mut *take);
        each_load(step.verb.children(), take);
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
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
    /// How shares of the maximum become rates.
    pub rates: Rates,
    /// The points end after the first whose mean service time is above this.
    pub stop: Option<Nanos>,
    /// After the points: the highest rate under a limit.
    pub search: Option<Search>,
}

/// How shares of a maximum become rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rates {
    /// As they are.
    #[default]
    Exact,
    /// As VDBench rounds them.
    Vdbench,
}

impl Rates {
    /// I/Os per second at `percent` of a maximum. VDBench takes the whole part of maximum, percent and
    /// their product, then rounds up to a multiple of 100 above 1000 and of 10 else.
    pub fn rate(self, maximum: f64, percent: f64) -> f64 {
        match self {
            Rates::Exact => (maximum * percent / 100.0).max(0.001),
            Rates::Vdbench => {
                let rate = (maximum as u64).saturating_mul(percent as u64) / 100;
                rate.next_multiple_of(if rate > 1000 { 100 } else { 10 }).max(10) as f64
            }
        }
    }
}

/// A search for the highest rate at which a percentile of the response time stays under a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The percentile, above 0 and below 100.
    pub percent: f64,
    /// The limit.
    pub limit: Nanos,
    /// Measurements of each rate that is tried.
    pub repeats: u32,
    /// Share of the rate, in percent, at which the search is content.
    pub tolerance: f64,
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
