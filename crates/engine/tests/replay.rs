//! Recordings replayed on real I/O (files in a temporary folder): the same requests, in order, at their
//! times; and models of synthetic recordings, run again, that have the same character.

use base::clock::Clock;
use base::rng::Rng;
use base::sample::IntervalSample;
use base::units::{Bytes, Nanos};
use engine::{
    CellEnd, CellSpec, Direct, Engine, IoRecord, Next, Outcome, Polling, Sink, Target, host_backend,
};
use plan::{Load, Pattern, Verb, Window};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trace::{Character, Request, Trace, plan_of};

const SIZE: u64 = 1 << 30;

struct Nothing;

impl Sink for Nothing {
    fn interval(&mut self, _: IntervalSample) -> Next {
        Next::Continue
    }
}

struct Disk {
    _folder: tempfile::TempDir,
    target: Target,
}

fn disk(size: u64) -> Disk {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    let open =
        |flags| std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
    let (file, direct) = match open(0o40000) {
        Ok(file) => (file, Direct::Yes),
        Err(_) => (open(0).unwrap(), Direct::No),
    };
    let target = Target {
        name: "data".into(),
        path,
        file: Some(Arc::new(file.into())),
        size: Bytes(size),
        block: Bytes(512),
        direct,
        polling: Polling::Off,
        command: None,
    };
    Disk { _folder: folder, target }
}

fn run(engine: Engine, target: &Target, loads: Vec<Load>, time: Option<Nanos>) -> CellEnd {
    let spec = CellSpec {
        loads,
        window: Window { ramp: Nanos(0), time, amount: None },
        interval: Nanos(100_000_000),
        seed: 4,
        record_ios: 1_000_000,
    };
    let mut backend = host_backend(engine, vec![target.clone()], Clock::host());
    let mut end = backend.run(&spec, &mut Nothing, &AtomicBool::new(false)).unwrap();
    assert_eq!(end.outcome, Outcome::Completed);
    end.facts.records.sort_by_key(|record| (record.intended_ns, record.start_ns));
    end
}

fn replay(text: &str, trace: &Arc<Trace>) -> Load {
    let text = format!("name=\"t\"\n[[step]]\nload={{trace=\"x\", {text}}}");
    let plan = plan::parse("t", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    let mut load = cell.loads[0].clone();
    let Pattern::Trace(replay) = &mut load.pattern else { panic!("a recording") };
    replay.trace = Some(trace.clone());
    let block = plan::BlockMix::one(Bytes(128 << 10));
    (load.read_blocks, load.write_blocks) = (block.clone(), block);
    load
}

fn recording(n: u64, gap_ns: f64) -> Arc<Trace> {
    let mut rng = Rng::new(8);
    let mut time = 0.0;
    let request = |_| {
        time += rng.exponential() * gap_ns;
        let len = [512, 4096, 65536][rng.below(3) as usize];
        let offset = rng.below((SIZE - (1 << 20)) / 512) * 512;
        Request { time: time as u64, offset, len, write: rng.below(3) == 0 }
    };
    Arc::new(Trace { requests: (0..n).map(request).collect(), ..Trace::default() })
}

fn issued(records: &[IoRecord]) -> Vec<(u64, u32, bool)> {
    records.iter().map(|r| (r.offset, r.len, r.write)).collect()
}

fn wanted(trace: &Trace) -> Vec<(u64, u32, bool)> {
    trace.requests.iter().map(|r| (r.offset, r.len, r.write)).collect()
}

#[test]
fn a_replay_makes_the_same_requests_at_their_times() {
    let disk = disk(SIZE);
    let trace = recording(3000, 200_000.0);
    for (engine, workers) in [(Engine::Uring, 1), (Engine::Uring, 3), (Engine::Sync, 1)] {
        let load = replay(&format!("workers={workers}, depth=64"), &trace);
        // A thread of the synchronous engine has one I/O at a time, and there are as many as depth says.
        let load = if engine == Engine::Sync { Load { depth: 4, ..load } } else { load };
        let end = run(engine, &disk.target, vec![load], None);
        let records = &end.facts.records;
        assert_eq!(issued(records), wanted(&trace), "{engine:?} with {workers}");
        let start = records[0].intended_ns - trace.requests[0].time;
        let late = |(record, request): (&IoRecord, &Request)| {
            assert_eq!(record.intended_ns, start + request.time);
            record.start_ns - record.intended_ns
        };
        let mut late: Vec<u64> = records.iter().zip(&trace.requests).map(late).collect();
        late.sort_unstable();
        println!(
            "{engine:?}, {workers} workers: arrival error p50 {} ns, p99 {} ns",
            late[late.len() / 2],
            late[late.len() * 99 / 100]
        );
    }
}

#[test]
fn speed_directions_and_depth_are_as_asked() {
    let disk = disk(SIZE);
    let trace = recording(2000, 100_000.0);
    let end = run(Engine::Uring, &disk.target, vec![replay("speed=4, depth=64", &trace)], None);
    let records = &end.facts.records;
    let span = records.last().unwrap().intended_ns - records[0].intended_ns;
    let recorded = trace.span() - trace.requests[0].time;
    assert!((span as f64 / recorded as f64 - 0.25).abs() < 1e-3, "{span} of {recorded}");
    let reads =
        run(Engine::Uring, &disk.target, vec![replay("read=100, speed=\"max\"", &trace)], None);
    let mut only = wanted(&trace);
    only.retain(|request| !request.2);
    let mut made = issued(&reads.facts.records);
    made.sort_unstable();
    only.sort_unstable();
    assert_eq!(made, only);
    // One at a time keeps the order whatever the times were.
    let load = replay("speed=\"max\", depth=1", &trace);
    let end = run(Engine::Uring, &disk.target, vec![load], None);
    assert_eq!(issued(&end.facts.records), wanted(&trace));
}

/// A target smaller than what was recorded: every request lands inside of it.
#[test]
fn a_smaller_target_gets_scaled_addresses() {
    let disk = disk(16 << 20);
    let trace = recording(1000, 10_000.0);
    for fit in ["auto", "wrap"] {
        let text = format!("fit=\"{fit}\", speed=\"max\", depth=8");
        let end = run(Engine::Uring, &disk.target, vec![replay(&text, &trace)], None);
        assert_eq!(end.facts.records.len(), 1000);
        assert!(end.facts.records.iter().all(|r| r.offset + u64::from(r.len) <= 16 << 20));
    }
}

fn loads_of(text: &str) -> Vec<Load> {
    let plan = plan::parse("model", text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    cell.loads.clone()
}

fn as_trace(records: &[IoRecord]) -> Trace {
    let first = records[0].intended_ns;
    let request = |r: &IoRecord| Request {
        time: r.intended_ns - first,
        offset: r.offset,
        len: r.len,
        write: r.write,
    };
    Trace { requests: records.iter().map(request).collect(), ..Trace::default() }
}

/// A synthetic run, recorded, modelled and run again: mix, sizes, order and places agree within 2 points.
#[test]
fn a_model_behaves_like_what_it_was_made_of() {
    let disk = disk(SIZE);
    let synthetic = [
        "pattern=\"random\", block=\"4k\", read=70",
        "pattern=\"random\", block={ \"4k\"=50, \"16k\"=30, \"64k\"=20 }, read=30, align=\"4k\"",
        "pattern=\"random\", random=60, block=\"8k\", read=100",
        "pattern=\"zones\", zones=\"50/5:30/15:20/80\", block=\"4k\", read=50",
        "pattern=\"sequential\", block=\"64k\", read=100",
        "pattern=\"zones\", random=75, zones=\"80/10:20/90\", block=\"4k\", read=0",
    ];
    for text in synthetic {
        let source = format!(
            "name=\"s\"\n[[step]]\nload={{{text}, depth=64, rate=10000, arrival=\"poisson\", time=\"3s\"}}"
        );
        let time = Some(Nanos(3_000_000_000));
        let recorded =
            as_trace(&run(Engine::Uring, &disk.target, loads_of(&source), time).facts.records);
        let model = plan_of(&recorded, "model", 1);
        let again =
            as_trace(&run(Engine::Uring, &disk.target, loads_of(&model), time).facts.records);
        let (a, b) = (Character::of(&recorded), Character::of(&again));
        compare(text, &a, &b);
        assert!((b.rate / a.rate - 1.0).abs() < 0.05, "{text}: rate {} and {}", a.rate, b.rate);
    }
}

fn compare(what: &str, a: &Character, b: &Character) {
    let near = |name: &str, x: f64, y: f64| {
        assert!((x - y).abs() < 0.02, "{what}: {name}: {x} recorded, {y} of the model");
        (x - y).abs()
    };
    let mut worst = near("reads", a.reads, b.reads);
    worst = worst.max(near("order", a.sequential, b.sequential));
    for size in &a.sizes {
        let other = b.sizes.iter().find(|other| other.len == size.len).map_or(0.0, |o| o.share);
        worst = worst.max(near("size", size.share, other));
    }
    // Shares of the accesses in each fiftieth of the space.
    let part = |c: &Character, n: usize| {
        let all = c.pieces.iter().sum::<u64>() as f64;
        let (from, to) = (n * c.pieces.len() / 50, (n + 1) * c.pieces.len() / 50);
        c.pieces[from..to].iter().sum::<u64>() as f64 / all
    };
    for n in 0..50 {
        worst = worst.max(near("places", part(a, n), part(b, n)));
    }
    println!("{what}: largest difference {:.2} points", worst * 100.0);
}
