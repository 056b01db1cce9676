//! The course of a single load in time: rate, latency, and what drive and host did meanwhile.

use super::timeline::{each_point, latency_lines};
use super::{Chapter, figure};
use crate::chart::{Axis, Chart, Lane, Mark, Place, Series, Style, Unit};
use crate::page::Section;
use analysis::Moment;
use store::Telemetry;

/// Adds the figures of a course and of the telemetry that was taken during it.
pub(super) fn add(
    section: &mut Section,
    chapter: &Chapter<'_>,
    what: &str,
    (all, telemetry): (&[Moment], &[&Telemetry]),
) {
    let start = all[0].at_s;
    let place = |m: &Moment| m.at_s - start;
    let line = |get: &dyn Fn(&Moment) -> f64| all.iter().map(|m| (place(m), get(m))).collect();
    let last = all[all.len() - 1].at_s - start;
    let marks = marks(chapter, all);
    let chart = |title: String, y: Axis, series: Vec<Series>| Chart {
        title,
        note: each_point(all),
        x: Axis { range: Some((0.0, last)), ..Axis::linear("time", Unit::Seconds) },
        y,
        y2: None,
        series,
        marks: marks.clone(),
    };
    let mut rates = chart(
        format!("IOPS and bandwidth over time: {what}"),
        Axis::linear("IOPS", Unit::Plain),
        vec![
            Series::new("IOPS", Style::Line, 0, line(&|m| m.iops)),
            Series::new("bandwidth", Style::Dashed, 1, line(&|m| m.bandwidth)).on_the_right(),
        ],
    );
    rates.y2 = Some(Axis::linear("bandwidth", Unit::Rate));
    figure(section, rates);
    let latency = Axis::log("latency", Unit::Nanos);
    figure(
        section,
        chart(format!("Latency over time: {what}"), latency, latency_lines(all, &place)),
    );
    let (host, temperature) = telemetry_lines(telemetry, start);
    let cpu = Series::new("CPU of the load's threads", Style::Line, 6, line(&|m| m.cpu * 100.0));
    let y2 = (!temperature.is_empty())
        .then(|| Axis { zero: false, ..Axis::linear("temperature", Unit::Celsius) });
    let mut together = chart(
        format!("CPU and temperature over time: {what}"),
        Axis::linear("CPU, % of one (threads) or of all (host)", Unit::Percent),
        [vec![cpu], host, temperature].concat(),
    );
    together.y2 = y2;
    figure(section, together);
}

/// What stands below a map of latencies: temperature and CPU, and what happened.
pub(super) fn lanes(
    chapter: &Chapter<'_>,
    all: &[Moment],
    telemetry: &[&Telemetry],
) -> (Vec<Lane>, Vec<(f64, String)>) {
    let start = all[0].at_s;
    let (host, temperature) = telemetry_lines(telemetry, start);
    let cpu = all.iter().map(|m| (m.at_s - start, m.cpu * 100.0)).collect();
    let threads = Series::new("CPU of the load's threads", Style::Line, 6, cpu);
    let mut lanes = vec![Lane { unit: Unit::Celsius, lines: temperature }];
    // A virtual drive takes no CPU.
    if threads.y.iter().any(|v| *v > 0.0) {
        lanes.push(Lane { unit: Unit::Percent, lines: [vec![threads], host].concat() });
    }
    lanes.retain(|lane| !lane.lines.is_empty());
    let place = |mark: Mark| match mark.at {
        Place::X(at) => Some((at, mark.text)),
        _ => None,
    };
    (lanes, marks(chapter, all).into_iter().filter_map(place).collect())
}

/// The ramp, and events that bear on figures.
fn marks(chapter: &Chapter<'_>, all: &[Moment]) -> Vec<Mark> {
    let start = all[0].at_s;
    let last = all[all.len() - 1].at_s - start;
    let ramp = all.iter().take_while(|m| m.ramp).count();
    let mut marks = Vec::new();
    if ramp > 0 {
        let at = Place::Span(0.0, all[ramp.min(all.len() - 1)].at_s - start);
        marks.push(Mark { text: "ramp, not counted".into(), at });
    }
    for event in &chapter.run.events {
        let at = event.at.as_secs_f64() - start;
        let told = ["health", "failed", "interrupted", "set"].contains(&event.kind.as_str());
        if told && (0.0..=last).contains(&at) {
            marks.push(Mark { text: shorten(&event.text), at: Place::X(at) });
        }
    }
    marks
}

/// CPU of the host in percent, and temperatures of drives on the axis to the right.
fn telemetry_lines(telemetry: &[&Telemetry], start: f64) -> (Vec<Series>, Vec<Series>) {
    let (mut host, mut temperature) = (Vec::new(), Vec::new());
    for (source, name) in sources(telemetry) {
        let scale = if name.ends_with("share") { 100.0 } else { 1.0 };
        let of = |t: &&&Telemetry| t.source == source && t.name == name;
        let points: Vec<(f64, f64)> = telemetry
            .iter()
            .filter(of)
            .map(|t| (t.at.as_secs_f64() - start, t.value * scale))
            .collect();
        let line = |name: &str, color| Series::new(name, Style::Line, color, points.clone());
        match name.as_str() {
            "temperature_c" => {
                temperature.push(line(&format!("temperature of {source}"), 1).on_the_right());
            }
            "cpu_user_share" => host.push(line("host: user", 0)),
            "cpu_system_share" => host.push(line("host: system", 2)),
            "cpu_interrupt_share" => host.push(line("host: interrupts", 3)),
            _ => {}
        }
    }
    (host, temperature)
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

fn sources(telemetry: &[&Telemetry]) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for sample in telemetry {
        let wanted = sample.name == "temperature_c" || sample.source == "host";
        let key = (sample.source.clone(), sample.name.clone());
        if wanted && !seen.contains(&key) {
            seen.push(key);
        }
    }
    seen
}
