//! What checking of data costs, and whether it ever cries wolf.
//!
//! `cargo run --release -p bench --bin verify [PAIRS [SECTORS]]`: reads and writes of 4 KiB with and without
//! checking, in pairs of random order, as a ratio of CPU time for each I/O; then SECTORS clean sectors
//! (100 million unless it says else) are read and judged. On a file in memory: the medium costs little, so
//! the ratio is the worst there is.

use analysis::Ratio;
use base::clock::Clock;
use base::rng::Rng;
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use engine::verify::{Tracker, Verified};
use engine::{
    Backend, CellSpec, Direct, Engine, Next, Outcome, Polling, Sink, Target, host_backend,
};
use plan::{Load, Verb, Window};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 512 << 20;
const SLOT: Nanos = Nanos(300_000_000);

#[derive(Default)]
struct Sum {
    ios: u64,
    cpu: CpuUse,
}

impl Sink for Sum {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        self.ios += sample.streams.iter().map(StreamSample::ios).sum::<u64>();
        self.cpu.merge(sample.cpu);
        Next::Continue
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let pairs: u32 = args.next().and_then(|n| n.parse().ok()).unwrap_or(30);
    let sectors: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(100_000_000);
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::path::Path::new(".") };
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let path = folder.path().join("data");
    std::fs::write(&path, vec![0; SIZE as usize]).expect("a file");
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("the file");
    let target = Target {
        name: "data".into(),
        path,
        file: Some(Arc::new(file.into())),
        size: Bytes(SIZE),
        block: Bytes(512),
        direct: Direct::No,
        polling: Polling::Off,
        command: None,
    };
    let tracker = Arc::new(Tracker::new(1, 0, SIZE, 4096).expect("memory"));
    let mut checked = host_backend(Engine::Uring, vec![target.clone()], Clock::host());
    checked.verify(vec![tracker]);
    let mut plain = host_backend(Engine::Uring, vec![target], Clock::host());
    let mut rng = Rng::new(1);
    for (name, text) in [
        ("writes of 4k", "read=0, block=\"4k\", depth=32"),
        ("writes of 128k", "read=0, block=\"128k\", depth=8"),
        ("reads of 4k", "read=100, block=\"4k\", depth=32"),
        ("reads of 128k", "read=100, block=\"128k\", depth=8"),
    ] {
        // What is read must be stamped: unchecked writes took the stamps away.
        fill(&mut *checked);
        cost(name, text, pairs, (&mut *checked, &mut *plain), &mut rng);
    }
    fill(&mut *checked);
    read_clean(&mut *checked, sectors);
}

fn load(text: &str) -> Load {
    let text = format!("name=\"t\"\n[[step]]\nload={{time=1, {text}, verify={{stop_after=0}}}}");
    let plan = plan::parse("t", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    cell.loads[0].clone()
}

fn run(backend: &mut dyn Backend, load: Load, window: Window) -> (Sum, Verified) {
    let spec = CellSpec {
        loads: vec![load],
        window,
        interval: Nanos(100_000_000),
        seed: 1,
        record_ios: 0,
    };
    let mut sum = Sum::default();
    let end = backend.run(&spec, &mut sum, &AtomicBool::new(false)).expect("a cell");
    assert_eq!(end.outcome, Outcome::Completed);
    (sum, end.facts.verified.unwrap_or_default())
}

fn passes(passes: f64) -> Window {
    Window { ramp: Nanos(0), time: None, amount: Some(plan::Amount::Passes(passes)) }
}

fn fill(backend: &mut dyn Backend) {
    let load = load("read=0, pattern=\"sequential\", block=\"128k\", depth=8");
    run(backend, load, passes(1.0));
}

/// CPU time for each I/O with checking to without.
fn cost(
    name: &str,
    text: &str,
    pairs: u32,
    (checked, plain): (&mut dyn Backend, &mut dyn Backend),
    rng: &mut Rng,
) {
    let window = Window { ramp: Nanos(0), time: Some(SLOT), amount: None };
    let mut each = |with: bool| {
        let mut load = load(text);
        if !with {
            load.verify = None;
        }
        let backend: &mut dyn Backend = if with { &mut *checked } else { &mut *plain };
        let sum = run(backend, load, window).0;
        (sum.cpu.user_ns + sum.cpu.system_ns) as f64 / sum.ios as f64
    };
    let (mut logs, mut with_ns, mut without_ns) = (Vec::new(), 0.0, 0.0);
    for _ in 0..pairs {
        let first = rng.below(2) == 0;
        let (a, b) = (each(first), each(!first));
        let (with, without) = if first { (a, b) } else { (b, a) };
        logs.push((with / without).ln());
        with_ns += with / f64::from(pairs);
        without_ns += without / f64::from(pairs);
    }
    let ratio = Ratio::of(&logs, 0.95, 1).expect("three pairs");
    println!(
        "{name}: {:.0} ns of CPU each with checking, {:.0} without: {:.2}, 95 % interval {:.2} .. {:.2}, {} pairs",
        with_ns, without_ns, ratio.ratio, ratio.low, ratio.high, ratio.n
    );
}

fn read_clean(backend: &mut dyn Backend, sectors: u64) {
    let load = load("read=100, pattern=\"sequential\", block=\"128k\", depth=8");
    let times = (sectors * 512) as f64 / SIZE as f64;
    let clock = Clock::host();
    let start = clock.now();
    let found = run(backend, load, passes(times)).1;
    let seconds = (clock.now().0 - start.0) as f64 / 1e9;
    println!(
        "{} clean sectors judged in {seconds:.1} s ({:.2} GB/s): {} false alarms, {} not known",
        found.clean,
        found.clean as f64 * 512.0 / seconds / 1e9,
        found.sectors_wrong(),
        found.unknown
    );
    assert!(found.clean + 256 >= sectors, "fewer than asked for");
}
