//! The contract of a back end, and the two that run on this host.

use crate::address::{Cursor, CursorPlace, choices};
use crate::arrival::Schedule;
use crate::collect::Collector;
use crate::core::{ALWAYS, Core, CoreParts, Flow, Report, SCRIPTED, Timeline, Wires};
use crate::data::Filler;
use crate::error::EngineError;
use crate::external::FioBackend;
use crate::fault::Fault;
use crate::ledger::{Book, BookKind, SidePlace};
use crate::script::Script;
use crate::spec::{CellSpec, Stream, Target, WorkerSpec, extent, streams};
use crate::sys::ring::Queue;
use crate::sys::thread::{allowed_cpus, pin_to};
use crate::verify::{Checker, Filling, Tracker, Verified};
use crate::{IoRecord, sync, uring};
use base::clock::Clock;
use base::rng::{Rng, derive};
use base::sample::IntervalSample;
use base::units::Nanos;
use plan::{Demand, Load, Pattern};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Takes interval samples while a cell runs.
pub trait Sink {
    /// One interval, in order. The answer may end the cell.
    fn interval(&mut self, sample: IntervalSample) -> Next;

    /// A value worth recording, from a back end that has some.
    fn telemetry(&mut self, _at: Nanos, _source: &str, _name: &'static str, _value: f64) {}
}

/// Whether a cell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It does.
    Continue,
    /// It ends as if its time were over.
    Stop,
}

/// Something that can run cells: in real time on this host, or in virtual time.
pub trait Backend {
    /// Name for the run file.
    fn name(&self) -> &'static str;

    /// Runs one cell. `interrupt` ends it early, keeping what was measured.
    ///
    /// # Errors
    /// When the cell could not start; what goes wrong later is in the [`Outcome`].
    fn run(
        &mut self,
        cell: &CellSpec,
        sink: &mut dyn Sink,
        interrupt: &AtomicBool,
    ) -> Result<CellEnd, EngineError>;

    /// Lets time pass without I/O. Gives false where time passes by itself: the caller waits.
    fn idle(&mut self, _time: Nanos) -> bool {
        false
    }

    /// A cell was run before, by an earlier process: sequential streams go on behind it. `bytes` are
    /// those of each stream.
    fn ran_before(&mut self, _cell: &CellSpec, _bytes: &[u64]) {}

    /// Purges or sets a target that only exists in this back end; none for targets of the host.
    fn control(&mut self, _target: usize, _control: Control) -> Option<Result<String, String>> {
        None
    }

    /// The workers of each target run on these CPUs from now on, in this order; no CPUs means all that
    /// this process may use.
    fn place(&mut self, _cpus: Vec<Vec<usize>>) {}

    /// From now on writes are stamped, and reads of loads that verify are checked, by these: one for each
    /// target. False where targets hold no data.
    fn verify(&mut self, _trackers: Vec<Arc<Tracker>>) -> bool {
        false
    }

    /// What a target of this back end counted itself; none for targets of the host.
    fn counts(&self, _target: usize) -> Option<TargetCounts> {
        None
    }
}

/// What can be done to a virtual target between cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Nothing is on it any more.
    Purge,
    /// Its volatile write cache goes on or off.
    WriteCache(bool),
    /// Its power state, by number.
    PowerState(u8),
    /// Temperatures from which it throttles, lightly and heavily, in degrees Celsius.
    Thermal(u16, u16),
    /// The most it may draw.
    PowerLimit {
        /// In milliwatts.
        mw: u32,
    },
}

/// What a target counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetCounts {
    /// Bytes the host read.
    pub read: u64,
    /// Bytes the host wrote.
    pub written: u64,
}

/// How a cell ended, and the facts about its running.
#[derive(Clone, Debug)]
pub struct CellEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// What is worth knowing beside the counts.
    pub facts: CellFacts,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// By its window.
    Completed,
    /// On request.
    Interrupted,
    /// By the first I/O that failed.
    Faulted(Fault),
    /// By a failure that is not of one I/O.
    Failed(String),
}

/// What is worth knowing beside the counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellFacts {
    /// Worker threads.
    pub workers: u32,
    /// CPUs they were pinned to.
    pub cpus: Vec<usize>,
    /// What the ring uses: see `docs/ARCHITECTURE.md`.
    pub ring: Vec<&'static str>,
    /// Kernel threads that requests were handed to instead of the device.
    pub punt_threads: u32,
    /// Times a worker was taken off its CPU.
    pub preempted: u64,
    /// Submissions the kernel took only in part.
    pub short_submits: u64,
    /// Clock drift since calibration.
    pub drift_ppm: f64,
    /// Whether the page cache was measured instead of the device.
    pub page_cache: bool,
    /// Records of single I/Os, when asked for.
    pub records: Vec<IoRecord>,
    /// What checking of data found, where data were checked.
    pub verified: Option<Verified>,
    /// Simulated I/Os behind the figures of an interval, at least, where the target is virtual.
    pub simulated_ios: u64,
}

/// The engines of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// pread and pwrite.
    Sync,
    /// The installed fio, for cross-checks.
    Fio,
}

/// A back end over opened targets.
pub fn host_backend(engine: Engine, targets: Vec<Target>, clock: Clock) -> Box<dyn Backend> {
    match engine {
        Engine::Fio => Box::new(FioBackend::new(targets, clock)),
        _ => Box::new(HostBackend::new(engine, targets, clock)),
    }
}

/// Workers on this host.
struct HostBackend {
    engine: Engine,
    targets: Vec<Target>,
    clock: Clock,
    /// CPUs for the workers of each target; empty for all.
    cpus: Vec<Vec<usize>>,
    /// Where each sequential stream stands, by target, range and worker: kept across cells.
    pointers: HashMap<(usize, u64, u64, u32), Arc<AtomicU64>>,
    /// Where data are checked: what each target must hold.
    trackers: Vec<Arc<Tracker>>,
}

/// Time between starting the first worker and the common start, for each worker, in ns.
const START_DELAY_NS: u64 = 3_000_000;
const START_DELAY_PER_WORKER_NS: u64 = 150_000;

impl Backend for HostBackend {
    fn place(&mut self, cpus: Vec<Vec<usize>>) {
        self.cpus = cpus;
    }

    fn verify(&mut self, trackers: Vec<Arc<Tracker>>) -> bool {
        self.trackers = trackers;
        true
    }

    fn name(&self) -> &'static str {
        if self.engine == Engine::Sync { "sync" } else { "uring" }
    }

    fn ran_before(&mut self, cell: &CellSpec, bytes: &[u64]) {
        for (stream, &bytes) in streams(&cell.loads, self.targets.len()).iter().zip(bytes) {
            let load = &cell.loads[stream.load];
            let (start, end) = extent(load, &self.targets[stream.target]);
            let parts: Vec<u32> = match load.pattern {
                Pattern::Sequential(plan::Streams::Shared) => vec![0],
                Pattern::Sequential(plan::Streams::PerWorker) => (1..=load.workers).collect(),
                _ => continue,
            };
            let n = parts.len() as u64;
            let span = ((end - start) / n).max(1);
            for worker in parts {
                let key = (stream.target, start, end, worker);
                let pointer = self.pointers.entry(key).or_default();
                let at = pointer.load(Ordering::Relaxed) + bytes / n;
                // Whole blocks, so that what comes next is aligned.
                let block = load.block_max().0.max(1);
                pointer.store(at % span / block * block, Ordering::Relaxed);
            }
        }
    }

    fn run(
        &mut self,
        cell: &CellSpec,
        sink: &mut dyn Sink,
        interrupt: &AtomicBool,
    ) -> Result<CellEnd, EngineError> {
        let specs = cell.workers(&self.targets, self.engine == Engine::Sync)?;
        let all_streams = streams(&cell.loads, self.targets.len());
        let stop = Arc::new(AtomicBool::new(false));
        let timeline = self.timeline(cell, specs.len());
        let clock = self.clock.clone();
        let guard_ns = if cell.loads.iter().any(is_open) { wake_guard(&clock) } else { 0 };
        let (out, reports) = channel();
        let mut collector = Collector::new(&clock, timeline, all_streams.len(), &stop, interrupt);
        let cpus = self.cpus_of(&specs);
        let mut threads = Vec::new();
        for (worker, spec) in specs.iter().enumerate() {
            let flows = self.flows(cell, &all_streams, spec);
            let places = places_of(&flows);
            let (pool_in, pool) = channel();
            let _ = pool_in.send(Book::new(places.len(), self.kind(spec)));
            collector.pools.push(pool_in);
            collector.places.push(places.clone());
            let wires = Wires { out: out.clone(), pool, stop: stop.clone() };
            let core =
                Core::new(self.core_parts(cell, spec, worker, flows, places, timeline), wires);
            let job = Job {
                engine: self.engine,
                target: self.targets[spec.target].clone(),
                spec: spec.clone(),
                cpu: cpus[worker],
                slot_bytes: slot_bytes(cell, &all_streams, spec),
                guard_ns,
            };
            let failed = out.clone();
            let builder = std::thread::Builder::new().name(format!("fathom-w{worker}"));
            match builder.spawn(move || job.run(core, &failed)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(EngineError::SetUp(error));
                }
            }
        }
        drop(out);
        let mut end = collector.run(&reports, sink);
        for (thread, spec) in threads.into_iter().zip(&specs) {
            match thread.join() {
                Ok(Ok(flows)) => self.keep_pointers(cell, &all_streams, spec, &flows),
                Ok(Err(error)) => return Err(EngineError::SetUp(error)),
                Err(_) => end.outcome = Outcome::Failed("a worker thread panicked".into()),
            }
        }
        end.facts.workers = specs.len() as u32;
        end.facts.cpus = cpus;
        end.facts.cpus.sort_unstable();
        end.facts.cpus.dedup();
        end.facts.page_cache = self.targets.iter().any(|target| target.direct == crate::Direct::No);
        Ok(end)
    }
}

fn is_open(load: &Load) -> bool {
    load.demand != Demand::Closed
}

fn slot_bytes(cell: &CellSpec, streams: &[Stream], spec: &WorkerSpec) -> usize {
    let largest = |&(stream, _): &(usize, f64)| cell.loads[streams[stream].load].block_max().0;
    spec.flows.iter().map(largest).max().unwrap_or(4096) as usize
}

fn places_of(flows: &[Flow]) -> Arc<[SidePlace]> {
    let mut places = Vec::new();
    for flow in flows {
        if !flow.reads.is_empty() {
            places.push(SidePlace { stream: flow.stream, write: false });
        }
        if !flow.writes.is_empty() {
            places.push(SidePlace { stream: flow.stream, write: true });
        }
    }
    places.into()
}

impl HostBackend {
    fn new(engine: Engine, targets: Vec<Target>, clock: Clock) -> HostBackend {
        let cpus = vec![Vec::new(); targets.len()];
        let pointers = HashMap::new();
        HostBackend { engine, targets, clock, cpus, pointers, trackers: Vec::new() }
    }

    /// The CPU of each worker: those of its target in turns, so that two targets with the same CPUs do
    /// not both begin with the first.
    fn cpus_of(&self, specs: &[WorkerSpec]) -> Vec<usize> {
        let allowed = allowed_cpus();
        let mut used: HashMap<usize, usize> = HashMap::new();
        let pick = |spec: &WorkerSpec| {
            let wanted = self.cpus.get(spec.target).filter(|cpus| !cpus.is_empty());
            let cpus = wanted.unwrap_or(&allowed);
            // The least used of them; the first of equals.
            let cpu = cpus.iter().copied().min_by_key(|cpu| used.get(cpu).copied().unwrap_or(0));
            let cpu = cpu.unwrap_or(0);
            *used.entry(cpu).or_default() += 1;
            cpu
        };
        specs.iter().map(pick).collect()
    }

    fn timeline(&self, cell: &CellSpec, workers: usize) -> Timeline {
        let delay = START_DELAY_NS + START_DELAY_PER_WORKER_NS * workers as u64;
        let start = self.clock.now().0 + delay;
        let ramp = cell.window.ramp.0;
        let end = cell.window.time.map_or(u64::MAX, |time| start + ramp + time.0);
        Timeline { start, ramp, interval: cell.interval.0.max(1_000_000), end }
    }

    fn kind(&self, spec: &WorkerSpec) -> BookKind {
        BookKind { open_loop: spec.demand != Demand::Closed, one_call: self.engine == Engine::Sync }
    }

    fn core_parts(
        &self,
        cell: &CellSpec,
        spec: &WorkerSpec,
        worker: usize,
        flows: Vec<Flow>,
        places: Arc<[SidePlace]>,
        timeline: Timeline,
    ) -> CoreParts {
        CoreParts {
            clock: self.clock.clone(),
            seed: spec.seed,
            flows,
            places,
            budget: spec.budget,
            timeline,
            target_name: self.targets[spec.target].name.clone(),
            worker,
            kind: self.kind(spec),
            record_max: cell.record_ios,
            checker: self.checker(cell, spec),
        }
    }

    fn checker(&self, cell: &CellSpec, spec: &WorkerSpec) -> Option<Box<Checker>> {
        let tracker = self.trackers.get(spec.target)?.clone();
        let streams = streams(&cell.loads, self.targets.len());
        let loads = spec.flows.iter().map(|&(stream, _)| &cell.loads[streams[stream].load]);
        // Without a write to stamp and a read to check the usual loops run.
        if !loads.clone().any(|load| load.writes() || load.verify.is_some()) {
            return None;
        }
        let flows = loads.clone().map(|load| (Filling::new(&load.data), load.verify.is_some()));
        let stop = loads.clone().filter_map(|load| load.verify).map(|v| v.stop_after).min();
        Some(Box::new(Checker::new(tracker, flows.collect(), spec.depth, stop.unwrap_or(0))))
    }

    /// The loads of a worker as it issues them.
    fn flows(&mut self, cell: &CellSpec, streams: &[Stream], spec: &WorkerSpec) -> Vec<Flow> {
        let total: f64 = spec.flows.iter().map(|(_, weight)| weight).sum();
        let reads_too = spec.flows.iter().any(|flow| cell.loads[streams[flow.0].load].reads());
        let mut sum = 0.0;
        let mut side = 0;
        let mut flows = Vec::new();
        for &(stream, weight) in &spec.flows {
            let load = &cell.loads[streams[stream].load];
            let target = &self.targets[spec.target];
            let (start, end) = extent(load, target);
            let unit = target.block.0;
            let place = CursorPlace {
                start,
                end,
                index: spec.index,
                of: spec.of,
                load_seed: derive(cell.seed, 1 << 32 | streams[stream].load as u64),
                pointer: self.pointer(load, spec, start, end),
            };
            let align = load.align.map(|align| align.0);
            let mix = |used: bool, mix| {
                if used { choices(mix, align, end - start) } else { vec![] }
            };
            let (reads, writes) =
                (mix(load.reads(), &load.read_blocks), mix(load.writes(), &load.write_blocks));
            sum += weight / total;
            let sides = (side, side + u32::from(!reads.is_empty()));
            side = sides.1 + u32::from(!writes.is_empty());
            flows.push(Flow {
                below: if sum > 0.999_999_999 { ALWAYS } else { share(sum) },
                cursor: Cursor::new(load, &place),
                read_below: match load.read_percent {
                    _ if matches!(load.pattern, Pattern::Trace(_)) => SCRIPTED,
                    100.0 => ALWAYS,
                    percent => share(percent / 100.0),
                },
                reads,
                writes,
                filler: load
                    .writes()
                    .then(|| Filler::new(&load.data, cell.seed, spec.seed, reads_too))
                    .flatten(),
                read_side: sides.0,
                write_side: sides.1,
                stream,
                script: Script::new(load, (start, end), unit, spec.index, spec.of),
            });
        }
        flows
    }

    /// The kept pointer of a stream: one for all workers of a target, or one for each.
    fn pointer(&mut self, load: &Load, spec: &WorkerSpec, start: u64, end: u64) -> Arc<AtomicU64> {
        let own = load.pattern == Pattern::Sequential(plan::Streams::PerWorker);
        let worker = if own { spec.index + 1 } else { 0 };
        self.pointers.entry((spec.target, start, end, worker)).or_default().clone()
    }

    fn keep_pointers(
        &mut self,
        cell: &CellSpec,
        streams: &[Stream],
        spec: &WorkerSpec,
        flows: &[Flow],
    ) {
        for flow in flows {
            if let Some(at) = flow.cursor.pointer() {
                let load = &cell.loads[streams[flow.stream].load];
                let (start, end) = extent(load, &self.targets[spec.target]);
                self.pointer(load, spec, start, end).store(at, Ordering::Relaxed);
            }
        }
    }
}

/// A share as a threshold for 32-bit draws.
fn share(share: f64) -> u64 {
    (share * (1u64 << 32) as f64).round() as u64
}

/// Three times the median error of a short sleep: how long before an arrival to stop sleeping, in ns.
fn wake_guard(clock: &Clock) -> u64 {
    let mut errors: Vec<u64> = (0..15)
        .map(|_| {
            let until = clock.now().0 + 50_000;
            clock.sleep_until(base::units::Nanos(until));
            clock.now().0.saturating_sub(until)
        })
        .collect();
    errors.sort_unstable();
    (errors[errors.len() / 2] * 3).clamp(5_000, 300_000)
}

/// What a worker thread needs beside its core.
struct Job {
    engine: Engine,
    target: Target,
    spec: WorkerSpec,
    cpu: usize,
    slot_bytes: usize,
    guard_ns: u64,
}

impl Job {
    fn run(self, core: Core, failed: &Sender<Report>) -> std::io::Result<Vec<Flow>> {
        pin_to(self.cpu);
        let (worker, places, kind) = (core.worker, core.places.len(), core.kind);
        let stop = core.stop.clone();
        match self.run_loop(core) {
            Ok((core, end)) => Ok(core.finish(end)),
            Err(error) => {
                // The collector waits for every worker; tell it, and the others to end.
                stop.store(true, Ordering::Relaxed);
                let book = Book::new(places, kind);
                let last = crate::core::WorkerEnd::default();
                let _ = failed.send(Report::Done { worker, seq: 0, end: 0, book, last });
                Err(error)
            }
        }
    }

    fn run_loop(&self, mut core: Core) -> std::io::Result<(Core, u64)> {
        let open = match self.spec.demand {
            Demand::Closed => None,
            Demand::Open { rate_iops, arrival, backlog } => {
                let phase = f64::from(self.spec.index) / f64::from(self.spec.of);
                let mut rng = Rng::new(derive(self.spec.seed, 0xa881));
                std::mem::swap(&mut rng, &mut core.rng);
                let start = core.timeline.start;
                let script = core.flows.iter().find_map(|flow| flow.script.as_ref());
                let schedule = match script.map(Script::recorded) {
                    Some(recorded) => Schedule::recorded(start, recorded),
                    None => Schedule::new(start, rate_iops, arrival, phase, &mut core.rng),
                };
                std::mem::swap(&mut rng, &mut core.rng);
                Some((schedule, backlog))
            }
        };
        let Job { target, guard_ns, .. } = self;
        match (self.engine, open) {
            (Engine::Sync, None) => Ok(sync::prepare(core, target, self.slot_bytes)?.run_closed()),
            (Engine::Sync, Some((schedule, backlog))) => {
                let worker = sync::prepare(core, target, self.slot_bytes)?;
                Ok(worker.run_open(schedule, backlog, *guard_ns))
            }
            (_, open) => {
                let (depth, bytes) = (self.spec.depth, self.slot_bytes);
                match target.command {
                    Some(to) => {
                        let worker = uring::prepare_commands(core, target, to, depth, bytes)?;
                        Ok(run_ring(worker, open, *guard_ns))
                    }
                    None => {
                        let worker = uring::prepare(core, target, depth, bytes)?;
                        Ok(run_ring(worker, open, *guard_ns))
                    }
                }
            }
        }
    }
}

fn run_ring<Q: Queue>(
    worker: uring::UringWorker<Q>,
    open: Option<(Schedule, u64)>,
    guard_ns: u64,
) -> (Core, u64) {
    match open {
        None => worker.run_closed(),
        Some((schedule, backlog)) => worker.run_open(schedule, backlog, guard_ns),
    }
}
