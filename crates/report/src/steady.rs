//! Steady state for the terminal and for programs: the claims, their evidence and window tables.

use crate::text::table_of;
use analysis::{Pivot, SteadyGroup, WindowRow, pivot, steady_groups};
use base::units::{format_latency, format_rate, three_digits};
use serde_json::{Value, json};
use std::fmt::Write as _;
use store::RunFile;

/// What the plan claims to follow, and where the run does not, for the head of a summary.
pub(crate) fn method(run: &RunFile) -> String {
    let claim = run.meta_json("claim");
    let Some(name) = claim["method"].as_str() else {
        return String::new();
    };
    let standard = claim["standard"].as_str().unwrap_or_default();
    let list = |key: &str| -> Vec<String> {
        let items = claim[key].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let (deviations, unverified) = (list("deviations"), list("unverified"));
    let mut text = match deviations.is_empty() {
        true => format!("Method   {standard}\n"),
        false => format!("Method   NOT {name} ({standard}): {}\n", deviations.join("; ")),
    };
    for point in unverified {
        let _ = writeln!(text, "         not verified against its text: {point}");
    }
    text
}

/// All claims with their evidence and tables.
pub(crate) fn sections(run: &RunFile) -> String {
    let mut text = String::new();
    for group in steady_groups(run) {
        let _ = writeln!(text, "\n{}", sentence(&group.text));
        text.push_str(&evidence(&group));
        text.push_str(&tables(&group));
    }
    text
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn evidence(group: &SteadyGroup) -> String {
    let tracked = group.evidence["tracked"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |series: &Value| {
        let figure = |key: &str| three_digits_or_more(number(&series[key]));
        vec![
            series["name"].as_str().unwrap_or_default().to_owned(),
            if series["steady"] == true { "steady" } else { "NOT STEADY" }.into(),
            figure("average"),
            format!("{} <= {}", figure("range"), figure("range_allowed")),
            format!("{} <= {}", figure("slope_excursion"), figure("slope_allowed")),
            format!(
                "{}*R {} {}",
                figure("slope"),
                if number(&series["intercept"]) < 0.0 { "-" } else { "+" },
                three_digits_or_more(number(&series["intercept"]).abs())
            ),
            format!("{:.3}", number(&series["correlation"])),
        ]
    };
    let head = [
        "Tracked",
        "",
        "Average",
        "Range (found <= allowed)",
        "Slope excursion",
        "Fit",
        "Correlation",
    ];
    table_of(&head, &tracked.iter().map(line).collect::<Vec<_>>())
}

/// Whole numbers above a thousand, three digits below.
fn three_digits_or_more(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".into();
    }
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { three_digits(value) }
}

/// The cells of a round over the window, as tables over two axes or as a list.
fn tables(group: &SteadyGroup) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for row in &group.rows {
        if !steps.contains(&row.step.as_str()) {
            steps.push(&row.step);
        }
    }
    let mut text = String::new();
    let mut rest: Vec<&WindowRow> = Vec::new();
    for step in steps {
        let rows: Vec<&WindowRow> = group.rows.iter().filter(|row| row.step == step).collect();
        match pivot(&rows) {
            Some(table) => {
                for figure in figures(group) {
                    text.push_str(&crossed(step, group.window, &table, figure));
                }
            }
            None => rest.extend(rows),
        }
    }
    if !rest.is_empty() {
        text.push_str(&list(&rest, group.window));
    }
    text
}

/// A figure of a row with its name.
type Shown = (&'static str, fn(&WindowRow) -> String);

/// What is shown of each cell: the rate, and the latencies where one of them was tracked.
fn figures(group: &SteadyGroup) -> Vec<Shown> {
    let mut shown: Vec<Shown> = vec![("mean IOPS", |row| format_rate(row.iops))];
    let tracked = group.evidence["tracked"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_rate = |series: &Value| {
        let name = series["name"].as_str().unwrap_or_default();
        name.ends_with("iops") || name.ends_with("bandwidth")
    };
    if !tracked.iter().all(is_rate) {
        shown.push(("mean latency (ART)", |row| latency(row.mean_ns)));
        shown.push(("mean of the 99.999 % latencies", |row| latency(row.five_nines_ns)));
        shown.push(("largest latency (MRT)", |row| latency(row.max_ns.map(|ns| ns as f64))));
    }
    shown
}

fn latency(ns: Option<f64>) -> String {
    ns.map_or_else(|| "n/a".to_owned(), format_latency)
}

/// One figure of a sweep over two axes.
fn crossed(step: &str, (from, to): (u32, u32), table: &Pivot<'_>, (what, show): Shown) -> String {
    let mut text = format!(
        "\n{step}: {what} of rounds {from} to {to}, {} down, {} across\n",
        table.row_axis, table.column_axis
    );
    let mut head = vec![table.row_axis.as_str()];
    head.extend(table.columns.iter().map(String::as_str));
    let line = |(name, cells): &(String, Vec<Option<&WindowRow>>)| {
        let value = |cell: &Option<&WindowRow>| cell.map_or_else(|| "n/a".into(), show);
        std::iter::once(name.clone()).chain(cells.iter().map(value)).collect()
    };
    text.push_str(&table_of(&head, &table.rows.iter().map(line).collect::<Vec<_>>()));
    text
}

fn list(rows: &[&WindowRow], (from, to): (u32, u32)) -> String {
    let na = || "n/a".to_owned();
    let line = |row: &&WindowRow| {
        vec![
            format!("{} {}", row.step, row.label).trim_end().to_owned(),
            row.describe.clone(),
            format_rate(row.iops),
            format!("{} MB/s", three_digits(row.bandwidth_bytes / 1e6)),
            row.mean_ns.map_or_else(na, format_latency),
            row.five_nines_ns.map_or_else(na, format_latency),
            row.max_ns.map_or_else(na, |ns| format_latency(ns as f64)),
        ]
    };
    let head = ["Step", "Load", "IOPS", "Bandwidth", "Mean (ART)", "p99.999", "Max (MRT)"];
    let mut text = format!("\nMean of rounds {from} to {to}; the maximum is that of all rounds\n");
    text.push_str(&table_of(&head, &rows.iter().map(line).collect::<Vec<_>>()));
    text
}

/// All claims for programs.
pub(crate) fn as_json(run: &RunFile) -> Vec<Value> {
    let row = |row: &WindowRow| {
        let place: serde_json::Map<String, Value> =
            row.coordinates.iter().map(|(a, v)| (a.clone(), Value::from(v.as_str()))).collect();
        json!({
            "step": row.step, "label": row.label, "coordinates": place, "describe": row.describe,
            "rounds": row.rounds, "iops": row.iops, "bandwidth_bytes": row.bandwidth_bytes,
            "mean_ns": row.mean_ns, "p99.999_ns": row.five_nines_ns, "max_ns": row.max_ns,
            "cpu": row.cpu,
        })
    };
    let group = |group: &SteadyGroup| {
        json!({
            "path": group.path, "reached": group.reached, "text": group.text,
            "window": [group.window.0, group.window.1],
            "evidence": group.evidence,
            "rows": group.rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    steady_groups(run).iter().map(group).collect()
}
