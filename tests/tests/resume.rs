//! A run that is cut goes on: on the virtual drive to the same bits, on a loop device to the same
//! cells, and never on a target that is another one by now.

use base::rng::Rng;
use blackbox::loopdev::LoopDevice;
use blackbox::{command, fathom, folder, is_root, plan};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use store::{RunFile, State};

/// Starts a command and kills it after a while; gives whether it was cut.
fn cut(here: &Path, args: &[&str], after: Duration, signal: Signal) -> bool {
    let mut child = command(here, args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("fathom starts");
    std::thread::sleep(after);
    if child.try_wait().unwrap().is_some() {
        return false;
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap();
    true
}

/// What two equal runs share: everything but names, wall times and what happened around them.
fn essence(here: &Path, file: &str) -> (Value, String, String) {
    let mut document = fathom(here, &["show", file, "--json"]).expect(0).json();
    for key in ["file", "started_unix_ms", "ended_unix_ms", "events", "repeated_cells", "host"] {
        document.as_object_mut().unwrap().remove(key);
    }
    for cell in document["cells"].as_array_mut().unwrap() {
        cell.as_object_mut().unwrap().remove("id");
    }
    let table = |name| {
        fathom(here, &["export", file, "--format", "csv", "--table", name]).expect(0).out.clone()
    };
    (document, table("histogram"), table("intervals"))
}

const VIRTUAL: [&str; 11] = [
    "run",
    "pts-iops",
    "sim:d5-p5430,capacity=128MB,mode=exact",
    "-q",
    "--set",
    "time=10ms",
    "--set",
    "interval=100ms",
    "--set",
    "rounds=6",
    "-o",
];

#[test]
fn on_the_virtual_drive_a_resumed_run_is_the_uncut_one_to_the_bit() {
    let here = folder();
    fn with(file: &str) -> Vec<&str> {
        VIRTUAL.iter().copied().chain([file]).collect()
    }
    let started = base::clock::Clock::Monotonic.now();
    let whole = fathom(here.path(), &with("whole.fathom"));
    assert!([0, 4].contains(&whole.code), "{}", whole.err);
    let long = base::clock::Clock::Monotonic.now().0 - started.0;
    let reference = essence(here.path(), "whole.fathom");
    let mut rng = Rng::new(20);
    let (mut cuts, mut repeated) = (0, 0);
    while cuts < 20 {
        let file = format!("cut{cuts}.fathom");
        let path = here.path().join(&file);
        let _ = std::fs::remove_file(&path);
        let moment = |rng: &mut Rng| Duration::from_nanos(rng.below(long));
        if !cut(here.path(), &with(&file), moment(&mut rng), Signal::KILL)
            || RunFile::open(&path).is_err()
        {
            continue;
        }
        cuts += 1;
        if cuts % 4 == 0 {
            // What was resumed may be cut again.
            cut(here.path(), &["resume", &file, "-q"], moment(&mut rng), Signal::KILL);
        }
        if RunFile::open(&path).unwrap().state == State::CutOff {
            let ran = fathom(here.path(), &["resume", &file, "-q"]);
            assert_eq!(ran.code, whole.code, "{}", ran.err);
        }
        let resumed = essence(here.path(), &file);
        assert!(resumed.0 == reference.0, "{file}: the documents differ");
        assert!(resumed.1 == reference.1, "{file}: the histograms differ");
        assert!(resumed.2 == reference.2, "{file}: the intervals differ");
        let run = RunFile::open(&path).unwrap();
        repeated += run.repeated.len();
        if !run.repeated.is_empty() {
            let shown = fathom(here.path(), &["show", &file]).out;
            assert!(shown.contains("measured again"), "{shown}");
            assert!(run.repeated.iter().all(|cell| cell.message.is_some()));
        }
    }
    assert!(repeated > 20, "only {repeated} cells were repeated: the cuts came too late");
}

/// Cells that count, in order, without their figures.
fn cells(run: &RunFile) -> Vec<(String, String, bool, String)> {
    let of = |cell: &store::CellRecord| {
        (cell.path.clone(), cell.label.clone(), cell.counted, cell.status.clone())
    };
    run.cells.iter().map(of).collect()
}

#[test]
fn on_a_loop_device_a_resumed_run_has_every_cell_once() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 48 << 20);
    let device = disk.text();
    let with = |file: &str| {
        let fixed = ["run", "pts-iops", &device, "-q", "--destroy", &disk.identity];
        let short = ["--set", "time=10ms", "--set", "rounds=5", "--set", "fill=1x", "-o", file];
        fixed.into_iter().chain(short).map(str::to_owned).collect::<Vec<String>>()
    };
    let run = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fathom(here.path(), &args)
    };
    let started = base::clock::Clock::Monotonic.now();
    let whole = run(&with("whole.fathom"));
    assert!([0, 4].contains(&whole.code), "{}", whole.err);
    let long = base::clock::Clock::Monotonic.now().0 - started.0;
    let reference = cells(&RunFile::open(&here.path().join("whole.fathom")).unwrap());
    let mut rng = Rng::new(21);
    let mut cuts = 0;
    while cuts < 20 {
        let file = format!("cut{cuts}.fathom");
        let path = here.path().join(&file);
        let _ = std::fs::remove_file(&path);
        let args = with(&file);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let moment = Duration::from_nanos(rng.below(long));
        // Killed too early there is no file; too late, after its last word, the run is whole.
        let is_cut = |run: RunFile| run.state == State::CutOff;
        if !cut(here.path(), &args, moment, Signal::KILL) || !RunFile::open(&path).is_ok_and(is_cut)
        {
            continue;
        }
        cuts += 1;
        let resume = ["resume", &file, "-q", "--destroy", &disk.identity];
        let ran = fathom(here.path(), &resume);
        assert!([0, 4].contains(&ran.code), "{file}: {}", ran.err);
        let run = RunFile::open(&path).unwrap();
        assert_eq!(cells(&run), reference, "{file}");
        // What was measured twice says so.
        let kept: BTreeSet<(&str, &str)> =
            run.cells.iter().map(|cell| (cell.path.as_str(), cell.label.as_str())).collect();
        assert_eq!(kept.len(), run.cells.len(), "{file}: a cell counts twice");
        assert!(run.repeated.iter().all(|cell| cell.message.is_some()));
        assert!(run.events.iter().any(|event| event.kind == "resume"));
    }
}

#[test]
fn ctrl_c_is_resumed_and_a_whole_run_is_not() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"a\"\nload={time=\"300ms\"}\n[[step]]\nname=\"b\"\nload={time=\"1s\"}\n\
         [[step]]\nname=\"c\"\nload={time=\"100ms\"}\n",
    );
    std::fs::write(here.path().join("file"), vec![1u8; 16 << 20]).unwrap();
    let args = ["run", &path, "file", "-q", "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(1100), Signal::INT), "it was over");
    let file = here.path().join("r.fathom");
    assert_eq!(RunFile::open(&file).unwrap().state, State::Interrupted);
    fathom(here.path(), &["resume", "r.fathom", "-q"]).expect(0);
    let run = RunFile::open(&file).unwrap();
    let names: Vec<&str> = run.cells.iter().map(|cell| cell.path.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(run.repeated.len(), 1);
    assert_eq!(run.state, State::Done);
    fathom(here.path(), &["resume", "r.fathom", "-q"]).expect(2).says("nothing to resume");
}

#[test]
fn a_target_that_changed_is_not_gone_on_with() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"a\"\nload={time=\"200ms\"}\n[[step]]\nname=\"b\"\nload={time=\"60s\"}\n",
    );
    let target = here.path().join("file");
    std::fs::write(&target, vec![1u8; 16 << 20]).unwrap();
    let args = ["run", &path, "file", "-q", "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(1800), Signal::KILL));
    // Another size.
    std::fs::write(&target, vec![1u8; 8 << 20]).unwrap();
    let resume = ["resume", "r.fathom", "-q"];
    fathom(here.path(), &resume).expect(1).says("is not the target of the run");
    // The same size, but another file.
    std::fs::remove_file(&target).unwrap();
    std::fs::write(here.path().join("other"), vec![2u8; 16 << 20]).unwrap();
    std::fs::rename(here.path().join("other"), &target).unwrap();
    fathom(here.path(), &resume).expect(1).says("is another file");
    // Gone.
    std::fs::remove_file(&target).unwrap();
    fathom(here.path(), &resume).expect(2).says("no such device, file or folder");
    let kept = RunFile::open(&here.path().join("r.fathom")).unwrap();
    assert_eq!(kept.cells[0].status, "done", "what was measured is kept");
}

#[test]
fn somebody_elses_writes_are_seen_on_a_device() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 256 << 20);
    let path = plan(
        here.path(),
        "[[step]]\nname=\"a\"\nload={time=\"200ms\"}\n[[step]]\nname=\"b\"\nload={time=\"60s\"}\n",
    );
    let args = ["run", &path, &disk.text(), "-q", "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(1800), Signal::KILL));
    let of = format!("of={}", disk.text());
    blackbox::must("dd", &["if=/dev/zero", &of, "bs=1M", "count=200", "oflag=direct"]);
    fathom(here.path(), &["resume", "r.fathom", "-q"])
        .expect(1)
        .says("bytes written since the run was cut");
}

#[test]
fn where_no_gap_is_allowed_the_whole_step_is_repeated() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"before\"\nload={time=\"200ms\"}\n\
         [[step]]\nname=\"together\"\ncontinuous=true\nrepeat=1\n\
         [[step.step]]\nname=\"x\"\nload={time=\"200ms\"}\n\
         [[step.step]]\nname=\"y\"\nload={time=\"3s\"}\n",
    );
    std::fs::write(here.path().join("file"), vec![1u8; 16 << 20]).unwrap();
    let args = ["run", &path, "file", "-q", "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(2500), Signal::KILL));
    fathom(here.path(), &["resume", "r.fathom", "-q"]).expect(0);
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    let again: Vec<&str> = run.repeated.iter().map(|cell| cell.path.as_str()).collect();
    assert_eq!(again, ["together#1/x", "together#1/y"]);
    assert!(run.events.iter().any(|e| e.kind == "repeat" && e.text.contains("no gap")));
}

#[test]
fn what_was_written_and_found_before_the_cut_is_still_known_after_it() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 64 << 20);
    let path = plan(
        here.path(),
        "claim={method=\"X\", standard=\"a standard\"}\n\
         [[step]]\nname=\"purge\"\npurge=\"auto\"\n\
         [[step]]\nname=\"fill\"\nfill={block=\"128k\", amount=\"2x\"}\n\
         [[step]]\nname=\"long\"\nload={read=0, time=\"60s\", rate=100}\n\
         [[step]]\nname=\"end\"\nload={time=\"50ms\"}\n",
    );
    let device = disk.text();
    let args = ["run", &path, &device, "-q", "--destroy", &disk.identity, "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(3500), Signal::KILL));
    let file = here.path().join("r.fathom");
    assert_eq!(RunFile::open(&file).unwrap().cells.len(), 2, "it was cut in the long step");
    // The rest of the long step is of no interest here.
    let resume = ["resume", "r.fathom", "-q", "--destroy", &disk.identity];
    assert!(cut(here.path(), &resume, Duration::from_millis(3500), Signal::INT));
    let run = RunFile::open(&file).unwrap();
    let deviations = run.meta_json("claim")["deviations"].to_string();
    assert!(deviations.contains("deallocation"), "{deviations}");
    let of = |name: &str| run.cells.iter().find(|cell| cell.path == name).unwrap();
    let before = of("fill").facts["fills_since_purge"].as_f64().unwrap();
    let after = of("long").facts["fills_since_purge"].as_f64().unwrap();
    assert!((before - 2.0).abs() < 0.01, "{before}");
    // Both starts of the long step wrote a little, and all of it is counted.
    let bytes: u64 = [of("long"), &run.repeated[0]].iter().map(|c| c.merged().writes.bytes).sum();
    let counted = (after - before) * (64u64 << 20) as f64;
    assert!((counted - bytes as f64).abs() < 65536.0, "{counted} and {bytes}");
}

#[test]
fn a_purge_in_a_step_without_gaps_is_repeated_with_it() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 64 << 20);
    let path = plan(
        here.path(),
        "[[step]]\nname=\"whole\"\ncontinuous=true\nrepeat=1\n\
         [[step.step]]\nname=\"purge\"\npurge=\"auto\"\n\
         [[step.step]]\nname=\"write\"\nload={read=0, depth=4, time=\"3s\"}\n",
    );
    let args = ["run", &path, &disk.text(), "-q", "--destroy", &disk.identity, "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(1800), Signal::KILL));
    let resume = ["resume", "r.fathom", "-q", "--destroy", &disk.identity];
    fathom(here.path(), &resume).expect(0);
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    assert_eq!(run.events.iter().filter(|event| event.kind == "purge").count(), 2);
    assert!(run.events.iter().any(|e| e.kind == "repeat" && e.text.contains("no gap")));
    // Counted from the second purge on.
    let cell = &run.cells[0];
    let fills = cell.facts["fills_since_purge"].as_f64().unwrap();
    let written = cell.merged().writes.bytes as f64 / (64u64 << 20) as f64;
    assert!((fills / written - 1.0).abs() < 0.01, "{fills} and {written}");
}

#[test]
fn a_run_that_was_read_only_stays_so() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"w\"\nload={read=0, time=\"100ms\"}\n[[step]]\nname=\"r\"\nload={time=\"3s\"}\n",
    );
    std::fs::write(here.path().join("file"), vec![1u8; 16 << 20]).unwrap();
    let args = ["run", &path, "file", "-q", "--read-only", "-o", "r.fathom"];
    assert!(cut(here.path(), &args, Duration::from_millis(1800), Signal::KILL));
    let before = blackbox::checksum(&here.path().join("file"));
    fathom(here.path(), &["resume", "r.fathom", "-q"]).expect(0);
    let run = RunFile::open(&here.path().join("r.fathom")).unwrap();
    assert_eq!(run.cells.iter().map(|cell| cell.path.as_str()).collect::<Vec<_>>(), ["r"]);
    assert_eq!(blackbox::checksum(&here.path().join("file")), before);
}
