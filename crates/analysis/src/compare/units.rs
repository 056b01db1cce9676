//! What an interval rests on: runs, repeats, or blocks of intervals.

use super::matching::Matched;
use crate::course::felt;
use base::hist::{Hist, Response};
use base::sample::StreamSample;
use store::{CellRecord, RunFile, StoreError};

/// Runs from which an arm's spread from run to run is known.
const RUNS_MIN: usize = 2;
/// Repeats within a run from which theirs is.
const REPEATS_MIN: usize = 3;
/// Blocks of intervals at most.
const BLOCKS_MAX: usize = 30;

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Independent runs.
    Runs,
    /// Repeats within a run: nothing is known of the spread from run to run.
    Repeats,
    /// Blocks of intervals of one measurement: nothing is known of the spread from repeat to repeat.
    Intervals,
}

impl UnitKind {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            UnitKind::Runs => "runs",
            UnitKind::Repeats => "repeats",
            UnitKind::Intervals => "intervals",
        }
    }
}

/// One unit of replication.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) ios: u64,
    pub(super) seconds: f64,
    pub(super) hist: Hist<Response>,
}

impl Unit {
    fn of(cells: &[&CellRecord]) -> Unit {
        let mut sum = StreamSample::default();
        cells.iter().for_each(|cell| sum.merge(&cell.merged()));
        let seconds = cells.iter().map(|cell| cell.len.as_secs_f64()).sum();
        Unit { ios: sum.ios(), seconds, hist: felt(&sum) }
    }

    fn add(&mut self, other: &Unit) {
        self.ios += other.ios;
        self.seconds += other.seconds;
        self.hist.merge(&other.hist);
    }
}

/// The units of both sides, of one kind.
pub(super) fn of_pair(pair: &Matched<'_>) -> Result<(UnitKind, [Vec<Unit>; 2]), StoreError> {
    let runs = |side: usize| pair.sides[side].iter().filter(|(_, cells)| !cells.is_empty()).count();
    let cells = |side: usize| pair.sides[side].iter().map(|(_, cells)| cells.len()).sum::<usize>();
    let least = |count: &dyn Fn(usize) -> usize| count(0).min(count(1));
    if least(&runs) >= RUNS_MIN {
        let side =
            |side: usize| pair.sides[side].iter().map(|(_, cells)| Unit::of(cells)).collect();
        return Ok((UnitKind::Runs, [side(0), side(1)]));
    }
    if least(&cells) >= REPEATS_MIN {
        let side = |side: usize| {
            let all = pair.sides[side].iter().flat_map(|(_, cells)| cells);
            all.map(|cell| Unit::of(&[*cell])).collect()
        };
        return Ok((UnitKind::Repeats, [side(0), side(1)]));
    }
    let side = |side: usize| -> Result<Vec<Unit>, StoreError> {
        let mut all = Vec::new();
        for (run, cells) in &pair.sides[side] {
            for cell in cells {
                all.extend(intervals(run, cell)?);
            }
        }
        Ok(blocks(all))
    };
    Ok((UnitKind::Intervals, [side(0)?, side(1)?]))
}

fn intervals(run: &RunFile, cell: &CellRecord) -> Result<Vec<Unit>, StoreError> {
    let mut all = Vec::new();
    run.each_interval(cell.id, 0, |interval| {
        if interval.ramp {
            return;
        }
        let mut sum = StreamSample::default();
        interval.streams.iter().for_each(|stream| sum.merge(stream));
        let seconds = interval.len.as_secs_f64();
        all.push(Unit { ios: sum.ios(), seconds, hist: felt(&sum) });
    })?;
    Ok(all)
}

/// Neighbours together, so many that one block says little of the next: three times the length over which
/// the rate remembers itself, as its autocorrelation from one interval to the next tells.
fn blocks(intervals: Vec<Unit>) -> Vec<Unit> {
    let rates: Vec<f64> = intervals.iter().map(|u| u.ios as f64 / u.seconds.max(1e-9)).collect();
    let n = rates.len();
    let mean = rates.iter().sum::<f64>() / n.max(1) as f64;
    let square: f64 = rates.iter().map(|v| (v - mean).powi(2)).sum();
    let next: f64 = rates.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let memory = if square > 0.0 { (next / square).clamp(0.0, 0.9) } else { 0.0 };
    let length = (3.0 * (1.0 + memory) / (1.0 - memory)).ceil() as usize;
    let count = (n / length).clamp(2, BLOCKS_MAX).min(n.max(1));
    let mut made: Vec<Unit> = Vec::with_capacity(count);
    for (at, unit) in intervals.into_iter().enumerate() {
        // Interval `at` belongs to block `at * count / n`.
        match at * count / n + 1 == made.len() {
            true => made[at * count / n].add(&unit),
            false => made.push(unit),
        }
    }
    made
}
