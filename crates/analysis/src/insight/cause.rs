//! Causes: the drive's own brake, the host, the link. By the counters of each.

use super::{Course, Insight, InsightKind};
use base::units::{Nanos, format_rate, format_span, three_digits};
use serde_json::json;

/// Share of a CPU from which a worker has nothing left.
const CPU_FULL: f64 = 0.95;
/// Share of a CPU up to which a worker waits for the drive most of the time.
const CPU_FREE: f64 = 0.7;
/// Share of what a link carries from which it is full.
const LINK_FULL: f64 = 0.93;
/// The same for a PCIe link, by its rate after line coding: packet heads take the rest.
const PCIE_FULL: f64 = 0.85;

/// The drive said that it throttled: a state, or a counter that grew.
pub(super) fn throttle(course: &Course<'_>) -> Option<Insight> {
    let is_throttle = |name: &str| name.contains("throttle") || name.contains("thermal_management");
    let mut since: Option<(f64, String)> = None;
    let mut share = 0.0f64;
    for ((source, name), values) in course.telemetry.iter().filter(|((_, n), _)| is_throttle(n)) {
        let is_state = name == "throttled";
        let first = values.first().map_or(0.0, |(_, value)| *value);
        let start = course.moments[0].at_s - course.moments[0].seconds;
        let active = |(at, value): &&(f64, f64)| {
            *at >= start && if is_state { *value > 0.0 } else { *value > first }
        };
        if let Some((at, _)) = values.iter().find(active) {
            since = Some((*at, format!("{name} of {source}")));
            share = share.max(values.iter().filter(active).count() as f64 / values.len() as f64);
        }
    }
    let (at, evidence) = since?;
    let before: Vec<f64> = course.moments.iter().filter(|m| m.at_s < at).map(|m| m.iops).collect();
    let after: Vec<f64> = course.moments.iter().filter(|m| m.at_s >= at).map(|m| m.iops).collect();
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
    let loss = if before.is_empty() { None } else { Some(1.0 - mean(&after) / mean(&before)) };
    let celsius = course.near("temperature_c", at);
    let from = (at - course.moments[0].at_s).max(0.0);
    let mut text = format!(
        "{}: the drive throttled from {} on ({evidence})",
        course.name(),
        format_span(Nanos::from_secs_f64(from))
    );
    if let Some(celsius) = celsius {
        text.push_str(&format!(", at {celsius:.0} C"));
    }
    if let Some(loss) = loss {
        text.push_str(&format!("; the mean rate was {:.0} % lower after that", loss * 100.0));
    }
    text.push_str(". The figures are those of a hot drive: cool it better and run again.");
    Some(Insight {
        kind: InsightKind::Throttle,
        title: "The drive throttled".into(),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"at_s": from, "share": share, "celsius": celsius, "loss": loss}),
    })
}

/// CPUs' worth of time that the workers used, and the share of what they had.
fn cpu_of(course: &Course<'_>) -> Option<(f64, f64)> {
    let workers = course.cell.facts["workers"].as_f64()?;
    let cpus = course.run.meta_json("host")["cpus"].as_f64().unwrap_or(f64::MAX);
    let virtual_host = course.run.meta("engine").starts_with("virtual");
    let had = if virtual_host { workers } else { workers.min(cpus) };
    let used = course.moments.iter().map(|m| m.cpu).sum::<f64>() / course.moments.len() as f64;
    Some((used, used / had.max(1.0)))
}

/// A closed loop that left CPU over: its step and load, and the share of CPU it used.
pub(super) fn drive(course: &Course<'_>) -> Option<(String, f64)> {
    let closed = course.cell.streams.iter().all(|stream| stream.rate_iops.is_none());
    let (_, share) = cpu_of(course)?;
    (closed && share < CPU_FREE).then(|| (course.name(), share))
}

/// One finding for all loads that the drive limited.
pub(super) fn drive_limited(loads: &[(String, f64)]) -> Option<Insight> {
    let most = loads.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let names: Vec<&str> = loads.iter().map(|(name, _)| name.as_str()).collect();
    (!loads.is_empty()).then(|| Insight {
        kind: InsightKind::Drive,
        title: "The drive was the limit".into(),
        text: format!(
            "{}: no link was full, and the load's threads used {:.0} % of their CPUs at most: the drive, or \
             what lies between it and this host, set the rate.",
            names.join("; "),
            most * 100.0
        ),
        place: None,
        evidence: json!({"loads": names, "cpu_share": most}),
    })
}

/// The workers used all their CPUs had.
pub(super) fn host(course: &Course<'_>) -> Option<Insight> {
    let workers = course.cell.facts["workers"].as_f64()?;
    let (used, share) = cpu_of(course)?;
    if share < CPU_FULL {
        return None;
    }
    let iops = course.iops().iter().sum::<f64>() / course.moments.len() as f64;
    let cost_us = used / iops.max(1e-9) * 1e6;
    let text = format!(
        "{}: the load's {workers:.0} threads used {:.0} % of their CPUs: {} IOPS at {} us of CPU an I/O is \
         what this host issues with them, not what the drive serves. Use more workers, larger batches \
         (depth), or a host with more CPU; until then the drive may be faster than it looks.",
        course.name(),
        share * 100.0,
        format_rate(iops),
        three_digits(cost_us)
    );
    Some(Insight {
        kind: InsightKind::Host,
        title: "The host was the limit".into(),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"cpu_share": share, "cpu_us_per_io": cost_us}),
    })
}

/// What a PCIe link carries in one direction, bytes a second, after line coding. `words` are such as
/// `16.0 GT/s x4`. Line codes: 8b/10b up to 5 GT/s, 128b/130b up to 32 (PCI Express base specification).
fn pcie_bytes(words: &str) -> Option<f64> {
    let (rate, lanes) = words.split_once(" GT/s x")?;
    let (rate, lanes): (f64, f64) = (rate.trim().parse().ok()?, lanes.trim().parse().ok()?);
    let code = if rate <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    Some(rate * 1e9 * lanes * code / 8.0)
}

/// One direction of the link was full.
pub(super) fn link(course: &Course<'_>) -> Option<Insight> {
    let n = course.moments.len() as f64;
    let reads = course.moments.iter().map(|m| m.read_bandwidth).sum::<f64>() / n;
    let both = course.moments.iter().map(|m| m.bandwidth).sum::<f64>() / n;
    let target = course.cell.streams.first()?.target;
    // Several targets have a link each.
    if course.cell.streams.iter().any(|stream| stream.target != target) {
        return None;
    }
    let facts = &course.run.targets.get(target)?["facts"];
    let before = course.run.meta_json("drives_before");
    let pcie = before[target]["link"].as_str().and_then(pcie_bytes);
    for (way, rate) in [("read", reads), ("write", both - reads)] {
        let known = facts[format!("link_{way}_bytes_per_s")].as_f64();
        let (carries, full) = match (known, pcie) {
            (Some(bytes), _) => (bytes, LINK_FULL),
            (None, Some(bytes)) => (bytes, PCIE_FULL),
            (None, None) => continue,
        };
        if rate < full * carries {
            continue;
        }
        let text = format!(
            "{}: {} MB/s of {}s are {:.0} % of the {} MB/s that the link carries in this direction. A \
             faster drive would show the same; look at the link's rate and width.",
            course.name(),
            three_digits(rate / 1e6),
            way,
            rate / carries * 100.0,
            three_digits(carries / 1e6)
        );
        return Some(Insight {
            kind: InsightKind::Link,
            title: "The link to the drive was the limit".into(),
            text,
            place: Some(course.cell.path.clone()),
            evidence: json!({"bytes_per_s": rate, "link_bytes_per_s": carries, "way": way}),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_what_the_specification_says() {
        let rounded = |words| pcie_bytes(words).map(|bytes| (bytes / 1e6).round());
        assert_eq!(rounded("8.0 GT/s x4"), Some(3938.0));
        assert_eq!(rounded("5.0 GT/s x4"), Some(2000.0));
        assert_eq!(rounded("32.0 GT/s x4"), Some(15754.0));
        assert_eq!(pcie_bytes("?"), None);
    }
}
