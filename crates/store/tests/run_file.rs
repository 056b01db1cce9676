//! What is written comes back, after a crash too, and old formats stay readable.

use base::hist::Hist;
use base::sample::{CpuUse, IntervalSample, Side, StreamSample};
use base::units::Nanos;
use serde_json::json;
use std::path::{Path, PathBuf};
use store::{
    CellHead, CellSums, Mark, RunFile, RunHead, RunWriter, State, StoreError, StreamHead,
    TargetHead, news,
};

fn head() -> RunHead {
    RunHead {
        fathom_version: "0.1.0".into(),
        started_unix_ms: 1_790_000_000_000,
        plan_name: "golden".into(),
        plan_title: "A golden run".into(),
        plan_source: "name = \"golden\"".into(),
        settings: vec![("time".into(), "2s".into())],
        seed: 7,
        engine: "uring".into(),
        interval: Nanos::SECOND,
        host: json!({"name": "host"}),
        instrument: json!({"clock": {"source": "tsc"}}),
    }
}

fn targets() -> Vec<TargetHead> {
    vec![TargetHead {
        name: "/dev/nvme0n1".into(),
        identity: "S1".into(),
        kind: "device",
        size_bytes: 1 << 40,
        block_bytes: 4096,
        facts: json!({"model": "M"}),
    }]
}

fn cell(path: &str) -> CellHead {
    CellHead {
        path: path.into(),
        step: path.into(),
        label: "depth=4".into(),
        verb: "sweep",
        coordinates: json!([{"axis": "depth", "value": "4"}]),
        iteration: 0,
        counted: true,
        spec: json!([{"describe": "RND4K 70/30 Q4T1"}]),
        start: Nanos(1000),
        streams: vec![StreamHead {
            load: "".into(),
            target: 0,
            describe: "RND4K 70/30 Q4T1".into(),
            rate_iops: Some(5000.0),
        }],
    }
}

fn sample(seq: u32, ramp: bool) -> IntervalSample {
    let mut side = Side { bytes: 4096 * 1000, errors: u64::from(seq), ..Side::default() };
    for i in 0..1000u64 {
        side.service.record(80_000 + i * i % 9973);
        side.submission.record(900 + i % 77);
        side.response.record(90_000 + i * i % 9973);
    }
    let mut stream = StreamSample {
        reads: side.clone(),
        writes: side,
        waited: 3,
        shed: 1,
        ..StreamSample::default()
    };
    stream.lateness.record_n(500, 2000);
    IntervalSample {
        seq,
        start: Nanos(1_000_000_000 * u64::from(seq)),
        len: Nanos::SECOND,
        ramp,
        streams: vec![stream],
        cpu: CpuUse { user_ns: 10, system_ns: 20 },
    }
}

fn write_golden(path: &Path) {
    let mut run = RunWriter::create(path, &head(), &targets()).unwrap();
    let first = run.start_cell(&cell("first")).unwrap();
    let mut totals = vec![StreamSample::default()];
    for seq in 0..3 {
        run.add_interval(first, &sample(seq, seq == 0)).unwrap();
        if seq > 0 {
            totals[0].merge(&sample(seq, false).streams[0]);
        }
    }
    let sums = CellSums {
        totals: &totals,
        through_seq: 2,
        len: Nanos(2_000_000_000),
        intervals: 2,
        cpu: CpuUse { user_ns: 20, system_ns: 40 },
    };
    run.checkpoint(first, &sums).unwrap();
    run.end_cell(first, Nanos(4000), "done", None, &json!({"workers": 1}), &sums).unwrap();
    run.event(Nanos(5), Some(first), "note", "an event").unwrap();
    run.telemetry(Nanos(6), "drive", "temperature_c", 41.0).unwrap();
    run.verdict(Some(first), "schedule", "pass", "kept", &json!({"p99_ns": 500})).unwrap();
    let second = run.start_cell(&cell("second")).unwrap();
    run.add_interval(second, &sample(0, false)).unwrap();
    run.finish(State::Interrupted, 1_790_000_009_000).unwrap();
}

/// A sample as it comes back: submission times are kept for the cell, not for the interval.
fn stored(mut sample: IntervalSample) -> IntervalSample {
    for stream in &mut sample.streams {
        stream.reads.submission = Hist::new();
        stream.writes.submission = Hist::new();
    }
    sample
}

/// Everything that must come back from the golden file, whatever version reads it.
fn check_golden(path: &Path) {
    let run = RunFile::open(path).unwrap();
    assert_eq!(run.state, State::Interrupted);
    assert_eq!((run.meta("plan_name"), run.meta("seed")), ("golden", "7"));
    assert_eq!(run.meta_json("settings")["time"], "2s");
    assert_eq!(run.targets[0]["facts"]["model"], "M");
    let [first, second] = run.cells.as_slice() else { panic!("two cells") };
    assert_eq!((first.status.as_str(), first.intervals), ("done", 2));
    assert_eq!((first.len, first.cpu.total_ns()), (Nanos(2_000_000_000), 60));
    let mut expected = sample(1, false).streams.remove(0);
    expected.merge(&sample(2, false).streams[0]);
    assert_eq!(first.totals, vec![expected]);
    assert_eq!(first.streams[0].rate_iops, Some(5000.0));
    assert_eq!(first.coordinates[0]["value"], "4");
    let back = run.intervals(first.id).unwrap();
    assert_eq!(back, [sample(0, true), sample(1, false), sample(2, false)].map(stored));
    // A cell without totals is merged from its intervals.
    assert_eq!((second.status.as_str(), second.totals.len()), ("running", 1));
    assert_eq!(second.totals[0], stored(sample(0, false)).streams[0]);
    assert_eq!(run.events[0].text, "an event");
    assert_eq!(run.verdicts[0].evidence["p99_ns"], 500);
    assert_eq!(run.telemetry().unwrap()[0].value, 41.0);
}

#[test]
fn what_is_written_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fathom");
    write_golden(&path);
    check_golden(&path);
}

#[test]
fn the_golden_file_of_every_version_is_read() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&golden).unwrap();
        let path = golden.join(format!("run-v{}.fathom", store::SCHEMA_VERSION));
        let _ = std::fs::remove_file(&path);
        write_golden(&path);
    }
    // A copy: opening a file in WAL mode may write beside it.
    let folder = tempfile::tempdir().unwrap();
    for version in 1..=store::SCHEMA_VERSION {
        let name = format!("run-v{version}.fathom");
        let copy = folder.path().join(&name);
        std::fs::copy(golden.join(&name), &copy).unwrap();
        check_golden(&copy);
    }
}

#[test]
fn a_run_is_readable_while_it_grows_and_known_as_cut_off_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fathom");
    let mut run = RunWriter::create(&path, &head(), &targets()).unwrap();
    let cell = run.start_cell(&cell("c")).unwrap();
    run.add_interval(cell, &sample(0, false)).unwrap();
    assert!(matches!(RunWriter::create(&path, &head(), &[]), Err(StoreError::Exists(_))));
    let seen = RunFile::open(&path).unwrap();
    assert_eq!((seen.state, seen.cells[0].totals[0].ios()), (State::Running, 2000));
    let totals = [sample(0, false).streams.remove(0)];
    let sums = CellSums {
        totals: &totals,
        through_seq: 0,
        len: Nanos::SECOND,
        intervals: 1,
        cpu: CpuUse::default(),
    };
    run.checkpoint(cell, &sums).unwrap();
    run.add_interval(cell, &sample(1, false)).unwrap();
    let seen = RunFile::open(&path).unwrap();
    assert_eq!((seen.cells[0].totals[0].ios(), seen.cells[0].intervals), (4000, 2));
    drop(run); // Without `finish`: as after a kill.
    assert_eq!(RunFile::open(&path).unwrap().state, State::CutOff);
}

#[test]
fn what_is_no_run_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.fathom");
    let message = |path: &Path| RunFile::open(path).err().unwrap().to_string();
    assert!(message(&path).contains("No such file"));
    for content in [
        "",
        "hello, this is a text file, long enough to be looked at as a page".repeat(99).as_str(),
    ] {
        std::fs::write(&path, content).unwrap();
        assert!(message(&path).contains("is not a run file"), "{}", message(&path));
    }
    std::fs::remove_file(&path).unwrap();
    write_golden(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(message(&path).contains("use a newer fathom"));
}

#[test]
fn damage_is_found_and_named_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fathom");
    write_golden(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE interval SET hists=x'05ff' WHERE (id >> 12) & 3 = 1", []).unwrap();
    drop(connection);
    let run = RunFile::open(&path).unwrap();
    let error = run.intervals(run.cells[0].id).unwrap_err().to_string();
    assert!(error.contains("interval 1") && error.contains("damaged"), "{error}");
    // Any byte of the file may flip.
    let bytes = std::fs::read(&path).unwrap();
    let mut rng = base::rng::Rng::new(3);
    for _ in 0..200 {
        let mut broken = bytes.clone();
        for _ in 0..8 {
            let at = rng.below(broken.len() as u64) as usize;
            broken[at] ^= rng.next() as u8;
        }
        std::fs::write(&path, broken).unwrap();
        if let Ok(run) = RunFile::open(&path) {
            run.cells.iter().for_each(|cell| drop(run.intervals(cell.id)));
        }
    }
}

#[test]
fn an_empty_histogram_takes_one_byte() {
    let mut bytes = Vec::new();
    Hist::<base::hist::Service>::new().encode_into(&mut bytes);
    assert_eq!(bytes.len(), 1);
}

#[test]
fn what_is_new_is_told_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.fathom");
    let mut run = RunWriter::create(&path, &head(), &targets()).unwrap();
    let mut mark = Mark::default();
    let look = |mark: &mut Mark, most: usize| {
        let mut seen = Vec::new();
        let found = news(&path, mark, most, |cell, sample| seen.push((cell, sample.seq))).unwrap();
        (found, seen)
    };
    let (first, seen) = look(&mut mark, 100);
    assert!(first.anew && first.cells.is_empty() && seen.is_empty());
    let cell_1 = run.start_cell(&cell("first")).unwrap();
    for seq in 0..5 {
        run.add_interval(cell_1, &sample(seq, seq == 0)).unwrap();
    }
    run.event(Nanos(5), Some(cell_1), "note", "one").unwrap();
    // Two rows at a time.
    let (found, seen) = look(&mut mark, 2);
    assert!(!found.anew && found.more, "more rows are there");
    assert_eq!(found.events.len(), 1);
    assert_eq!(seen, [(cell_1, 0), (cell_1, 1)]);
    assert_eq!(look(&mut mark, 2).1, [(cell_1, 2), (cell_1, 3)]);
    let (found, seen) = look(&mut mark, 2);
    assert_eq!((found.more, seen), (false, vec![(cell_1, 4)]));
    assert!(found.events.is_empty(), "an event is told once");
    assert_eq!(found.cells[0].status, "running");
    assert_eq!(found.state, State::Running);
    let sums = CellSums {
        totals: &[sample(1, false).streams.remove(0)],
        through_seq: 4,
        len: Nanos(4_000_000_000),
        intervals: 4,
        cpu: CpuUse { user_ns: 20, system_ns: 40 },
    };
    run.end_cell(cell_1, Nanos(4000), "done", None, &json!({}), &sums).unwrap();
    run.verdict(Some(cell_1), "schedule", "pass", "kept", &json!({})).unwrap();
    let cell_2 = run.start_cell(&cell("second")).unwrap();
    run.add_interval(cell_2, &sample(0, false)).unwrap();
    let (found, seen) = look(&mut mark, 100);
    assert_eq!(seen, [(cell_2, 0)]);
    let told: Vec<(&str, usize)> =
        found.cells.iter().map(|cell| (cell.status.as_str(), cell.totals.len())).collect();
    assert_eq!(told, [("done", 1), ("running", 0)], "the sums of what ended");
    assert_eq!(found.verdicts.len(), 1);
    drop(run);
    assert_eq!(look(&mut mark, 100).0.state, State::CutOff);
    // It goes on: what was known of cells, events and verdicts is told anew, intervals are not.
    let mut run = RunWriter::resume(&path).unwrap();
    run.event(Nanos(9), None, "resume", "the run was cut off; it goes on").unwrap();
    run.mark_repeated(cell_2, "was cut").unwrap();
    let cell_3 = run.start_cell(&cell("second")).unwrap();
    run.add_interval(cell_3, &sample(0, false)).unwrap();
    let (found, seen) = look(&mut mark, 100);
    assert!(found.anew);
    let told: Vec<&str> = found.cells.iter().map(|cell| cell.status.as_str()).collect();
    assert_eq!(told, ["done", "repeated", "running"]);
    assert_eq!((found.events.len(), found.state), (2, State::Running));
    assert_eq!(seen, [(cell_3, 0)]);
}
