//! Tables for the terminal.

use crate::steady;
use analysis::{
    CellSummary, Latency, NINES, in_rounds, percentile_name, rows, steady_groups, summarize,
};
use base::units::{
    Bytes, Nanos, format_bytes_decimal, format_latency, format_rate, format_span, three_digits,
};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write as _;
use store::{CellRecord, RunFile, State};

const NA: &str = "n/a";

/// A plain table. A column whose values all begin with a digit or a sign stands to the right.
pub fn table_of(head: &[&str], body: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.to_vec());
    for row in body {
        table.add_row(row.clone());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let is_figure = |cell: &String| {
            cell.is_empty()
                || cell == NA
                || cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
        };
        if body.iter().all(|row| row.get(index).is_none_or(is_figure)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn latency(value: Option<u64>) -> String {
    value.map_or_else(|| NA.into(), |ns| format_latency(ns as f64))
}

fn bandwidth(bytes_per_second: f64) -> String {
    format!("{} MB/s", three_digits(bytes_per_second / 1e6))
}

/// The head of every row about a cell.
fn name_of(cell: &CellRecord) -> String {
    if cell.label.is_empty() { cell.path.clone() } else { format!("{} {}", cell.path, cell.label) }
}

/// One line on a cell: for plain progress and for scripts that read lines.
pub fn cell_line(name: &str, summary: &CellSummary) -> String {
    let mut line = format!(
        "{name}: {} IOPS, {}",
        format_rate(summary.iops),
        bandwidth(summary.bandwidth_bytes)
    );
    if let Some(latency_) = summary.main_side().and_then(|side| side.felt()) {
        let _ = write!(
            line,
            ", mean {}, p99 {}, p99.99 {}",
            format_latency(latency_.mean_ns),
            latency(latency_.at(99.0)),
            latency(latency_.at(99.99)),
        );
    }
    line
}

/// One line on the last interval of a running cell: what the progress in the terminal and the live page
/// both show.
pub fn interval_line(summary: &CellSummary) -> String {
    let felt = summary.main_side().and_then(|side| side.felt());
    format!(
        "{} IOPS  {} MB/s  mean {}  p99 {}  p99.99 {}",
        format_rate(summary.iops),
        base::units::three_digits(summary.bandwidth_bytes / 1e6),
        felt.map_or_else(|| "n/a".into(), |all| format_latency(all.mean_ns)),
        latency(felt.and_then(|all| all.at(99.0))),
        latency(felt.and_then(|all| all.at(99.99))),
    )
}

/// How the run stands, in one line with what to do.
pub fn state_line(state: State) -> &'static str {
    match state {
        State::Running => "running: its figures still grow",
        State::Done => "done",
        State::Invalid => "finished, but NOT VALID: see the failed checks below",
        State::Interrupted => "interrupted: everything up to then is kept; `fathom resume` goes on",
        State::Failed => "failed: everything up to then is kept; `fathom resume` goes on",
        State::CutOff => {
            "CUT OFF: its program was killed, crashed or lost power; everything up to the last \
             interval is kept; `fathom resume` goes on"
        }
    }
}

/// The whole run for the terminal.
pub fn show(run: &RunFile) -> String {
    let mut text = head(run);
    let counted: Vec<&CellRecord> =
        run.cells.iter().filter(|cell| cell.verb != "fill" || cell.status != "done").collect();
    if counted.is_empty() {
        text.push_str("\nNothing was measured.\n");
    } else {
        let groups = steady_groups(run);
        text.push_str(&steady::sections(run));
        let listed: Vec<&CellRecord> = counted
            .iter()
            .copied()
            .filter(|cell| !in_rounds(&groups, cell) && !is_one_of_many(run, cell))
            .collect();
        if !listed.is_empty() {
            text.push('\n');
            text.push_str(&results(&listed));
        }
        text.push_str(&nines(&counted));
        text.push_str(&repeated(run));
    }
    text.push_str(&checks(run));
    text
}

/// Repetitions above which single cells are left to the exports.
const LISTED_MAX: u32 = 20;

/// Whether a cell stands in a long repetition, where only peak and mean are worth a line.
fn is_one_of_many(run: &RunFile, cell: &CellRecord) -> bool {
    let Some((group, _)) = cell.path.rsplit_once('#') else {
        return false;
    };
    let same =
        |other: &&CellRecord| other.path.rsplit_once('#').is_some_and(|(path, _)| path == group);
    run.cells.iter().filter(same).map(|other| other.iteration).max().unwrap_or(0) > LISTED_MAX
}

fn head(run: &RunFile) -> String {
    let mut text = String::new();
    let title = run.meta("plan_title");
    let _ = writeln!(text, "{}: {title}", run.meta("plan_name"));
    let _ = writeln!(text, "State    {}", state_line(run.state));
    text.push_str(&steady::method(run));
    for target in &run.targets {
        let size = Bytes(target["size_bytes"].as_u64().unwrap_or(0));
        let facts = &target["facts"];
        let model = facts["model"].as_str().map(|model| format!(", {model}")).unwrap_or_default();
        let name = target["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "Target   {name}{model}, {}", format_bytes_decimal(size));
    }
    let host = run.meta_json("host");
    let word = |key: &str| host[key].as_str().unwrap_or("?").to_owned();
    let _ = writeln!(
        text,
        "Host     {}, {}, {} CPUs, Linux {}",
        word("name"),
        word("cpu_model"),
        host["cpus"].as_u64().map_or_else(|| "?".into(), |n| n.to_string()),
        word("kernel")
    );
    let _ = writeln!(
        text,
        "Engine   {}, fathom {}; {}",
        run.meta("engine"),
        run.meta("fathom_version"),
        own_cost(run)
    );
    text
}

fn own_cost(run: &RunFile) -> String {
    let instrument = run.meta_json("instrument");
    let costs = instrument["own_cost"].as_array().cloned().unwrap_or_default();
    let at = |depth: u64| {
        let cost = costs.iter().find(|cost| cost["depth"] == depth)?;
        cost["own_ns"].as_f64()
    };
    match (at(1), at(32)) {
        (Some(one), Some(many)) => {
            format!("own cost {one:.0} ns per I/O at depth 1, {many:.1} ns at depth 32")
        }
        _ => "own cost not measured".into(),
    }
}

fn results(cells: &[&CellRecord]) -> String {
    let mut body = Vec::new();
    for cell in cells {
        let summary = summarize(cell);
        let mark = match cell.status.as_str() {
            "done" if !cell.counted => " (not counted)",
            "done" => "",
            "running" => " (cut short)",
            status => {
                if status == "failed" {
                    " (FAILED)"
                } else {
                    " (cut short)"
                }
            }
        };
        let describe: Vec<&str> = cell.streams.iter().map(|s| s.describe.as_str()).collect();
        let mut first = true;
        for (way, side) in [("read", &summary.reads), ("write", &summary.writes)] {
            let Some(side) = side else { continue };
            let felt = side.felt();
            let at = |percent| latency(felt.and_then(|latency| latency.at(percent)));
            body.push(vec![
                if first { format!("{}{mark}", name_of(cell)) } else { String::new() },
                if first {
                    describe.first().copied().unwrap_or_default().into()
                } else {
                    String::new()
                },
                way.into(),
                format_rate(side.iops),
                bandwidth(side.bandwidth_bytes),
                felt.map_or_else(|| NA.into(), |latency| format_latency(latency.mean_ns)),
                at(50.0),
                at(99.0),
                at(99.9),
                at(99.99),
                latency(felt.map(|latency| latency.max_ns)),
                if first { format!("{:.0} %", summary.cpu * 100.0) } else { String::new() },
            ]);
            first = false;
        }
        if first {
            let name = format!("{}{mark}", name_of(cell));
            let mut row = vec![name, describe.first().copied().unwrap_or_default().into()];
            row.resize(12, NA.into());
            body.push(row);
        }
    }
    let head = [
        "Step",
        "Load",
        "",
        "IOPS",
        "Bandwidth",
        "Mean",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
        "Max",
        "CPU",
    ];
    let mut text = table_of(&head, &body);
    let open = cells.iter().any(|cell| cell.streams.iter().any(|s| s.rate_iops.is_some()));
    text.push_str(if open {
        "Latency is response time (from the intended start) where a rate is set, else service time.\n"
    } else {
        "Latency is service time. "
    });
    text.push_str("MB is 10^6 bytes. n/a: fewer than 10 samples lie beyond that percentile.\n");
    text
}

/// Nines and what lies between them, for runs that are about them: a single counted cell.
fn nines(cells: &[&CellRecord]) -> String {
    let [cell] = cells else { return String::new() };
    let summary = summarize(cell);
    let Some(latency_) = summary.main_side().and_then(|side| side.felt()) else {
        return String::new();
    };
    let mut text = String::from("\nNines, and what lies between them:\n");
    text.push_str(&table_of(
        &["Percentile", "Latency", "Samples beyond", "Share of time up to here"],
        &between(cell, latency_),
    ));
    text
}

/// Latency at each nine, the samples beyond it, and the share of all latency spent below it.
fn between(cell: &CellRecord, latency_: &Latency) -> Vec<Vec<String>> {
    let merged = cell.merged();
    let side =
        if merged.reads.ios() >= merged.writes.ios() { &merged.reads } else { &merged.writes };
    let mut body = Vec::new();
    for percent in NINES.into_iter().filter(|percent| *percent >= 50.0) {
        let value = latency_.at(percent);
        let beyond = (latency_.count as f64 * (1.0 - percent / 100.0)).round();
        let share = value.map(|limit| {
            let below: f64 = side
                .service
                .buckets()
                .filter(|(bucket, _)| base::hist::bucket_low(*bucket) <= limit)
                .map(|(bucket, n)| base::hist::bucket_mid(bucket) as f64 * n as f64)
                .sum();
            (below / side.service.sum_ns() as f64 * 100.0).min(100.0)
        });
        body.push(vec![
            percentile_name(percent),
            latency(value),
            format!("{beyond:.0}"),
            share.map_or_else(|| NA.into(), |share| format!("{share:.2} %")),
        ]);
    }
    body.push(vec![
        "max".into(),
        format_latency(latency_.max_ns as f64),
        "0".into(),
        "100.00 %".into(),
    ]);
    body
}

/// Peak and mean over the iterations of repeats.
fn repeated(run: &RunFile) -> String {
    let groups = steady_groups(run);
    let single: Vec<CellRecord> =
        run.cells.iter().filter(|cell| !in_rounds(&groups, cell)).cloned().collect();
    let rows: Vec<_> = rows(&single).into_iter().filter(|row| row.times > 1).collect();
    if rows.is_empty() {
        return String::new();
    }
    let line = |row: &analysis::RowSummary| {
        vec![
            row.name.clone(),
            row.times.to_string(),
            bandwidth(row.peak_bandwidth_bytes),
            bandwidth(row.mean_bandwidth_bytes),
            format_rate(row.peak_iops),
            format_rate(row.mean_iops),
            format_latency(row.best_latency_ns),
            format_latency(row.mean_latency_ns),
            row.cov_percent.map_or_else(|| NA.into(), |cov| format!("{cov:.2} %")),
        ]
    };
    let head = [
        "Row",
        "Runs",
        "Peak",
        "Mean",
        "Peak IOPS",
        "Mean IOPS",
        "Best latency",
        "Mean latency",
        "CoV",
    ];
    let mut text = String::from("\nPeak and mean over the counted runs:\n");
    text.push_str(&table_of(&head, &rows.iter().map(line).collect::<Vec<_>>()));
    text
}

/// Verdicts that are not a plain pass, events, and the time it took.
fn checks(run: &RunFile) -> String {
    let mut text = String::new();
    let cell_name = |id: Option<i64>| {
        let cell = run.cells.iter().find(|cell| Some(cell.id) == id);
        cell.map_or_else(|| "run".into(), name_of)
    };
    let words = [("fail", "NOT VALID"), ("warning", "Warning"), ("info", "Note"), ("pass", "Data")];
    for (word, title) in words {
        let mut said: Vec<(&str, Vec<String>)> = Vec::new();
        // Of what passed, only that data were checked is worth saying.
        let tells =
            |v: &&store::VerdictRow| v.status == word && (word != "pass" || v.name == "data");
        for verdict in run.verdicts.iter().filter(tells) {
            let cell = cell_name(verdict.cell);
            match said.iter_mut().find(|(text, _)| *text == verdict.text) {
                Some((_, cells)) => cells.push(cell),
                None => said.push((&verdict.text, vec![cell])),
            }
        }
        for (message, cells) in said {
            let _ = writeln!(text, "{title}: {}: {message}", cells.join(", "));
        }
    }
    if !run.repeated.is_empty() {
        let mut whys: Vec<&str> =
            run.repeated.iter().filter_map(|c| c.message.as_deref()).collect();
        whys.sort_unstable();
        whys.dedup();
        let _ = writeln!(
            text,
            "Note: the run was cut and resumed; {} cells were measured again ({})",
            run.repeated.len(),
            whys.join("; ")
        );
    }
    for event in run.events.iter().filter(|event| event.kind == "failed") {
        let _ = writeln!(text, "FAILED: {}: {}", cell_name(event.cell), event.text);
    }
    let measured: u64 = run.cells.iter().map(|cell| cell.len.0).sum();
    let _ = writeln!(
        text,
        "{} cells, {} measured, file {}",
        run.cells.len(),
        format_span(Nanos(measured)),
        run.path().display()
    );
    text
}
