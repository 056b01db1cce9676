//! How fast the virtual drive is: simulated I/Os per second of wall time, on one core, in both modes.
//!
//! `cargo run --release -p bench --bin sim`. (The virtual drive; no device.)

use base::clock::Clock;
use base::sample::IntervalSample;
use base::units::Nanos;
use engine::{Backend, CellSpec, Next, Sink};
use plan::{Cell, Verb};
use sim::{VirtualBackend, VirtualTarget};
use std::sync::atomic::AtomicBool;

#[derive(Default)]
struct Counted {
    ios: u64,
    len_ns: u64,
}

impl Sink for Counted {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        self.ios += sample.streams.iter().map(base::sample::StreamSample::ios).sum::<u64>();
        self.len_ns += sample.len.0;
        Next::Continue
    }
}

/// Runs a load; gives its counts and the wall time in seconds.
fn run(backend: &mut VirtualBackend, load: &str) -> (Counted, f64) {
    let text = format!("name=\"b\"\n[[step]]\nload={{{load}}}");
    let plan = plan::parse("b", &text, &[]).expect("a plan");
    let Verb::Load(Cell { loads, window, .. }) = plan.steps[0].verb.clone() else {
        unreachable!("a load was written");
    };
    let spec = CellSpec { loads, window, interval: Nanos::SECOND, seed: 1, record_ios: 0 };
    let clock = Clock::Monotonic;
    let (mut counted, start) = (Counted::default(), clock.now());
    backend.run(&spec, &mut counted, &AtomicBool::new(false)).expect("it runs");
    (counted, (clock.now().0 - start.0) as f64 * 1e-9)
}

fn main() {
    let loads = [
        ("4k random read, depth 1", "read=100, depth=1"),
        ("4k random read, depth 256", "read=100, depth=256"),
        ("4k random write, depth 256", "read=0, depth=256"),
        ("4k 70/30, depth 256", "read=70, depth=256"),
        (
            "128k sequential write, depth 32",
            "pattern=\"sequential\", block=\"128k\", read=0, depth=32",
        ),
    ];
    println!(
        "{:32} {:>12} {:>14} {:>14} {:>14}",
        "load", "mode", "I/Os", "I/O per s", "times real"
    );
    for (mode, time) in [("exact", "5s"), ("interval", "12h")] {
        for (name, load) in loads {
            let target = format!("sim:d5-p5430,noise=0,mode={mode}");
            let target = VirtualTarget::parse(&target).expect("a profile");
            let mut backend = VirtualBackend::new(&[target], Clock::virtual_at(0));
            let (counted, wall) = run(&mut backend, &format!("{load}, time=\"{time}\""));
            println!(
                "{name:32} {mode:>12} {:14.3e} {:14.3e} {:14.1}",
                counted.ios as f64,
                counted.ios as f64 / wall,
                counted.len_ns as f64 * 1e-9 / wall
            );
        }
    }
}
