//! What sampling costs: I/O with it and without it, in one cell, second by second in random order.

use crate::bed::Bed;
use crate::error::RunError;
use crate::setup::open;
use crate::telemetry::{EVERY, Sampler};
use base::clock::{Clock, unix_ms};
use base::rng::Rng;
use base::sample::{IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use drive::Subject;
use engine::{CellSpec, Engine, Next, Sink, Target, host_backend};
use plan::{Load, Window};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use store::{RunHead, RunWriter};

/// What was found.
#[derive(Clone, Debug)]
pub struct TelemetryCost {
    /// Logarithms of the ratio of I/Os with sampling to those without, one for each pair of seconds.
    pub log_ratios: Vec<f64>,
    /// Mean time of a sample in us.
    pub sample_us: f64,
    /// Longest time of a sample in us.
    pub sample_max_us: f64,
}

/// Measures it on a target that is only read, or without one on the instrument's null target, where the
/// workers leave no CPU idle: sampling must take its time from them. `folder` gets a run file, which is
/// left there.
///
/// # Errors
/// When the target cannot be opened or the load cannot run.
pub fn telemetry_cost(
    subject: Option<&Subject>,
    load: Load,
    pairs: u32,
    folder: &Path,
) -> Result<TelemetryCost, RunError> {
    let clock = Clock::host();
    let target = match subject {
        Some(subject) => open(subject, false, &[])?.target,
        None => Target::null(),
    };
    let bed = |subject: &'_ Subject| Bed {
        name: subject.name(),
        identity: subject.identity(),
        size: subject.size(),
        block: Bytes(512),
        subject: None,
        eraser: None,
    };
    let beds: Vec<Bed<'_>> =
        subject.into_iter().map(|s| Bed { subject: Some(s), ..bed(s) }).collect();
    let head = RunHead { started_unix_ms: unix_ms(), interval: EVERY, ..RunHead::default() };
    let mut turns = Turns {
        writer: RunWriter::create(&folder.join("telemetry-cost.fathom"), &head, &[])?,
        sampler: Sampler::new(clock.clone(), &beds, Some(EVERY)),
        rng: Rng::new(1),
        pairs,
        first: None,
        now: false,
        logs: Vec::new(),
    };
    let mut backend = host_backend(Engine::Uring, vec![target], clock);
    let time = Nanos(EVERY.0 * (u64::from(pairs) * 2 + 1));
    let window = Window { ramp: EVERY, time: Some(time), amount: None };
    let spec = CellSpec { loads: vec![load], window, interval: EVERY, seed: 1, record_ios: 0 };
    let end = backend.run(&spec, &mut turns, &AtomicBool::new(false));
    end.map_err(|error| RunError::Engine { step: "telemetry".into(), error })?;
    let cost = turns.sampler.as_json();
    let us = |name: &str| cost[name].as_f64().unwrap_or(0.0);
    Ok(TelemetryCost {
        log_ratios: turns.logs,
        sample_us: us("cost_mean_us"),
        sample_max_us: us("cost_max_us"),
    })
}

/// Decides for each second whether its end is sampled. What a sample costs falls into the second that
/// begins then.
struct Turns {
    writer: RunWriter,
    sampler: Sampler,
    rng: Rng,
    pairs: u32,
    /// Of the pair: whether its first second had a sample, and its I/Os.
    first: Option<(bool, f64)>,
    now: bool,
    logs: Vec<f64>,
}

impl Sink for Turns {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        let ios: u64 = sample.streams.iter().map(StreamSample::ios).sum();
        let rate = ios as f64 / sample.len.as_secs_f64().max(1e-9);
        if !sample.ramp {
            match self.first.take() {
                None => self.first = Some((self.now, rate)),
                Some((with, other)) => {
                    let (with, without) = if with { (other, rate) } else { (rate, other) };
                    self.logs.push((with / without).ln());
                }
            }
        }
        if self.logs.len() as u32 >= self.pairs {
            return Next::Stop;
        }
        self.now = match self.first {
            Some((with, _)) => !with,
            None => self.rng.below(2) == 0,
        };
        if self.now {
            let at = Nanos(sample.start.0 + sample.len.0);
            // A full disk would end the measurement in the next second, not falsify it.
            if self.sampler.sample(&mut self.writer, at).is_err() {
                return Next::Stop;
            }
        }
        Next::Continue
    }
}
