//! `fathom calibrate --resolution`: pairs of equal measurements, made one after the other. What they differ
//! by is what this host cannot resolve.

use crate::args::Calibrate;
use crate::commands::placement::random_reads;
use crate::commands::run::{INTERRUPT, state_folder, watch_signals};
use crate::exit::{Exit, usage};
use crate::print;
use analysis::Ratio;
use base::rng::Rng;
use base::units::{Bytes, Nanos, parse_span};
use drive::resolve;
use runner::{Bench, Level, RunError, domains};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Pairs below which an interval means nothing.
const PAIRS_MIN: u32 = 5;

pub(crate) fn run(args: &Calibrate, target: &Path) -> anyhow::Result<Exit> {
    let time = parse_span(&args.time).map_err(|error| usage(format!("--time: {error}")))?;
    if args.pairs < PAIRS_MIN {
        return Err(usage(format!("--pairs: at least {PAIRS_MIN} are needed")));
    }
    watch_signals()?;
    let subject = resolve(target, Bytes(256 << 20)).map_err(RunError::from)?;
    let mut bench = Bench::new(&subject, random_reads("4k", 1, 1)?, time)?;
    let cpus = domains(Level::Core, &subject).into_iter().next().map(|core| core.cpus);
    let Some(logs) = pairs(&mut bench, &cpus.unwrap_or_default(), args.pairs)? else {
        return Ok(Exit::Interrupted);
    };
    let found = Ratio::of(&logs, 0.95, 1).ok_or_else(|| anyhow::anyhow!("no I/O was done"))?;
    let document = document(&subject.name(), &logs, &found, time);
    keep(&document)?;
    if args.json {
        print::json(&document)?;
    } else {
        print::out(&text(&document))?;
    }
    Ok(Exit::Done)
}

/// Logarithms of the second over the first of each pair; which of two equal names comes first is drawn, as
/// in a comparison. None when interrupted.
fn pairs(bench: &mut Bench, cpus: &[usize], n: u32) -> anyhow::Result<Option<Vec<f64>>> {
    let mut rng = Rng::new(1);
    let mut logs = Vec::new();
    bench.rate(cpus)?;
    for pair in 0..n {
        eprint!("\rpair {} of {n} ", pair + 1);
        let (first, second) = (bench.rate(cpus)?, bench.rate(cpus)?);
        let log = (second / first).ln();
        logs.push(if rng.below(2) == 0 { log } else { -log });
        if INTERRUPT.load(Ordering::Relaxed) {
            eprintln!();
            return Ok(None);
        }
    }
    eprintln!();
    Ok(Some(logs))
}

fn document(target: &str, logs: &[f64], found: &Ratio, time: Nanos) -> Value {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let spread = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    // n = 7.85 (s/d)^2: 80 % power at 5 %, pairs (normal approximation).
    let needed =
        |difference: f64| (7.85 * (spread / (1.0 + difference).ln()).powi(2)).ceil().max(5.0);
    json!({
        "fathom_json": report::JSON_VERSION, "target": target, "pairs": logs.len(),
        "seconds_each": time.as_secs_f64(), "ratio": found.ratio, "low": found.low, "high": found.high,
        "resolution": found.half_width(), "spread_of_pairs": spread,
        "pairs_needed": {"1%": needed(0.01), "2%": needed(0.02), "5%": needed(0.05)},
        "measured_unix_ms": base::clock::unix_ms(),
    })
}

fn text(document: &Value) -> String {
    let number = |key: &str| document[key].as_f64().unwrap_or(f64::NAN);
    let needed = |key: &str| document["pairs_needed"][key].as_f64().unwrap_or(f64::NAN);
    format!(
        "Two equal measurements, {} pairs of {} s each, 4 KiB random reads at depth 1 of {}:\n\
         ratio {:.4}, 95 % interval {:.4} to {:.4}; from pair to pair {:.2} %\n\n\
         This host resolves {:.2} %: `fathom compare` calls smaller differences not resolvable here.\n\
         To find a difference of 1 %, 2 %, 5 % in four of five cases takes {:.0}, {:.0}, {:.0} pairs.\n",
        document["pairs"],
        document["seconds_each"],
        document["target"].as_str().unwrap_or_default(),
        number("ratio"),
        number("low"),
        number("high"),
        number("spread_of_pairs") * 100.0,
        number("resolution") * 100.0,
        needed("1%"),
        needed("2%"),
        needed("5%"),
    )
}

fn file() -> Option<PathBuf> {
    Some(state_folder()?.join("resolution.json"))
}

fn keep(document: &Value) -> anyhow::Result<()> {
    let Some(path) = file() else { return Ok(()) };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    report::write_file(&path, &serde_json::to_vec_pretty(document)?)?;
    Ok(())
}

/// What this host resolves, as a share, when it was measured.
pub(crate) fn stored() -> Option<f64> {
    let text = std::fs::read_to_string(file()?).ok()?;
    let document: Value = serde_json::from_str(&text).ok()?;
    document["resolution"].as_f64().filter(|share| (0.0..1.0).contains(share))
}
