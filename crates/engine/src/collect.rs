//! From the workers' books to interval samples, off the measuring threads.

use crate::backend::{CellEnd, CellFacts, Next, Outcome, Sink};
use crate::core::{Report, Timeline, WorkerEnd};
use crate::ledger::{Book, SidePlace};
use crate::sys::thread::punt_threads;
use base::clock::Clock;
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// An interval that not every worker has reported yet.
struct Pending {
    streams: Vec<StreamSample>,
    cpu: CpuUse,
    reports: usize,
    end: u64,
}

/// Gathers reports until every worker is done.
pub(crate) struct Collector<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) timeline: Timeline,
    pub(crate) n_streams: usize,
    pub(crate) places: Vec<Arc<[SidePlace]>>,
    pub(crate) pools: Vec<Sender<Box<Book>>>,
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) interrupt: &'a AtomicBool,
    pending: BTreeMap<u64, Pending>,
    done: Vec<(u64, u64)>,
    facts: CellFacts,
    faults: Vec<crate::Fault>,
    failure: Option<String>,
    stopped_by_sink: bool,
    seen_interrupt: bool,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        clock: &'a Clock,
        timeline: Timeline,
        n_streams: usize,
        stop: &'a Arc<AtomicBool>,
        interrupt: &'a AtomicBool,
    ) -> Collector<'a> {
        Collector {
            clock,
            timeline,
            n_streams,
            places: Vec::new(),
            pools: Vec::new(),
            stop,
            interrupt,
            pending: BTreeMap::new(),
            done: Vec::new(),
            facts: CellFacts::default(),
            faults: Vec::new(),
            failure: None,
            stopped_by_sink: false,
            seen_interrupt: false,
        }
    }

    /// Runs until every worker is done; gives samples to the sink in order.
    pub(crate) fn run(mut self, reports: &Receiver<Report>, sink: &mut dyn Sink) -> CellEnd {
        let n_workers = self.places.len();
        let mut emitted = 0;
        while self.done.len() < n_workers {
            if self.interrupt.load(Ordering::Relaxed) {
                self.seen_interrupt = true;
                self.stop.store(true, Ordering::Relaxed);
            }
            match reports.recv_timeout(Duration::from_millis(50)) {
                Ok(report) => self.take(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while self.is_complete(emitted, n_workers) {
                self.emit(emitted, sink);
                emitted += 1;
            }
        }
        while let Some(&seq) = self.pending.keys().next() {
            self.emit(seq, sink);
        }
        self.finish()
    }

    fn finish(mut self) -> CellEnd {
        self.facts.drift_ppm = self.clock.drift_ppm();
        self.faults.sort_by_key(|fault| fault.at);
        let outcome = if let Some(message) = self.failure {
            Outcome::Failed(message)
        } else if let Some(fault) = self.faults.into_iter().next() {
            Outcome::Faulted(fault)
        } else if self.seen_interrupt {
            Outcome::Interrupted
        } else {
            Outcome::Completed
        };
        CellEnd { outcome, facts: self.facts }
    }

    fn pending(&mut self, seq: u64) -> &mut Pending {
        let n_streams = self.n_streams;
        self.pending.entry(seq).or_insert_with(|| Pending {
            streams: vec![StreamSample::default(); n_streams],
            cpu: CpuUse::default(),
            reports: 0,
            end: 0,
        })
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Interval { worker, seq, book } => {
                self.add(worker, seq, book);
                self.pending(seq).reports += 1;
            }
            Report::Done { worker, seq, end, book, last } => {
                self.add(worker, seq, book);
                let pending = self.pending(seq);
                pending.end = pending.end.max(end);
                self.done.push((seq, end));
                self.take_end(last);
            }
        }
    }

    fn add(&mut self, worker: usize, seq: u64, mut book: Box<Book>) {
        let places = self.places[worker].clone();
        let pending = self.pending(seq);
        pending.cpu.merge(std::mem::take(&mut book.cpu));
        book.drain_into(&places, &mut pending.streams);
        let _ = self.pools[worker].send(book);
    }

    fn take_end(&mut self, last: WorkerEnd) {
        let facts = &mut self.facts;
        for note in last.notes {
            if !facts.ring.contains(&note) {
                facts.ring.push(note);
            }
        }
        facts.preempted += last.preempted;
        facts.short_submits += last.short_submits;
        facts.records.extend(last.records);
        if let Some(verified) = last.verified {
            facts.verified.get_or_insert_default().merge(*verified);
        }
        self.faults.extend(last.fault);
        self.failure = self.failure.take().or(last.failure);
    }

    /// An interval is complete when each worker reported it or ended before or in it.
    fn is_complete(&self, seq: u64, n_workers: usize) -> bool {
        let Some(pending) = self.pending.get(&seq) else {
            return false;
        };
        let ended = self.done.iter().filter(|(last, _)| *last <= seq).count();
        pending.reports + ended >= n_workers && self.done.len() < n_workers
    }

    fn emit(&mut self, seq: u64, sink: &mut dyn Sink) {
        let Some(pending) = self.pending.remove(&seq) else {
            return;
        };
        self.facts.punt_threads = self.facts.punt_threads.max(punt_threads());
        let begin = self.timeline.begin(seq);
        // The last interval ends with its last completion: early by amount or stop, late by drain; a
        // cell that ran its time counts all of it, however seldom something completed.
        let all_done = self.done.len() == self.places.len();
        let end = match self.done.iter().map(|(_, end)| *end).max() {
            Some(last) if all_done && self.pending.is_empty() => {
                let ran_its_time = self.clock.now().0 >= self.timeline.end;
                last.max(if ran_its_time { self.timeline.end } else { begin })
            }
            _ => self.timeline.boundary(seq),
        };
        let sample = IntervalSample {
            seq: seq as u32,
            start: Nanos(begin),
            len: Nanos(end - begin),
            ramp: self.timeline.is_ramp(seq),
            streams: pending.streams,
            cpu: pending.cpu,
        };
        if sink.interval(sample) == Next::Stop && !self.stopped_by_sink {
            self.stopped_by_sink = true;
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
