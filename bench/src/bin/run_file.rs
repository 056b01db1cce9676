//! Size and opening time of a run of 24 hours at one-second intervals: 70/30 mix, 100,000 I/Os a
//! second, log-normal latencies that wander over the day. Limits: 100 MB and one second.
//!
//! Usage: run_file [FOLDER]

use base::clock::Clock;
use base::rng::Rng;
use base::sample::{CpuUse, IntervalSample, Side, StreamSample};
use base::units::Nanos;
use serde_json::json;
use std::path::PathBuf;
use store::{CellHead, CellSums, RunFile, RunHead, RunWriter, State, StreamHead, TargetHead};

const SECONDS: u32 = 86_400;
const IOPS: u64 = 100_000;
/// Different seconds that are made; the day cycles through them.
const KINDS: u64 = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let folder = tempfile::tempdir_in(folder)?;
    let path = folder.path().join("day.fathom");
    let mut rng = Rng::new(1);
    let kinds: Vec<StreamSample> = (0..KINDS).map(|kind| second(kind, &mut rng)).collect();
    let clock = Clock::host();
    let mut run = day_run(&path)?;
    let cell = run.start_cell(&day_cell())?;
    let start = clock.now();
    let mut total = StreamSample::default();
    for seq in 0..SECONDS {
        let sample = IntervalSample {
            seq,
            start: Nanos(u64::from(seq) * 1_000_000_000),
            len: Nanos::SECOND,
            ramp: false,
            streams: vec![kinds[(u64::from(seq) % KINDS) as usize].clone()],
            cpu: CpuUse { user_ns: 100_000_000, system_ns: 300_000_000 },
        };
        total.merge(&sample.streams[0]);
        run.add_interval(cell, &sample)?;
        if seq % 256 == 255 {
            let totals = [total.clone()];
            let len = Nanos((u64::from(seq) + 1) * 1_000_000_000);
            let cpu = CpuUse::default();
            let sums = CellSums { totals: &totals, through_seq: seq, len, intervals: seq + 1, cpu };
            run.checkpoint(cell, &sums)?;
        }
        for name in ["cpu_user_share", "cpu_system_share", "cpu_interrupt_share"] {
            run.telemetry(sample.start, "host", name, f64::from(seq % 100) / 100.0)?;
        }
        run.telemetry(sample.start, "target0", "temperature_c", f64::from(40 + seq % 20))?;
    }
    let cost_us = (clock.now().0 - start.0) as f64 / 1e3 / f64::from(SECONDS);
    // As after a crash: no totals yet.
    let cut = time(&clock, || RunFile::open(&path).map(drop))?;
    let sums = CellSums {
        totals: &[total],
        through_seq: SECONDS - 1,
        len: Nanos(u64::from(SECONDS) * 1_000_000_000),
        intervals: SECONDS,
        cpu: CpuUse::default(),
    };
    run.end_cell(cell, Nanos(1), "done", None, &json!({}), &sums)?;
    run.finish(State::Done, 0)?;
    drop(run);
    let bytes = std::fs::metadata(&path)?.len();
    let open = time(&clock, || RunFile::open(&path).map(drop))?;
    println!(
        "24 h at one second, 70/30 mix, {IOPS} IOPS: {:.1} MB (limit 100 MB)",
        bytes as f64 / 1e6
    );
    println!("opened in {:.0} ms (limit 1000 ms); before its end, or cut off: {:.0} ms", open, cut);
    println!("cost of one interval: {cost_us:.0} us");
    if bytes > 100_000_000 || open > 1000.0 {
        return Err("a limit is exceeded".into());
    }
    Ok(())
}

/// An empty run with one target.
fn day_run(path: &std::path::Path) -> Result<RunWriter, store::StoreError> {
    let head = RunHead { interval: Nanos::SECOND, ..RunHead::default() };
    let target = TargetHead {
        name: "day".into(),
        identity: "day".into(),
        kind: "device",
        size_bytes: 1,
        block_bytes: 512,
        facts: json!({}),
    };
    RunWriter::create(path, &head, &[target])
}

/// One cell with one stream.
fn day_cell() -> CellHead {
    let stream = StreamHead {
        load: String::new(),
        target: 0,
        describe: "RND4K 70/30 Q32T1".into(),
        rate_iops: None,
    };
    CellHead {
        path: "day".into(),
        step: "day".into(),
        label: String::new(),
        verb: "load",
        coordinates: json!([]),
        iteration: 0,
        counted: true,
        spec: json!({}),
        start: Nanos(0),
        streams: vec![stream],
    }
}

fn time<E>(clock: &Clock, work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let start = clock.now();
    work()?;
    Ok((clock.now().0 - start.0) as f64 / 1e6)
}

/// One second of a busy drive.
fn second(kind: u64, rng: &mut Rng) -> StreamSample {
    let drift = 1.0 + 0.2 * (kind as f64 / KINDS as f64 * std::f64::consts::TAU).sin();
    StreamSample {
        reads: side(IOPS * 7 / 10, 110_000.0 * drift, 0.25, rng),
        writes: side(IOPS * 3 / 10, 30_000.0 * drift, 0.4, rng),
        ..StreamSample::default()
    }
}

fn side(ios: u64, median_ns: f64, sigma: f64, rng: &mut Rng) -> Side {
    let mut side = Side { bytes: ios * 4096, ..Side::default() };
    for _ in 0..ios {
        let normal: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        // One in a thousand meets a busy die.
        let tail = if rng.below(1000) == 0 { 10.0 } else { 1.0 };
        side.service.record((median_ns * tail * (sigma * normal).exp()) as u64);
        side.submission.record((900.0 * (0.15 * normal).exp()) as u64);
    }
    side
}
