//! The profiles against published figures, calibrated and held out (the virtual drive; no device).
//! Each residual found here stands in the profile, and the claims made of held-out figures are held.

mod common;

use common::{Bench, Got, SETTLE};
use sim::{Profile, Standing, profile_names};
use std::collections::BTreeMap;

/// How far a residual may be from the one in the profile, in percentage points: the noise of the
/// tables' samples.
const RESIDUAL_SLACK: f64 = 0.5;

fn settled(target: &str) -> Bench {
    let mut bench = Bench::new(&format!("{target},noise=0,samples=100000"));
    SETTLE.iter().for_each(|step| drop(bench.run(step)));
    bench
}

const WRITE: &str = "pattern=\"random\", block=\"4k\", read=0, depth=256, time=\"3600s\"";
const MIX: &str = "pattern=\"random\", block=\"4k\", read=70, depth=256, time=\"3600s\"";
const READ: &str = "pattern=\"random\", block=\"4k\", read=100, depth=256, time=\"60s\"";
const READ_ALONE: &str = "pattern=\"random\", block=\"4k\", read=100, depth=1, time=\"60s\"";

fn us(got: &Got, percent: f64) -> f64 {
    got.total.reads.service.percentile_ns(percent).unwrap() as f64 / 1e3
}

fn p5430() -> BTreeMap<&'static str, f64> {
    let drive = "sim:d5-p5430";
    let mut base = settled(drive);
    let mut over = settled(&format!("{drive},over-provision=12.75TB"));
    let mut found = BTreeMap::from([
        ("4k random write", base.run(WRITE).iops()),
        ("4k random write, 12.75 TB", over.run(WRITE).iops()),
        ("4k 70/30", base.run(MIX).iops()),
        ("4k 70/30, 12.75 TB", over.run(MIX).iops()),
    ]);
    let caps = [
        (",power=15W", ["4k random read, 15 W", "4k random write, 15 W", "4k 70/30, 15 W"]),
        (",power=10W", ["4k random read, 10 W", "4k random write, 10 W", "4k 70/30, 10 W"]),
    ];
    for (cap, names) in caps {
        let mut bench = settled(&format!("{drive}{cap}"));
        for (name, load) in names.into_iter().zip([READ, WRITE, MIX]) {
            found.insert(name, bench.run(load).iops());
        }
    }
    let alone = base.run(READ_ALONE);
    found.insert("4k random read, depth 1, p99", us(&alone, 99.0));
    found.insert("4k random read, depth 1, p99.99", us(&alone, 99.99));
    // The tail is taken from a run of every I/O.
    let mut exact = Bench::new(&format!("{drive},mode=exact,capacity=16GB"));
    let deep = exact.run("pattern=\"random\", block=\"4k\", read=100, depth=256, time=\"2s\"");
    found.insert("4k random read, depth 256", deep.iops());
    found.insert("4k random read, depth 256, p99", us(&deep, 99.0));
    found.insert("4k random read, depth 256, p99.99", us(&deep, 99.99));
    let stream = |read| {
        format!("pattern=\"sequential\", block=\"128k\", read={read}, depth=256, time=\"60s\"")
    };
    let mut fresh = Bench::new(&format!("{drive},noise=0"));
    found.insert("128k sequential write", fresh.run(&stream(0)).mb_s());
    found.insert("128k sequential read", fresh.run(&stream(100)).mb_s());
    found
}

fn tlc() -> BTreeMap<&'static str, f64> {
    let mut base = settled("sim:tlc-3dwpd");
    let mut half = settled("sim:tlc-3dwpd,over-provision=372GiB");
    BTreeMap::from([
        ("4k random write", base.run(WRITE).mb_s()),
        ("write amplification", base.backend.amplification(0)),
        ("4k random write, 372 GiB", half.run(WRITE).mb_s()),
    ])
}

#[test]
fn residuals_are_those_in_the_profiles() {
    let mut wrong = Vec::new();
    for name in profile_names() {
        let found = match name {
            "d5-p5430" => p5430(),
            "tlc-3dwpd" => tlc(),
            _ => BTreeMap::new(),
        };
        let profile = Profile::built_in(name).unwrap();
        assert_eq!(profile.published.len(), found.len(), "{name}");
        for figure in &profile.published {
            let model = found[figure.what.as_str()];
            let residual = (model / figure.value - 1.0) * 100.0;
            let standing =
                if figure.status == Standing::Calibrated { "calibrated" } else { "held out" };
            println!(
                "{name}: {:36} published {:>10} {:7} model {model:10.1} {residual:+6.2} % {standing}",
                figure.what, figure.value, figure.unit
            );
            if (residual - figure.residual_percent).abs() > RESIDUAL_SLACK {
                wrong.push(format!(
                    "{name}: {}: {residual:+.2} %, not {:+.2} %",
                    figure.what, figure.residual_percent
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn held_out_figures_are_met_within_what_is_claimed() {
    let profile = Profile::built_in("d5-p5430").unwrap();
    for (what, limit) in [
        ("4k 70/30, 12.75 TB", 5.0),
        ("4k 70/30, 15 W", 8.0),
        ("4k 70/30, 10 W", 8.0),
        ("4k random read, depth 256, p99.99", 10.0),
    ] {
        let figure = profile.published.iter().find(|figure| figure.what == what).unwrap();
        assert_eq!(figure.status, Standing::HeldOut, "{what}");
        assert!(figure.residual_percent.abs() <= limit, "{what}: {} %", figure.residual_percent);
    }
}
