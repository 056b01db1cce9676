//! What a plan will cost before it starts: time, and bytes written.

use crate::model::{Cell, Plan, Step, Verb};
use base::units::{Bytes, Nanos};

/// Time and writes of a plan. Amounts take time by the assumed rate; cells that end by time write by
/// the assumed rate. Both assumptions are stated wherever the figures are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Time given by the plan itself.
    pub timed: Nanos,
    /// Bytes that amounts move on each target.
    pub amount: Bytes,
    /// Of these, bytes written.
    pub amount_written: Bytes,
    /// Time spent writing in cells that end by time, weighted by their share of writes.
    pub timed_writing: Nanos,
    /// Number of cells.
    pub cells: u32,
}

impl Estimate {
    /// Whole time at an assumed rate in bytes per second.
    pub fn time(&self, rate_bytes: f64) -> Nanos {
        let moved = self.amount.0 as f64 / rate_bytes;
        Nanos(self.timed.0 + Nanos::from_secs_f64(moved).0)
    }

    /// Bytes written on each target at an assumed rate in bytes per second.
    pub fn written(&self, rate_bytes: f64) -> Bytes {
        Bytes(self.amount_written.0 + (self.timed_writing.as_secs_f64() * rate_bytes) as u64)
    }

    fn add(&mut self, other: Estimate, times: u64) {
        self.timed.0 += other.timed.0 * times;
        self.amount.0 += other.amount.0 * times;
        self.amount_written.0 += other.amount_written.0 * times;
        self.timed_writing.0 += other.timed_writing.0 * times;
        self.cells += other.cells * times as u32;
    }
}

/// How far rounds and steady states are taken to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Steady at the first chance.
    Least,
    /// Never steady.
    Most,
}

/// Estimates a plan on targets of `size` each, with everything steady at the first chance.
pub fn estimate(plan: &Plan, size: Bytes) -> Estimate {
    steps(&plan.steps, size, Bound::Least)
}

/// Estimates a plan on targets of `size` each, with nothing ever steady.
pub fn estimate_most(plan: &Plan, size: Bytes) -> Estimate {
    steps(&plan.steps, size, Bound::Most)
}

fn steps(list: &[Step], size: Bytes, bound: Bound) -> Estimate {
    let mut sum = Estimate::default();
    for step in list {
        sum.add(estimate_step(step, size, bound), 1);
    }
    sum
}

/// Estimates one step, with all that is inside of it, on targets of `size` each.
pub fn estimate_step(step: &Step, size: Bytes, bound: Bound) -> Estimate {
    let mut sum = Estimate::default();
    match &step.verb {
        Verb::Fill(cell_) | Verb::Load(cell_) => return cell(cell_, size, bound),
        Verb::Sweep(sweep) => {
            sweep.cells.iter().for_each(|point| sum.add(cell(&point.cell, size, bound), 1));
        }
        Verb::Curve(curve) => {
            // A search halves its interval: about eight rates, two of them to find it.
            let searched = match (curve.search, bound) {
                (Some(search), Bound::Least) => 2 * u64::from(search.repeats),
                (Some(search), _) => 10 * u64::from(search.repeats),
                (None, _) => 0,
            };
            let points = 1 + curve.percents.len() as u64 + searched;
            sum.add(cell(&curve.cell, size, bound), points);
        }
        Verb::Repeat(repeat) => {
            let times = u64::from(repeat.times + repeat.discard);
            sum.add(steps(&repeat.steps, size, bound), times);
            sum.timed.0 += repeat.gap.0 * times.saturating_sub(1);
        }
        Verb::Rounds(rounds) => {
            let times = if bound == Bound::Least { rounds.rule.window } else { rounds.most };
            sum.add(steps(&rounds.steps, size, bound), u64::from(times));
        }
        Verb::Points(points) => {
            sum.add(steps(&points.steps, size, bound), points.picks.len() as u64);
        }
        Verb::Group(inner) => return steps(inner, size, bound),
        Verb::Idle(time) => sum.timed = *time,
        Verb::Purge(_) | Verb::Set(_) => {}
    }
    sum
}

fn cell(cell: &Cell, size: Bytes, bound: Bound) -> Estimate {
    let n = cell.loads.len().max(1) as f64;
    let written: f64 =
        cell.loads.iter().map(|load| (100.0 - load.read_percent) / 100.0).sum::<f64>() / n;
    let mut sum = Estimate { cells: 1, ..Estimate::default() };
    let earliest = cell
        .until
        .filter(|_| bound == Bound::Least)
        .map(|until| Nanos(until.every.0 * u64::from(until.rule.window - 1) + until.average.0));
    let time = match (cell.window.time, earliest) {
        (Some(time), Some(earliest)) => Some(time.min(earliest)),
        (time, earliest) => time.or(earliest),
    };
    match (time, cell.window.amount) {
        // A time that is given ends a cell, also where an amount might end it before.
        (Some(time), _) => {
            sum.timed = Nanos(cell.window.ramp.0 + time.0);
            sum.timed_writing = Nanos((sum.timed.0 as f64 * written) as u64);
        }
        (None, Some(amount)) => {
            let range = cell.loads.first().map_or(size.0, |load| {
                load.range.1.resolve(size).0.saturating_sub(load.range.0.resolve(size).0)
            });
            let moved = amount.on(range, size);
            sum.amount = Bytes(moved);
            sum.amount_written = Bytes((moved as f64 * written) as u64);
            sum.timed = cell.window.ramp;
        }
        (None, None) => {}
    }
    sum
}
