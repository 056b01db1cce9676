//! Drive and host over the whole run, from telemetry.

use super::figure;
use crate::chart::{Axis, Chart, Mark, Place, Series, Style, Unit};
use crate::page::Section;
use std::collections::BTreeMap;
use store::{RunFile, Telemetry};

/// Series of one chart: names, unit, how values become shown.
const CHARTS: [(&str, &str, Unit, f64, &[&str]); 4] = [
    ("Temperature", "temperature", Unit::Celsius, 1.0, &["temperature_c"]),
    (
        "CPU of the whole host",
        "share of all CPUs",
        Unit::Percent,
        100.0,
        &["cpu_user_share", "cpu_system_share", "cpu_interrupt_share"],
    ),
    ("Power", "W", Unit::Plain, 1.0, &["power_w"]),
    (
        "Write amplification",
        "physical over host writes",
        Unit::Plain,
        1.0,
        &["write_amplification"],
    ),
];

/// A chapter on drive and host; none when nothing was sampled.
pub(crate) fn section(run: &RunFile, telemetry: &[Telemetry]) -> Option<Section> {
    let mut of: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for sample in telemetry {
        let key = (sample.source.clone(), sample.name.clone());
        of.entry(key).or_default().push((sample.at.as_secs_f64(), sample.value));
    }
    let first = of.values().filter_map(|list| Some(list.first()?.0)).fold(f64::INFINITY, f64::min);
    let mut section = Section::new("Drive and host over the run", 2);
    for (title, label, unit, scale, names) in CHARTS {
        let mut series = Vec::new();
        for ((source, name), points) in &of {
            let whole = source == "host" || !source.starts_with("cpu");
            if !names.contains(&name.as_str()) || !whole {
                continue;
            }
            let points = points.iter().map(|(at, v)| (at - first, v * scale)).collect();
            let shown = format!("{}: {}", named(run, source), name.replace('_', " "));
            series.push(Series::new(&shown, Style::Line, series.len(), points));
        }
        if series.is_empty() {
            continue;
        }
        let marks = run.events.iter().filter(|event| event.kind == "health").map(|event| Mark {
            text: event.text.chars().take(40).collect(),
            at: Place::X(event.at.as_secs_f64() - first),
        });
        figure(
            &mut section,
            Chart {
                title: format!("{title} over the run"),
                note: "Telemetry on the run's clock.".into(),
                x: Axis::linear("time", Unit::Seconds),
                y: Axis { zero: unit == Unit::Percent, ..Axis::linear(label, unit) },
                y2: None,
                series,
                marks: marks.collect(),
            },
        );
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// The name of a target, the word otherwise.
fn named(run: &RunFile, source: &str) -> String {
    let target = source.strip_prefix("target").and_then(|n| n.parse::<usize>().ok());
    let name = target.and_then(|n| run.targets.get(n)?["name"].as_str());
    name.unwrap_or(source).to_owned()
}
