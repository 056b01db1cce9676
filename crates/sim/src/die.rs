//! One die: reads in order, programs in the background, and what happens between the two.

use crate::device::Id;
use crate::profile::Scheduler;
use crate::timing::Timing;
use base::rng::Rng;
use std::collections::VecDeque;

/// A background operation, or a read where reads have no precedence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Time it takes alone.
    pub(crate) ns: u64,
    /// Buffer units it frees at its end.
    pub(crate) frees: u32,
    /// The request whose read it is.
    pub(crate) reads: Option<Id>,
}

/// State of a die.
#[derive(Clone, Debug, Default)]
pub(crate) struct Die {
    /// End of the reads that are in it or wait.
    reads_end: u64,
    waiting: VecDeque<Op>,
    running: Option<Op>,
    /// End of the running operation, as far as is known now.
    op_end: u64,
    suspends: u32,
    /// The reads in progress wait for the running operation instead of suspending it.
    behind: bool,
}

/// What happened when a background operation was due.
pub(crate) enum Due {
    /// Reads took its time: it is due again then.
    Later(u64),
    /// It ended; the next one ends then.
    Ended(Op, Option<u64>),
}

impl Die {
    /// A read of `ns` arrives; gives when it ends, or none when it takes its place in the order of
    /// all operations. The second value is when a background operation that starts by it is due.
    pub(crate) fn read(
        &mut self,
        now: u64,
        ns: u64,
        id: Id,
        timing: &Timing,
        rng: &mut Rng,
    ) -> (Option<u64>, Option<u64>) {
        if timing.scheduler == Scheduler::Fifo {
            return (None, self.add(now, Op { ns, frees: 0, reads: Some(id) }));
        }
        let start = if self.reads_end > now {
            if self.running.is_some() && !self.behind {
                self.op_end += ns;
            }
            self.reads_end
        } else {
            self.interrupt(now, ns, timing, rng)
        };
        self.reads_end = start + ns;
        (Some(self.reads_end), None)
    }

    /// When the first read of a burst may start, given the running operation.
    fn interrupt(&mut self, now: u64, ns: u64, timing: &Timing, rng: &mut Rng) -> u64 {
        self.behind = false;
        if self.running.is_none() || self.op_end <= now {
            return now;
        }
        let left = self.op_end - now;
        let may = timing.scheduler == Scheduler::Suspend && self.suspends < timing.suspends_most;
        let delay = timing.suspend_ns[rng.below(timing.suspend_ns.len() as u64) as usize];
        if !may || left <= delay {
            self.behind = true;
            return self.op_end;
        }
        self.suspends += 1;
        self.op_end += delay + ns + timing.resume_ns;
        now + delay
    }

    /// Background operations in it.
    pub(crate) fn waits(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }

    /// A background operation arrives; gives when it is due if it starts at once.
    pub(crate) fn add(&mut self, now: u64, op: Op) -> Option<u64> {
        if self.running.is_some() {
            self.waiting.push_back(op);
            return None;
        }
        Some(self.start(now, op))
    }

    fn start(&mut self, now: u64, op: Op) -> u64 {
        self.running = Some(op);
        self.suspends = 0;
        self.behind = false;
        self.op_end = now.max(self.reads_end) + op.ns;
        self.op_end
    }

    /// The running operation is due.
    pub(crate) fn due(&mut self, now: u64) -> Due {
        if now < self.op_end {
            return Due::Later(self.op_end);
        }
        let op = self.running.take().expect("an operation is due");
        let next = self.waiting.pop_front().map(|next| self.start(now, next));
        Due::Ended(op, next)
    }
}
