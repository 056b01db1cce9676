//! What an observer of a run is told, in order.

use analysis::{CellSummary, Tracked, Verdict};
use base::sample::IntervalSample;
use base::units::{Bytes, Nanos};
use plan::{Estimate, SteadyRule};
use std::path::Path;

/// What a cell will do.
#[derive(Clone, Debug)]
pub struct CellPlan {
    /// Step names from the outermost.
    pub path: String,
    /// What tells it from its siblings.
    pub label: String,
    /// Short form of its loads.
    pub describe: String,
    /// Ramp and time, when it ends by time.
    pub time: Option<Nanos>,
    /// Bytes, when it ends by amount: over all targets.
    pub amount: Option<Bytes>,
}

/// What happens in a run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The run file is made and the first step is next.
    Started {
        /// The run file.
        file: &'a Path,
        /// What the plan will cost at least.
        estimate: Estimate,
        /// What it may cost when nothing is steady.
        most: Estimate,
    },
    /// Something worth knowing.
    Note(&'a str),
    /// A cell starts.
    CellStarted(&'a CellPlan),
    /// An interval of the running cell.
    Interval(&'a IntervalSample),
    /// A cell ended.
    CellEnded {
        /// What it was.
        cell: &'a CellPlan,
        /// What came out.
        summary: &'a CellSummary,
        /// What speaks against it.
        verdicts: &'a [Verdict],
    },
    /// Nothing is done for a time.
    Idle(Nanos),
    /// A round ended, or a load that ends when it is steady has another value.
    Round {
        /// Path of the rounds, or of the load.
        path: &'a str,
        /// Its number, from 1.
        round: u32,
        /// Rounds at most; none for values.
        most: Option<u32>,
        /// What is tracked, with the value of each round so far.
        tracked: &'a [Tracked],
        /// When it counts as steady.
        rule: SteadyRule,
    },
}

/// Somebody who watches a run.
pub trait Observer {
    /// Told once for everything that happens.
    fn on(&mut self, progress: Progress<'_>);
}

impl<F: FnMut(Progress<'_>)> Observer for F {
    fn on(&mut self, progress: Progress<'_>) {
        self(progress);
    }
}
