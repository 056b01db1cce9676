//! Recordings as a user meets them: told, modelled, converted, and replayed, on a virtual drive and on a
//! loop device of this host.

use base::rng::Rng;
use blackbox::loopdev::LoopDevice;
use blackbox::{fathom, folder, is_root};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Random reads and writes with independent arrivals, as CSV.
fn recording(path: &Path, n: u32, rate: f64, space: u64) {
    let mut rng = Rng::new(5);
    let mut text = String::from("time_ns,type,offset,size\n");
    let mut time = 0.0;
    for _ in 0..n {
        time += rng.exponential() * 1e9 / rate;
        let kind = if rng.below(10) < 7 { 'R' } else { 'W' };
        let len = [4096, 8192, 16384][rng.below(3) as usize];
        let offset = rng.below((space - 16384) / 4096) * 4096;
        let _ = writeln!(text, "{},{kind},{offset},{len}", time as u64);
    }
    std::fs::write(path, text).unwrap();
}

fn replay_verdict(shown: &Value) -> Value {
    let cells = shown["cells"].as_array().unwrap().iter();
    let mut verdicts = cells.flat_map(|cell| cell["verdicts"].as_array().unwrap().clone());
    verdicts.find(|verdict| verdict["name"] == "replay").expect("a verdict of the replay")
}

fn tell(where_: &str, verdict: &Value) {
    println!("{where_}: {}", verdict["text"].as_str().unwrap());
}

#[test]
fn a_million_requests_on_a_virtual_drive() {
    let folder = folder();
    let here = folder.path();
    recording(&here.join("t.csv"), 1_000_000, 100_000.0, 1 << 30);
    let args = ["run", "t.csv", "sim:d5-p5430", "-q", "--json", "-o", "r.fathom"];
    let shown = fathom(here, &args).expect(0).json();
    let verdict = replay_verdict(&shown);
    tell("virtual drive", &verdict);
    assert_eq!(verdict["evidence"]["made"], 1_000_000);
    // In virtual time an arrival is late only where every slot is taken.
    assert_eq!(verdict["evidence"]["arrival_error_ns"]["p99"], 0);
}

#[test]
fn a_million_requests_on_a_loop_device() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let disk = here.join("disk");
    std::fs::write(&disk, vec![1; 256 << 20]).unwrap();
    let device = LoopDevice::over(&disk, &["--direct-io=on"]);
    recording(&here.join("t.csv"), 1_000_000, 25_000.0, 256 << 20);
    let name = device.text();
    let args =
        ["run", "t.csv", &name, "--destroy", &device.identity, "-q", "--json", "-o", "r.fathom"];
    let shown = fathom(here, &args).expect(0).json();
    let verdict = replay_verdict(&shown);
    tell("loop device", &verdict);
    let evidence = &verdict["evidence"];
    assert_eq!((&evidence["made"], &evidence["shed"]), (&1_000_000.into(), &0.into()));
}

#[test]
fn what_a_recording_is_like_and_its_model() {
    let folder = folder();
    let here = folder.path();
    recording(&here.join("boot.csv"), 20_000, 5000.0, 1 << 30);
    let told = fathom(here, &["trace", "show", "boot.csv", "--json"]).expect(0).json();
    let all = &told["character"]["all"];
    assert!((all["read_share"].as_f64().unwrap() - 0.7).abs() < 0.02, "{all}");
    assert!((all["rate"].as_f64().unwrap() / 5000.0 - 1.0).abs() < 0.05, "{all}");
    assert!((all["gap_variation"].as_f64().unwrap() - 1.0).abs() < 0.05, "{all}");
    let text = fathom(here, &["trace", "show", "boot.csv"]);
    assert!(text.expect(0).out.contains("go on where another ended"), "{}", text.out);
    let model = fathom(here, &["trace", "model", "boot.csv"]);
    std::fs::write(here.join("boot.toml"), &model.expect(0).out).unwrap();
    let args = ["run", "boot.toml", "sim:d5-p5430", "-q", "--json", "-o", "m.fathom"];
    let shown = fathom(here, &args).expect(0).json();
    let cell = &shown["cells"][0];
    let ios = |side: &str| cell[side]["ios"].as_f64().unwrap();
    let share = ios("read") / (ios("read") + ios("write"));
    assert!((share - 0.7).abs() < 0.02, "{share}");
    // In phases, as a boot storm has.
    let phased = fathom(here, &["trace", "model", "boot.csv", "--phases", "4"]);
    std::fs::write(here.join("phased.toml"), &phased.expect(0).out).unwrap();
    assert_eq!(phased.out.matches("[[step]]").count(), 4, "{}", phased.out);
    fathom(here, &["plan", "check", "phased.toml"]).expect(0);
    let csv = fathom(here, &["trace", "convert", "boot.csv"]);
    assert_eq!(
        csv.expect(0).out,
        std::fs::read_to_string(here.join("boot.csv"))
            .unwrap_or_default()
            .lines()
            .enumerate()
            .map(|(n, line)| rebased(here, n, line))
            .collect::<String>()
    );
}

/// A line of the recording with its time counted from the first request.
fn rebased(here: &Path, number: usize, line: &str) -> String {
    let text = std::fs::read_to_string(here.join("first")).unwrap_or_default();
    if number == 0 {
        return format!("{line}\n");
    }
    let (time, rest) = line.split_once(',').unwrap();
    if number == 1 {
        std::fs::write(here.join("first"), time).unwrap();
        return format!("0,{rest}\n");
    }
    let first: u64 = text.parse().unwrap();
    format!("{},{rest}\n", time.parse::<u64>().unwrap() - first)
}

#[test]
fn mistakes_are_told() {
    let folder = folder();
    let here = folder.path();
    fathom(here, &["trace", "show", "none.csv"]).expect(2).says("none.csv: cannot be read");
    std::fs::write(here.join("text.csv"), "hello\n").unwrap();
    fathom(here, &["trace", "show", "text.csv"]).expect(2).says("no recording that fathom knows");
    fathom(here, &["run", "text.csv", "sim:d5-p5430", "-q"]).expect(2).says("no recording");
    recording(&here.join("t.csv"), 100, 5000.0, 1 << 20);
    std::fs::write(here.join("disk"), vec![0; 1 << 20]).unwrap();
    // A recording with writes destroys what is there.
    fathom(here, &["run", "t.csv", "disk", "-q"]).expect(3).says("--destroy");
    fathom(here, &["run", "t.csv", "disk", "-q", "--set", "read=100", "-o", "r.fathom"]).expect(0);
    fathom(here, &["run", "t.csv", "disk", "-q", "--set", "speed=fast"])
        .expect(2)
        .says("`fast` is not a number");
    fathom(here, &["trace", "record", "disk", "-o", "x.csv"]).expect(2).says("no block device");
    let plan = "name = \"t\"\n[[step]]\nload = { trace = \"t.csv\", block = \"4k\" }\n";
    std::fs::write(here.join("p.toml"), plan).unwrap();
    fathom(here, &["plan", "check", "p.toml"]).expect(2).says("leave it out");
}
