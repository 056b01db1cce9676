//! What every worker does whatever its system calls: draw the next I/O, keep the time line, count.

use crate::address::{Choice, Cursor};
use crate::data::Filler;
use crate::fault::Fault;
use crate::ledger::{Book, BookKind, SidePlace};
use crate::script::{Act, Script};
use crate::sys::thread::thread_usage;
use crate::verify::{Checker, Verified};
use base::clock::Clock;
use base::rng::Rng;
use base::sample::CpuUse;
use base::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Below this draw an I/O is a read; this value means always.
pub(crate) const ALWAYS: u64 = u64::MAX;
/// Instead of a threshold: what is next stands in a recording.
pub(crate) const SCRIPTED: u64 = u64::MAX - 1;

/// Boundaries of a cell on the run's clock.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// Start of the cell, in ns.
    pub start: u64,
    /// Length of the ramp, in ns.
    pub ramp: u64,
    /// Length of an interval, in ns.
    pub interval: u64,
    /// End of counting; `u64::MAX` when only an amount ends the cell.
    pub end: u64,
}

impl Timeline {
    fn ramp_intervals(&self) -> u64 {
        self.ramp.div_ceil(self.interval)
    }

    /// End of interval `seq`.
    pub fn boundary(&self, seq: u64) -> u64 {
        let n_ramp = self.ramp_intervals();
        let counted = self.start + self.ramp;
        if seq < n_ramp {
            (self.start + (seq + 1) * self.interval).min(counted)
        } else {
            (counted + (seq - n_ramp + 1) * self.interval).min(self.end)
        }
    }

    /// Start of interval `seq`.
    pub fn begin(&self, seq: u64) -> u64 {
        if seq == 0 { self.start } else { self.boundary(seq - 1) }
    }

    /// Whether interval `seq` lies in the ramp.
    pub fn is_ramp(&self, seq: u64) -> bool {
        seq < self.ramp_intervals()
    }
}

/// From a worker to the collector.
pub(crate) enum Report {
    /// The counts of interval `seq`.
    Interval { worker: usize, seq: u64, book: Box<Book> },
    /// The worker ended; `seq` was its last interval and `end` its last completion.
    Done { worker: usize, seq: u64, end: u64, book: Box<Book>, last: WorkerEnd },
}

/// What a worker has to say at its end.
#[derive(Default)]
pub(crate) struct WorkerEnd {
    pub(crate) fault: Option<Fault>,
    pub(crate) notes: Vec<&'static str>,
    pub(crate) preempted: u64,
    pub(crate) short_submits: u64,
    pub(crate) records: Vec<IoRecord>,
    pub(crate) failure: Option<String>,
    pub(crate) verified: Option<Box<Verified>>,
}

/// One I/O, for checks of patterns and schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRecord {
    /// Intended start; the actual one in closed loop.
    pub intended_ns: u64,
    /// Actual start.
    pub start_ns: u64,
    /// Completion seen.
    pub end_ns: u64,
    /// Address.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Write or read.
    pub write: bool,
}

/// One load as a worker issues it.
pub(crate) struct Flow {
    pub(crate) below: u64,
    pub(crate) cursor: Cursor,
    pub(crate) read_below: u64,
    pub(crate) reads: Vec<Choice>,
    pub(crate) writes: Vec<Choice>,
    pub(crate) filler: Option<Filler>,
    pub(crate) read_side: u32,
    pub(crate) write_side: u32,
    pub(crate) stream: usize,
    /// Where a recording is replayed.
    pub(crate) script: Option<Script>,
}

/// The next I/O.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) side: u32,
    pub(crate) write: bool,
    pub(crate) flow: u32,
}

/// State of a worker.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) flows: Vec<Flow>,
    pub(crate) book: Box<Book>,
    pub(crate) places: Arc<[SidePlace]>,
    pub(crate) next_event: u64,
    pub(crate) issuing: bool,
    pub(crate) budget: u64,
    pub(crate) timeline: Timeline,
    pub(crate) target_name: String,
    pub(crate) worker: usize,
    pub(crate) kind: BookKind,
    pub(crate) last: WorkerEnd,
    pub(crate) record_max: usize,
    /// Where data are checked.
    pub(crate) checker: Option<Box<Checker>>,
    pub(crate) stop: Arc<AtomicBool>,
    seq: u64,
    cpu_before: CpuUse,
    out: Sender<Report>,
    pool: Receiver<Box<Book>>,
}

/// How a worker talks with its collector.
pub(crate) struct Wires {
    pub(crate) out: Sender<Report>,
    pub(crate) pool: Receiver<Box<Book>>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// What a core is made of.
pub(crate) struct CoreParts {
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    pub(crate) flows: Vec<Flow>,
    pub(crate) places: Arc<[SidePlace]>,
    pub(crate) budget: u64,
    pub(crate) timeline: Timeline,
    pub(crate) target_name: String,
    pub(crate) worker: usize,
    pub(crate) kind: BookKind,
    pub(crate) record_max: usize,
    pub(crate) checker: Option<Box<Checker>>,
}

impl Core {
    pub(crate) fn new(parts: CoreParts, wires: Wires) -> Core {
        let CoreParts { clock, seed, flows, places, budget, timeline, .. } = parts;
        Core {
            clock,
            rng: Rng::new(seed),
            flows,
            book: Book::new(places.len(), parts.kind),
            places,
            next_event: timeline.boundary(0),
            issuing: true,
            budget,
            timeline,
            target_name: parts.target_name,
            worker: parts.worker,
            kind: parts.kind,
            last: WorkerEnd {
                records: Vec::with_capacity(parts.record_max),
                ..WorkerEnd::default()
            },
            record_max: parts.record_max,
            checker: parts.checker,
            stop: wires.stop,
            seq: 0,
            cpu_before: CpuUse::default(),
            out: wires.out,
            pool: wires.pool,
        }
    }

    /// The next I/O; none when the budget is used up.
    #[inline]
    pub(crate) fn draw(&mut self) -> Option<Draw> {
        let mut index = 0;
        if self.flows.len() > 1 {
            let pick = self.rng.next() >> 32;
            index = self.flows.iter().position(|flow| pick < flow.below).unwrap_or(0);
        }
        let flow = self.flows.get_mut(index)?;
        let write = match flow.read_below {
            ALWAYS => false,
            0 => true,
            SCRIPTED => return self.draw_scripted(index),
            below => self.rng.next() >> 32 >= below,
        };
        let mix = if write { &flow.writes } else { &flow.reads };
        let choice = if mix.len() == 1 {
            mix.first()?
        } else {
            let pick = self.rng.next() >> 32;
            mix.iter().find(|choice| pick < choice.below)?
        };
        if self.budget < u64::from(choice.len) && !has_tail(self.budget) {
            self.budget = 0;
            return None;
        }
        let (offset, len) = flow.cursor.next(choice, &mut self.rng);
        let len = if self.budget < u64::from(len) { self.budget as u32 } else { len };
        self.budget -= u64::from(len);
        let side = if write { flow.write_side } else { flow.read_side };
        Some(Draw { offset, len, side, write, flow: index as u32 })
    }

    /// The next I/O of a recording; none at its end.
    fn draw_scripted(&mut self, index: usize) -> Option<Draw> {
        let flow = self.flows.get_mut(index)?;
        let act = flow.script.as_mut()?.take()?;
        let Act { offset, len, write } = act;
        if self.budget < u64::from(len) {
            self.budget = 0;
            return None;
        }
        self.budget -= u64::from(len);
        let side = if write { flow.write_side } else { flow.read_side };
        Some(Draw { offset, len, side, write, flow: index as u32 })
    }

    /// The next I/O is the one that a schedule chose.
    #[inline]
    pub(crate) fn follow(&mut self, position: Option<usize>) {
        let Some(position) = position else { return };
        self.flows.iter_mut().filter_map(|f| f.script.as_mut()).for_each(|s| s.seek(position));
    }

    /// Passes every boundary up to `now`: hands over the book of each interval that ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn event(&mut self, now: u64) {
        while now >= self.next_event {
            if self.next_event >= self.timeline.end {
                // What completes from here on belongs to the last interval, drain included.
                self.issuing = false;
                self.next_event = u64::MAX;
                return;
            }
            self.note_cpu();
            let fresh = self.pool.try_recv();
            let fresh = fresh.unwrap_or_else(|_| Book::new(self.places.len(), self.kind));
            let book = std::mem::replace(&mut self.book, fresh);
            let report = Report::Interval { worker: self.worker, seq: self.seq, book };
            let _ = self.out.send(report);
            self.seq += 1;
            self.next_event = self.timeline.boundary(self.seq);
        }
    }

    /// Whether somebody asked to stop; then nothing more is issued.
    #[inline(always)]
    pub(crate) fn check_stop(&mut self) {
        if self.stop.load(Ordering::Relaxed) {
            self.issuing = false;
        }
    }

    fn note_cpu(&mut self) {
        let (cpu, preempted) = thread_usage();
        self.book.cpu.user_ns += cpu.user_ns.saturating_sub(self.cpu_before.user_ns);
        self.book.cpu.system_ns += cpu.system_ns.saturating_sub(self.cpu_before.system_ns);
        self.cpu_before = cpu;
        self.last.preempted = preempted;
    }

    /// Waits for the common start.
    pub(crate) fn wait_for_start(&mut self) {
        let start = self.timeline.start;
        self.clock.sleep_until(Nanos(start.saturating_sub(100_000)));
        while self.clock.now().0 < start {
            std::hint::spin_loop();
        }
        self.cpu_before = thread_usage().0;
    }

    /// Notes a failed I/O; the first one stops the cell on all workers.
    #[cold]
    pub(crate) fn note_fault(&mut self, side: u32, fault: Fault) {
        if let Some(side) = self.book.sides.get_mut(side as usize) {
            side.errors += 1;
        }
        if self.last.fault.is_none() {
            self.last.fault = Some(fault);
        }
        self.stop.store(true, Ordering::Relaxed);
        self.issuing = false;
    }

    /// Keeps a record of an I/O, up to the number asked for.
    #[inline]
    pub(crate) fn record_io(&mut self, record: IoRecord) {
        if self.last.records.len() < self.record_max {
            self.last.records.push(record);
        }
    }

    /// Fills the buffer of a write, and remembers what is in flight in `slot` where data are checked.
    #[inline]
    pub(crate) fn prepare(&mut self, slot: usize, draw: Draw, buffer: &mut [u8]) {
        let Draw { offset, len, flow, .. } = draw;
        if let Some(checker) = &mut self.checker {
            match draw.write {
                true => checker.begin_write(slot, flow, offset, buffer, self.clock.now().0),
                false => checker.begin_read(slot, flow, offset, len),
            }
        } else if draw.write
            && let Some(flow) = self.flows.get_mut(flow as usize)
            && let Some(filler) = &mut flow.filler
        {
            filler.fill(buffer, &mut self.rng);
        }
    }

    /// An I/O of a checked load was acknowledged.
    #[inline(never)]
    pub(crate) fn check(&mut self, slot: usize, buffer: &[u8], now: u64) {
        let Some(checker) = &mut self.checker else { return };
        if !checker.end(slot, buffer, now) {
            let name = &self.target_name;
            self.fail(format!(
                "{name}: too much reads back wrong; the run stopped (`verify = {{ stop_after = N }}` in \
                 the plan, 0 never stops)"
            ));
        }
    }

    /// What was acknowledged goes to the journal before more is issued.
    #[inline(never)]
    pub(crate) fn end_batch(&mut self) {
        if let Some(checker) = &mut self.checker
            && let Err(error) = checker.end_batch()
        {
            self.fail(format!("the journal cannot be written: {error}"));
        }
    }

    /// Ends the cell on all workers, for a reason that is not of one I/O.
    #[cold]
    pub(crate) fn fail(&mut self, why: String) {
        self.last.failure.get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
        self.issuing = false;
    }

    /// Hands over the last book.
    pub(crate) fn finish(mut self, end: u64) -> Vec<Flow> {
        self.note_cpu();
        self.last.verified = self.checker.take().map(|checker| Box::new(checker.found));
        let report = Report::Done {
            worker: self.worker,
            seq: self.seq,
            end,
            book: self.book,
            last: self.last,
        };
        let _ = self.out.send(report);
        self.flows
    }
}

/// With less than a block left, a rest of whole sectors is still issued, as the tail of a fill.
#[cold]
pub(crate) fn has_tail(budget: u64) -> bool {
    budget > 0 && budget.is_multiple_of(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_follow_ramp_and_end() {
        let line = Timeline { start: 100, ramp: 25, interval: 10, end: 152 };
        let ends: Vec<u64> = (0..7).map(|seq| line.boundary(seq)).collect();
        assert_eq!(ends, [110, 120, 125, 135, 145, 152, 152]);
        assert_eq!((line.begin(0), line.begin(3)), (100, 125));
        assert!(line.is_ramp(2) && !line.is_ramp(3));
    }
}
