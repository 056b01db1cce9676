//! Exact mode against interval mode, laws of queueing, seeds and faults (the virtual drive; no
//! device).

mod common;

use base::hist::{Hist, Service, bucket_of};
use base::units::Nanos;
use common::{Bench, Got, SETTLE};
use engine::{Backend, Control, Outcome};
use sim::Fidelity;

/// A drive small enough that both modes see the same flash within a short time.
const SMALL: &str = "sim:d5-p5430,capacity=2GB,noise=0";

fn service(got: &Got) -> Hist<Service> {
    let mut all = got.total.reads.service.clone();
    all.merge(&got.total.writes.service);
    all
}

/// A drive in its steady state: several times over with random writes, the same for both modes.
fn settled(fidelity: Fidelity, seed: u32) -> Bench {
    let mut bench = Bench::new(&format!("sim:d5-p5430,capacity=64GB,noise=0,seed={seed}"));
    SETTLE.iter().for_each(|step| drop(bench.run(step)));
    bench.backend.set_fidelity(0, fidelity, 1_000_000);
    bench
}

/// Drives that differ by their seed only: one alone scatters by a bucket at p99.
const SEEDS: std::ops::RangeInclusive<u32> = 1..=4;

/// Distance in buckets of the histogram.
fn apart(a: u64, b: u64) -> usize {
    bucket_of(a).abs_diff(bucket_of(b))
}

#[test]
fn both_modes_agree_on_six_workloads() {
    let workloads = [
        (
            "random read, depth 1",
            "pattern=\"random\", block=\"4k\", read=100, depth=1, time=\"10s\"",
        ),
        (
            "random read, depth 32",
            "pattern=\"random\", block=\"4k\", read=100, depth=32, time=\"3s\"",
        ),
        (
            "random read, depth 256",
            "pattern=\"random\", block=\"4k\", read=100, depth=64, workers=4, time=\"1s\"",
        ),
        (
            "random write, depth 128",
            "pattern=\"random\", block=\"4k\", read=0, depth=128, time=\"10s\", ramp=\"2s\"",
        ),
        (
            "70/30, depth 128",
            "pattern=\"random\", block=\"4k\", read=70, depth=128, time=\"5s\", ramp=\"1s\"",
        ),
        (
            "64k sequential read, depth 8",
            "pattern=\"sequential\", block=\"64k\", read=100, depth=8, time=\"5s\"",
        ),
    ];
    let mut wrong = Vec::new();
    let all = |fidelity| SEEDS.map(|seed| settled(fidelity, seed)).collect::<Vec<Bench>>();
    let (mut exact, mut interval) = (all(Fidelity::Exact), all(Fidelity::Interval));
    let over_all = |benches: &mut [Bench], load: &str| {
        let (mut hist, mut iops) = (Hist::<Service>::new(), 0.0);
        for bench in benches {
            let got = bench.run(load);
            hist.merge(&service(&got));
            iops += got.iops() / SEEDS.count() as f64;
        }
        (hist, iops)
    };
    for (name, load) in workloads {
        let ((ha, a), (hb, b)) = (over_all(&mut exact, load), over_all(&mut interval, load));
        let rate = b / a - 1.0;
        let at = |percent| {
            let (x, y) = (ha.percentile_ns(percent).unwrap(), hb.percentile_ns(percent).unwrap());
            (x, y, apart(x, y))
        };
        let (p50, p99) = (at(50.0), at(99.0));
        println!(
            "{name:30} {:9.0} {:9.0} IOPS {:+.2} %  p50 {} {} ({})  p99 {} {} ({})",
            a,
            b,
            rate * 100.0,
            p50.0,
            p50.1,
            p50.2,
            p99.0,
            p99.1,
            p99.2
        );
        if rate.abs() > 0.01 || p50.2 > 1 || p99.2 > 1 {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn littles_law_holds_in_both_modes() {
    for mode in ["exact", "interval"] {
        let mut bench = Bench::new(&format!("{SMALL},mode={mode}"));
        for depth in [4.0, 64.0] {
            let got = bench.run(&format!(
                "pattern=\"random\", block=\"4k\", read=100, depth={depth}, time=\"1s\""
            ));
            let mean = got.total.reads.service.mean_ns().unwrap() * 1e-9;
            let outstanding = got.iops() * mean;
            assert!((outstanding / depth - 1.0).abs() < 0.01, "{mode}: {outstanding} of {depth}");
        }
    }
}

#[test]
fn one_seed_is_one_history_and_another_is_another() {
    for mode in ["exact", "interval"] {
        let hash = |seed: u32| {
            let mut bench = Bench::new(&format!("{SMALL},mode={mode},seed={seed}"));
            bench.run("pattern=\"random\", block=\"4k\", read=0, depth=32, amount=\"1x\"");
            let got = bench.run("pattern=\"random\", block=\"4k\", read=70, depth=32, time=\"2s\"");
            let mut bytes = Vec::new();
            service(&got).encode_into(&mut bytes);
            bytes.iter().fold(0u64, |hash, &byte| base::rng::derive(hash, u64::from(byte)))
        };
        assert_eq!(hash(5), hash(5), "{mode}");
        assert_ne!(hash(5), hash(6), "{mode}");
    }
}

#[test]
fn the_drive_counts_what_the_host_counts() {
    for mode in ["exact", "interval"] {
        let mut bench = Bench::new(&format!("{SMALL},mode={mode}"));
        let (mut read, mut written) = (0, 0);
        for load in [
            "pattern=\"random\", block=\"4k\", read=50, depth=32, time=\"1500ms\", ramp=\"500ms\"",
            "pattern=\"sequential\", block=\"128k\", read=0, depth=4, amount=\"100MB\"",
            "pattern=\"random\", block=\"512\", read=30, depth=8, rate=5000, time=\"1s\"",
        ] {
            for sample in bench.run(load).intervals.iter().flat_map(|sample| &sample.streams) {
                read += sample.reads.bytes;
                written += sample.writes.bytes;
            }
        }
        let counts = bench.backend.counts(0).unwrap();
        assert_eq!((counts.read, counts.written), (read, written), "{mode}");
    }
}

#[test]
fn an_amount_is_moved_to_the_byte_in_exact_mode_and_closely_in_intervals() {
    let load = "pattern=\"sequential\", block=\"128k\", read=0, depth=4, amount=\"1x\"";
    let exact = Bench::new(&format!("{SMALL},mode=exact")).run(load);
    assert_eq!(exact.total.writes.bytes, 2_000_000_000 / 4096 * 4096);
    let quick = Bench::new(SMALL).run(load);
    let off = quick.total.writes.bytes as f64 / 2e9 - 1.0;
    assert!(off.abs() < 1e-3, "{off}");
}

#[test]
fn open_loop_keeps_its_rate_and_shows_an_overload() {
    for mode in ["exact", "interval"] {
        let mut bench = Bench::new(&format!("{SMALL},mode={mode}"));
        let load = |rate: u32| {
            format!(
                "pattern=\"random\", block=\"4k\", read=100, depth=64, rate={rate}, time=\"2s\""
            )
        };
        let kept = bench.run(&load(50_000));
        assert!((kept.iops() / 50_000.0 - 1.0).abs() < 0.01, "{mode}: {}", kept.iops());
        assert_eq!(kept.total.shed, 0);
        assert_eq!(kept.total.reads.response.count(), kept.total.ios());
        let over = bench.run(&load(2_000_000));
        assert!(over.iops() < 1_100_000.0 && over.total.waited > 100_000, "{mode}");
        let response = over.total.reads.response.mean_ns().unwrap();
        assert!(response > 10.0 * over.total.reads.service.mean_ns().unwrap(), "{mode}");
    }
}

#[test]
fn each_of_several_loads_keeps_to_its_own_rate_and_amount() {
    let rate =
        |rate: u32, read: u32| format!("{{block=\"4k\", read={read}, depth=16, rate={rate}}}");
    for mode in ["exact", "interval"] {
        let target = format!("{SMALL},mode={mode}");
        let loads = format!("[{}, {}]\ntime=\"1s\"", rate(20_000, 100), rate(3_000_000, 100));
        let got = Bench::new(&target).run(&loads);
        let stream = |n: usize| &got.intervals[0].streams[n];
        let share = stream(0).ios() as f64 / 20_000.0;
        assert!((share - 1.0).abs() < 0.05, "{mode}: {share}");
        // The second asks for more than the drive can do: only its own arrivals wait.
        assert!(stream(1).waited > 10_000, "{mode}: {}", stream(1).waited);
        let part = |range: &str| format!("{{block=\"4k\", read=0, depth=4, range={range}}}");
        let both = format!(
            "[{}, {}]\namount=\"1x\"",
            part("[\"0%\", \"1%\"]"),
            part("[\"50%\", \"53%\"]")
        );
        let got = Bench::new(&target).run(&both);
        let bytes = |n: usize| -> u64 {
            got.intervals.iter().map(|sample| sample.streams[n].writes.bytes).sum()
        };
        let ratio = bytes(1) as f64 / bytes(0) as f64;
        assert!((ratio - 3.0).abs() < 0.01, "{mode}: {ratio}");
    }
}

#[test]
fn a_very_low_rate_is_kept_too() {
    for mode in ["exact", "interval"] {
        let mut bench = Bench::new(&format!("{SMALL},mode={mode}"));
        let got = bench.run("read=50, depth=1, rate=2, time=\"1000s\"");
        let ios = got.total.ios() as f64;
        assert!((ios / 2000.0 - 1.0).abs() < 0.1, "{mode}: {ios}");
        assert!(got.total.reads.response.percentile_ns(50.0).unwrap() < 200_000, "{mode}");
    }
}

#[test]
fn a_purge_brings_back_the_fresh_rate() {
    let mut bench = settled(Fidelity::Interval, 1);
    let load = "pattern=\"random\", block=\"4k\", read=0, depth=256, time=\"1s\"";
    let steady = bench.run(load).iops();
    bench.backend.control(0, Control::Purge).unwrap().unwrap();
    let fresh = bench.run(load).iops();
    assert!(fresh > 3.0 * steady, "{fresh} after {steady}");
}

#[test]
fn faults_happen_when_they_are_due() {
    for mode in ["exact", "interval"] {
        let load = "pattern=\"random\", block=\"4k\", read=100, depth=8, time=\"5s\"";
        let with = |fault: &str| Bench::new(&format!("{SMALL},mode={mode},{fault}")).end(load);
        let (stalled, end) = with("stall=200ms@2500ms");
        assert_eq!(end.outcome, Outcome::Completed);
        let longest = stalled.total.reads.service.max_ns().unwrap();
        assert!((200_000_000..202_000_000).contains(&longest), "{mode}: {longest}");
        let slow = stalled.intervals[2].streams[0].ios() as f64;
        let share = slow / stalled.intervals[1].streams[0].ios() as f64;
        assert!((share - 0.8).abs() < 0.02, "{mode}: {share}");
        // One that goes on over several intervals is in none but the one it ends in.
        let (long, _) = with("stall=2500ms@1250ms");
        let late: Vec<u64> = long
            .intervals
            .iter()
            .map(|sample| sample.streams[0].reads.service.count_above(1_000_000_000))
            .collect();
        assert_eq!(late, [0, 0, 0, 8, 0], "{mode}");
        assert_eq!(long.intervals[2].streams[0].ios(), 0, "{mode}");
        let longest = long.total.reads.service.max_ns().unwrap();
        assert!((2_500_000_000..2_502_000_000).contains(&longest), "{mode}: {longest}");
        let (failed, end) = with("error=read@3s");
        let Outcome::Faulted(fault) = end.outcome else { panic!("{mode}: {:?}", end.outcome) };
        assert!(fault.at.0 >= 3_000_000_000 && fault.at.0 < 3_010_000_000, "{mode}: {fault}");
        assert!((failed.len.as_secs_f64() - 3.0).abs() < 0.01, "{mode}");
        let (_, end) = with("gone=1s");
        let Outcome::Faulted(fault) = end.outcome else { panic!("{mode}") };
        assert!(fault.target_lost(), "{mode}: {fault}");
    }
}

#[test]
fn a_hot_drive_slows_down_and_noise_is_as_large_as_asked() {
    for mode in ["exact", "interval"] {
        let mut bench = Bench::new(&format!("{SMALL},mode={mode},throttle=36C"));
        let got = bench.run("pattern=\"random\", block=\"4k\", read=100, depth=64, time=\"20s\"");
        let ios = |sample: &base::sample::IntervalSample| sample.streams[0].ios() as f64;
        let most = got.intervals.iter().map(ios).fold(0.0, f64::max);
        let least = got.intervals.iter().map(ios).fold(f64::MAX, f64::min);
        assert!(least < 0.7 * most, "{mode}: {least} {most}");
    }
    let mut bench = Bench::new("sim:d5-p5430,noise=2%");
    let got = bench.run("pattern=\"random\", block=\"4k\", read=100, depth=64, time=\"1000s\"");
    let rates: Vec<f64> = got.intervals.iter().map(|s| s.streams[0].ios() as f64).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let square = rates.iter().map(|rate| (rate / mean - 1.0).powi(2)).sum::<f64>();
    let sigma = (square / rates.len() as f64).sqrt();
    assert!((0.017..0.023).contains(&sigma), "{sigma}");
}

#[test]
fn a_cache_of_single_bit_flash_fills_up_and_comes_back_when_idle() {
    let mut bench = Bench::new("sim:client,noise=0");
    let write = "pattern=\"sequential\", block=\"1M\", read=0, depth=8, time=\"40s\"";
    let first = bench.run(write);
    let rate = |second: usize| first.intervals[second].streams[0].writes.bytes as f64;
    assert!(rate(1) > 2.5 * rate(38), "{} then {}", rate(1), rate(38));
    bench.backend.idle(Nanos(100_000_000_000));
    let again = bench.run(write);
    let back = again.intervals[1].streams[0].writes.bytes as f64;
    assert!((back / rate(1) - 1.0).abs() < 0.05, "{back}");
}
