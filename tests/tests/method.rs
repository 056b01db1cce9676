//! The method on the virtual drive, whose truth is known: suites, steady state, deviations,
//! predictions. (No device; `resume.rs` has real ones, and so has the ledger below.)

use blackbox::loopdev::LoopDevice;
use blackbox::{fathom, folder, is_root, plan};
use serde_json::Value;
use std::path::Path;
use store::RunFile;

/// Runs a plan on a virtual drive without progress; gives the exit code and the document.
fn run(here: &Path, plan: &str, target: &str, more: &[&str]) -> (i32, Value, String) {
    let file = "run.fathom";
    let _ = std::fs::remove_file(here.join(file));
    let mut args = vec!["run", plan, target, "-q", "--json", "-o", file];
    args.extend(more);
    let ran = fathom(here, &args);
    assert!(!ran.err.contains("internal error"), "{}", ran.err);
    let document = if ran.out.is_empty() { Value::Null } else { ran.json() };
    (ran.code, document, ran.err)
}

fn rows(document: &Value) -> Vec<Value> {
    document["steady_state"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn the_iops_test_of_the_pts_ends_steady_with_its_table_of_8_by_7() {
    let here = folder();
    let (code, document, _) = run(here.path(), "pts-iops", "sim:d5-p5430", &[]);
    assert_eq!(code, 0);
    let group = &document["steady_state"][0];
    assert_eq!((&group["reached"], &group["path"]), (&Value::Bool(true), &"wdpc".into()));
    assert_eq!(group["evidence"]["tracked"].as_array().unwrap().len(), 3);
    assert_eq!(rows(&document).len(), 56);
    let window = [group["window"][0].as_u64().unwrap(), group["window"][1].as_u64().unwrap()];
    assert_eq!(window[1] - window[0], 4);
    // Every cell of 60 s, none left out, the order of the specification.
    let cells = document["cells"].as_array().unwrap();
    let rounds: Vec<&Value> = cells.iter().filter(|cell| cell["verb"] == "sweep").collect();
    assert_eq!(rounds.len() as u64, 56 * window[1]);
    assert!(rounds.iter().all(|cell| cell["seconds"] == 60.0));
    assert_eq!(rounds[0]["label"], "read=100 block=1024k");
    assert_eq!(rounds[55]["label"], "read=0 block=512");
    // The truth: what the drive does when it is left alone with one of the loads.
    let row = |label: &str| {
        rows(&document).iter().find(|row| row["label"] == label).unwrap()["iops"].as_f64().unwrap()
    };
    let near = |found: f64, truth: f64, percent: f64| {
        assert!((found / truth - 1.0).abs() < percent / 100.0, "{found} and {truth}");
    };
    near(row("read=0 block=4k"), 146_000.0, 8.0);
    near(row("read=100 block=128k") * 131_072.0, 7.0e9, 1.0);
    // The average of a row is the mean of the window's cells.
    let in_window: Vec<f64> = rounds
        .iter()
        .filter(|cell| cell["label"] == "read=0 block=4k")
        .filter(|cell| cell["iteration"].as_u64().unwrap() >= window[0])
        .map(|cell| cell["iops"].as_f64().unwrap())
        .collect();
    near(row("read=0 block=4k"), in_window.iter().sum::<f64>() / 5.0, 1e-6);
    let shown = fathom(here.path(), &["show", "run.fathom"]).out;
    assert!(shown.contains("modelled on SNIA PTS 2.0.2"), "{shown}");
    assert!(shown.contains("not verified against its text"), "{shown}");
    assert!(shown.contains("drive fills since purge"), "{shown}");
    assert!(!shown.contains("NOT PTS"), "{shown}");
}

#[test]
fn every_suite_runs_in_both_modes() {
    let here = folder();
    let short = ["--set", "interval=100ms", "--set", "period=1s", "--set", "average=200ms"];
    let time = ["--set", "time=100ms", "--set", "rounds=5"];
    for mode in ["enterprise", "client"] {
        let set_mode = format!("mode={mode}");
        let with = |plan: &str, more: &[&str]| {
            let mut args = vec!["--set", &set_mode];
            args.extend(more);
            let (code, document, err) = run(here.path(), plan, "sim:client,capacity=8GB", &args);
            assert!([0, 4].contains(&code), "{plan} {mode}: {code} {err}");
            assert!(["done", "not-valid"].contains(&document["state"].as_str().unwrap()), "{plan}");
            let deviations = document["claim"]["deviations"].as_array().unwrap().len();
            assert!(deviations > 0, "{plan}: it was shortened, and must say so");
            let shown = fathom(here.path(), &["show", "run.fathom"]).out;
            assert!(shown.contains("NOT PTS"), "{plan}: {shown}");
            document
        };
        let iops = with("pts-iops", &[&time[..], &short[..2]].concat());
        let loads = &iops["cells"][0]["loads"][0];
        let (workers, depth) = if mode == "client" { (2, 16) } else { (4, 32) };
        assert_eq!((&loads["workers"], &loads["depth"]), (&workers.into(), &depth.into()));
        // 2 x user capacity, whatever the range.
        let filled = iops["cells"][0]["write"]["bytes"].as_f64().unwrap();
        assert!((filled / 16e9 - 1.0).abs() < 0.01, "{filled}");
        with("pts-throughput", &[&time[..], &short[..2]].concat());
        let latency = [&time[..], &short[..2], &["--set", "histogram=1s"]].concat();
        with("pts-latency", &latency);
        let histogram = ["--set", "histogram=1s"];
        let wsat = with("pts-wsat", &[&short[..], &histogram].concat());
        assert!(wsat["cells"].as_array().unwrap().len() == 2);
        let hir = ["--set", "times=3", "--set", "baseline=1s", "--set", "access=200ms"];
        let hir = with("pts-hir", &[&short[..], &hir[..]].concat());
        assert_eq!(hir["cells"].as_array().unwrap().len(), 1 + 5 * (3 + 1));
        let groups = ["--set", "sequential=2s", "--set", "random=2s"];
        let xsr = with("pts-xsr", &[&short[..2], &groups[..]].concat());
        // One continuous process: each group starts where the one before ended.
        let cells = xsr["cells"].as_array().unwrap();
        let end = |cell: &Value| cell["start_ns"].as_u64().unwrap() + 2_000_000_000;
        assert_eq!(end(&cells[0]), cells[1]["start_ns"].as_u64().unwrap());
        assert_eq!(end(&cells[1]), cells[2]["start_ns"].as_u64().unwrap());
        for plan in ["pts-cbw", "pts-dirth"] {
            let more = ["--set", "between=1s", "--set", "before=1s", "--set", "histogram=1s"];
            let document = with(plan, &[&time[..], &short[..], &more[..]].concat());
            let verbs = |path: &str| {
                let all = document["cells"].as_array().unwrap();
                all.iter().filter(|c| c["path"].as_str().unwrap().starts_with(path)).count()
            };
            assert_eq!(verbs("demand#1/cells"), 49, "{plan}");
            assert_eq!(verbs("operating/min"), 2, "{plan}");
            assert_eq!(verbs("operating"), 6, "{plan}");
            let point = |name: &str| {
                let all = document["cells"].as_array().unwrap();
                let path = format!("operating/{name}/histogram");
                all.iter().find(|c| c["path"] == *path).unwrap()["iops"].as_f64().unwrap()
            };
            assert!(point("max") > point("mid") && point("mid") > point("min"), "{plan}");
        }
    }
}

#[test]
fn the_whole_set_runs_with_one_purge_or_eight() {
    let here = folder();
    for (purges, n) in [("each", 9), ("one", 1)] {
        let set = format!("purges={purges}");
        let (code, document, err) =
            run(here.path(), "pts", "sim:d5-p5430", &["--set", &set, "--set", "interval=60s"]);
        assert!([0, 4].contains(&code), "{err}");
        let events = document["events"].as_array().unwrap();
        // Throughput purges before each of its two block sizes.
        assert_eq!(events.iter().filter(|event| event["kind"] == "purge").count(), n, "{purges}");
        let left_out = document["claim"]["deviations"].to_string().contains("is left out");
        assert_eq!(left_out, purges == "one");
    }
}

/// A plan whose values never settle: the depth of the only tracked cell is right, but its drive is
/// purged in each round and falls off its cliff in the next.
const UNSTEADY: &str = "
[[step]]
name = \"hunt\"
[step.rounds]
most = 6
track = [{ step = \"w\" }]
[[step.step]]
name = \"w\"
load = { pattern = \"random\", block = \"4k\", read = 0, depth = 64, workers = 4, time = \"1s\" }
";

#[test]
fn what_is_not_steady_is_not_valid_in_every_output() {
    let here = folder();
    // The rate falls by half every few seconds: from a purged drive over its cliff.
    let path = plan(here.path(), UNSTEADY);
    let (code, document, _) = run(here.path(), &path, "sim:d5-p5430,capacity=8GB", &[]);
    assert_eq!(code, 4);
    assert_eq!((&document["state"], &document["valid"]), (&"not-valid".into(), &false.into()));
    assert_eq!(document["steady_state"][0]["reached"], false);
    assert_eq!(document["cells"][0]["steady_state"]["reached"], false);
    let shown = fathom(here.path(), &["show", "run.fathom"]).out;
    assert!(shown.contains("Steady state not reached"), "{shown}");
    assert!(shown.contains("NOT VALID"), "{shown}");
    let csv = fathom(here.path(), &["export", "run.fathom", "-f", "csv", "--table", "cells"]).out;
    assert!(csv.lines().skip(1).all(|line| line.contains("not reached")), "{csv}");
    let fio = fathom(here.path(), &["export", "run.fathom", "-f", "fio-json"]).json();
    assert_eq!(fio["fathom"]["steady_state"][0]["reached"], false);
    assert_eq!(fio["fathom"]["valid"], false);
}

#[test]
fn a_plateau_before_the_cliff_and_one_just_after_it_are_warned_of() {
    let here = folder();
    let warning = |document: &Value| {
        let all = document["verdicts"].as_array().unwrap();
        let found = all.iter().find(|verdict| verdict["name"] == "drive-fills");
        found.map(|verdict| verdict["text"].as_str().unwrap().to_owned())
    };
    let rounds = |time: &str, before: &str| {
        format!(
            "interval=\"10s\"\n{before}[[step]]\nname=\"w\"\n[step.rounds]\ntrack=[{{step=\"w\"}}]\n\
             [[step.step]]\nname=\"w\"\nload={{pattern=\"random\", read=0, depth=64, workers=4, time=\"{time}\"}}\n"
        )
    };
    // From the purged drive: five even minutes at four times the rate it will keep.
    let path = plan(here.path(), &rounds("60s", ""));
    let (code, document, _) = run(here.path(), &path, "sim:d5-p5430", &[]);
    assert_eq!(code, 0, "the rule alone is met");
    let text = warning(&document).expect("a warning");
    assert!(text.contains("since its purge"), "{text}");
    let false_iops = rows(&document)[0]["iops"].as_f64().unwrap();
    assert!(false_iops > 3.5 * 146_000.0, "{false_iops}");
    // After two hours of sequential writes: the dip behind the cliff, below what it will keep.
    let fill = "[[step]]\nname=\"f\"\nfill={block=\"128k\", depth=256, amount=\"2x\"}\n\
                [[step]]\nname=\"over\"\nfill={pattern=\"random\", block=\"4k\", depth=256, time=\"35m\"}\n";
    let path = plan(here.path(), &rounds("60s", fill));
    let (code, document, _) = run(here.path(), &path, "sim:d5-p5430", &[]);
    assert_eq!(code, 0, "the rule alone is met");
    let text = warning(&document).expect("a warning");
    assert!(text.contains("changed between sequential and random"), "{text}");
    let dip = rows(&document)[0]["iops"].as_f64().unwrap();
    assert!(dip < 0.9 * 146_000.0, "{dip}");
    // And where nothing is wrong nothing is said.
    let fill = "[[step]]\nname=\"f\"\nfill={block=\"128k\", depth=256, amount=\"1x\"}\n\
                [[step]]\nname=\"g\"\nfill={pattern=\"random\", block=\"4k\", depth=256, amount=\"3x\"}\n";
    let path = plan(here.path(), &rounds("60s", fill));
    let (_, document, _) = run(here.path(), &path, "sim:d5-p5430", &[]);
    assert_eq!(warning(&document), None);
    let truth = rows(&document)[0]["iops"].as_f64().unwrap();
    assert!((truth / 146_000.0 - 1.0).abs() < 0.05, "{truth}");
}

#[test]
fn a_tail_can_be_tracked_and_a_cell_that_cannot_run_is_said_and_not_replaced() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"r\"\n[step.rounds]\ntrack=[{step=\"m\", at={block=\"4k\"}, figure=\"p99.9\", side=\"read\"}]\n\
         [[step.step]]\nname=\"m\"\n[step.step.sweep]\nover={block=[\"4k\", \"512\"]}\n\
         load={depth=8, time=\"1s\"}\n",
    );
    let (code, document, _) = run(here.path(), &path, "sim:tlc-3dwpd,block=4k", &[]);
    assert_eq!(code, 0);
    let tracked = &document["steady_state"][0]["evidence"]["tracked"][0];
    assert_eq!(tracked["name"], "m block=4k read p99.9");
    assert_eq!(rows(&document).len(), 1, "512 bytes cannot run on 4 KiB blocks");
    let notes = document["events"].to_string();
    assert!(notes.contains("not supported: block=512"), "{notes}");
}

#[test]
fn ezfio_states_its_variation_over_its_window_and_the_whole() {
    let here = folder();
    let short = [
        "--set",
        "time=100ms",
        "--set",
        "fill=0.1x",
        "--set",
        "stability=1200s",
        "--set",
        "ramp=1s",
    ];
    let (code, document, err) = run(here.path(), "ezfio", "sim:d5-p5430,capacity=100GB", &short);
    assert_eq!(code, 0, "{err}");
    let cells = document["cells"].as_array().unwrap();
    let steps: Vec<&str> = cells.iter().map(|cell| cell["step"].as_str().unwrap()).collect();
    let mut order = steps.clone();
    order.dedup();
    assert_eq!(
        order,
        [
            "sequential-precondition",
            "sequential-read",
            "random-read",
            "sequential-write-q1",
            "random-precondition",
            "random-read-threads",
            "random-mix-threads",
            "stability",
            "random-write-threads",
            "random-write",
        ]
    );
    let points = steps
        .iter()
        .filter(|step| step.contains("read") || step.contains("write") || step.contains("mix"));
    assert_eq!(points.count(), 63);
    let stability = cells.iter().find(|cell| cell["step"] == "stability").unwrap();
    let verdicts = stability["verdicts"].as_array().unwrap();
    let found = &verdicts.iter().find(|v| v["name"] == "stability").unwrap()["evidence"];
    assert_eq!((&found["window_values"], &found["whole_values"]), (&1080.into(), &1200.into()));
    // By hand from the exported intervals.
    let csv = fathom(here.path(), &["export", "run.fathom", "-f", "csv"]).out;
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let mut rates = std::collections::BTreeMap::<u64, f64>::new();
    for fields in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
        if fields[at("step")] == "stability" && fields[at("ramp")] == "0" {
            *rates.entry(fields[at("seq")].parse().unwrap()).or_default() +=
                fields[at("iops")].parse::<f64>().unwrap();
        }
    }
    let part: Vec<f64> = rates.values().skip(8).take(1080).copied().collect();
    let mean = part.iter().sum::<f64>() / 1080.0;
    let squares: f64 = part.iter().map(|rate| (rate - mean).powi(2)).sum();
    let by_hand = (squares / 1079.0).sqrt() / mean * 100.0;
    let stated = found["window_percent"].as_f64().unwrap();
    assert!((stated - by_hand).abs() < 1e-6, "{stated} and {by_hand}");
}

#[test]
fn predictions_are_envelopes_that_hold_the_published_figures() {
    let here = folder();
    let path = plan(
        here.path(),
        "[[step]]\nname=\"f\"\nfill={block=\"128k\", depth=256}\n\
         [[step]]\nname=\"g\"\nfill={pattern=\"random\", block=\"4k\", depth=256, amount=\"3x\"}\n\
         [[step]]\nname=\"write\"\nload={pattern=\"random\", read=0, depth=256, time=\"60s\"}\n\
         [[step]]\nname=\"mix\"\nload={pattern=\"random\", read=70, depth=256, time=\"60s\"}\n",
    );
    let args = ["whatif", "--profile", "d5-p5430", "--over-provision", "12.75TB", &path, "--json"];
    let document = fathom(here.path(), &args).expect(0).json();
    let row = |name: &str| {
        let rows = document["rows"].as_array().unwrap();
        rows.iter().find(|row| row["cell"] == name).unwrap().clone()
    };
    let holds = |range: &Value, value: f64| {
        let (least, most) = (range[0].as_f64().unwrap(), range[1].as_f64().unwrap());
        assert!(least < most && (least..most).contains(&value), "{range} and {value}");
    };
    holds(&row("write")["before_iops"], 146_000.0);
    holds(&row("write")["after_iops"], 288_000.0);
    holds(&row("mix")["after_iops"], 395_000.0);
    holds(&row("write")["ratio"], 288.0 / 146.0);
    let nothing = ["whatif", "--profile", "d5-p5430", &path];
    fathom(here.path(), &nothing).expect(2).says("nothing is changed");
    let unknown = ["whatif", "--profile", "p5430", "--power", "10W", &path];
    fathom(here.path(), &unknown).expect(2).says("there are d5-p5430");
}

#[test]
fn preconditioning_is_reused_only_when_it_is_the_last_thing_that_was_done() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", 64 << 20);
    let path = plan(
        here.path(),
        "[[step]]\nname=\"purge\"\npurge=\"auto\"\nreuse=true\n\
         [[step]]\nname=\"fill\"\nreuse=true\nfill={block=\"128k\"}\n\
         [[step]]\nname=\"read\"\nload={time=\"50ms\"}\n",
    );
    let device = disk.text();
    let go = |file: &str, more: &[&str]| {
        let mut args = vec!["run", &path, &device, "-q", "--destroy", &disk.identity, "-o", file];
        args.extend(more);
        fathom(here.path(), &args).expect(0);
        let run = RunFile::open(&here.path().join(file)).unwrap();
        run.cells.iter().map(|cell| cell.path.clone()).collect::<Vec<_>>()
    };
    // It never assumes one.
    assert_eq!(go("1.fathom", &["--reuse"]), ["fill", "read"]);
    assert_eq!(go("2.fathom", &[]), ["fill", "read"]);
    assert_eq!(go("3.fathom", &["--reuse"]), ["read"]);
    let third = RunFile::open(&here.path().join("3.fathom")).unwrap();
    let from = third.events.iter().find(|event| event.kind == "reused").unwrap();
    assert!(from.text.contains("2.fathom"), "{}", from.text);
    // Somebody else writes a single block.
    let of = format!("of={device}");
    blackbox::must(
        "dd",
        &["if=/dev/zero", &of, "bs=4096", "count=1", "oflag=direct", "conv=notrunc"],
    );
    // A run in between that only reads must not make it look untouched.
    let reads = here.path().join("reads.toml");
    std::fs::write(&reads, "name=\"r\"\n[[step]]\nload={time=\"20ms\"}\n").unwrap();
    let reads = reads.display().to_string();
    fathom(here.path(), &["run", &reads, &device, "-q", "-o", "reads.fathom"]).expect(0);
    assert_eq!(go("4.fathom", &["--reuse"]), ["fill", "read"]);
    assert_eq!(go("5.fathom", &["--reuse"]), ["read"]);
    // Fathom itself wrote something else.
    let other = here.path().join("other.toml");
    std::fs::write(&other, "name=\"o\"\n[[step]]\nload={read=0, time=\"20ms\"}\n").unwrap();
    let other = other.display().to_string();
    let args = ["run", &other, &device, "-q", "--destroy", &disk.identity, "-o", "6.fathom"];
    fathom(here.path(), &args).expect(0);
    assert_eq!(go("7.fathom", &["--reuse"]), ["fill", "read"]);
    // Two fills are not one, and another block is another fill.
    let purge = "name=\"p\"\n[[step]]\nname=\"purge\"\npurge=\"auto\"\nreuse=true\n";
    let fill = "[[step]]\nreuse=true\nfill={block=\"128k\"}\n";
    let read = "[[step]]\nname=\"read\"\nload={time=\"50ms\"}\n";
    let again = |name: &str, text: String| {
        std::fs::write(&path, text).unwrap();
        go(name, &["--reuse"]).len()
    };
    assert_eq!(again("8.fathom", format!("{purge}{fill}{fill}{read}")), 3);
    assert_eq!(again("9.fathom", format!("{purge}{fill}{read}")), 2, "two fills stand for one");
    let other = "[[step]]\nreuse=true\nfill={block={\"64k\"=50, \"128k\"=50}}\n";
    assert_eq!(again("10.fathom", format!("{purge}{other}{read}")), 2, "another block");
    assert_eq!(again("11.fathom", format!("{purge}{other}{read}")), 1);
}

#[test]
fn mistakes_with_virtual_drives_and_methods_are_named() {
    let here = folder();
    let path = plan(here.path(), "[[step]]\nload={time=\"10ms\"}\n");
    let says = |args: &[&str], code, text: &str| {
        let all: Vec<&str> = ["run"].iter().chain(args).copied().chain(["-q"]).collect();
        fathom(here.path(), &all).expect(code).says(text);
    };
    says(&[&path, "sim:nothing"], 2, "no profile `nothing`");
    says(&[&path, "sim:client", "."], 2, "different clocks");
    says(&[&path, "sim:client,stall=1s"], 2, "WHAT@TIME");
    let format = here.path().join("format.toml");
    std::fs::write(&format, "name=\"f\"\n[[step]]\npurge=\"format\"\n").unwrap();
    std::fs::write(here.path().join("file"), vec![0u8; 1 << 20]).unwrap();
    let format = format.display().to_string();
    says(&[&format, "file", "--destroy", "file"], 2, "it has no admin commands");
    says(&[&path, "sim:client,gone=5ms"], 1, "the device is gone");
    // Virtual drives need no permit, and nothing of the host is touched.
    let write = here.path().join("write.toml");
    std::fs::write(&write, "name=\"w\"\n[[step]]\nload={read=0, time=\"10ms\"}\n").unwrap();
    let write = write.display().to_string();
    fathom(here.path(), &["run", &write, "sim:client", "-q"]).expect(0);
}

/// The search for the highest rate under a limit, on a virtual drive: just below it the limit holds, just
/// above it does not.
#[test]
fn the_highest_rate_under_a_limit_is_found() {
    let folder = folder();
    let here = folder.path();
    let plan = "name = \"s\"\n[[step]]\nname = \"c\"\n[step.curve]\npercents = [20, 60, 95]\n\
                limit = \"p99 <= 300us\"\nrepeats = 2\ntolerance = \"2%\"\ndepth = 512\n\
                load = { block = \"4k\", depth = 64, workers = 2, time = \"500ms\" }\n";
    std::fs::write(here.join("s.toml"), plan).unwrap();
    let drive = "sim:d5-p5430,mode=exact";
    let shown =
        fathom(here, &["run", "s.toml", drive, "-q", "--json", "-o", "s.fathom"]).expect(0).json();
    let verdicts = shown["verdicts"].as_array().unwrap();
    let found = verdicts.iter().find(|v| v["name"] == "highest-rate").expect("a verdict");
    println!("{}", found["text"].as_str().unwrap());
    let (low, high) = (&found["evidence"]["iops"], &found["evidence"]["iops_never"]);
    let (low, high) = (low.as_f64().unwrap(), high.as_f64().unwrap());
    assert!(low < high && (high - low) / high < 0.05, "{low} .. {high}");
    for (rate, passes) in [(low * 0.97, true), (high * 1.03, false)] {
        let plan = format!(
            "name = \"r\"\n[[step]]\nload = {{ block = \"4k\", depth = 512, workers = 2, rate = {rate}, time = \"1s\" }}\n"
        );
        std::fs::write(here.join("r.toml"), plan).unwrap();
        let _ = std::fs::remove_file(here.join("r.fathom"));
        let shown =
            fathom(here, &["run", "r.toml", drive, "-q", "--json", "-o", "r.fathom"]).json();
        let p99 = shown["cells"][0]["read"]["response"]["percentiles_ns"]["p99"].as_f64().unwrap();
        assert_eq!(p99 <= 300e3, passes, "{rate} IOPS: p99 {p99} ns");
    }
    fathom(here, &["report", "s.fathom"]).expect(0);
    let page = std::fs::read_to_string(here.join("s.html")).unwrap();
    assert!(page.contains("service p99 ms"));
    // Points that are too slow end a curve.
    let plan = "name = \"e\"\n[[step]]\nname = \"c\"\n[step.curve]\npercents = [20, 60, 95]\nstop = \"10us\"\n\
                load = { block = \"4k\", depth = 64, time = \"200ms\" }\n";
    std::fs::write(here.join("e.toml"), plan).unwrap();
    let shown =
        fathom(here, &["run", "e.toml", drive, "-q", "--json", "-o", "e.fathom"]).expect(0).json();
    assert_eq!(shown["cells"].as_array().unwrap().len(), 2, "the maximum and one point");
}
