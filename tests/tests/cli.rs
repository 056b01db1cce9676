//! The command line: help, plans, mistakes, exit codes. No device is needed.

use blackbox::{command, fathom, folder, plan};
use std::io::Read;
use std::process::Stdio;

#[test]
fn help_version_completions_and_man_page_are_there() {
    let here = folder();
    let help = fathom(here.path(), &["--help"]);
    help.expect(0);
    for word in ["devices", "plans", "run", "show", "export", "calibrate", "Exit codes"] {
        assert!(help.out.contains(word), "{word} in {}", help.out);
    }
    assert!(fathom(here.path(), &["--version"]).expect(0).out.starts_with("fathom "));
    assert!(fathom(here.path(), &["completions", "bash"]).expect(0).out.contains("complete"));
    assert!(fathom(here.path(), &["man"]).expect(0).out.contains(".TH"));
    fathom(here.path(), &[]).expect(2);
    fathom(here.path(), &["exprt"]).expect(2).says("export");
}

#[test]
fn plans_are_listed_and_shown_with_their_estimate() {
    let here = folder();
    let list = fathom(here.path(), &["plans", "--json"]).expect(0).json();
    let names: Vec<&str> =
        list["plans"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "quick",
            "cdm",
            "cdm-nvme",
            "four-corners",
            "depth-sweep",
            "thread-sweep",
            "qos",
            "curve-4k-read",
            "curve-4k-write",
            "curve-64k-read",
            "curve-64k-write",
            "review-precondition",
            "oracle",
            "sql",
            "vdi",
            "vsi",
            "vdi-boot",
            "vdi-login",
            "vdi-monday",
            "oltp",
            "oltp-8k",
            "jesd219",
            "file-server",
            "storagereview",
            "kioxia-matrix",
            "review",
            "data-check",
            "ezfio",
            "pts-iops",
            "pts-throughput",
            "pts-latency",
            "pts-wsat",
            "pts-hir",
            "pts-xsr",
            "pts-cbw",
            "pts-dirth",
            "pts",
        ]
    );
    for name in names {
        let shown = fathom(here.path(), &["plan", "show", name]);
        shown.expect(0);
        assert!(shown.out.contains("Estimate:") && shown.out.contains("Writes"), "{}", shown.out);
        fathom(here.path(), &["plan", "check", name]).expect(0);
    }
    let shown = fathom(here.path(), &["plan", "show", "qos", "--set", "time=1h", "--json"]);
    // One hour and the ramp of ten seconds.
    assert_eq!(shown.expect(0).json()["estimate"]["timed_s"], 3610.0);
}

#[test]
fn a_mistake_names_file_line_and_remedy() {
    let here = folder();
    let path = plan(here.path(), "[[step]]\nload = { bloksize = \"4k\", time = \"1s\" }\n");
    let checked = fathom(here.path(), &["plan", "check", &path]);
    checked.expect(2).says("plan.toml:3:10: unknown key `bloksize`, did you mean `block`?");
    fathom(here.path(), &["run", &path]).expect(2).says("did you mean `block`?");
    fathom(here.path(), &["run", "quik"]).expect(2).says("did you mean `quick`?");
    fathom(here.path(), &["run", "no/such.toml"]).expect(2).says("cannot be read");
    fathom(here.path(), &["run", "quick", "--set", "tiem=1s"]).expect(2).says("`time`");
    fathom(here.path(), &["run", "quick", "--set", "time"]).expect(2).says("name=value");
    fathom(here.path(), &["run", "quick", "nowhere"]).expect(2).says("no such device");
    fathom(here.path(), &["run", "quick", "/dev/null"]).expect(2).says("neither a block device");
    fathom(here.path(), &["run", "quick", ".", "."]).expect(2).says("named twice");
    fathom(here.path(), &["run", "quick", "--set", "size=1PiB"]).expect(2).says("--set size=");
    fathom(here.path(), &["run", "setup.icf"]).expect(2).says("the file cannot be read");
    fathom(here.path(), &["show", "none.fathom"]).expect(1).says("none.fathom");
    std::fs::write(here.path().join("text"), "hello").unwrap();
    fathom(here.path(), &["show", "text"]).expect(1).says("not a run file");
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 2, "nothing was left behind");
}

#[test]
fn devices_are_listed_as_json_too() {
    let here = folder();
    fathom(here.path(), &["devices"]).expect(0);
    let list = fathom(here.path(), &["devices", "--json"]).expect(0).json();
    assert_eq!(list["fathom_json"], 1);
    for device in list["devices"].as_array().unwrap() {
        assert!(device["size_bytes"].as_u64().unwrap() > 0);
        assert!(device["identity"].as_str().is_some_and(|word| !word.is_empty()));
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let here = folder();
    let mut child = command(here.path(), &["plan", "show", "cdm"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{errors}");
    assert_eq!(errors, "");
}

#[test]
fn calibration_states_the_instruments_cost() {
    let here = folder();
    let found = fathom(here.path(), &["calibrate", "--time", "50ms", "--json"]).expect(0).json();
    let costs = found["instrument"]["own_cost"].as_array().unwrap();
    assert_eq!(costs.len(), 3);
    for cost in costs {
        let (own, noop) = (cost["own_ns"].as_f64().unwrap(), cost["noop_ns"].as_f64().unwrap());
        assert!(own > 0.0 && noop > own, "{cost}");
    }
    assert_eq!(found["paths"].as_array().unwrap().len(), 4);
    assert_eq!(found["pacing"].as_array().unwrap().len(), 4);
    assert!(found["instrument"]["clock"]["cost_ns"].as_f64().unwrap() > 0.0);
}
