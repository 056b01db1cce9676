//! What a plan will cost before it starts: time, and bytes written.

use crate::model::{Amount, Cell, Plan, Step, Verb};
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

/// Estimates a plan on targets of `size` each.
pub fn estimate(plan: &Plan, size: Bytes) -> Estimate {
    steps(&plan.steps, size)
}

fn steps(list: &[Step], size: Bytes) -> Estimate {
    let mut sum = Estimate::default();
    for step in list {
        sum.add(one(step, size), 1);
    }
    sum
}

fn one(step: &Step, size: Bytes) -> Estimate {
    match &step.verb {
        Verb::Fill(cell_) | Verb::Load(cell_) => cell(cell_, size),
        Verb::Sweep(sweep) => {
            let mut sum = Estimate::default();
            sweep.cells.iter().for_each(|point| sum.add(cell(&point.cell, size), 1));
            sum
        }
        Verb::Curve(curve) => {
            let mut sum = Estimate::default();
            sum.add(cell(&curve.cell, size), 1 + curve.percents.len() as u64);
            sum
        }
        Verb::Repeat(repeat) => {
            let mut sum = Estimate::default();
            let times = u64::from(repeat.times + repeat.discard);
            sum.add(steps(&repeat.steps, size), times);
            sum.timed.0 += repeat.gap.0 * times.saturating_sub(1);
            sum
        }
        Verb::Idle(time) => Estimate { timed: *time, ..Estimate::default() },
    }
}

fn cell(cell: &Cell, size: Bytes) -> Estimate {
    let n = cell.loads.len().max(1) as f64;
    let written: f64 =
        cell.loads.iter().map(|load| (100.0 - load.read_percent) / 100.0).sum::<f64>() / n;
    let mut sum = Estimate { cells: 1, ..Estimate::default() };
    match (cell.window.time, cell.window.amount) {
        (Some(time), None) => {
            sum.timed = Nanos(cell.window.ramp.0 + time.0);
            sum.timed_writing = Nanos((sum.timed.0 as f64 * written) as u64);
        }
        (_, Some(amount)) => {
            let range = cell.loads.first().map_or(size, |load| {
                Bytes(load.range.1.resolve(size).0.saturating_sub(load.range.0.resolve(size).0))
            });
            let moved = match amount {
                Amount::Bytes(bytes) => bytes.0,
                Amount::Passes(passes) => (range.0 as f64 * passes) as u64,
            };
            sum.amount = Bytes(moved);
            sum.amount_written = Bytes((moved as f64 * written) as u64);
            sum.timed = cell.window.ramp;
        }
        (None, None) => {}
    }
    sum
}
