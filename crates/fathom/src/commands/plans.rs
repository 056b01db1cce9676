//! `fathom plans` and `fathom plan`.

use crate::args::{Json, PlanFile};
use crate::commands::load_plan;
use crate::exit::Exit;
use crate::print;
use base::units::{Bytes, Nanos, format_bytes_decimal, format_span};
use plan::{BUILTIN, Estimate, Load, Plan, Step, Verb, estimate, estimate_most};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Rate at which amounts are taken to move, in bytes per second; said wherever it is used.
const ASSUMED_RATE: f64 = 1e9;

pub(crate) fn list(args: &Json) -> anyhow::Result<Exit> {
    let mut body = Vec::new();
    let mut list = Vec::new();
    for builtin in BUILTIN {
        let plan = plan::parse(builtin.name, builtin.text, &[])?;
        let cost = estimate(&plan, plan.scratch);
        list.push(json!({
            "name": plan.name, "title": plan.title, "writes": plan.writes(),
            "time_s": cost.time(ASSUMED_RATE).as_secs_f64(), "cells": cost.cells,
            "time_most_s": estimate_most(&plan, plan.scratch).time(ASSUMED_RATE).as_secs_f64(),
        }));
        let writes = if plan.writes() { "writes" } else { "reads" };
        let most = estimate_most(&plan, plan.scratch).time(ASSUMED_RATE);
        // A plan with rounds takes as many as it needs.
        let more = if most > cost.time(ASSUMED_RATE) { "+" } else { "" };
        let time = format!("{}{more}", format_span(cost.time(ASSUMED_RATE)));
        body.push(vec![plan.name, writes.into(), time, plan.title]);
    }
    if args.json {
        print::json(&json!({"fathom_json": report::JSON_VERSION, "plans": list}))?;
    } else {
        print::out(&left(&["Plan", "Does", "Takes", "What it measures"], &body))?;
        print::out("`fathom plan show NAME` has the steps, parameters and what is written.\n")?;
    }
    Ok(Exit::Done)
}

/// A table with all columns left.
fn left(head: &[&str], body: &[Vec<String>]) -> String {
    let mut text = String::new();
    let width = |at: usize| {
        let cells = body.iter().map(|row| row[at].chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head_row: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head_row).chain(body) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

pub(crate) fn check(args: &PlanFile) -> anyhow::Result<Exit> {
    let plan = load_plan(&args.plan, &args.settings)?;
    let cost = estimate(&plan, plan.scratch);
    if args.json {
        print::json(&json!({"fathom_json": report::JSON_VERSION, "ok": true, "name": plan.name}))?;
    } else {
        print::out(&format!("{}: no mistake found, {} cells\n", args.plan, cost.cells))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn show(args: &PlanFile) -> anyhow::Result<Exit> {
    let plan = load_plan(&args.plan, &args.settings)?;
    let cost = estimate(&plan, plan.scratch);
    if args.json {
        print::json(&as_json(&plan, &cost))?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}: {}\n\nSteps:\n", plan.name, plan.title);
    describe(&plan.steps, 1, &mut text);
    if !plan.params.is_empty() {
        text.push_str("\nParameters (--set name=value):\n");
        let row = |p: &plan::Param| {
            let range = match (p.limits.0.as_str(), p.limits.1.as_str()) {
                ("", "") => String::new(),
                (min, "") => format!("from {min}"),
                ("", max) => format!("up to {max}"),
                (min, max) => format!("{min} .. {max}"),
            };
            vec![format!("  {}", p.name), p.value.clone(), range, p.about.clone()]
        };
        let body: Vec<_> = plan.params.iter().map(row).collect();
        text.push_str(&left(&["  Name", "Value", "Limits", "Meaning"], &body));
    }
    text.push_str(&estimate_text(&plan, &cost));
    print::out(&text)?;
    Ok(Exit::Done)
}

fn estimate_text(plan: &Plan, cost: &Estimate) -> String {
    let size = plan.scratch;
    let mut text =
        format!("\nEstimate: {} cells, {} by the clock", cost.cells, format_span(cost.timed));
    let most = estimate_most(plan, size);
    if most != *cost {
        let time = format_span(most.timed);
        let _ =
            write!(text, " if steady at the first chance, {} cells, {time} at most", most.cells);
    }
    if cost.amount.0 > 0 {
        let _ = write!(text, " and {} of fills", format_bytes_decimal(cost.amount));
    }
    let _ =
        writeln!(text, "; on a scratch file {} more to lay it out.", format_bytes_decimal(size));
    let written = cost.written(ASSUMED_RATE);
    if written.0 == 0 {
        text.push_str("Writes nothing to a device or a file that exists.\n");
    } else {
        let _ = writeln!(
            text,
            "Writes about {} to each target if it writes 1 GB/s ({} of writing).",
            format_bytes_decimal(written),
            format_span(cost.timed_writing)
        );
    }
    text
}

fn describe(steps: &[Step], level: usize, text: &mut String) {
    let indent = "  ".repeat(level);
    for step in steps {
        let _ = write!(text, "{indent}{:<20} ", step.name);
        match &step.verb {
            Verb::Fill(cell) | Verb::Load(cell) => {
                let _ = writeln!(text, "{}", cell_text(cell));
            }
            Verb::Idle(time) => {
                let _ = writeln!(text, "idle {}", format_span(*time));
            }
            Verb::Sweep(sweep) => {
                let _ = writeln!(
                    text,
                    "sweep over {}, {} cells:",
                    sweep.axes.join(" x "),
                    sweep.cells.len()
                );
                for point in &sweep.cells {
                    let _ =
                        writeln!(text, "{indent}  {:<20} {}", point.label, cell_text(&point.cell));
                }
                if let Some(gain) = sweep.stop_gain_percent {
                    let _ = writeln!(text, "{indent}  stops when a cell adds less than {gain} %");
                }
            }
            Verb::Curve(curve) => {
                let points: Vec<String> = curve.percents.iter().map(|p| format!("{p}")).collect();
                let _ = writeln!(
                    text,
                    "maximum by {}, then {} arrivals at {} % of it",
                    cell_text(&curve.cell),
                    curve.arrival.name(),
                    points.join(", ")
                );
            }
            Verb::Repeat(repeat) => {
                let discard = match repeat.discard {
                    0 => String::new(),
                    n => format!(" after {n} not counted"),
                };
                let _ = writeln!(text, "{} times{discard}:", repeat.times);
                describe(&repeat.steps, level + 1, text);
            }
            method => describe_method(method, level, text),
        }
    }
}

/// The verbs of a method.
fn describe_method(verb: &Verb, level: usize, text: &mut String) {
    match verb {
        Verb::Purge(purge) => {
            let _ = writeln!(text, "purge ({})", purge.word());
        }
        Verb::Set(setting) => {
            let word = |on| if on { "on" } else { "off" };
            let _ = writeln!(text, "write cache {}", setting.write_cache.map_or("as it is", word));
        }
        Verb::Group(steps) => {
            text.push_str("plan:\n");
            describe(steps, level + 1, text);
        }
        Verb::Rounds(rounds) => {
            let tracked: Vec<String> = rounds.track.iter().map(plan::Track::describe).collect();
            let _ = writeln!(
                text,
                "rounds until steady, {} at most: window {}, range {} %, slope {} % of {}:",
                rounds.most,
                rounds.rule.window,
                rounds.rule.range_percent,
                rounds.rule.slope_percent,
                tracked.join("; ")
            );
            describe(&rounds.steps, level + 1, text);
        }
        Verb::Points(points) => {
            let names: Vec<&str> = points.picks.iter().map(|pick| pick.name.as_str()).collect();
            let _ = writeln!(text, "at the points {} of {}:", names.join(", "), points.from);
            describe(&points.steps, level + 1, text);
        }
        _ => {}
    }
}

fn cell_text(cell: &plan::Cell) -> String {
    let loads: Vec<String> = cell.loads.iter().map(Load::describe).collect();
    let time = cell.window.time.map(|time| format!(" for {}", format_span(time)));
    let amount = cell.window.amount.map(|amount| match amount {
        plan::Amount::Bytes(bytes) => format!(", {bytes}"),
        plan::Amount::Capacities(times) => format!(", {times}x the capacity"),
        plan::Amount::Passes(passes) => format!(", {passes}x the range"),
    });
    let ramp =
        (cell.window.ramp > Nanos(0)).then(|| format!(" after {}", format_span(cell.window.ramp)));
    let until = cell
        .until
        .map(|until| format!(", or until steady (a value each {})", format_span(until.every)));
    format!(
        "{}{}{}{}{}",
        loads.join(" + "),
        amount.unwrap_or_default(),
        time.unwrap_or_default(),
        ramp.unwrap_or_default(),
        until.unwrap_or_default()
    )
}

fn as_json(plan: &Plan, cost: &Estimate) -> Value {
    json!({
        "fathom_json": report::JSON_VERSION,
        "name": plan.name,
        "title": plan.title,
        "writes": plan.writes(),
        "params": plan.params.iter().map(|p| json!({
            "name": p.name, "value": p.value, "default": p.default,
            "min": p.limits.0, "max": p.limits.1, "about": p.about,
        })).collect::<Vec<_>>(),
        "estimate": {
            "cells": cost.cells,
            "timed_s": cost.timed.as_secs_f64(),
            "timed_most_s": estimate_most(plan, plan.scratch).timed.as_secs_f64(),
            "amount_bytes": cost.amount.0,
            "written_bytes": cost.written(ASSUMED_RATE).0,
            "assumed_bytes_per_s": ASSUMED_RATE,
            "on_bytes": Bytes(plan.scratch.0).0,
        },
        "source": plan.source,
    })
}
