//! The instrument against itself: clock, own cost, the kernel's shortest paths, pacing.

use crate::error::RunError;
use crate::setup::{Instrument, measure_instrument};
use analysis::{Latency, summarize_counts};
use base::clock::Clock;
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use drive::{Permit, resolve};
use engine::{CellSpec, Direct, Engine, Next, Polling, Sink, Target, host_backend};
use plan::{Arrival, Demand, Load, Verb, Window};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything the instrument knows about itself on this host.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Clock and own cost.
    pub instrument: Instrument,
    /// Reads of holes in a sparse file: the kernel's path without a device.
    pub paths: Vec<PathCost>,
    /// How well arrivals keep their time.
    pub pacing: Vec<Pacing>,
}

/// Cost of one I/O through a whole path, one worker.
#[derive(Clone, Debug)]
pub struct PathCost {
    /// `uring` or `sync`.
    pub engine: &'static str,
    /// Depth.
    pub depth: u32,
    /// CPU time per I/O in ns.
    pub cpu_ns: f64,
    /// Mean service time in ns.
    pub service_ns: f64,
}

/// Lateness of arrivals at a rate, one worker, no device.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Rate asked for, per second.
    pub rate_iops: f64,
    /// Rate achieved, per second.
    pub achieved_iops: f64,
    /// Intended to actual start.
    pub lateness: Option<Latency>,
    /// CPUs used.
    pub cpu: f64,
}

#[derive(Default)]
struct Sum {
    counts: StreamSample,
    len: Nanos,
    cpu: CpuUse,
}

impl Sink for Sum {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        if !sample.ramp {
            sample.streams.iter().for_each(|stream| self.counts.merge(stream));
            self.len.0 += sample.len.0;
            self.cpu.merge(sample.cpu);
        }
        Next::Continue
    }
}

/// Measures everything; `time` is the length of each of the nine measurements. The sparse file is
/// made in `folder` and has no name.
///
/// # Errors
/// When the host has no io_uring or the folder cannot be written.
pub fn calibrate(clock: &Clock, folder: &Path, time: Nanos) -> Result<Calibration, RunError> {
    let instrument = measure_instrument(clock, Some(time))?;
    let subject = resolve(folder, Bytes(1 << 30))?;
    let opened = Permit::check(&subject, &[])?.open();
    let opened =
        opened.map_err(|error| drive::Refusal::System { path: folder.to_owned(), error })?;
    let holes = Target {
        name: "holes".into(),
        path: subject.open_path(),
        direct: if opened.direct { Direct::Yes } else { Direct::No },
        file: Some(Arc::new(opened.file)),
        size: subject.size(),
        block: Bytes(512),
        polling: Polling::Off,
        command: None,
    };
    let mut paths = Vec::new();
    for (engine, name, depth) in [
        (Engine::Sync, "sync", 1),
        (Engine::Uring, "uring", 1),
        (Engine::Uring, "uring", 32),
        (Engine::Uring, "uring", 128),
    ] {
        let load = Load { depth, ..random_reads()? };
        let sum = measure(engine, &holes, load, clock, time)?;
        let cell = summarize_counts(&sum.counts, sum.len, sum.cpu);
        let service_ns = sum.counts.reads.service.mean_ns().unwrap_or(0.0);
        paths.push(PathCost { engine: name, depth, cpu_ns: cell.cpu_per_io_ns, service_ns });
    }
    let mut pacing = Vec::new();
    for rate_iops in [1_000.0, 10_000.0, 50_000.0, 200_000.0] {
        let demand = Demand::Open { rate_iops, arrival: Arrival::Poisson, backlog: 1_000_000 };
        let load = Load { demand, depth: 256, ..random_reads()? };
        let sum = measure(Engine::Uring, &Target::null(), load, clock, time)?;
        let cell = summarize_counts(&sum.counts, sum.len, sum.cpu);
        let (achieved_iops, lateness, cpu) = (cell.iops, cell.lateness, cell.cpu);
        pacing.push(Pacing { rate_iops, achieved_iops, lateness, cpu });
    }
    Ok(Calibration { instrument, paths, pacing })
}

/// The plan language's default load: 4 KiB random reads at depth 1.
fn random_reads() -> Result<Load, RunError> {
    let text = "name = \"calibrate\"\n[[step]]\nload = { time = 1 }";
    let parsed = plan::parse("calibrate", text, &[]);
    let cell = parsed.ok().and_then(|plan| match plan.steps.into_iter().next()?.verb {
        Verb::Load(cell) => cell.loads.into_iter().next(),
        _ => None,
    });
    cell.ok_or(RunError::NothingToDo)
}

fn measure(
    engine: Engine,
    target: &Target,
    load: Load,
    clock: &Clock,
    time: Nanos,
) -> Result<Sum, RunError> {
    let mut backend = host_backend(engine, vec![target.clone()], clock.clone());
    let window = Window { ramp: Nanos(time.0 / 5), time: Some(time), amount: None };
    let cell = CellSpec { loads: vec![load], window, interval: time, seed: 1, record_ios: 0 };
    let mut sum = Sum::default();
    backend.run(&cell, &mut sum, &AtomicBool::new(false)).map_err(RunError::Instrument)?;
    Ok(sum)
}
