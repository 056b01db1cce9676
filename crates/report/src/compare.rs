//! A comparison as tables for the terminal and for programs, and as a page.

use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::{Block, Field, Notice, Page, Section, Sheet, Weight};
use analysis::{Compare, Compared, Comparison, Estimate, Judgement, UnitKind};
use base::units::{format_latency, format_rate};
use serde_json::{Value, json};

/// A judgement in words.
pub fn judgement_words(judgement: &Judgement, same_within: f64) -> String {
    let within = format!("{} %", base::units::three_digits(same_within * 100.0));
    match judgement {
        Judgement::Better => "better".into(),
        Judgement::Worse => "worse".into(),
        Judgement::Same => format!("same within {within}"),
        Judgement::Irrelevant => format!("real but irrelevant (within {within})"),
        Judgement::NotResolvable(None) => "not resolvable here: too few values".into(),
        Judgement::NotResolvable(Some(n)) => {
            format!("not resolvable here (about {n} would be needed)")
        }
        Judgement::BelowResolution => "not resolvable: below this host's resolution".into(),
        Judgement::NotComparable(why) => format!("not comparable: {why}"),
    }
}

fn value(figure: Compared, value: f64) -> String {
    match figure {
        Compared::Iops => format_rate(value),
        _ => format_latency(value),
    }
}

fn interval(ratio: Option<&Estimate>) -> String {
    ratio.map_or_else(String::new, |r| format!("{:.4} to {:.4}", r.low, r.high))
}

fn row(comparison: &Comparison, row: &Compare, same_within: f64) -> Vec<Field> {
    let mut words = judgement_words(&row.judgement, same_within);
    if let Some(why) = &row.forced {
        words.push_str(&format!(" (compared against the method: {why})"));
    }
    vec![
        Field::text(&row.load),
        Field::text(row.figure.name()),
        Field::text(&comparison.arms[row.arm]),
        Field::Number(row.values[0], value(row.figure, row.values[0])),
        Field::Number(row.values[1], value(row.figure, row.values[1])),
        row.ratio.map_or_else(
            || Field::text("n/a"),
            |r| Field::Number(r.ratio, format!("{:.4}", r.ratio)),
        ),
        Field::text(interval(row.ratio.as_ref())),
        Field::text(format!(
            "{}{}",
            row.ratio.map_or_else(String::new, |r| format!("{} ", r.units)),
            row.unit.word()
        )),
        Field::text(words),
    ]
}

/// Every cell and figure.
pub fn compare_sheet(comparison: &Comparison, same_within: f64) -> Sheet {
    let reference = &comparison.arms[0];
    Sheet {
        title: format!("Compared with {reference}"),
        head: [
            "load",
            "figure",
            "of",
            "reference",
            "value",
            "ratio",
            "interval",
            "rests on",
            "judgement",
        ]
        .map(String::from)
        .to_vec(),
        rows: comparison.rows.iter().map(|r| row(comparison, r, same_within)).collect(),
    }
}

/// Wins, losses and geometric means of each arm.
pub fn compare_summary(comparison: &Comparison) -> Sheet {
    let mut rows = Vec::new();
    for (arm, name) in comparison.arms.iter().enumerate().skip(1) {
        for figure in Compared::ALL {
            let Some((mean, n)) = comparison.geometric_mean(arm, figure) else { continue };
            let count = |like: &Judgement| {
                let n = comparison.count(arm, figure, like);
                Field::Number(n as f64, n.to_string())
            };
            rows.push(vec![
                Field::text(name),
                Field::text(figure.name()),
                Field::Number(mean, format!("{mean:.4}")),
                Field::Number(n as f64, n.to_string()),
                count(&Judgement::Better),
                count(&Judgement::Worse),
                count(&Judgement::Same),
                count(&Judgement::Irrelevant),
                count(&Judgement::NotResolvable(None)),
                count(&Judgement::NotComparable(String::new())),
            ]);
        }
    }
    Sheet {
        title: "Geometric means of the ratios, and judgements".into(),
        head: [
            "of",
            "figure",
            "geometric mean",
            "cells",
            "better",
            "worse",
            "same",
            "irrelevant",
            "not resolvable",
            "not comparable",
        ]
        .map(String::from)
        .to_vec(),
        rows,
    }
}

/// What must be said beside the figures.
pub fn compare_notes(comparison: &Comparison, level: f64) -> Vec<String> {
    let mut notes = vec![format!(
        "The chance of one false difference in this whole comparison is {} % at most, as far as its units \
         are independent.",
        base::units::three_digits(level * 100.0)
    )];
    let rests = |unit: UnitKind| comparison.rows.iter().any(|row| row.unit == unit);
    if rests(UnitKind::Intervals) || rests(UnitKind::Repeats) {
        notes.push(
            "Intervals of one run, and repeats within one, know nothing of what changes from run to run: \
             another run may differ by more than they say. Compare several runs of each \
             (a1.fathom,a2.fathom,a3.fathom b1.fathom,...)."
                .into(),
        );
    }
    for (arm, load) in comparison.unmatched.iter().take(20) {
        notes.push(format!("only {} has: {load}", comparison.arms[*arm]));
    }
    if comparison.unmatched.len() > 20 {
        notes.push(format!("and {} loads more that only one has", comparison.unmatched.len() - 20));
    }
    notes
}

/// For programs.
pub fn compare_json(comparison: &Comparison, same_within: f64, notes: &[String]) -> Value {
    let word = |judgement: &Judgement| match judgement {
        Judgement::Better => "better",
        Judgement::Worse => "worse",
        Judgement::Same => "same",
        Judgement::Irrelevant => "irrelevant",
        Judgement::NotResolvable(_) => "not-resolvable",
        Judgement::BelowResolution => "below-resolution",
        Judgement::NotComparable(_) => "not-comparable",
    };
    let row = |row: &Compare| {
        json!({
            "load": row.load, "step": row.step, "figure": row.figure.name(),
            "of": comparison.arms[row.arm], "reference": row.values[0], "value": row.values[1],
            "ratio": row.ratio.map(|r| r.ratio), "low": row.ratio.map(|r| r.low),
            "high": row.ratio.map(|r| r.high), "units": row.ratio.map(|r| r.units),
            "unit": row.unit.word(), "judgement": word(&row.judgement),
            "text": judgement_words(&row.judgement, same_within), "forced": row.forced,
        })
    };
    let mut means = Vec::new();
    for (arm, name) in comparison.arms.iter().enumerate().skip(1) {
        for figure in Compared::ALL {
            if let Some((mean, n)) = comparison.geometric_mean(arm, figure) {
                means.push(json!({"of": name, "figure": figure.name(), "ratio": mean, "cells": n}));
            }
        }
    }
    json!({
        "fathom_json": crate::json::JSON_VERSION, "arms": comparison.arms,
        "rows": comparison.rows.iter().map(row).collect::<Vec<_>>(),
        "geometric_means": means, "notes": notes,
    })
}

/// The comparison as a page.
pub fn compare_page(
    comparison: &Comparison,
    same_within: f64,
    notes: &[String],
    more: Vec<Sheet>,
) -> Page {
    let mut summary = Section::new("Summary", 2);
    let troubled =
        comparison.rows.iter().filter(|r| matches!(r.judgement, Judgement::NotComparable(_)));
    let troubled = troubled.count();
    if troubled > 0 {
        summary.add(Block::Notice(Notice {
            weight: Weight::Warning,
            title: format!("{troubled} of {} figures may not be compared", comparison.rows.len()),
            text:
                "The reasons stand in the table; --force compares them all the same, and says so."
                    .into(),
            figure: None,
        }));
    }
    for note in notes {
        summary.add(Block::Text(note.clone()));
    }
    summary.add(Block::Table(compare_summary(comparison)));
    for figure in Compared::ALL {
        if let Some(chart) = normalised(comparison, figure) {
            crate::figures::figure(&mut summary, chart);
        }
    }
    curves(comparison).into_iter().for_each(|chart| crate::figures::figure(&mut summary, chart));
    let mut cells = Section::new("Every load", 2);
    cells.add(Block::Table(compare_sheet(comparison, same_within)));
    let mut sections = vec![summary, cells];
    if !more.is_empty() {
        let mut quoted = Section::new("Published figures", 2);
        more.into_iter().for_each(|sheet| quoted.add(Block::Table(sheet)));
        sections.push(quoted);
    }
    Page {
        title: comparison.arms.join(" against "),
        lead: format!("Comparison with {}", comparison.arms[0]),
        findings: Vec::new(),
        sections,
    }
}

/// Latency against load of all arms in one picture, for each sweep and curve that they share: the cells of
/// one step.
fn curves(comparison: &Comparison) -> Vec<Chart> {
    const POINTS_MIN: usize = 4;
    let mut steps: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        if !steps.contains(&row.step.as_str()) {
            steps.push(&row.step);
        }
    }
    let chart = |step: &str| {
        let mut series = Vec::new();
        for (n, figure) in [Compared::Mean, Compared::Percentile(99.0)].into_iter().enumerate() {
            for (arm, name) in comparison.arms.iter().enumerate() {
                let mut points = points_of(comparison, step, arm, figure);
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points.dedup();
                if points.len() >= POINTS_MIN {
                    let style = if n == 0 { Style::Dashed } else { Style::Marked };
                    series.push(Series::new(
                        &format!("{name}, {}", figure.name()),
                        style,
                        arm,
                        points,
                    ));
                }
            }
        }
        (series.len() > 1).then(|| Chart {
            title: format!("Latency against load: {step}"),
            note: "Each point is a load that all have in common.".into(),
            x: Axis::linear("IOPS", Unit::Plain),
            y: Axis::log("latency", Unit::Nanos),
            y2: None,
            series,
            marks: Vec::new(),
        })
    };
    steps.into_iter().filter_map(chart).collect()
}

/// (rate, latency) of an arm; the reference stands in the rows of the first other arm.
fn points_of(comparison: &Comparison, step: &str, arm: usize, figure: Compared) -> Vec<(f64, f64)> {
    let (of, side) = if arm == 0 { (1, 0) } else { (arm, 1) };
    let rows = || comparison.rows.iter().filter(move |row| row.step == step && row.arm == of);
    let rate = |load: &str| {
        let row = rows().find(|row| row.load == load && row.figure == Compared::Iops)?;
        Some(row.values[side])
    };
    rows()
        .filter(|row| row.figure == figure)
        .filter_map(|row| Some((rate(&row.load)?, row.values[side])))
        .collect()
}

/// Ratios with their intervals, the reference at 1.
fn normalised(comparison: &Comparison, figure: Compared) -> Option<Chart> {
    let mut names: Vec<String> = Vec::new();
    let rows: Vec<&Compare> =
        comparison.rows.iter().filter(|row| row.figure == figure && row.ratio.is_some()).collect();
    for row in &rows {
        if !names.contains(&row.load) {
            names.push(row.load.clone());
        }
    }
    if names.is_empty() {
        return None;
    }
    let series = comparison.arms.iter().enumerate().skip(1).map(|(arm, name)| {
        let mut series = Series::new(name, Style::Bars, arm, Vec::new());
        for row in rows.iter().filter(|row| row.arm == arm) {
            let Some((ratio, at)) = row.ratio.zip(names.iter().position(|n| *n == row.load)) else {
                continue;
            };
            series.x.push(at as f64);
            series.y.push(ratio.ratio);
            series.low.push(ratio.low);
            series.high.push(ratio.high);
        }
        series
    });
    Some(Chart {
        title: format!("Ratio of {} to {}", figure.name(), comparison.arms[0]),
        note: "Whiskers are the confidence intervals; the absolute values stand in the table."
            .into(),
        x: Axis::named("load", names.clone()),
        y: Axis::linear("ratio", Unit::Plain),
        y2: None,
        series: series.collect(),
        marks: vec![Mark { text: format!("{} = 1", comparison.arms[0]), at: Place::Y(1.0) }],
    })
}
