//! Interval mode: whole intervals of a cell from tables, the state of the flash moved along.

use crate::backend::{CellRun, Drive, Piece};
use crate::device::Media;
use crate::table::{Mixture, Workload};
use crate::target::Stall;
use base::rng::{Rng, derive};
use base::sample::{Side, StreamSample};
use engine::{CellSpec, Cursor, CursorPlace, TargetCounts, choices, extent};
use plan::{BlockMix, Demand, Load, Pattern};
use std::sync::atomic::Ordering;

/// A cell of one drive.
pub(crate) struct IntervalCell {
    loads: Vec<(usize, Load)>,
    n_streams: usize,
    samples: u32,
    /// Start of the cell.
    start: u64,
    /// Simulated I/Os behind the figures, in the stretch with the fewest.
    simulated: Option<u64>,
    seed: u64,
    rng: Rng,
    /// Bytes still to move, where an amount ends the cell.
    left: Option<f64>,
    /// I/Os and pages that made no whole one yet, by stream and direction.
    carry: Vec<[f64; 2]>,
    walks: Vec<Walk>,
    /// Arrivals that wait, where more come than can be served.
    backlog: f64,
}

/// Where the pages of a stream's writes go, at the scale of the state.
struct Walk {
    stream: usize,
    cursor: Cursor,
    choice: engine::Choice,
    /// Kept pointer of a sequential stream.
    pointer: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
    /// Bytes that made no whole page yet.
    rest: f64,
}

impl IntervalCell {
    pub(crate) fn new(
        drive: &mut Drive,
        loads: Vec<(usize, Load)>,
        n_streams: usize,
        cell: &CellSpec,
        seed: u64,
        start: u64,
    ) -> IntervalCell {
        let left = loads.first().and_then(|(_, load)| {
            let (start, end) = extent(load, &drive.target);
            Some(cell.window.amount?.on(end - start, drive.target.size) as f64)
        });
        let walks =
            loads.iter().filter(|(_, load)| load.writes()).map(|(s, l)| walk(drive, *s, l, seed));
        IntervalCell {
            walks: walks.collect(),
            n_streams,
            samples: drive.asked.setup.samples,
            start,
            simulated: None,
            // The same workload has the same table wherever it stands.
            seed: derive(drive.asked.setup.seed, 99),
            rng: Rng::new(seed),
            left,
            carry: vec![[0.0; 2]; n_streams],
            backlog: 0.0,
            loads,
        }
    }
}

/// The addresses of a load's writes in pages of the state.
fn walk(drive: &mut Drive, stream: usize, load: &Load, seed: u64) -> Walk {
    let (start, end) = extent(load, &drive.target);
    let page = drive.flash.page_bytes.min(end - start);
    let block = base::units::Bytes(page);
    let mix = BlockMix::one(block);
    let scaled = Load {
        read_blocks: mix.clone(),
        write_blocks: mix.clone(),
        align: None,
        pattern: match &load.pattern {
            // One stream stands for all: what it overwrites is the same.
            Pattern::Sequential(_) => Pattern::Sequential(plan::Streams::Shared),
            other => other.clone(),
        },
        ..load.clone()
    };
    let pointer = drive.pointers.entry((start, end, 0)).or_default().clone();
    let load_seed = derive(seed, 1 << 32 | stream as u64);
    let place = CursorPlace { start, end, index: 0, of: 1, load_seed, pointer: pointer.clone() };
    let cursor = Cursor::new(&scaled, &place);
    let choice = choices(&mix, None, end - start).remove(0);
    let kept = cursor.pointer().map(|_| pointer);
    Walk { stream, cursor, choice, pointer: kept, rest: 0.0 }
}

impl Walk {
    /// Moves the flash along by this many bytes written.
    fn write(&mut self, drive: &mut Drive, bytes: f64, rng: &mut Rng) {
        self.rest += bytes;
        let page = drive.flash.page_bytes as f64;
        while self.rest >= page {
            self.rest -= page;
            let (offset, _) = self.cursor.next(&self.choice, rng);
            drive.flash.write_page(offset);
        }
        if let (Some(pointer), Some(at)) = (&self.pointer, self.cursor.pointer()) {
            pointer.store(at, Ordering::Relaxed);
        }
    }
}

/// Parts of an interval at most.
const PARTS_MAX: f64 = 32.0;

/// A part of an interval in which nothing changes.
struct Stretch {
    ns: f64,
    /// I/Os a second that end.
    rate: f64,
    /// More comes than can be served.
    extra_ns: u64,
}

impl CellRun for IntervalCell {
    fn go_on(&mut self, drive: &mut Drive, from: u64, until: u64, last: bool) -> Piece {
        let faults = drive.asked.setup.faults.clone();
        let mut streams = vec![StreamSample::default(); self.n_streams];
        let failing = self.loads.iter().any(|(_, load)| load.writes());
        let does = |write: bool| {
            self.loads.iter().any(|(_, load)| if write { load.writes() } else { load.reads() })
        };
        let fails = |at: u64| match faults.error {
            Some((write, from)) if does(write) => from.0.min(at),
            _ => at,
        };
        let cut = fails(faults.gone.map_or(u64::MAX, |gone| gone.0));
        let end = until.min(cut).max(from);
        let stalled = stall_in(faults.stall, from, end);
        let noise = drive.noise.next();
        let whole_ns = (end - from - stalled) as f64;
        let (mut left_ns, mut energy) = (whole_ns, 0.0);
        while left_ns > 0.5 && self.left.is_none_or(|left| left >= 1.0) && !self.loads.is_empty() {
            let used = self.stretch(drive, (left_ns, whole_ns), noise, &mut streams, &mut energy);
            left_ns -= used;
        }
        for delay in stall_ends(faults.stall, self.start, from, end) {
            self.delay_last(&mut streams, delay);
        }
        if last {
            let shed = std::mem::take(&mut self.backlog).round() as u64;
            self.loads.first().into_iter().for_each(|(stream, _)| streams[*stream].shed += shed);
        }
        streams.iter().for_each(|stream| tally(&mut drive.counts, stream));
        let ran = (end - from) as f64 - left_ns.max(0.0);
        drive.warm(ran.max(1.0) * 1e-9, energy);
        let done = self.loads.is_empty() || self.left.is_some_and(|left| left < 1.0);
        let fault = (cut <= until).then(|| {
            let write = faults.error.map_or(failing, |(write, _)| write);
            let number = drive.fault(cut, write).unwrap_or(19);
            drive.fault_of(number, write, cut, 0, 0)
        });
        Piece { streams, ended: done.then(|| from + ran.ceil() as u64), fault }
    }

    fn simulated(&self) -> Option<u64> {
        self.simulated
    }
}

impl IntervalCell {
    /// Moves time along while nothing changes, `left_ns` at most; gives how long that was.
    fn stretch(
        &mut self,
        drive: &mut Drive,
        (left_ns, interval_ns): (f64, f64),
        noise: f64,
        streams: &mut [StreamSample],
        energy: &mut f64,
    ) -> f64 {
        let cached = drive.flash.cache_left() >= 1.0;
        let loads: Vec<(usize, &Load)> = self.loads.iter().map(|(s, load)| (*s, load)).collect();
        let work = Workload {
            loads: &loads,
            target: &drive.target,
            timing: &drive.timing,
            cached,
            samples: self.samples,
            seed: self.seed,
        };
        let amplification = drive.flash.amplification();
        let host_rate = self.host_rate(drive);
        let mixture = drive.tables.at(&work, amplification);
        self.simulated = Some(self.simulated.unwrap_or(u64::MAX).min(mixture.samples));
        let asked: f64 = self.loads.iter().filter_map(|(_, load)| rate_of(load)).sum();
        let served_in_time = asked > 0.0 && !mixture.overloaded && self.backlog < 1.0;
        let rate = (mixture.rate * if served_in_time { 1.0 } else { noise }).min(host_rate);
        let writes = rate * mixture.written_per_io;
        let mut ns = left_ns;
        if writes > 0.0 {
            // The amplification hardly moves within half a superblock. A very small drive writes many of
            // them in an interval: there the parts of an interval are what is looked at.
            let half = drive.flash.superblock_bytes() as f64 / 2.0;
            ns = ns.min((half / writes * 1e9).max(interval_ns / PARTS_MAX));
            if cached {
                ns = ns.min(drive.flash.cache_left() / writes * 1e9 + 1.0);
            }
        }
        let per_io: f64 = mixture.sides.iter().map(|side| side.share * side.mean_bytes).sum();
        if let Some(left) = &mut self.left {
            ns = ns.min(*left / (rate * per_io).max(1e-9) * 1e9);
            *left -= rate * per_io * ns * 1e-9;
        }
        let mut stretch = Stretch { ns, rate, extra_ns: 0 };
        if asked > 0.0 && !served_in_time {
            queue_up(&mut self.backlog, &self.loads, asked, &mut stretch, streams);
        }
        *energy += rate * ns * 1e-9 * mixture.energy_uj;
        count(mixture, &stretch, &mut self.carry, streams, self.rng.unit());
        let unit = drive.timing.unit as f64;
        let written: Vec<(usize, f64)> = mixture
            .sides
            .iter()
            .filter(|side| side.write)
            .map(|side| (side.stream, rate * ns * 1e-9 * side.share * side.mean_bytes.max(unit)))
            .collect();
        if cached {
            drive.flash.use_cache(writes * ns * 1e-9);
        }
        self.wear(drive, &written);
        ns.max(1.0)
    }

    /// I/Os a second that the host's CPUs can issue: a worker has one.
    fn host_rate(&self, drive: &Drive) -> f64 {
        let workers: u32 = self.loads.iter().map(|(_, load)| load.workers).sum();
        let cost_ns = drive.asked.setup.faults.host_ns;
        cost_ns.map_or(f64::MAX, |ns| f64::from(workers) * 1e9 / ns)
    }

    /// Moves the flash along by what each stream wrote, in bytes.
    fn wear(&mut self, drive: &mut Drive, written: &[(usize, f64)]) {
        for walk in &mut self.walks {
            let of_stream = written.iter().filter(|(stream, _)| *stream == walk.stream);
            let bytes: f64 = of_stream.map(|(_, bytes)| bytes).sum();
            walk.write(drive, bytes, &mut self.rng);
        }
    }

    /// The I/Os that were on their way when the drive stood still end that much later. None of them is
    /// open loop: such cells are simulated in full.
    fn delay_last(&mut self, streams: &mut [StreamSample], delay_ns: u64) {
        for (stream, load) in &self.loads {
            let sample = &mut streams[*stream];
            let n = u64::from(load.depth) * u64::from(load.workers);
            let write = sample.reads.ios() == 0;
            let side = if write { &mut sample.writes } else { &mut sample.reads };
            let block = load.block_max().0;
            side.service.record_n(delay_ns, n);
            side.bytes += n * block;
        }
    }
}

/// More arrivals than can be served: they wait, and in the end are shed.
fn queue_up(
    backlog: &mut f64,
    loads: &[(usize, Load)],
    asked: f64,
    stretch: &mut Stretch,
    streams: &mut [StreamSample],
) {
    let (stream, first) = &loads[0];
    let most = match first.demand {
        Demand::Open { backlog, .. } => backlog as f64,
        Demand::Closed => f64::MAX,
    };
    let arrived = asked * stretch.ns * 1e-9;
    let served = stretch.rate * stretch.ns * 1e-9;
    stretch.extra_ns = (*backlog / stretch.rate.max(1e-9) * 1e9) as u64;
    streams[*stream].waited += arrived.round() as u64;
    *backlog = (*backlog + arrived - served).max(0.0);
    if *backlog > most {
        streams[*stream].shed += (*backlog - most).round() as u64;
        *backlog = most;
    }
}

/// Counts what ends in a stretch.
fn count(
    mixture: &Mixture,
    stretch: &Stretch,
    carry: &mut [[f64; 2]],
    streams: &mut [StreamSample],
    phase: f64,
) {
    let ios = stretch.rate * stretch.ns * 1e-9;
    for shape in &mixture.sides {
        let carry = &mut carry[shape.stream][usize::from(shape.write)];
        let exact = ios * shape.share + *carry;
        let n = exact.floor();
        *carry = exact - n;
        let n = n as u64;
        let sample = &mut streams[shape.stream];
        let side: &mut Side = if shape.write { &mut sample.writes } else { &mut sample.reads };
        side.bytes += (n as f64 * shape.mean_bytes).round() as u64;
        shape.service.spread(&mut side.service, n, phase, 0);
        if let Some((response, lateness)) = &shape.response {
            let extra = stretch.extra_ns;
            response.spread(&mut side.response, n, phase, extra);
            lateness.spread(&mut sample.lateness, n, phase, extra);
        }
    }
}

fn tally(counts: &mut TargetCounts, stream: &StreamSample) {
    counts.read += stream.reads.bytes;
    counts.written += stream.writes.bytes;
}

fn rate_of(load: &Load) -> Option<f64> {
    match load.demand {
        Demand::Open { rate_iops, .. } => Some(rate_iops),
        Demand::Closed => None,
    }
}

/// How much of an interval stalls take.
fn stall_in(stall: Option<Stall>, from: u64, end: u64) -> u64 {
    let part = |(at, over): (u64, u64)| over.min(end) - at.max(from);
    stall.map_or(0, |stall| stall.within(from, end).map(part).sum())
}

/// How long I/Os of a cell that began at `start` were delayed by the stalls that end in this interval.
fn stall_ends(stall: Option<Stall>, start: u64, from: u64, end: u64) -> Vec<u64> {
    let ends = |(_, over): &(u64, u64)| *over > from && *over <= end;
    let delay = |(at, over): (u64, u64)| over - at.max(start);
    stall.map_or_else(Vec::new, |s| s.within(from, end + 1).filter(ends).map(delay).collect())
}
