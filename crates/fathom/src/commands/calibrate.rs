//! `fathom calibrate`.

use crate::args::Calibrate;
use crate::commands::resolution;
use crate::exit::{Exit, usage};
use crate::print;
use base::clock::Clock;
use base::units::{format_latency, format_rate, parse_span};
use report::table_of;
use runner::{Calibration, calibrate};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn run(args: &Calibrate) -> anyhow::Result<Exit> {
    let time = parse_span(&args.time).map_err(|error| usage(format!("--time: {error}")))?;
    if time.0 < 10_000_000 {
        return Err(usage("--time: at least 10ms are needed"));
    }
    if let Some(target) = &args.resolution {
        return resolution::run(args, target);
    }
    let clock = Clock::host();
    let found = calibrate(&clock, Path::new("."), time)?;
    if args.json {
        print::json(&as_json(&found))?;
    } else {
        print::out(&as_text(&found))?;
    }
    Ok(Exit::Done)
}

fn as_text(found: &Calibration) -> String {
    let clock = &found.instrument.clock;
    let mut text = format!(
        "Clock {}: {:.0} ns a reading, resolution {} ns\n\n",
        clock.source, clock.cost_ns, clock.resolution_ns
    );
    let own: Vec<Vec<String>> = found
        .instrument
        .costs
        .iter()
        .map(|cost| {
            let ns = |value: f64| format!("{value:.1} ns");
            let kernel = cost.noop_ns - cost.own_ns;
            vec![cost.depth.to_string(), ns(cost.own_ns), ns(kernel), ns(cost.noop_ns)]
        })
        .collect();
    text.push_str("Cost per I/O without a device, one worker, every latency counted:\n");
    text.push_str(&table_of(&["Depth", "Fathom itself", "Kernel ring", "Whole no-op"], &own));
    let paths: Vec<Vec<String>> = found
        .paths
        .iter()
        .map(|path| {
            vec![
                format!("{} depth {}", path.engine, path.depth),
                format_latency(path.cpu_ns),
                format_latency(path.service_ns),
            ]
        })
        .collect();
    text.push_str("\nReads of holes in a file here: the kernel's path without a device:\n");
    text.push_str(&table_of(&["Engine", "CPU per I/O", "Mean service"], &paths));
    let pacing: Vec<Vec<String>> = found
        .pacing
        .iter()
        .map(|pacing| {
            let late = pacing.lateness.as_ref();
            let at = |percent| {
                let value = late.and_then(|late| late.at(percent));
                value.map_or_else(|| "n/a".into(), |ns| format_latency(ns as f64))
            };
            vec![
                format_rate(pacing.rate_iops),
                format!("{:+.2} %", (pacing.achieved_iops / pacing.rate_iops - 1.0) * 100.0),
                at(50.0),
                at(99.0),
                at(99.9),
                late.map_or_else(|| "n/a".into(), |late| format_latency(late.max_ns as f64)),
                format!("{:.0} %", pacing.cpu * 100.0),
            ]
        })
        .collect();
    text.push_str(
        "\nPacing of Poisson arrivals, one worker, no device (rates have sampling noise):\n",
    );
    let head = ["Rate", "Achieved", "Late p50", "p99", "p99.9", "Max", "CPU"];
    text.push_str(&table_of(&head, &pacing));
    text
}

fn as_json(found: &Calibration) -> Value {
    json!({
        "fathom_json": report::JSON_VERSION,
        "instrument": found.instrument.as_json(),
        "paths": found.paths.iter().map(|path| json!({
            "engine": path.engine, "depth": path.depth,
            "cpu_ns": path.cpu_ns, "service_ns": path.service_ns,
        })).collect::<Vec<_>>(),
        "pacing": found.pacing.iter().map(|pacing| json!({
            "rate_iops": pacing.rate_iops,
            "achieved_iops": pacing.achieved_iops,
            "cpu": pacing.cpu,
            "lateness_p50_ns": pacing.lateness.as_ref().and_then(|l| l.at(50.0)),
            "lateness_p99_ns": pacing.lateness.as_ref().and_then(|l| l.at(99.0)),
            "lateness_p999_ns": pacing.lateness.as_ref().and_then(|l| l.at(99.9)),
            "lateness_max_ns": pacing.lateness.as_ref().map(|l| l.max_ns),
        })).collect::<Vec<_>>(),
    })
}
