//! Exact mode: every I/O of a cell, one by one.

use crate::backend::{CellRun, Drive, Piece, is_open};
use crate::host::{Bed, Count, Counted, Host};
use base::hist::{Lateness, Recorder, Response, Service};
use base::sample::{Side, StreamSample};
use engine::{CellSpec, Fault};
use plan::Load;

/// How long arrivals that were in time are served after the end of a cell, in ns.
const SERVED_AFTER_NS: u64 = 2_000_000_000;

/// A cell of one drive.
pub(crate) struct ExactCell {
    host: Host,
    ledger: Ledger,
    started: bool,
    open: bool,
    simulated: u64,
}

impl ExactCell {
    pub(crate) fn new(
        drive: &mut Drive,
        loads: Vec<(usize, Load)>,
        n_streams: usize,
        cell: &CellSpec,
        seed: u64,
        start: u64,
    ) -> ExactCell {
        let bed = Bed {
            loads: loads.iter().map(|(stream, load)| (*stream, load)).collect(),
            target: &drive.target,
            window: cell.window,
            seed,
            start,
        };
        let host = Host::new(&bed, &mut drive.pointers);
        let open = is_open(&loads);
        ExactCell { host, ledger: Ledger::new(n_streams), started: false, open, simulated: 0 }
    }
}

impl CellRun for ExactCell {
    fn go_on(&mut self, drive: &mut Drive, from: u64, until: u64, last: bool) -> Piece {
        let faults = &drive.asked.setup.faults;
        drive.device.fails_from = [false, true].map(|write| {
            let gone = faults.gone.map_or(u64::MAX, |at| at.0);
            let error = faults.error.filter(|(way, _)| *way == write).map_or(u64::MAX, |e| e.1.0);
            gone.min(error)
        });
        let energy = drive.device.energy_uj;
        let moved = drive.device.moved;
        if !self.started {
            self.started = true;
            self.host.start(from, &mut drive.device, &drive.flash);
        }
        let Drive { device, flash, .. } = drive;
        let mut end = self.host.run(until, device, flash, &mut self.ledger);
        if last {
            if self.open {
                self.host.stop_arrivals();
                while self.host.owes() && end < until + SERVED_AFTER_NS && !self.ledger.over() {
                    let step = end.max(until) + SERVED_AFTER_NS / 20;
                    let to = step.min(until + SERVED_AFTER_NS);
                    end = self.host.run(to, device, flash, &mut self.ledger).max(to);
                }
                self.host.shed_rest(&mut self.ledger);
            }
            self.host.stop();
        }
        drive.counts.read += drive.device.moved[0] - moved[0];
        drive.counts.written += drive.device.moved[1] - moved[1];
        let piece = self.ledger.take();
        let used = drive.device.energy_uj - energy;
        drive.warm((until.min(end.max(from + 1)) - from) as f64 * 1e-9, used);
        let fault = self.ledger.failed.map(|io| {
            let number = drive.fault(io.at, io.write).unwrap_or(0);
            drive.fault_of(number, io.write, io.at, io.offset, io.len)
        });
        self.simulated += piece.iter().map(StreamSample::ios).sum::<u64>();
        let ended = (self.host.idle() && !last).then_some(end.max(from));
        Piece { streams: piece, ended, fault: fault as Option<Fault> }
    }

    fn simulated(&self) -> Option<u64> {
        Some(self.simulated)
    }
}

struct Books {
    service: Box<Recorder<Service>>,
    response: Box<Recorder<Response>>,
    bytes: u64,
    errors: u64,
}

struct Ledger {
    sides: Vec<[Books; 2]>,
    lateness: Vec<Box<Recorder<Lateness>>>,
    waited: Vec<u64>,
    shed: Vec<u64>,
    failed: Option<Counted>,
}

impl Ledger {
    fn new(n_streams: usize) -> Ledger {
        let books = || Books {
            service: Recorder::boxed(),
            response: Recorder::boxed(),
            bytes: 0,
            errors: 0,
        };
        Ledger {
            sides: (0..n_streams).map(|_| [books(), books()]).collect(),
            lateness: (0..n_streams).map(|_| Recorder::boxed()).collect(),
            waited: vec![0; n_streams],
            shed: vec![0; n_streams],
            failed: None,
        }
    }

    /// The counts since the last time.
    fn take(&mut self) -> Vec<StreamSample> {
        let mut samples = Vec::with_capacity(self.sides.len());
        for (stream, sides) in self.sides.iter_mut().enumerate() {
            let mut sample = StreamSample::default();
            let [reads, writes] = sides;
            empty(reads, &mut sample.reads);
            empty(writes, &mut sample.writes);
            self.lateness[stream].drain_into(&mut sample.lateness);
            sample.waited = std::mem::take(&mut self.waited[stream]);
            sample.shed = std::mem::take(&mut self.shed[stream]);
            samples.push(sample);
        }
        samples
    }
}

fn empty(books: &mut Books, side: &mut Side) {
    books.service.drain_into(&mut side.service);
    books.response.drain_into(&mut side.response);
    side.bytes = std::mem::take(&mut books.bytes);
    side.errors = std::mem::take(&mut books.errors);
}

impl Count for Ledger {
    fn io(&mut self, io: &Counted) {
        let books = &mut self.sides[io.stream][usize::from(io.write)];
        if io.failed {
            books.errors += 1;
            self.failed.get_or_insert(*io);
            return;
        }
        books.service.record(io.service_ns);
        books.bytes += u64::from(io.len);
        if let Some((response, lateness)) = io.open {
            books.response.record(response);
            self.lateness[io.stream].record(lateness);
        }
    }

    fn waited(&mut self, stream: usize) {
        self.waited[stream] += 1;
    }

    fn shed(&mut self, stream: usize, n: u64) {
        self.shed[stream] += n;
    }

    fn over(&self) -> bool {
        self.failed.is_some()
    }
}
