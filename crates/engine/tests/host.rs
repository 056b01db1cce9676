//! The engines on real I/O: files in a temporary folder (direct I/O where the file system has it).

use base::clock::Clock;
use base::sample::{IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use engine::{
    CellEnd, CellSpec, Direct, Engine, FaultKind, Next, Outcome, Polling, Sink, Target,
    host_backend,
};
use plan::{Amount, Arrival, Demand, Load, Pattern, Streams, Verb, Window};
use std::collections::HashMap;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

struct Scratch {
    _folder: tempfile::TempDir,
    target: Target,
}

/// A sparse file: reads of its holes complete inside the submitting call.
fn scratch(size: u64) -> Scratch {
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
    Scratch { _folder: folder, target }
}

#[derive(Default)]
struct Gather {
    samples: Vec<IntervalSample>,
    stop_after: Option<usize>,
}

impl Sink for Gather {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        self.samples.push(sample);
        match self.stop_after {
            Some(n) if self.samples.len() >= n => Next::Stop,
            _ => Next::Continue,
        }
    }
}

impl Gather {
    fn counted(&self) -> (StreamSample, f64) {
        let mut sum = StreamSample::default();
        let mut ns = 0;
        for sample in self.samples.iter().filter(|sample| !sample.ramp) {
            sample.streams.iter().for_each(|stream| sum.merge(stream));
            ns += sample.len.0;
        }
        (sum, ns as f64 / 1e9)
    }
}

fn load(text: &str) -> Load {
    let text = format!("name=\"t\"\n[[step]]\nload={{time=1, {text}}}");
    let plan = plan::parse("t", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    cell.loads[0].clone()
}

fn cell(load: Load, time: Option<Nanos>, amount: Option<Amount>) -> CellSpec {
    CellSpec {
        loads: vec![load],
        window: Window { ramp: Nanos(0), time, amount },
        interval: Nanos(100_000_000),
        seed: 3,
        record_ios: 0,
    }
}

fn run(engine: Engine, target: &Target, cell: &CellSpec) -> (CellEnd, Gather) {
    let mut gather = Gather::default();
    let mut backend = host_backend(engine, vec![target.clone()], Clock::host());
    let end = backend.run(cell, &mut gather, &AtomicBool::new(false)).unwrap();
    (end, gather)
}

const ENGINES: [Engine; 2] = [Engine::Uring, Engine::Sync];
const MS: u64 = 1_000_000;

#[test]
fn every_io_is_in_every_histogram() {
    let scratch = scratch(64 << 20);
    for engine in ENGINES {
        let mut cell = cell(load("read=70, depth=8"), Some(Nanos(450 * MS)), None);
        cell.window.ramp = Nanos(150 * MS);
        let (end, gather) = run(engine, &scratch.target, &cell);
        assert_eq!(end.outcome, Outcome::Completed);
        let seqs: Vec<u32> = gather.samples.iter().map(|sample| sample.seq).collect();
        assert_eq!(seqs, (0..seqs.len() as u32).collect::<Vec<_>>());
        assert_eq!(gather.samples.iter().filter(|sample| sample.ramp).count(), 2);
        let (sum, secs) = gather.counted();
        assert!((0.449..2.0).contains(&secs), "{secs}");
        assert!(sum.ios() > 100);
        for side in [&sum.reads, &sum.writes] {
            assert_eq!(side.bytes, side.ios() * 4096);
            assert!(side.response.is_empty(), "closed loop: response equals service");
            assert!(side.service.mean_ns() >= side.submission.mean_ns());
        }
        // Over the whole cell: an I/O may be submitted in the ramp and completed after it.
        let mut whole = StreamSample::default();
        gather.samples.iter().for_each(|sample| whole.merge(&sample.streams[0]));
        assert_eq!(whole.reads.submission.count(), whole.reads.ios());
        assert_eq!(whole.writes.submission.count(), whole.writes.ios());
        let share = sum.reads.ios() as f64 / sum.ios() as f64;
        let sd = (0.21 / sum.ios() as f64).sqrt();
        assert!((share - 0.7).abs() < 5.0 * sd, "{share}");
    }
}

#[test]
fn an_amount_is_met_to_the_byte_by_any_number_of_workers() {
    let size = (16 << 20) + 4096 + 512;
    let scratch = scratch(size);
    for engine in ENGINES {
        for workers in [1, 3] {
            let load = load(&format!(
                "pattern=\"sequential\", read=0, block=\"64k\", depth=4, workers={workers}"
            ));
            let cell = cell(load, None, Some(Amount::Passes(1.0)));
            let (end, gather) = run(engine, &scratch.target, &cell);
            assert_eq!(end.outcome, Outcome::Completed);
            assert_eq!(gather.counted().0.writes.bytes, size, "{engine:?} {workers}");
        }
    }
}

#[test]
fn a_fill_leaves_no_hole() {
    let size = (4 << 20) + 1536;
    let scratch = scratch(size);
    let load = load("pattern=\"sequential\", read=0, block=\"128k\", depth=8");
    run(Engine::Uring, &scratch.target, &cell(load, None, Some(Amount::Passes(1.0))));
    let data = std::fs::read(&scratch.target.path).unwrap();
    let empty = data.chunks(512).filter(|chunk| chunk.iter().all(|&byte| byte == 0)).count();
    assert_eq!((data.len() as u64, empty), (size, 0));
}

#[test]
fn random_once_reads_every_block_once_over_workers() {
    let blocks = 5003;
    let scratch = scratch(blocks * 4096);
    let load = load("pattern=\"random-once\", depth=16, workers=3");
    let mut cell = cell(load, None, Some(Amount::Passes(1.0)));
    cell.record_ios = 1 << 16;
    let (end, _) = run(Engine::Uring, &scratch.target, &cell);
    let mut seen: HashMap<u64, u32> = HashMap::new();
    for record in &end.facts.records {
        *seen.entry(record.offset / 4096).or_default() += 1;
    }
    assert_eq!(seen.len() as u64, blocks);
    assert!(seen.values().all(|&n| n == 1));
}

/// The pattern of a 16 TiB file in constant memory: blocks of a sampled range, each exactly once, is
/// shown on the running program by the black-box tests; here the file system allows less.
#[test]
fn sequential_pointer_is_kept_across_cells() {
    let scratch = scratch(64 << 20);
    let mut backend = host_backend(Engine::Uring, vec![scratch.target.clone()], Clock::host());
    let load = load("pattern=\"sequential\", block=\"4k\"");
    let mut cell = cell(load, None, Some(Amount::Bytes(Bytes(10 * 4096))));
    cell.record_ios = 100;
    let mut starts = Vec::new();
    for _ in 0..3 {
        let end = backend.run(&cell, &mut Gather::default(), &AtomicBool::new(false)).unwrap();
        starts.push(end.facts.records[0].offset / 4096);
    }
    assert_eq!(starts, [0, 10, 20]);
}

#[test]
fn sequential_streams_go_on_behind_cells_of_an_earlier_process() {
    let scratch = scratch(64 << 20);
    for (workers, streams, expected) in [(1, "shared", 10), (2, "shared", 10), (2, "per-worker", 5)]
    {
        let mut backend = host_backend(Engine::Uring, vec![scratch.target.clone()], Clock::host());
        let load = load(&format!(
            "pattern=\"sequential\", block=\"4k\", streams=\"{streams}\", workers={workers}"
        ));
        let mut cell = cell(load, None, Some(Amount::Bytes(Bytes(10 * 4096))));
        cell.record_ios = 100;
        backend.ran_before(&cell, &[10 * 4096]);
        let end = backend.run(&cell, &mut Gather::default(), &AtomicBool::new(false)).unwrap();
        let first = end.facts.records.iter().map(|io| io.offset / 4096).min();
        assert_eq!(first, Some(expected), "{workers} {streams}");
    }
}

#[test]
fn weights_zones_and_mixes_are_kept_side_by_side() {
    let scratch = scratch(64 << 20);
    let text = "name=\"t\"\n[[step]]\ntime=0.4\n\
        [[step.load]]\nname=\"a\"\nweight=25\ndepth=8\npattern=\"sequential\"\nrange=[\"0%\",\"50%\"]\n\
        [[step.load]]\nname=\"b\"\nweight=75\ndepth=8\nblock={\"4k\"=80, \"16k\"=20}\nrange=[\"50%\",\"100%\"]";
    let plan = plan::parse("t", text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Load(parsed) = &plan.steps[0].verb else { panic!("a load") };
    let cell =
        CellSpec { loads: parsed.loads.clone(), ..cell(load(""), Some(Nanos(400 * MS)), None) };
    for engine in ENGINES {
        let (_, gather) = run(engine, &scratch.target, &cell);
        let mut ios = [0u64; 2];
        let mut bytes = 0;
        for sample in &gather.samples {
            assert_eq!(sample.streams.len(), 2);
            for (sum, stream) in ios.iter_mut().zip(&sample.streams) {
                *sum += stream.ios();
            }
            bytes += sample.streams[1].bytes();
        }
        let total = (ios[0] + ios[1]) as f64;
        let sd = (0.25 * 0.75 / total).sqrt();
        assert!((ios[0] as f64 / total - 0.25).abs() < 5.0 * sd, "{ios:?}");
        // 80 % of 4 KiB and 20 % of 16 KiB are 6.4 KiB on average.
        let mean = bytes as f64 / ios[1] as f64 / 1024.0;
        let sd = 12.0 * (0.16 / ios[1] as f64).sqrt();
        assert!((mean - 6.4).abs() < 5.0 * sd, "{mean}");
    }
}

#[test]
fn open_loop_keeps_its_rate_and_counts_from_the_intended_start() {
    let scratch = scratch(64 << 20);
    for engine in ENGINES {
        for arrival in [Arrival::Poisson, Arrival::Uniform, Arrival::Deterministic] {
            let demand = Demand::Open { rate_iops: 4000.0, arrival, backlog: 1_000_000 };
            let load = Load { demand, depth: 8, workers: 1, ..load("") };
            let cell = cell(load, Some(Nanos(1000 * MS)), None);
            let (end, gather) = run(engine, &scratch.target, &cell);
            assert_eq!(end.outcome, Outcome::Completed);
            let (sum, _) = gather.counted();
            // Every arrival of the schedule is served or counted as shed: only the number of
            // arrivals is random, with a deviation of at most sqrt(4000) = 63.
            let arrivals = sum.ios() + sum.shed;
            assert!((3680..=4320).contains(&arrivals), "{engine:?} {arrival:?}: {arrivals}");
            assert_eq!(sum.reads.response.count(), sum.ios());
            assert_eq!(sum.lateness.count(), sum.ios());
            assert!(sum.reads.response.sum_ns() >= sum.reads.service.sum_ns());
        }
    }
}

#[test]
fn an_open_loop_ends_with_its_amount() {
    let scratch = scratch(64 << 20);
    for engine in ENGINES {
        let demand =
            Demand::Open { rate_iops: 5000.0, arrival: Arrival::Deterministic, backlog: 1000 };
        let load = Load { demand, depth: 8, ..load("") };
        let cell = cell(load, None, Some(Amount::Bytes(Bytes(500 * 4096))));
        let (end, gather) = run(engine, &scratch.target, &cell);
        assert_eq!((end.outcome, gather.counted().0.ios()), (Outcome::Completed, 500));
    }
}

#[test]
fn an_overload_waits_in_the_response_time_and_sheds_beyond_the_backlog() {
    let scratch = scratch(64 << 20);
    // No disk here does a hundred million reads a second.
    let demand = Demand::Open { rate_iops: 1e8, arrival: Arrival::Poisson, backlog: 1000 };
    let load = Load { demand, depth: 4, ..load("") };
    let (_, gather) = run(Engine::Uring, &scratch.target, &cell(load, Some(Nanos(200 * MS)), None));
    let (sum, _) = gather.counted();
    assert!(sum.shed > 0, "the backlog has a limit");
    assert!(sum.waited > 0);
    assert!(sum.reads.response.mean_ns() > sum.reads.service.mean_ns());
}

#[test]
fn a_truncated_file_is_a_named_error_and_keeps_what_was_measured() {
    for engine in ENGINES {
        let scratch = scratch(64 << 20);
        let path = scratch.target.path.clone();
        let cut = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(250));
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
        });
        let cell = cell(load("depth=4"), Some(Nanos(10_000 * MS)), None);
        let (end, gather) = run(engine, &scratch.target, &cell);
        cut.join().unwrap();
        let Outcome::Faulted(fault) = end.outcome else { panic!("{:?}", end.outcome) };
        assert_eq!(fault.kind, FaultKind::Short(0));
        assert!(fault.target_lost() && fault.to_string().contains("truncated"), "{fault}");
        let (sum, _) = gather.counted();
        assert!(sum.ios() > 0 && sum.errors() > 0);
    }
}

#[test]
fn a_sink_and_an_interrupt_end_a_cell_early_and_keep_it() {
    let scratch = scratch(64 << 20);
    let cell = cell(load("depth=4"), Some(Nanos(60_000 * MS)), None);
    let mut backend = host_backend(Engine::Uring, vec![scratch.target.clone()], Clock::host());
    let mut gather = Gather { stop_after: Some(2), ..Gather::default() };
    let end = backend.run(&cell, &mut gather, &AtomicBool::new(false)).unwrap();
    assert_eq!(end.outcome, Outcome::Completed);
    assert!(gather.samples.len() < 20);
    let mut gather = Gather::default();
    let end = backend.run(&cell, &mut gather, &AtomicBool::new(true)).unwrap();
    assert_eq!(end.outcome, Outcome::Interrupted);
    assert!(!gather.samples.is_empty());
}

#[test]
fn what_is_written_is_what_the_load_says() {
    let scratch = scratch(32 << 20);
    let load = load(
        "pattern=\"sequential\", read=0, block=\"64k\", depth=8, \
         data={compress=2.0, dedup=3.0, unit=\"4k\"}",
    );
    let load = Load { pattern: Pattern::Sequential(Streams::Shared), ..load };
    run(Engine::Uring, &scratch.target, &cell(load, None, Some(Amount::Passes(1.0))));
    let mut data = vec![0; 32 << 20];
    let file = std::fs::File::open(&scratch.target.path).unwrap();
    file.read_exact_at(&mut data, 0).unwrap();
    let packed: usize = data.chunks(4096).map(|c| lz4_flex::block::compress(c).len()).sum();
    let compress = data.len() as f64 / packed as f64;
    assert!((compress / 2.0 - 1.0).abs() < 0.05, "{compress}");
    let units: std::collections::HashSet<&[u8]> = data.chunks(4096).collect();
    let dedup = (data.len() / 4096) as f64 / units.len() as f64;
    assert!((dedup / 3.0 - 1.0).abs() < 0.05, "{dedup}");
}

#[test]
fn polled_completions_work_where_the_kernel_allows_them() {
    let scratch = scratch(16 << 20);
    let target = Target { polling: Polling::On, ..scratch.target.clone() };
    let (end, gather) =
        run(Engine::Uring, &target, &cell(load("depth=4"), Some(Nanos(200 * MS)), None));
    match end.outcome {
        Outcome::Completed => assert!(gather.counted().0.ios() > 0),
        Outcome::Faulted(fault) => {
            println!("NOT RUN: this file system has no polled I/O ({fault})");
        }
        other => panic!("{other:?}"),
    }
}
