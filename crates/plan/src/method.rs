//! What a method adds to measurements: purge, settings, rounds until steady, operating points.

use crate::load::Extent;
use crate::model::{Coordinate, Step};
use crate::placement::Placement;
use base::units::Nanos;

/// How the media is put in the state of never having been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// The best that the target can do.
    Auto,
    /// A format of the namespace, or a secure erase.
    Format,
    /// A sanitize operation.
    Sanitize,
    /// Deallocation of the whole range: not a purge by the PTS, and said so.
    Discard,
    /// None; the report says so.
    None,
}

impl Purge {
    /// The word of the plan language.
    pub fn word(self) -> &'static str {
        match self {
            Purge::Auto => "auto",
            Purge::Format => "format",
            Purge::Sanitize => "sanitize",
            Purge::Discard => "discard",
            Purge::None => "none",
        }
    }
}

/// What a `set` step sets; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The volatile write cache.
    pub write_cache: Option<bool>,
    /// Power state by number, 0 to 31.
    pub power_state: Option<u8>,
    /// The power state by the most that it may draw, in watts.
    pub power_w: Option<f64>,
    /// Temperatures in degrees Celsius from which the drive is to throttle lightly, and heavily.
    pub thermal_c: Option<(u16, u16)>,
    /// Capacity that stays usable; the rest of the drive is spare. Everything on it is lost.
    pub over_provision: Option<Extent>,
    /// CPUs of the workers from then on.
    pub placement: Option<Placement>,
}

/// When values count as steady (PTS 2.0.2, definition 2.1.24): over a window of successive values,
/// their range and the excursion of their least-squares line stay within shares of their average.
/// Both limits are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyRule {
    /// Values of the window, 3 at least.
    pub window: u32,
    /// Largest less smallest value, in percent of the average.
    pub range_percent: f64,
    /// Rise of the line over the window, in percent of the average.
    pub slope_percent: f64,
}

impl Default for SteadyRule {
    fn default() -> Self {
        SteadyRule { window: 5, range_percent: 20.0, slope_percent: 10.0 }
    }
}

/// A figure of a cell or an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean latency.
    Mean,
    /// Largest latency.
    Max,
    /// A percentile of the latency, one of [`Figure::PERCENTS`].
    Percentile(f64),
}

impl Figure {
    /// Percentiles that can be tracked.
    pub const PERCENTS: [f64; 8] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

    /// The word of the plan language.
    pub fn word(self) -> String {
        match self {
            Figure::Iops => "iops".into(),
            Figure::Bandwidth => "bandwidth".into(),
            Figure::Mean => "mean".into(),
            Figure::Max => "max".into(),
            Figure::Percentile(percent) => format!("p{percent}"),
        }
    }

    /// The figure of a word.
    pub fn from_word(word: &str) -> Option<Figure> {
        let plain = [Figure::Iops, Figure::Bandwidth, Figure::Mean, Figure::Max];
        plain.into_iter().chain(Figure::PERCENTS.map(Figure::Percentile)).find(|f| f.word() == word)
    }
}

/// Which direction a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads and writes together.
    Both,
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A value that must be steady.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Name of the child step.
    pub step: String,
    /// Which cell of it, where it has several.
    pub at: Vec<Coordinate>,
    /// Which figure.
    pub figure: Figure,
    /// Of which direction.
    pub way: Way,
}

impl Track {
    /// For people: `matrix read=0 block=4k iops`.
    pub fn describe(&self) -> String {
        let at: Vec<String> = self.at.iter().map(|c| format!("{}={}", c.axis, c.value)).collect();
        let way = match self.way {
            Way::Both => "",
            Way::Read => "read ",
            Way::Write => "write ",
        };
        let at = if at.is_empty() { String::new() } else { format!("{} ", at.join(" ")) };
        format!("{} {at}{way}{}", self.step, self.figure.word())
    }
}

/// The children, round after round, until all tracked values are steady in the same window.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// Rounds at most.
    pub most: u32,
    /// The rule.
    pub rule: SteadyRule,
    /// What must be steady; at least one.
    pub track: Vec<Track>,
    /// One round.
    pub steps: Vec<Step>,
}

/// Ends a load when one value every so often is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The rule.
    pub rule: SteadyRule,
    /// Time from one value to the next.
    pub every: Nanos,
    /// Each value is taken over this time, at the start of its period.
    pub average: Nanos,
    /// Which figure.
    pub figure: Figure,
    /// Of which direction.
    pub way: Way,
}

/// Chooses cells of an earlier sweep by rule, and runs the children at each.
#[derive(Clone, Debug)]
pub struct Points {
    /// Path of the sweep, as `demand/cells`; in rounds the average over the window counts.
    pub from: String,
    /// Only cells whose figure is below this are candidates (ns for latencies).
    pub below: Option<(Figure, f64)>,
    /// The points, in order.
    pub picks: Vec<Pick>,
    /// What the loads of the children take over from the chosen cell.
    pub take: Vec<Take>,
    /// What is run at each point.
    pub steps: Vec<Step>,
}

/// One operating point.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Its name.
    pub name: String,
    /// How it is found.
    pub rule: PickRule,
}

/// How an operating point is found among the candidates.
#[derive(Clone, Debug, PartialEq)]
pub enum PickRule {
    /// The highest figure.
    Highest(Figure),
    /// The cell at these coordinates.
    At(Vec<Coordinate>),
    /// The cell whose figure is nearest to the mean of two other points.
    Between(Figure, String, String),
}

/// A field of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Outstanding I/Os of each worker.
    Depth,
    /// Threads.
    Workers,
    /// Block sizes.
    Block,
    /// Share of reads.
    Read,
    /// Closed loop, or the rate.
    Demand,
}
