//! Things go wrong below and around a run: one clear message, the right exit, nothing measured lost.

use blackbox::faulty::FaultyDisk;
use blackbox::loopdev::{LoopDevice, Mounted};
use blackbox::{command, fathom, folder, is_root, not_run, plan};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{RunFile, State};

/// A faulty disk, or the reason why there is none.
fn faulty(here: &Path, bytes: u64) -> Option<FaultyDisk> {
    if !is_root() {
        return None;
    }
    FaultyDisk::new(here, bytes).map_err(|error| not_run(&format!("no FUSE here: {error}"))).ok()
}

#[test]
fn an_io_error_is_named_with_its_place_and_ends_the_run() {
    let here = folder();
    let Some(disk) = faulty(here.path(), 256 << 20) else {
        return;
    };
    let bad = 200u64 << 20;
    disk.faults.bad_from.store(bad, Ordering::Relaxed);
    for engine in ["uring", "sync"] {
        let path = plan(
            here.path(),
            "interval=\"100ms\"\n[[step]]\nname=\"r\"\nload={pattern=\"sequential\", block=\"64k\", depth=4, time=\"60s\"}",
        );
        let file = format!("{engine}.fathom");
        let ran = fathom(
            here.path(),
            &["run", &path, &disk.device.text(), "-q", "--engine", engine, "-o", &file],
        );
        ran.expect(1).says("read of 65536 bytes at byte").says("look at the kernel log");
        let run = RunFile::open(&here.path().join(file)).unwrap();
        assert_eq!(run.state, State::Failed);
        let sum = run.cells[0].merged();
        // Everything before the bad place was read.
        assert!(sum.ios() >= bad / 65536 - 8, "{} I/Os", sum.ios());
        assert!(sum.errors() >= 1);
        assert!(run.events.iter().any(|event| event.kind == "failed"));
        assert!(ran.out.contains("FAILED"), "{}", ran.out);
    }
}

#[test]
fn a_device_that_vanishes_in_mid_run_is_named() {
    let here = folder();
    let Some(disk) = faulty(here.path(), 256 << 20) else {
        return;
    };
    let path =
        plan(here.path(), "interval=\"100ms\"\n[[step]]\nname=\"r\"\nload={depth=4, time=\"60s\"}");
    let child = command(here.path(), &["run", &path, &disk.device.text(), "-q", "-o", "r.fathom"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2000));
    disk.faults.gone.store(true, Ordering::Relaxed);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    assert_eq!(run.state, State::Failed);
    assert!(run.cells[0].merged().ios() > 0, "what was measured is kept");
}

#[test]
fn a_truncated_target_is_named() {
    let here = folder();
    let target = here.path().join("data");
    std::fs::File::create(&target).unwrap().set_len(1 << 30).unwrap();
    let path = plan(here.path(), "[[step]]\nname=\"r\"\nload={depth=4, time=\"60s\"}");
    let child = command(here.path(), &["run", &path, "data", "-q", "-o", "r.fathom"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1800));
    std::fs::OpenOptions::new().write(true).open(&target).unwrap().set_len(0).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("moved no byte") && errors.contains("truncated"), "{errors}");
    assert!(RunFile::open(&here.path().join("r.fathom")).unwrap().cells[0].merged().ios() > 0);
}

#[test]
fn a_detached_loop_device_lives_until_the_run_ends() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 64 << 20);
    let path = plan(here.path(), "[[step]]\nname=\"r\"\nload={depth=4, time=\"2s\"}");
    let mut child = command(here.path(), &["run", &path, &disk.text(), "-q", "-o", "r.fathom"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    blackbox::must("losetup", &["--detach", &disk.text()]);
    // The kernel keeps a device that is open; the run ends as if nothing had happened.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(RunFile::open(&here.path().join("r.fathom")).unwrap().state, State::Done);
}

#[test]
fn a_full_results_disk_ends_the_run_with_a_word_and_keeps_what_was_written() {
    if !is_root() {
        return;
    }
    let here = folder();
    let results =
        Mounted::new(&["-t", "tmpfs", "-o", "size=512k", "results"], &here.path().join("results"));
    let target = here.path().join("data");
    std::fs::File::create(&target).unwrap().set_len(1 << 30).unwrap();
    let path = plan(
        here.path(),
        "interval=\"10ms\"\n[[step]]\nname=\"r\"\nload={depth=16, read=100, time=\"60s\"}",
    );
    let file = results.at().join("r.fathom");
    let file_text = file.display().to_string();
    let ran = fathom(here.path(), &["run", &path, "data", "-q", "-o", &file_text]);
    ran.expect(1).says("the disk that holds the run file is full").says("is kept in");
    // To read it beside a full disk it needs room for its index: here a copy elsewhere.
    let copy = here.path().join("copy.fathom");
    for ending in ["", "-wal"] {
        let from = format!("{file_text}{ending}");
        if std::path::Path::new(&from).exists() {
            std::fs::copy(&from, format!("{}{ending}", copy.display())).unwrap();
        }
    }
    let run = RunFile::open(&copy).unwrap();
    assert!(run.cells[0].merged().ios() > 0);
    assert_ne!(run.state, State::Done);
}

/// 200 ms without service below the kernel at 4,000 arrivals a second: 5 % of the arrivals of four
/// seconds wait up to 200 ms. The true p99 of the response time is near 200 x (1 - 1/5) = 160 ms and
/// the p99.9 near 196 ms. With few slots only a handful of I/Os were under way, so the service time
/// alone would show nothing but its maximum.
#[test]
fn a_stall_shows_in_the_response_time_and_not_only_in_the_maximum() {
    let here = folder();
    let Some(disk) = faulty(here.path(), 256 << 20) else {
        return;
    };
    let path = plan(here.path(), "[[step]]\nname=\"o\"\nload={rate=4000, depth=4, time=\"4s\"}");
    let child = command(
        here.path(),
        &["run", &path, &disk.device.text(), "-q", "--json", "-o", "r.fathom"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    disk.faults.stall_ms.store(200, Ordering::Relaxed);
    let output = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = &json["cells"][0]["read"];
    let at = |time: &str, name: &str| read[time]["percentiles_ns"][name].as_f64().unwrap() / 1e6;
    println!(
        "response p99 {:.1} ms, p99.9 {:.1} ms; service p99.9 {:.1} ms, max {:.1} ms",
        at("response", "p99"),
        at("response", "p99.9"),
        at("service", "p99.9"),
        read["service"]["max_ns"].as_f64().unwrap() / 1e6
    );
    assert!(read["service"]["max_ns"].as_f64().unwrap() >= 199e6, "the stall reached the device");
    // A host that is slower than the rate only makes the response time longer.
    assert!(at("response", "p99.9") >= 180.0, "{read}");
    assert!(at("response", "p99") >= 100.0, "{read}");
    assert!(at("service", "p99.9") < at("response", "p99.9") / 2.0, "{read}");
}

/// A queue of four on a device that serves one I/O at a time in about 1 ms, and every fiftieth in 41: the
/// target is the bottleneck, so both instruments must see what the device itself has written down. One
/// slow I/O holds up the four of the queue, so 8 % of all take 44 ms, and p99 stands in a tail that the
/// device has made. Allowed: both bucket errors (0.4 % and 0.8 %) and how long a busy host takes to wake
/// an instrument; each round is compared with its own truth, and the median of three rounds counts.
#[test]
fn fathom_and_fio_agree_where_the_target_is_the_bottleneck() {
    let here = folder();
    let Some(disk) = faulty(here.path(), 256 << 20) else { return };
    if !blackbox::tool("fio", &["--version"]).0 {
        return not_run("fio is not installed");
    }
    disk.faults.delay_us.store(1000, Ordering::Relaxed);
    disk.faults.tail_every.store(50, Ordering::Relaxed);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    // Interleaved, so that a drift of the host meets both.
    for round in 0..3 {
        disk.faults.latencies(4);
        let found = by_fathom(here.path(), &disk, round);
        ours.push(against(found, &disk.faults.latencies(4)));
        let found = by_fio(&disk);
        theirs.push(against(found, &disk.faults.latencies(4)));
    }
    let median = |rounds: &[[f64; 3]], index: usize| {
        let mut list: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    for (index, (name, tolerance)) in
        [("mean", 0.03), ("p50", 0.03), ("p99", 0.05)].into_iter().enumerate()
    {
        let (a, b) = (median(&ours, index), median(&theirs, index));
        println!("{name}: against the device's own record: fathom {a:.4}, fio {b:.4}");
        assert!((a - 1.0).abs() < tolerance, "{name}: {ours:?}");
        assert!((a / b - 1.0).abs() < tolerance, "{name}: {ours:?} and {theirs:?}");
    }
}

/// Mean, p50 and p99 in ns, each divided by what the device has written down.
fn against(found: [f64; 3], truth: &[f64]) -> [f64; 3] {
    let at = |share: f64| truth[(truth.len() as f64 * share) as usize];
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    println!("found {found:.0?}, the device {:.0?}", [mean, at(0.5), at(0.99)]);
    [found[0] / mean, found[1] / at(0.5), found[2] / at(0.99)]
}

fn by_fathom(folder: &Path, disk: &FaultyDisk, round: usize) -> [f64; 3] {
    let path = plan(folder, "[[step]]\nname=\"r\"\nload={depth=4, time=\"6s\"}");
    let file = format!("{round}.fathom");
    let ran = fathom(folder, &["run", &path, &disk.device.text(), "-q", "--json", "-o", &file]);
    let json = ran.expect(0).json();
    let service = &json["cells"][0]["read"]["service"];
    let at = |name: &str| service["percentiles_ns"][name].as_f64().unwrap();
    [service["mean_ns"].as_f64().unwrap(), at("p50"), at("p99")]
}

fn by_fio(disk: &FaultyDisk) -> [f64; 3] {
    let target = format!("--filename={}", disk.device.text());
    let text = blackbox::must(
        "fio",
        &[
            "--name=a",
            &target,
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--ioengine=io_uring",
            "--iodepth=4",
            "--thread=1",
            "--runtime=6s",
            "--time_based=1",
            "--output-format=json",
            "--lat_percentiles=1",
        ],
    );
    let fio: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let lat = &fio["jobs"][0]["read"]["lat_ns"];
    let at = |name: &str| lat["percentile"][name].as_f64().unwrap();
    [lat["mean"].as_f64().unwrap(), at("50.000000"), at("99.000000")]
}
