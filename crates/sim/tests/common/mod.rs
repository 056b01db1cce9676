//! A virtual drive in the hands of a test: plans in, summed samples out.

use base::clock::Clock;
use base::sample::{IntervalSample, StreamSample};
use base::units::Nanos;
use engine::{Backend, CellEnd, CellSpec, Next, Sink};
use plan::{Cell, Verb};
use sim::{VirtualBackend, VirtualTarget};
use std::sync::atomic::AtomicBool;

/// Everything a cell gave.
#[derive(Default)]
pub(crate) struct Got {
    pub(crate) total: StreamSample,
    pub(crate) len: Nanos,
    pub(crate) intervals: Vec<IntervalSample>,
}

impl Sink for Got {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        if !sample.ramp {
            sample.streams.iter().for_each(|stream| self.total.merge(stream));
            self.len.0 += sample.len.0;
        }
        self.intervals.push(sample);
        Next::Continue
    }
}

#[allow(dead_code)]
impl Got {
    pub(crate) fn iops(&self) -> f64 {
        self.total.ios() as f64 / self.len.as_secs_f64()
    }

    pub(crate) fn mb_s(&self) -> f64 {
        self.total.bytes() as f64 / self.len.as_secs_f64() / 1e6
    }
}

/// A drive on a bench.
pub(crate) struct Bench {
    pub(crate) backend: VirtualBackend,
    seed: u64,
}

impl Bench {
    pub(crate) fn new(target: &str) -> Bench {
        let target = VirtualTarget::parse(target).unwrap();
        let clock = Clock::virtual_at(0);
        Bench { backend: VirtualBackend::new(&[target], clock), seed: 1 }
    }

    /// Runs a load given as the fields of a TOML table, or several as an array of such tables.
    pub(crate) fn run(&mut self, load: &str) -> Got {
        self.end(load).0
    }

    pub(crate) fn end(&mut self, load: &str) -> (Got, CellEnd) {
        let load = match load.starts_with('[') {
            true => load.to_owned(),
            false => format!("{{{load}}}"),
        };
        let text = format!("name=\"t\"\n[[step]]\nload={load}");
        let plan = plan::parse("t", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
        let Verb::Load(Cell { loads, window, .. }) = plan.steps[0].verb.clone() else {
            panic!("a load")
        };
        self.seed += 1;
        let spec =
            CellSpec { loads, window, interval: Nanos::SECOND, seed: self.seed, record_ios: 0 };
        let mut got = Got::default();
        let end = self.backend.run(&spec, &mut got, &AtomicBool::new(false)).unwrap();
        (got, end)
    }
}

/// Steady random writes before a figure is taken: several times the spare, from a full drive.
pub(crate) const SETTLE: [&str; 2] = [
    "pattern=\"sequential\", block=\"128k\", read=0, depth=256, amount=\"1x\"",
    "pattern=\"random\", block=\"4k\", read=0, depth=64, workers=4, amount=\"4x\"",
];
