//! One cell: run it, store every interval, judge it.

use crate::bed::Bed;
use crate::error::RunError;
use crate::history::note_states;
use crate::observe::{CellPlan, Observer, Progress};
use crate::run::{Measured, Runner};
use crate::telemetry::Sampler;
use crate::verify::evidence_of;
use analysis::{
    CellEvidence, DeviceBytes, Figures, Stability, Status, TimedSteady, judge, summarize_counts,
};
use base::clock::unix_ms;
use base::hist::{Hist, Response};
use base::rng::derive;
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use engine::{CellEnd, CellSpec, Next, Outcome, Sink};
use plan::{Amount, Arrival, Cell, Coordinate, Demand, Load};
use serde_json::{Value, json};
use store::{CellHead, CellRecord, CellSums, RunWriter, StoreError, StreamHead};

/// Where a cell stands in the plan.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) step: String,
    pub(crate) label: String,
    pub(crate) verb: &'static str,
    pub(crate) coordinates: Vec<Coordinate>,
    pub(crate) iteration: u32,
    pub(crate) counted: bool,
}

/// What a cell amounts to for the steps after it.
pub(crate) struct CellResult {
    /// I/Os per second of each stream.
    pub(crate) stream_iops: Vec<f64>,
    /// I/Os per second of all streams.
    pub(crate) iops: f64,
    /// Response times of all streams; service times of closed loops.
    pub(crate) felt: Hist<Response>,
    /// Mean service time of all streams.
    pub(crate) service_ns: Option<f64>,
    /// How it ended.
    pub(crate) outcome: Outcome,
}

/// Stores what it is given and passes it on; an error of the store ends the cell.
struct Recording<'a> {
    writer: &'a mut RunWriter,
    observer: &'a mut dyn Observer,
    cell: i64,
    totals: Vec<StreamSample>,
    sent: DeviceBytes,
    /// Bytes written to each target, and the target of each stream.
    written: Vec<u64>,
    stream_targets: &'a [usize],
    len: Nanos,
    intervals: u32,
    through_seq: u32,
    cpu: CpuUse,
    error: Option<StoreError>,
    beds: &'a [Bed<'a>],
    sampler: &'a mut Sampler,
    health: &'a mut Vec<(usize, String)>,
    /// Where the cell ends when it is steady.
    timed: Option<TimedSteady>,
    is_virtual: bool,
    /// IOPS of each counted interval, where their spread is asked for.
    rates: Option<Vec<f64>>,
}

/// Intervals between two notes of the sums so far.
const CHECKPOINT_EVERY: u32 = 256;

impl Recording<'_> {
    /// Takes an interval of a cell that ends when it is steady, and tells of each value.
    fn is_steady(&mut self, sample: &IntervalSample) -> bool {
        let values = |timed: &Option<TimedSteady>| timed.as_ref().map_or(0, TimedSteady::values);
        let before = values(&self.timed);
        let steady = is_steady(&mut self.timed, sample);
        if let (Some(timed), true) = (&self.timed, values(&self.timed) > before) {
            self.observer.on(Progress::Round {
                path: &timed.series.name,
                round: timed.values() as u32,
                most: None,
                tracked: std::slice::from_ref(&timed.series),
                rule: timed.rule(),
            });
        }
        steady
    }

    /// Stores an interval, now and then with the sums so far.
    fn store(&mut self, sample: &IntervalSample) -> Result<(), StoreError> {
        self.through_seq = sample.seq;
        self.writer.add_interval(self.cell, sample)?;
        if sample.seq % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1 {
            let Recording { totals, through_seq, len, intervals, cpu, .. } = self;
            let (through_seq, len, intervals, cpu) = (*through_seq, *len, *intervals, *cpu);
            let sums = CellSums { totals, through_seq, len, intervals, cpu };
            self.writer.checkpoint(self.cell, &sums)?;
        }
        if self.is_virtual {
            return Ok(());
        }
        note_states(self.writer, self.beds)?;
        let at = Nanos(sample.start.0 + sample.len.0);
        for change in self.sampler.sample(self.writer, at)? {
            let text = format!("target{}: {}", change.target, change.text);
            self.writer.event(at, Some(self.cell), "health", &text)?;
            self.observer
                .on(Progress::Note(&format!("{}: {}", self.beds[change.target].name, change.text)));
            self.health.push((change.target, change.text));
        }
        Ok(())
    }
}

impl Sink for Recording<'_> {
    fn telemetry(&mut self, at: Nanos, source: &str, name: &'static str, value: f64) {
        if let Err(error) = self.writer.telemetry(at, source, name, value) {
            self.error.get_or_insert(error);
        }
    }

    fn interval(&mut self, sample: IntervalSample) -> Next {
        for (stream, target) in sample.streams.iter().zip(self.stream_targets) {
            self.written[*target] += stream.writes.bytes;
            self.sent.read += stream.reads.bytes;
            self.sent.written += stream.writes.bytes;
        }
        if !sample.ramp {
            self.totals.resize_with(sample.streams.len(), StreamSample::default);
            for (total, stream) in self.totals.iter_mut().zip(&sample.streams) {
                total.merge(stream);
            }
            if let Some(rates) = &mut self.rates {
                let ios: u64 = sample.streams.iter().map(StreamSample::ios).sum();
                rates.push(ios as f64 / sample.len.as_secs_f64().max(1e-9));
            }
            self.len.0 += sample.len.0;
            self.intervals += 1;
            self.cpu.merge(sample.cpu);
        }
        self.observer.on(Progress::Interval(&sample));
        if self.error.is_some() {
            return Next::Stop;
        }
        match self.store(&sample) {
            Ok(()) if self.is_steady(&sample) => Next::Stop,
            Ok(()) => Next::Continue,
            Err(error) => {
                self.error = Some(error);
                Next::Stop
            }
        }
    }
}

/// Takes an interval of a cell that ends when it is steady; gives whether it is.
fn is_steady(timed: &mut Option<TimedSteady>, sample: &IntervalSample) -> bool {
    match timed {
        Some(timed) if !sample.ramp => timed.add(sample) && timed.steady(),
        _ => false,
    }
}

/// Brings a virtual drive to where it was: counts, and stores nothing.
struct Repeating {
    totals: Vec<StreamSample>,
    written: Vec<u64>,
    /// Target of each stream.
    targets: Vec<usize>,
    len: Nanos,
    timed: Option<TimedSteady>,
}

impl Sink for Repeating {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        for (stream, target) in sample.streams.iter().zip(&self.targets) {
            self.written[*target] += stream.writes.bytes;
        }
        if !sample.ramp {
            self.totals.resize_with(sample.streams.len(), StreamSample::default);
            for (total, stream) in self.totals.iter_mut().zip(&sample.streams) {
                total.merge(stream);
            }
            self.len.0 += sample.len.0;
        }
        match is_steady(&mut self.timed, &sample) {
            true => Next::Stop,
            false => Next::Continue,
        }
    }
}

impl Runner<'_> {
    /// The cell as the back end gets it. Its seed hangs on where it stands in the plan, so a cell that
    /// is repeated after a cut is the same cell.
    fn spec(&self, cell: &Cell, place: &Place) -> CellSpec {
        let name = format!("{}|{}", place.path, place.label);
        let hash = name.bytes().fold(self.seed, |hash, byte| derive(hash, u64::from(byte)));
        CellSpec {
            loads: cell.loads.iter().map(|load| self.traces.fill(load)).collect(),
            window: cell.window,
            interval: self.interval,
            seed: hash,
            record_ios: 0,
        }
    }

    /// A cell that was done before the run was cut: its stored result, and on a virtual drive the same
    /// I/O again.
    fn repeat_cell(
        &mut self,
        cell: &Cell,
        place: &Place,
        record: CellRecord,
        failed: bool,
    ) -> Result<CellResult, RunError> {
        let mut written: Vec<u64> = serde_json::from_value(record.facts["written_bytes"].clone())
            .unwrap_or_else(|_| vec![0; self.beds.len()]);
        if self.is_virtual {
            let head = self.cell_head(cell, place);
            let mut again = Repeating {
                totals: vec![StreamSample::default(); head.streams.len()],
                written: vec![0; self.beds.len()],
                targets: head.streams.iter().map(|stream| stream.target).collect(),
                len: Nanos(0),
                timed: cell.until.map(|until| TimedSteady::new(until, place.path.clone())),
            };
            let spec = self.spec(cell, place);
            let end = self.backend.run(&spec, &mut again, self.interrupt);
            let end = end.map_err(|error| RunError::Engine { step: place.path.clone(), error })?;
            if end.outcome != Outcome::Completed {
                let (stream_iops, iops, felt) = (Vec::new(), 0.0, Hist::new());
                let service_ns = None;
                return Ok(CellResult {
                    stream_iops,
                    iops,
                    felt,
                    service_ns,
                    outcome: end.outcome,
                });
            }
            self.count_simulated(place, &end);
            if again.totals != record.totals {
                return Err(RunError::Resume(format!(
                    "{} {}: the virtual drive does not do what it did before; was the run made by \
                     another version, or the profile changed?",
                    place.path, place.label
                )));
            }
            written = again.written;
            self.last_end = Some(self.clock.now());
        }
        if !self.is_virtual {
            let bytes: Vec<u64> = record.totals.iter().map(StreamSample::bytes).collect();
            let spec = self.spec(cell, place);
            self.backend.ran_before(&spec, &bytes);
        }
        if failed && place.counted {
            self.worst = Status::Fail;
        }
        self.histories.retold = true;
        self.histories.wrote(&self.beds, cell, &written, true, unix_ms());
        self.histories.retold = false;
        Ok(self.result_of(cell, place, &record.totals, record.len, Outcome::Completed))
    }

    fn count_simulated(&mut self, place: &Place, end: &CellEnd) {
        if self.is_virtual && place.counted {
            let ios = end.facts.simulated_ios;
            self.simulated = Some(self.simulated.map_or(ios, |least| least.min(ios)));
        }
    }

    /// Keeps what later steps may ask for.
    fn result_of(
        &mut self,
        cell: &Cell,
        place: &Place,
        totals: &[StreamSample],
        len: Nanos,
        outcome: Outcome,
    ) -> CellResult {
        let mut counted = StreamSample::default();
        totals.iter().for_each(|stream| counted.merge(stream));
        self.measured.push(Measured {
            path: place.path.clone(),
            coordinates: place.coordinates.clone(),
            figures: Figures::of(&counted, len),
            loads: cell.loads.clone(),
        });
        let rate = |ios: u64| ios as f64 / len.as_secs_f64().max(1e-9);
        CellResult {
            stream_iops: totals.iter().map(|stream| rate(stream.ios())).collect(),
            iops: rate(counted.ios()),
            felt: analysis::felt(&counted),
            service_ns: {
                let mut service = counted.reads.service.clone();
                service.merge(&counted.writes.service);
                service.mean_ns()
            },
            outcome,
        }
    }

    /// Runs one cell to its end. An outcome that is not `Completed` ends the run.
    pub(crate) fn run_cell(&mut self, cell: &Cell, place: &Place) -> Result<CellResult, RunError> {
        if let Some((record, failed)) = self.replay.take(&place.path, &place.label) {
            return self.repeat_cell(cell, place, record, failed);
        }
        self.count_superseded();
        let plan = self.cell_plan(cell, place);
        let head = self.cell_head(cell, place);
        let id = self.writer.start_cell(&head)?;
        self.observer.on(Progress::CellStarted(&plan));
        let spec = self.spec(cell, place);
        let stream_targets: Vec<usize> = head.streams.iter().map(|stream| stream.target).collect();
        let before = self.device_bytes();
        self.sampler.begin();
        let mut recording = Recording {
            writer: &mut self.writer,
            observer: &mut *self.observer,
            cell: id,
            totals: vec![StreamSample::default(); head.streams.len()],
            sent: DeviceBytes::default(),
            written: vec![0; self.beds.len()],
            stream_targets: &stream_targets,
            len: Nanos(0),
            intervals: 0,
            through_seq: 0,
            cpu: CpuUse::default(),
            error: None,
            beds: &self.beds,
            sampler: &mut self.sampler,
            health: &mut self.health,
            timed: cell.until.map(|until| TimedSteady::new(until, place.path.clone())),
            is_virtual: self.is_virtual,
            rates: cell.stability.map(|_| Vec::new()),
        };
        let end = self.backend.run(&spec, &mut recording, self.interrupt);
        let Recording {
            totals,
            sent,
            written,
            len,
            intervals,
            through_seq,
            cpu,
            error,
            timed,
            rates,
            ..
        } = recording;
        let end = end.map_err(|error| RunError::Engine { step: place.path.clone(), error })?;
        let mut counted = StreamSample::default();
        totals.iter().for_each(|stream| counted.merge(stream));
        let device = before.zip(self.device_bytes()).map(|(before, after)| DeviceBytes {
            read: after.read.saturating_sub(before.read),
            written: after.written.saturating_sub(before.written),
        });
        let evidence = self.evidence(cell, &counted, (sent, device), len, cpu, &end);
        let verdicts = judge(&evidence);
        let summary = summarize_counts(&counted, len, cpu);
        let whole = end.outcome == Outcome::Completed;
        self.histories.wrote(&self.beds, cell, &written, whole, unix_ms());
        let (status, message) = status_of(&end.outcome);
        let now = self.clock.now();
        let stored = (|| {
            if let Some(error) = error {
                return Err(error);
            }
            self.count_simulated(place, &end);
            let mut facts = facts_json(&end);
            facts["written_bytes"] = json!(written);
            if let Some(verified) = &end.facts.verified {
                facts["verified"] = evidence_of(verified);
            }
            facts["fills_since_purge"] = json!(self.histories.fills());
            facts["gap_before_ns"] =
                json!(self.last_end.map(|end| head.start.0.saturating_sub(end.0)));
            let sums = CellSums { totals: &totals, through_seq, len, intervals, cpu };
            self.writer.end_cell(id, now, status, message.as_deref(), &facts, &sums)?;
            for verdict in &verdicts {
                let (name, word) = (verdict.name, verdict.status.word());
                self.writer.verdict(Some(id), name, word, &verdict.text, &verdict.evidence)?;
            }
            if let (Some(rates), Some(window)) = (&rates, cell.stability) {
                let found = Stability::of(rates, self.interval, window);
                let (name, word) = ("stability", Status::Info.word());
                self.writer.verdict(Some(id), name, word, &found.text(), &found.as_json())?;
            }
            if let Some(message) = &message {
                self.writer.event(now, Some(id), status, message)?;
            }
            Ok(())
        })();
        if let (Some(verified), true) = (&end.facts.verified, checks(cell)) {
            self.note_verified(id, now, verified)?;
        }
        self.note_replay(id, cell, &counted, len)?;
        if place.counted {
            let worst = verdicts.iter().map(|verdict| verdict.status).max();
            self.worst = self.worst.max(worst.unwrap_or(Status::Pass));
        }
        self.observer.on(Progress::CellEnded {
            cell: &plan,
            summary: &summary,
            verdicts: &verdicts,
        });
        stored?;
        self.last_end = Some(now);
        if let (Some(timed), Some(until), true) = (&timed, cell.until, whole) {
            self.conclude_timed(id, place, timed, until.rule)?;
        }
        Ok(self.result_of(cell, place, &totals, len, end.outcome))
    }

    /// What all device targets counted; none when one of them does not say, or is no device.
    fn device_bytes(&self) -> Option<DeviceBytes> {
        let mut sum = DeviceBytes::default();
        for (index, bed) in self.beds.iter().enumerate() {
            let (read, written) = match bed.subject {
                // The block layer does not see commands to the generic device.
                Some(subject) => {
                    let device = subject.device().filter(|device| device.generic.is_none())?;
                    drive::device_bytes(&device.name)?
                }
                None => self.backend.counts(index).map(|counts| (counts.read, counts.written))?,
            };
            sum.read += read;
            sum.written += written;
        }
        Some(sum)
    }

    fn evidence<'c>(
        &self,
        cell: &Cell,
        counted: &'c StreamSample,
        (sent, device): (DeviceBytes, Option<DeviceBytes>),
        len: Nanos,
        cpu: CpuUse,
        end: &CellEnd,
    ) -> CellEvidence<'c> {
        let rates = cell.loads.iter().filter_map(|load| match load.demand {
            // The rate of a recording changes as it did.
            Demand::Open { arrival: Arrival::Recorded, .. } | Demand::Closed => None,
            Demand::Open { rate_iops, .. } => Some(rate_iops * self.targets_of(load) as f64),
        });
        // Loads that share workers share one rate.
        let shared = cell.loads.iter().all(|load| load.weight.is_some());
        let rate = if shared { rates.reduce(f64::max) } else { rates.reduce(|a, b| a + b) };
        let depth = cell.loads.iter().map(|load| load.depth).max().unwrap_or(1);
        CellEvidence {
            counted,
            sent,
            len,
            cpu,
            workers: end.facts.workers,
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            own_ns: self.instrument.own_ns(depth),
            rate_iops: rate,
            page_cache: end.facts.page_cache,
            punt_threads: end.facts.punt_threads,
            device,
            holes: self.beds.iter().filter_map(|b| b.subject).map(drive::holes).fold(0.0, f64::max),
            is_virtual: self.is_virtual,
            drift_ppm: end.facts.drift_ppm,
        }
    }

    pub(crate) fn targets_of(&self, load: &Load) -> usize {
        let n = self.beds.len();
        if load.targets.is_empty() { n } else { load.targets.iter().filter(|&&t| t < n).count() }
    }

    fn cell_plan(&self, cell: &Cell, place: &Place) -> CellPlan {
        let describe: Vec<String> = cell.loads.iter().map(Load::describe).collect();
        let amount = cell.window.amount.map(|amount| {
            let on = |load: &Load| {
                let of = |size: Bytes| {
                    let (from, to) = (load.range.0.resolve(size).0, load.range.1.resolve(size).0);
                    amount.on(to.saturating_sub(from), size)
                };
                self.beds.iter().map(|bed| of(bed.size)).sum::<u64>()
            };
            Bytes(cell.loads.iter().map(on).sum())
        });
        CellPlan {
            path: place.path.clone(),
            label: place.label.clone(),
            describe: describe.join(" + "),
            time: cell.window.time.map(|time| Nanos(time.0 + cell.window.ramp.0)),
            amount,
        }
    }

    fn cell_head(&self, cell: &Cell, place: &Place) -> CellHead {
        let mut streams = Vec::new();
        for load in &cell.loads {
            for target in 0..self.beds.len() {
                if load.targets.is_empty() || load.targets.contains(&target) {
                    streams.push(StreamHead {
                        load: load.name.clone(),
                        target,
                        describe: load.describe(),
                        rate_iops: match load.demand {
                            Demand::Open { arrival: Arrival::Recorded, .. } | Demand::Closed => {
                                None
                            }
                            Demand::Open { rate_iops, .. } => Some(rate_iops),
                        },
                    });
                }
            }
        }
        CellHead {
            path: place.path.clone(),
            step: place.step.clone(),
            label: place.label.clone(),
            verb: place.verb,
            coordinates: serde_json::to_value(&place.coordinates).unwrap_or(Value::Null),
            iteration: place.iteration,
            counted: place.counted,
            spec: spec_json(cell),
            start: self.clock.now(),
            streams,
        }
    }
}

fn checks(cell: &Cell) -> bool {
    cell.loads.iter().any(|load| load.verify.is_some() && load.reads())
}

fn status_of(outcome: &Outcome) -> (&'static str, Option<String>) {
    match outcome {
        Outcome::Completed => ("done", None),
        Outcome::Interrupted => ("interrupted", None),
        Outcome::Faulted(fault) => ("failed", Some(fault.to_string())),
        Outcome::Failed(message) => ("failed", Some(message.clone())),
    }
}

fn facts_json(end: &CellEnd) -> Value {
    let facts = &end.facts;
    json!({
        "workers": facts.workers,
        "cpus": facts.cpus,
        "ring": facts.ring,
        "punt_threads": facts.punt_threads,
        "preempted": facts.preempted,
        "short_submits": facts.short_submits,
        "clock_drift_ppm": facts.drift_ppm,
        "page_cache": facts.page_cache,
        "simulated_ios": facts.simulated_ios,
    })
}

/// The loads of a cell for programs.
fn spec_json(cell: &Cell) -> Value {
    let mix = |mix: &plan::BlockMix| {
        mix.0.iter().map(|&(block, weight)| json!([block.0, weight])).collect::<Vec<_>>()
    };
    let extent = |extent: plan::Extent| match extent {
        plan::Extent::Percent(percent) => json!(format!("{percent}%")),
        plan::Extent::Bytes(bytes) => json!(bytes.0),
    };
    let load = |load: &Load| {
        json!({
            "name": load.name,
            "describe": load.describe(),
            "pattern": format!("{:?}", load.pattern),
            "random": !matches!(load.pattern, plan::Pattern::Sequential(_)),
            "read_percent": load.read_percent,
            "read_blocks": mix(&load.read_blocks),
            "write_blocks": mix(&load.write_blocks),
            "range": [extent(load.range.0), extent(load.range.1)],
            "align_bytes": load.align.map(|align| align.0),
            "depth": load.depth,
            "workers": load.workers,
            "weight": load.weight,
            "demand": match load.demand {
                Demand::Closed => json!("closed"),
                Demand::Open { rate_iops, arrival, .. } => {
                    json!({"rate_iops": rate_iops, "arrival": arrival.name()})
                }
            },
            "data": {
                "compress_ratio": load.data.compress_ratio,
                "dedup_ratio": load.data.dedup_ratio,
                "unit_bytes": load.data.unit.0,
                "zero": load.data.zero,
            },
        })
    };
    json!({
        "loads": cell.loads.iter().map(load).collect::<Vec<_>>(),
        "ramp_ns": cell.window.ramp.0,
        "time_ns": cell.window.time.map(|time| time.0),
        "amount": cell.window.amount.map(|amount| match amount {
            Amount::Bytes(bytes) => json!({"bytes": bytes.0}),
            Amount::Passes(passes) => json!({"passes": passes}),
            Amount::Capacities(times) => json!({"capacities": times}),
        }),
    })
}
