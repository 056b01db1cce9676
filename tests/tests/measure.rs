//! Whole runs on real files: what is measured, stored, shown and exported.

use base::hist::{Hist, Response, Service};
use blackbox::{command, fathom, folder, not_run, plan, tool};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{RunFile, State};

fn only_run_file(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "fathom"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn quick_measures_the_disk_under_the_folder_and_leaves_only_the_run_file() {
    let here = folder();
    let ran = fathom(here.path(), &["run", "quick", "--set", "time=200ms", "--set", "size=64MiB"]);
    ran.expect(0);
    for row in ["seq-read", "rnd-read-q1", "rnd-mixed", "rnd-write-q1", "own cost", "Run file:"] {
        assert!(ran.out.contains(row), "{row} in {}", ran.out);
    }
    let path = only_run_file(here.path());
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1, "the scratch file is gone");
    let run = RunFile::open(&path).unwrap();
    assert_eq!(run.state, State::Done);
    assert_eq!(run.cells.len(), 8);
    for cell in &run.cells {
        let sum = cell.merged();
        assert!(sum.ios() > 0 && sum.errors() == 0, "{}", cell.path);
        // The sum of the intervals is the total of the cell, to the last sample.
        let mut again = base::sample::StreamSample::default();
        for sample in run.intervals(cell.id).unwrap().iter().filter(|sample| !sample.ramp) {
            sample.streams.iter().for_each(|stream| again.merge(stream));
        }
        // Submission times are kept for the cell only.
        // An I/O may be submitted in the ramp and completed after it, up to the depth.
        let submitted = sum.reads.submission.count() + sum.writes.submission.count();
        assert!(submitted.abs_diff(again.ios()) <= 32, "{submitted} of {}", again.ios());
        again.reads.submission = sum.reads.submission.clone();
        again.writes.submission = sum.writes.submission.clone();
        assert_eq!(again, sum, "{}", cell.path);
    }
    // No hole is measured: the scratch file was laid out first.
    assert!(run.verdicts.iter().all(|verdict| verdict.name != "holes"));
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(fathom(here.path(), &["show", &name]).expect(0).out.contains("State    done"));
}

#[test]
fn json_of_a_run_holds_its_figures_and_its_honesty() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"w\"\nload={read=0, depth=4, time=\"300ms\"}\n\
         [[step]]\nname=\"r\"\nload={read=50, rate=2000, depth=8, time=\"500ms\"}",
    );
    let ran = fathom(here.path(), &["run", &path, ".", "--json", "-q", "-o", "r.fathom"]);
    let json = ran.expect(0).json();
    assert_eq!((json["fathom_json"].as_u64(), json["state"].as_str()), (Some(1), Some("done")));
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    let rated = &cells[2];
    let ios = rated["read"]["ios"].as_u64().unwrap() + rated["write"]["ios"].as_u64().unwrap();
    // 2000/s for half a second; the count of a Poisson process of mean 1000 has deviation 32.
    assert!((840..1160).contains(&ios), "{ios}");
    assert!(
        rated["read"]["response"]["mean_ns"].as_f64()
            >= rated["read"]["service"]["mean_ns"].as_f64()
    );
    let names: Vec<&str> =
        rated["verdicts"].as_array().unwrap().iter().filter_map(|v| v["name"].as_str()).collect();
    assert!(names.contains(&"own-cost") && names.contains(&"cpu"), "{names:?}");
    assert!(json["instrument"]["own_cost"].as_array().unwrap().len() == 3);
    let again = fathom(here.path(), &["show", "r.fathom", "--json"]).expect(0).json();
    assert_eq!(again["cells"], json["cells"]);
}

#[test]
fn a_run_killed_at_any_moment_keeps_all_but_the_last_interval() {
    let here = folder();
    let interval_ms = 500u64;
    let path = plan(
        here.path(),
        "interval=\"500ms\"\nscratch=\"16MiB\"\n[[step]]\nname=\"r\"\nload={read=70, depth=4, time=\"60s\"}",
    );
    let mut rng = base::rng::Rng::new(base::clock::unix_ms());
    for round in 0..10 {
        let file = format!("{round}.fathom");
        let mut child = command(here.path(), &["run", &path, "-q", "-o", &file]).spawn().unwrap();
        let wait_ms = 300 + rng.below(2500);
        std::thread::sleep(Duration::from_millis(wait_ms));
        let killed_at = base::clock::Clock::Monotonic.now();
        child.kill().unwrap();
        child.wait().unwrap();
        let file = here.path().join(file);
        if !file.exists() {
            continue; // Killed before the run began: nothing was measured.
        }
        let run = RunFile::open(&file);
        // A kill between making the file and its first table leaves an empty file: no run began.
        let Ok(run) = run else {
            assert!(wait_ms < 1000, "after {wait_ms} ms: {}", run.err().unwrap());
            continue;
        };
        assert_eq!(run.state, State::CutOff);
        let shown = fathom(here.path(), &["show", &file.display().to_string()]);
        assert!(shown.expect(0).out.contains("CUT OFF"), "{}", shown.out);
        let Some(cell) = run.cells.iter().find(|cell| cell.path == "r") else {
            continue;
        };
        let samples = run.intervals(cell.id).unwrap();
        let end =
            samples.last().map_or(cell.start, |last| base::units::Nanos(last.start.0 + last.len.0));
        let missing_ms = killed_at.0.saturating_sub(end.0) / 1_000_000;
        // One interval was running, and one may have been on its way into the file.
        assert!(missing_ms < 2 * interval_ms, "round {round}: {missing_ms} ms are missing");
        let ios: u64 = samples.iter().flat_map(|s| &s.streams).map(|s| s.ios()).sum();
        assert_eq!(cell.merged().ios(), ios);
    }
}

#[test]
fn an_interrupt_ends_cleanly_and_keeps_everything() {
    let here = folder();
    let path =
        plan(here.path(), "scratch=\"16MiB\"\n[[step]]\nname=\"r\"\nload={time=\"60s\", depth=2}");
    let child = command(here.path(), &["run", &path, "-o", "r.fathom"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"));
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    assert_eq!(run.state, State::Interrupted);
    assert!(run.cells.last().unwrap().merged().ios() > 0);
}

#[test]
fn every_engine_measures_the_same_plan() {
    let here = folder();
    let path = plan(
        here.path(),
        "scratch=\"32MiB\"\n[[step]]\nname=\"r\"\nload={read=70, depth=2, workers=2, time=\"2s\"}",
    );
    for engine in ["uring", "sync", "fio"] {
        if engine == "fio" && !tool("fio", &["--version"]).0 {
            not_run("fio is not installed");
            continue;
        }
        let file = format!("{engine}.fathom");
        let ran =
            fathom(here.path(), &["run", &path, "-q", "--json", "--engine", engine, "-o", &file]);
        let json = ran.expect(0).json();
        assert_eq!(json["engine"], engine);
        let cell = &json["cells"][1];
        let (reads, writes) = (&cell["read"], &cell["write"]);
        let share = reads["ios"].as_f64().unwrap()
            / (reads["ios"].as_f64().unwrap() + writes["ios"].as_f64().unwrap());
        assert!((share - 0.7).abs() < 0.05, "{engine}: {share}");
        assert_eq!(reads["bytes"].as_u64().unwrap(), reads["ios"].as_u64().unwrap() * 4096);
        assert!(cell["iops"].as_f64().unwrap() > 10.0);
    }
}

#[test]
fn read_only_leaves_out_what_writes() {
    let here = folder();
    let target = here.path().join("data");
    std::fs::write(&target, vec![5u8; 8 << 20]).unwrap();
    let args = [
        "run",
        "four-corners",
        "data",
        "--read-only",
        "--set",
        "time=150ms",
        "--set",
        "ramp=0s",
        "--json",
        "-q",
        "-o",
        "r.fathom",
    ];
    let json = fathom(here.path(), &args).expect(0).json();
    let paths: Vec<&str> =
        json["cells"].as_array().unwrap().iter().filter_map(|c| c["path"].as_str()).collect();
    assert_eq!(paths, ["seq-read", "rnd-read"]);
    assert!(std::fs::read(&target).unwrap().iter().all(|&byte| byte == 5));
}

#[test]
fn repeats_show_peak_and_mean_without_the_discarded_run() {
    let here = folder();
    let args = [
        "run",
        "cdm",
        "--set",
        "time=100ms",
        "--set",
        "gap=0s",
        "--set",
        "size=32MiB",
        "--set",
        "loops=2",
        "--json",
        "-q",
        "-o",
        "r.fathom",
    ];
    let json = fathom(here.path(), &args).expect(0).json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        assert_eq!(row["runs"], 2);
        assert!(row["peak_iops"].as_f64() >= row["mean_iops"].as_f64());
    }
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(
        cells.iter().filter(|cell| cell["counted"] == false).count(),
        13,
        "1 layout, 12 first runs"
    );
}

#[test]
fn curves_and_sweeps_go_their_way() {
    let here = folder();
    let small = ["--set", "time=200ms", "--set", "ramp=0s", "--set", "size=64MiB", "--json", "-q"];
    let curve =
        fathom(here.path(), &[&["run", "curve-4k-read", "-o", "c.fathom"], &small[..]].concat());
    let json = curve.expect(curve.code.min(4)).json();
    let labels: Vec<&str> = json["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["label"].as_str())
        .skip(1)
        .collect();
    assert_eq!(labels[0], "load=max");
    assert_eq!((labels.len(), labels[15]), (16, "load=120%"));
    let maximum = json["cells"][1]["iops"].as_f64().unwrap();
    let half = &json["cells"][7]["streams"][0];
    assert!((half["rate_iops"].as_f64().unwrap() / maximum - 0.5).abs() < 1e-6, "{half}");
    let sweep = fathom(
        here.path(),
        &[
            &[
                "run",
                "thread-sweep",
                "--set",
                "workers=1,2,4,8,16",
                "--set",
                "gain=100",
                "-o",
                "s.fathom",
            ],
            &small[..],
        ]
        .concat(),
    );
    let json = sweep.expect(0).json();
    // No disk doubles with every doubling of threads and then again: the sweep stops by itself.
    let swept = json["cells"].as_array().unwrap().len() - 1;
    assert!((2..5).contains(&swept), "{swept} cells");
    assert!(
        json["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["text"].as_str().unwrap().contains("adds less"))
    );
}

#[test]
fn exports_agree_with_the_run() {
    let here = folder();
    let path = plan(
        here.path(),
        "scratch=\"32MiB\"\ninterval=\"100ms\"\n[[step]]\nname=\"r\"\nload={read=70, depth=4, time=\"1s\"}",
    );
    fathom(here.path(), &["run", &path, "-q", "-o", "r.fathom"]).expect(0);
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    let (ios, bytes) = (run.cells[1].merged().ios(), run.cells[1].merged().reads.bytes);
    let csv = fathom(here.path(), &["export", "r.fathom", "-f", "csv"]).expect(0).out.clone();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let sum: u64 = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|row| row[column("step")] == "r")
        .map(|row| row[column("ios")].parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, ios);
    let fio = fathom(here.path(), &["export", "r.fathom", "-f", "fio-json"]).expect(0).json();
    assert_eq!(fio["jobs"][0]["read"]["io_bytes"].as_u64(), Some(bytes));
    assert_eq!(fio["jobs"][0]["job options"]["rw"], "randrw");
    assert!(fio["jobs"][0]["read"]["clat_ns"]["percentile"]["99.000000"].as_u64().is_some());
    for table in ["cells", "intervals", "histogram"] {
        fathom(
            here.path(),
            &["export", "r.fathom", "-f", "parquet", "--table", table, "-o", "t.parquet"],
        )
        .expect(0);
        let parquet = std::fs::read(here.path().join("t.parquet")).unwrap();
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    }
    fathom(here.path(), &["export", "r.fathom", "-f", "csv", "-o", "/no/such/folder/x"])
        .expect(1)
        .says("cannot be written");
}

#[test]
fn rates_are_kept_and_lateness_is_told() {
    let here = folder();
    std::fs::File::create(here.path().join("holes")).unwrap().set_len(1 << 30).unwrap();
    for (rate, seconds) in [(10_000, 10), (50_000, 5), (200_000, 3)] {
        let path = plan(
            here.path(),
            &format!("[[step]]\nname=\"o\"\nload={{rate={rate}, depth=512, time=\"{seconds}s\"}}"),
        );
        let file = format!("{rate}.fathom");
        let ran = fathom(here.path(), &["run", &path, "holes", "-q", "--json", "-o", &file]);
        let json = ran.expect(ran.code.min(4)).json();
        let cell = &json["cells"][0];
        let served = cell["read"]["ios"].as_u64().unwrap();
        // The seed fixes the arrivals: their number is arithmetic, not chance. What is left open is
        // whether the host lets them all be served, and that the program itself tells.
        let arrivals = served + cell["shed"].as_u64().unwrap();
        let off = arrivals as f64 / f64::from(rate * seconds) - 1.0;
        assert!(off.abs() < 0.005, "{rate}: {arrivals} arrivals, {:+.2} %", off * 100.0);
        assert_eq!(cell["shed"], 0, "{cell}");
        let late = &cell["lateness"]["percentiles_ns"];
        println!(
            "{rate}/s: {:+.3} %, lateness p50 {} ns, p99 {} ns",
            off * 100.0,
            late["p50"],
            late["p99"]
        );
        assert!(late["p99"].as_u64().is_some());
    }
}

#[test]
fn random_once_over_16_tib_needs_no_memory_for_it() {
    let here = folder();
    let holes = here.path().join("holes");
    // The largest file of ext4 with 4 KiB blocks is one block short of 16 TiB.
    let size = (16u64 << 40) - 4096;
    if let Err(error) = std::fs::File::create(&holes).unwrap().set_len(size) {
        return not_run(&format!("this file system has no file of 16 TiB: {error}"));
    }
    let path = plan(
        here.path(),
        "[[step]]\nname=\"o\"\nload={pattern=\"random-once\", depth=128, workers=4, time=\"3s\"}",
    );
    let mut child = command(here.path(), &["run", &path, "holes", "-q", "-o", "r.fathom"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok())
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    println!("peak resident memory: {} MiB", peak / 1024);
    assert!(peak < 64 << 10, "{peak} KiB");
    assert!(RunFile::open(&here.path().join("r.fathom")).unwrap().cells[0].merged().ios() > 1000);
}

#[test]
fn response_and_service_are_stored_apart() {
    let here = folder();
    let path = plan(
        here.path(),
        "scratch=\"16MiB\"\n[[step]]\nname=\"o\"\nload={rate=500, depth=2, time=\"500ms\"}",
    );
    let ran = fathom(here.path(), &["run", &path, "-q", "-o", "r.fathom"]);
    ran.expect(ran.code.min(4));
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    let sum = run.cells[1].merged();
    let (service, response): (&Hist<Service>, &Hist<Response>) =
        (&sum.reads.service, &sum.reads.response);
    assert_eq!(service.count(), response.count());
    assert!(response.sum_ns() >= service.sum_ns());
}
