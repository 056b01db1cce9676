//! One cell: run it, store every interval, judge it.

use crate::error::RunError;
use crate::observe::{CellPlan, Observer, Progress};
use crate::run::Runner;
use analysis::{CellEvidence, DeviceBytes, Status, judge, summarize_counts};
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use drive::{CpuTimes, Subject};
use engine::{CellEnd, CellSpec, Next, Outcome, Sink};
use plan::{Amount, Cell, Coordinate, Demand, Load};
use serde_json::{Value, json};
use store::{CellHead, CellSums, RunWriter, StoreError, StreamHead};

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
    len: Nanos,
    intervals: u32,
    through_seq: u32,
    cpu: CpuUse,
    error: Option<StoreError>,
    subjects: &'a [Subject],
    host: Option<CpuTimes>,
}

/// Intervals between two notes of the sums so far.
const CHECKPOINT_EVERY: u32 = 256;

impl Recording<'_> {
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
        self.telemetry(Nanos(sample.start.0 + sample.len.0))
    }

    /// What else is known of this moment: host CPU use since the last interval, temperatures.
    fn telemetry(&mut self, at: Nanos) -> Result<(), StoreError> {
        let now = drive::cpu_times();
        if let (Some(before), Some(now)) = (self.host, now) {
            let total = now.total().saturating_sub(before.total()) as f64;
            let parts = [
                ("cpu_user_share", now.user.saturating_sub(before.user)),
                ("cpu_system_share", now.system.saturating_sub(before.system)),
                ("cpu_interrupt_share", now.interrupt.saturating_sub(before.interrupt)),
            ];
            for (name, ticks) in parts {
                if total > 0.0 {
                    self.writer.telemetry(at, "host", name, ticks as f64 / total)?;
                }
            }
        }
        self.host = now;
        for (index, subject) in self.subjects.iter().enumerate() {
            if let Some(celsius) = subject.device().and_then(drive::temperature_c) {
                self.writer.telemetry(at, &format!("target{index}"), "temperature_c", celsius)?;
            }
        }
        Ok(())
    }
}

impl Sink for Recording<'_> {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        for stream in &sample.streams {
            self.sent.read += stream.reads.bytes;
            self.sent.written += stream.writes.bytes;
        }
        if !sample.ramp {
            self.totals.resize_with(sample.streams.len(), StreamSample::default);
            for (total, stream) in self.totals.iter_mut().zip(&sample.streams) {
                total.merge(stream);
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
            Ok(()) => Next::Continue,
            Err(error) => {
                self.error = Some(error);
                Next::Stop
            }
        }
    }
}

impl Runner<'_> {
    /// Runs one cell to its end. An outcome that is not `Completed` ends the run.
    pub(crate) fn run_cell(&mut self, cell: &Cell, place: &Place) -> Result<CellResult, RunError> {
        let plan = self.cell_plan(cell, place);
        let head = self.cell_head(cell, place);
        let id = self.writer.start_cell(&head)?;
        self.observer.on(Progress::CellStarted(&plan));
        let spec = CellSpec {
            loads: cell.loads.clone(),
            window: cell.window,
            interval: self.interval,
            seed: base::rng::derive(self.seed, id as u64),
            record_ios: 0,
        };
        let before = self.device_bytes();
        let mut recording = Recording {
            writer: &mut self.writer,
            observer: &mut *self.observer,
            cell: id,
            totals: vec![StreamSample::default(); head.streams.len()],
            sent: DeviceBytes::default(),
            len: Nanos(0),
            intervals: 0,
            through_seq: 0,
            cpu: CpuUse::default(),
            error: None,
            subjects: self.subjects,
            host: drive::cpu_times(),
        };
        let end = self.backend.run(&spec, &mut recording, self.interrupt);
        let Recording { totals, sent, len, intervals, through_seq, cpu, error, .. } = recording;
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
        let (status, message) = status_of(&end.outcome);
        let now = self.clock.now();
        let stored = (|| {
            if let Some(error) = error {
                return Err(error);
            }
            let facts = facts_json(&end);
            let sums = CellSums { totals: &totals, through_seq, len, intervals, cpu };
            self.writer.end_cell(id, now, status, message.as_deref(), &facts, &sums)?;
            for verdict in &verdicts {
                let (name, word) = (verdict.name, verdict.status.word());
                self.writer.verdict(Some(id), name, word, &verdict.text, &verdict.evidence)?;
            }
            if let Some(message) = &message {
                self.writer.event(now, Some(id), status, message)?;
            }
            Ok(())
        })();
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
        let rate = |ios: u64| ios as f64 / len.as_secs_f64().max(1e-9);
        Ok(CellResult {
            stream_iops: totals.iter().map(|stream| rate(stream.ios())).collect(),
            iops: summary.iops,
            outcome: end.outcome,
        })
    }

    /// What all device targets counted; none when one of them does not say, or is no device.
    fn device_bytes(&self) -> Option<DeviceBytes> {
        let mut sum = DeviceBytes::default();
        for subject in self.subjects {
            let (read, written) = drive::device_bytes(&subject.device()?.name)?;
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
            Demand::Open { rate_iops, .. } => Some(rate_iops * self.targets_of(load) as f64),
            Demand::Closed => None,
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
            holes: self.subjects.iter().map(drive::holes).fold(0.0, f64::max),
            drift_ppm: end.facts.drift_ppm,
        }
    }

    fn targets_of(&self, load: &Load) -> usize {
        let n = self.subjects.len();
        if load.targets.is_empty() { n } else { load.targets.iter().filter(|&&t| t < n).count() }
    }

    fn cell_plan(&self, cell: &Cell, place: &Place) -> CellPlan {
        let describe: Vec<String> = cell.loads.iter().map(Load::describe).collect();
        let amount = cell.window.amount.map(|amount| {
            let on = |load: &Load| {
                let of = |size: Bytes| {
                    load.range.1.resolve(size).0.saturating_sub(load.range.0.resolve(size).0)
                };
                let sizes = self.subjects.iter().map(|subject| of(subject.size()));
                match amount {
                    Amount::Bytes(bytes) => bytes.0 * self.subjects.len() as u64,
                    Amount::Passes(passes) => sizes.map(|size| (size as f64 * passes) as u64).sum(),
                }
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
            for target in 0..self.subjects.len() {
                if load.targets.is_empty() || load.targets.contains(&target) {
                    streams.push(StreamHead {
                        load: load.name.clone(),
                        target,
                        describe: load.describe(),
                        rate_iops: match load.demand {
                            Demand::Open { rate_iops, .. } => Some(rate_iops),
                            Demand::Closed => None,
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
    })
}

/// The loads of a cell for programs.
fn spec_json(cell: &Cell) -> Value {
    let mix = |mix: &plan::BlockMix| {
        mix.0.iter().map(|&(block, weight)| json!([block.0, weight])).collect::<Vec<_>>()
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
        }),
    })
}
