//! Things go wrong below and around a run: one clear message, the right exit, nothing measured lost.

use blackbox::faulty::FaultyDisk;
use blackbox::loopdev::{LoopDevice, Mounted};
use blackbox::{command, fathom, folder, is_root, not_run, plan};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{RunFile, State};

/// A faulty disk, or the reason why there is none.
fn faulty(here: &std::path::Path, bytes: u64) -> Option<FaultyDisk> {
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

/// A queue of four on a device that serves one I/O at a time in about 1 ms: the target is the
/// bottleneck, so both instruments must see the same. Allowed: both bucket errors (0.4 % and 0.8 %)
/// and a host whose timers vary between the runs.
#[test]
fn fathom_and_fio_agree_where_the_target_is_the_bottleneck() {
    let here = folder();
    let Some(disk) = faulty(here.path(), 256 << 20) else { return };
    if !blackbox::tool("fio", &["--version"]).0 {
        return not_run("fio is not installed");
    }
    disk.faults.delay_us.store(1000, Ordering::Relaxed);
    let path = plan(here.path(), "[[step]]\nname=\"r\"\nload={depth=4, time=\"6s\"}");
    let mut ours = [const { Vec::new() }; 3];
    let mut theirs = [const { Vec::new() }; 3];
    // Interleaved, so that a drift of the host meets both.
    for round in 0..3 {
        let file = format!("{round}.fathom");
        let ran =
            fathom(here.path(), &["run", &path, &disk.device.text(), "-q", "--json", "-o", &file]);
        let json = ran.expect(0).json();
        let service = &json["cells"][0]["read"]["service"];
        let mean = service["mean_ns"].as_f64().unwrap();
        let at = |name: &str| service["percentiles_ns"][name].as_f64().unwrap();
        let (p50, p99) = (at("p50"), at("p99"));
        [mean, p50, p99].iter().zip(&mut ours).for_each(|(v, list)| list.push(*v));
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
        let fio: serde_json::Value =
            serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let lat = &fio["jobs"][0]["read"]["lat_ns"];
        let at = |name: &str| lat["percentile"][name].as_f64().unwrap();
        let values = [lat["mean"].as_f64().unwrap(), at("50.000000"), at("99.000000")];
        values.iter().zip(&mut theirs).for_each(|(v, list)| list.push(*v));
    }
    let median = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[1]
    };
    for (index, (name, tolerance)) in
        [("mean", 0.03), ("p50", 0.03), ("p99", 0.10)].into_iter().enumerate()
    {
        let (a, b) = (median(&mut ours[index]), median(&mut theirs[index]));
        println!(
            "{name}: fathom {:.1} us, fio {:.1} us, {:+.2} %",
            a / 1e3,
            b / 1e3,
            (a / b - 1.0) * 100.0
        );
        assert!((a / b - 1.0).abs() < tolerance, "{name}: {a} and {b}");
    }
}
