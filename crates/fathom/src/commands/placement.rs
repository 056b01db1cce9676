//! `fathom placement`: what each group of CPUs gets from a drive.

use crate::args::PlacementScan;
use crate::commands::run::{INTERRUPT, watch_signals};
use crate::exit::{Exit, usage};
use crate::print;
use analysis::Finding;
use base::units::{Bytes, format_rate, parse_span};
use drive::{Kind, Subject, resolve};
use plan::{Load, Verb};
use report::table_of;
use runner::{Bench, Domain, Level, RunError, Scan, ScanRules, domains, scan};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

pub(crate) fn run(args: &PlacementScan) -> anyhow::Result<Exit> {
    let time = parse_span(&args.time).map_err(|error| usage(format!("--time: {error}")))?;
    if time.0 < 10_000_000 {
        return Err(usage("--time: at least 10ms are needed"));
    }
    let resolution = args.resolution.trim_end_matches('%').parse::<f64>().unwrap_or(0.0) / 100.0;
    if !(0.0001..=0.5).contains(&resolution) {
        return Err(usage("--resolution: 0.01% to 50%, such as 0.5%"));
    }
    watch_signals()?;
    let mut all = Vec::new();
    let mut unresolved = false;
    for path in &args.targets {
        let subject = resolve(path, Bytes(64 << 20)).map_err(RunError::from)?;
        if matches!(subject.kind, Kind::Scratch(_)) {
            return Err(usage(format!("{}: is a folder; name a device or a file", path.display())));
        }
        let level = args.by.map_or_else(|| level_of(&subject), Level::from);
        let groups = domains(level, &subject);
        for depth in &args.depth {
            let load = random_reads(&args.block, *depth, args.workers)?;
            let mut bench = Bench::new(&subject, load, time)?;
            let rules = ScanRules {
                resolution,
                blocks: (10.min(args.blocks), args.blocks),
                ..ScanRules::default()
            };
            let mut measure = |domain: &Domain| bench.rate(&domain.cpus);
            let mut each = |so_far: &Scan| {
                if !args.quiet {
                    eprint!("\r{}: depth {depth}, block {} ", subject.name(), so_far.blocks.len());
                }
                !INTERRUPT.load(Ordering::Relaxed)
            };
            let found = scan(&groups, rules, &mut measure, &mut each)?;
            if !args.quiet {
                eprintln!();
            }
            unresolved |= !found.resolved;
            if !args.json {
                print::out(&page(&subject, *depth, &found, resolution))?;
            }
            all.push(as_json(&subject, *depth, &found, resolution));
            if INTERRUPT.load(Ordering::Relaxed) {
                return Ok(Exit::Interrupted);
            }
        }
    }
    if args.json {
        print::json(&json!({"fathom_json": report::JSON_VERSION, "scans": all}))?;
    }
    Ok(if unresolved { Exit::NotValid } else { Exit::Done })
}

/// The widest groups of which there are several.
fn level_of(subject: &Subject) -> Level {
    let several = |level: &Level| domains(*level, subject).len() > 1;
    [Level::Node, Level::Complex].into_iter().find(several).unwrap_or(Level::Core)
}

/// Random reads.
pub(crate) fn random_reads(block: &str, depth: u32, workers: u32) -> anyhow::Result<Load> {
    let text = format!(
        "name = \"placement\"\n[[step]]\nload = {{ block = \"{block}\", depth = {depth}, workers = \
         {workers}, time = 1 }}"
    );
    let parsed = plan::parse("placement", &text, &[])?;
    match parsed.steps.into_iter().next().map(|step| step.verb) {
        Some(Verb::Load(mut cell)) if !cell.loads.is_empty() => Ok(cell.loads.remove(0)),
        _ => Err(usage("no load")),
    }
}

fn words(finding: Finding, resolution: f64) -> String {
    match finding {
        Finding::Higher => "faster".into(),
        Finding::Lower => "slower".into(),
        Finding::Same => format!("same within {} %", resolution * 100.0),
        Finding::Open => "not resolvable here".into(),
    }
}

fn page(subject: &Subject, depth: u32, found: &Scan, resolution: f64) -> String {
    let mut body = vec![vec![
        found.reference.name.clone(),
        format_rate(found.reference_iops),
        "1 (reference)".into(),
        String::new(),
        String::new(),
    ]];
    for arm in &found.arms {
        let (ratio, interval) = match arm.ratio {
            Some(r) => (format!("{:.4}", r.ratio), format!("{:.4} .. {:.4}", r.low, r.high)),
            None => ("-".into(), "-".into()),
        };
        body.push(vec![
            arm.domain.name.clone(),
            format_rate(arm.iops),
            ratio,
            interval,
            words(arm.finding, resolution),
        ]);
    }
    let head = ["Workers on", "IOPS", "Ratio", "95 % interval", ""];
    let mut text = format!(
        "\n{}, depth {depth}, {} blocks\n{}",
        subject.name(),
        found.blocks.len(),
        table_of(&head, &body)
    );
    if found.arms.is_empty() {
        text.push_str("There is one group of CPUs only: nothing to compare.\n");
    } else if !found.resolved {
        let widest = found.arms.iter().filter_map(|arm| arm.ratio).map(|r| r.half_width());
        let widest = widest.fold(0.0, f64::max) * 100.0;
        text.push_str(&format!(
            "NOT RESOLVED: intervals are up to +-{widest:.2} %, {} % was asked for; use more --blocks, a \
             longer --time, or a quieter host.\n",
            resolution * 100.0
        ));
    }
    text
}

fn as_json(subject: &Subject, depth: u32, found: &Scan, resolution: f64) -> Value {
    let arm = |arm: &runner::Arm| {
        json!({
            "name": arm.domain.name, "cpus": arm.domain.cpus, "iops": arm.iops,
            "ratio": arm.ratio.map(|r| r.ratio),
            "interval": arm.ratio.map(|r| [r.low, r.high]),
            "finding": words(arm.finding, resolution),
        })
    };
    let block =
        |block: &analysis::Block| json!({"reference_iops": block.reference, "iops": block.values});
    json!({
        "target": subject.name(), "identity": subject.identity(), "depth": depth,
        "resolution": resolution, "confidence": 0.95, "resolved": found.resolved,
        "reference": {"name": found.reference.name, "cpus": found.reference.cpus, "iops": found.reference_iops},
        "groups": found.arms.iter().map(arm).collect::<Vec<_>>(),
        "blocks": found.blocks.iter().map(block).collect::<Vec<_>>(),
    })
}
