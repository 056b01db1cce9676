//! Placement on this host's own cores: how often a difference is claimed where there is none, and
//! whether a planted one of a percent is found.
//!
//! `cargo run --release -p bench --bin placement [REPEATS]`. The load is the instrument's own null
//! target, so a core's time is the limit. The planted difference is a thread on the same core that takes
//! a percent of its time. (No device.)

use analysis::Finding;
use base::units::Nanos;
use plan::Verb;
use runner::{Bench, Domain, Scan, ScanRules, scan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Takes this share of a CPU while it is switched on, in slices of 10 ms.
fn thief(cpu: usize, share: f64, on: Arc<AtomicBool>, ended: Arc<AtomicBool>) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &set);
    let slice = Duration::from_millis(10);
    while !ended.load(Ordering::Relaxed) {
        let begin = Instant::now();
        if on.load(Ordering::Relaxed) {
            while begin.elapsed() < slice.mul_f64(share) {
                std::hint::spin_loop();
            }
        }
        std::thread::sleep(slice.saturating_sub(begin.elapsed()));
    }
}

fn load() -> plan::Load {
    let parsed = plan::parse("p", "name=\"p\"\n[[step]]\nload={depth=32, time=1}", &[]);
    match parsed.expect("a plan").steps.remove(0).verb {
        Verb::Load(mut cell) => cell.loads.remove(0),
        _ => unreachable!("a load was written"),
    }
}

/// One scan: the reference, the same CPU again, and the same CPU with the thief on it.
fn once(cpu: usize, seed: u64, on: &AtomicBool) -> Scan {
    let domain = |name: &str| Domain { name: name.into(), cpus: vec![cpu] };
    let all = [domain("reference"), domain("the same"), domain("planted")];
    let mut bench = Bench::null(load(), Nanos(50_000_000));
    let rules = ScanRules { seed, blocks: (10, 400), ..ScanRules::default() };
    let mut measure = |domain: &Domain| {
        on.store(domain.name == "planted", Ordering::Relaxed);
        let rate = bench.rate(&domain.cpus);
        on.store(false, Ordering::Relaxed);
        rate
    };
    scan(&all, rules, &mut measure, &mut |_| true).expect("it runs")
}

fn main() {
    let repeats: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20);
    let cpu = engine::allowed_cpus().last().copied().unwrap_or(0);
    let (on, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let thread = {
        let (on, ended) = (on.clone(), ended.clone());
        std::thread::spawn(move || thief(cpu, 0.01, on, ended))
    };
    println!("CPU {cpu}, null target, depth 32, {repeats} scans, 0.5 % to be resolved");
    let (mut wrong, mut found, mut resolved) = (0, 0, 0);
    for seed in 1..=repeats {
        let scan = once(cpu, seed, &on);
        let [same, planted] = scan.arms.as_slice() else { unreachable!("two arms") };
        let show = |arm: &runner::Arm| {
            let Some(r) = arm.ratio else { return "-".to_owned() };
            format!("{:.4} ({:.4} .. {:.4}) {:?}", r.ratio, r.low, r.high, arm.finding)
        };
        println!(
            "{seed:3}: {:3} blocks, same {}, planted {}",
            scan.blocks.len(),
            show(same),
            show(planted)
        );
        wrong += u64::from(matches!(same.finding, Finding::Higher | Finding::Lower));
        found += u64::from(planted.finding == Finding::Lower);
        resolved += u64::from(scan.resolved);
    }
    ended.store(true, Ordering::Relaxed);
    let _ = thread.join();
    println!(
        "no difference: claimed in {wrong} of {repeats}; planted 1 %: found with its sign in {found} of \
         {repeats}; resolved to 0.5 % in {resolved}"
    );
}
