//! What sampling of host and drives costs: I/Os of seconds with a sample against seconds without, in pairs
//! of random order in one cell, with the interval of their ratio; and the time of a sample itself.
//!
//! `cargo run --release -p bench --bin telemetry [PAIRS [TARGET]]`. Without a target the instrument's null
//! target is measured with a worker on every CPU: sampling can only take its time from them. (No drive.)

use analysis::Ratio;
use base::units::Bytes;
use plan::Verb;
use std::path::Path;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let pairs = args.first().and_then(|n| n.parse().ok()).unwrap_or(150);
    let subject =
        args.get(1).map(|path| drive::resolve(Path::new(path), Bytes(0)).expect("a target"));
    let workers = engine::allowed_cpus().len();
    let text = format!("name=\"t\"\n[[step]]\nload={{depth=32, workers={workers}, time=1}}");
    let load = match plan::parse("t", &text, &[]).expect("a plan").steps.remove(0).verb {
        Verb::Load(mut cell) => cell.loads.remove(0),
        _ => unreachable!("a load was written"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    println!("{pairs} pairs of seconds, {workers} workers, depth 32");
    let found =
        runner::telemetry_cost(subject.as_ref(), load, pairs, folder.path()).expect("it runs");
    let ratio = Ratio::of(&found.log_ratios, 0.95, 1).expect("three pairs");
    println!(
        "I/Os with telemetry to without: {:.4}, 95 % interval {:.4} .. {:.4}, {} pairs",
        ratio.ratio, ratio.low, ratio.high, ratio.n
    );
    println!(
        "a sample takes {:.0} us on average, {:.0} us at most: {:.4} % of the time of one CPU",
        found.sample_us,
        found.sample_max_us,
        found.sample_us / 1e4
    );
}
