//! Shapes of a course in time: cliff, rhythm, drift, outlier.

use super::{Course, Insight, InsightKind};
use crate::course::Moment;
use base::units::{Nanos, format_latency, format_rate, format_span};
use serde_json::json;

/// A cliff loses at least this share of the rate.
const CLIFF_LOSS: f64 = 0.3;
/// Both sides of a cliff have at least this share of the course.
const CLIFF_SIDE: f64 = 0.05;
/// Autocorrelation that a rhythm has at its period.
const RHYTHM_MIN: f64 = 0.4;
/// Share of the rate that a dip of a rhythm loses.
const DIP_MIN: f64 = 0.03;
/// Periods that must be seen.
const PERIODS_MIN: usize = 4;
/// Change over the course that is called a drift.
const DRIFT_MIN: f64 = 0.05;
/// How far an outlier stands above what nearly all intervals have as their largest.
const OUTLIER_TIMES: f64 = 4.0;
/// Latencies below this are no outliers.
const OUTLIER_NS: f64 = 2e6;
/// Intervals that may hold one.
const OUTLIERS_MAX: usize = 3;

fn mean(list: &[f64]) -> f64 {
    list.iter().sum::<f64>() / list.len().max(1) as f64
}

fn deviation(list: &[f64]) -> f64 {
    let middle = mean(list);
    (list.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / list.len().max(1) as f64).sqrt()
}

fn sorted(list: &[f64]) -> Vec<f64> {
    let mut list: Vec<f64> = list.iter().copied().filter(|v| v.is_finite()).collect();
    list.sort_by(f64::total_cmp);
    list
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn span(seconds: f64) -> String {
    format_span(Nanos::from_secs_f64(seconds.max(0.0)))
}

/// The split that leaves the least variance on both sides; gives its place and both means.
fn split(values: &[f64]) -> Option<(usize, f64, f64)> {
    let edge = ((values.len() as f64 * CLIFF_SIDE) as usize).max(3);
    if values.len() < edge * 2 + 2 {
        return None;
    }
    let total: f64 = values.iter().sum();
    let n = values.len() as f64;
    let mut below = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (at, value) in values.iter().enumerate() {
        if at >= edge && at <= values.len() - edge {
            let k = at as f64;
            let between = (below / k - (total - below) / (n - k)).powi(2) * k * (n - k) / n;
            if best.is_none_or(|(_, most)| between > most) {
                best = Some((at, between));
            }
        }
        below += value;
    }
    let (at, _) = best?;
    Some((at, mean(&values[..at]), mean(&values[at..])))
}

/// The rate fell, for good, by more than the spread on both sides.
pub(super) fn cliff(course: &Course<'_>) -> Option<Insight> {
    let values = course.iops();
    let (at, before, after) = split(&values)?;
    let spread = deviation(&values[..at]).max(deviation(&values[at..]));
    let loss = 1.0 - after / before.max(1e-9);
    let writes = course.moments.last().is_some_and(|m| m.written > 0.0);
    // For good: the highest tenth after it stays below the lowest tenth before it.
    let (high, low) =
        (quantile(&sorted(&values[at..]), 0.9), quantile(&sorted(&values[..at]), 0.1));
    if !writes || loss < CLIFF_LOSS || before - after < 3.0 * spread || high >= low {
        return None;
    }
    let when = course.since_start(&course.moments[at]);
    let written = course.moments[at].written;
    let text = format!(
        "{}: the rate fell from {} to {} IOPS ({:.0} %) after {} and {:.1} GB of this load's writes, and did \
         not come back: the drive ran out of clean blocks or of cache. What was measured before is not what \
         the drive holds.",
        course.name(),
        format_rate(before),
        format_rate(after),
        -loss * 100.0,
        span(when),
        written / 1e9
    );
    Some(Insight {
        kind: InsightKind::Cliff,
        title: "Write cliff".into(),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"at_s": when, "before": before, "after": after, "written_bytes": written}),
    })
}

/// The values less their running median: what is left is short.
fn detrended(values: &[f64]) -> Vec<f64> {
    let half = (values.len() / 8).clamp(2, 300);
    let middle = |at: usize| {
        let window = &values[at.saturating_sub(half)..(at + half + 1).min(values.len())];
        quantile(&sorted(window), 0.5)
    };
    // A long course is trended by few medians: each is of hundreds of values.
    let step = (values.len() / 400).max(1);
    let medians: Vec<f64> = (0..values.len()).step_by(step).map(middle).collect();
    values.iter().enumerate().map(|(at, v)| v - medians[at / step]).collect()
}

/// The lag of the highest autocorrelation that is a peak, with its value.
fn rhythm(values: &[f64]) -> Option<(usize, f64)> {
    let power: f64 = values.iter().map(|v| v * v).sum();
    if power <= 0.0 {
        return None;
    }
    let lags = (values.len() / PERIODS_MIN).min(1500);
    let at = |lag: usize| {
        let pairs = values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>();
        pairs / power * values.len() as f64 / (values.len() - lag) as f64
    };
    let all: Vec<f64> = (0..=lags).map(at).collect();
    // From the first lag that is no neighbour any more.
    let first = all.iter().position(|r| *r < 0.2)?;
    let peak =
        (first.max(2)..lags).filter(|&lag| all[lag] >= all[lag - 1] && all[lag] >= all[lag + 1]);
    peak.max_by(|a, b| all[*a].total_cmp(&all[*b])).map(|lag| (lag, all[lag]))
}

/// The rate dips every so often.
pub(super) fn periodic(course: &Course<'_>) -> Option<Insight> {
    let values = course.iops();
    let rest = detrended(&values);
    let (lag, strength) = rhythm(&rest)?;
    // White noise of n values has autocorrelations of 1/sqrt(n); the best of hundreds stays below 5 times.
    let by_chance = 5.0 / (rest.len() as f64).sqrt();
    let middle = quantile(&sorted(&values), 0.5);
    let deepest = -quantile(&sorted(&rest), 0.5 / lag as f64);
    let depth = deepest / middle.max(1e-9);
    if strength < RHYTHM_MIN.max(by_chance) || depth < DIP_MIN {
        return None;
    }
    // The shortest lag of those that are as good: twice a period is one too.
    let seconds = course.moments[0].seconds;
    let period = lag as f64 * seconds;
    let text = format!(
        "{}: the rate dips by {:.0} % every {} (autocorrelation {:.2}). Background work of the drive has such \
         a rhythm (cleaning, wear levelling, saving of tables), or somebody else's timer on this host; both \
         stand in the tail of the latencies.",
        course.name(),
        depth * 100.0,
        span(period),
        strength
    );
    Some(Insight {
        kind: InsightKind::Periodic,
        title: format!("Dips every {}", span(period)),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"period_s": period, "depth": depth, "autocorrelation": strength}),
    })
}

/// The rate moved in one direction all the time: the line through the means of ten parts.
pub(super) fn drift(course: &Course<'_>) -> Option<Insight> {
    const PARTS: usize = 10;
    let values = course.iops();
    let size = values.len() / PARTS;
    let parts: Vec<f64> = (0..PARTS).map(|n| mean(&values[n * size..(n + 1) * size])).collect();
    let middle = mean(&parts);
    let x = |n: usize| n as f64 - (PARTS - 1) as f64 / 2.0;
    let xx: f64 = (0..PARTS).map(|n| x(n).powi(2)).sum();
    let slope = parts.iter().enumerate().map(|(n, v)| x(n) * (v - middle)).sum::<f64>() / xx;
    let rest: f64 =
        parts.iter().enumerate().map(|(n, v)| (v - middle - slope * x(n)).powi(2)).sum();
    let error = (rest / (PARTS - 2) as f64 / xx).sqrt();
    let change = slope * (PARTS - 1) as f64 / middle.max(1e-9);
    // 5.04 is Student's t of 8 degrees of freedom for one in a thousand, both sides.
    if change.abs() < DRIFT_MIN || slope.abs() < 5.04 * error {
        return None;
    }
    let text = format!(
        "{}: the rate moved by {:+.1} % from the first to the last tenth of the load, in a straight line \
         ({} to {} IOPS). It was not steady: run longer, or precondition first.",
        course.name(),
        change * 100.0,
        format_rate(parts[0]),
        format_rate(parts[PARTS - 1])
    );
    Some(Insight {
        kind: InsightKind::Drift,
        title: "The rate drifted".into(),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"change": change}),
    })
}

/// A few intervals whose largest latency stands far above that of all others.
pub(super) fn outlier(course: &Course<'_>) -> Option<Insight> {
    let largest: Vec<f64> = course.moments.iter().map(|m| m.max_ns).collect();
    let usual = quantile(&sorted(&largest), 0.99).max(quantile(&sorted(&largest), 0.5));
    let far = |m: &&Moment| m.max_ns > usual * OUTLIER_TIMES && m.max_ns > OUTLIER_NS;
    let found: Vec<&Moment> = course.moments.iter().filter(far).collect();
    let worst = found.iter().max_by(|a, b| a.max_ns.total_cmp(&b.max_ns))?;
    if found.len() > OUTLIERS_MAX {
        return None;
    }
    let when = course.since_start(worst);
    let celsius = course.near("temperature_c", worst.at_s);
    let cpu = course.near("cpu_idle_share", worst.at_s);
    let mut text = format!(
        "{}: one I/O took {} at {} into the load ({} intervals of {} stand out; the largest latency of 99 % \
         of the others is at most {})",
        course.name(),
        format_latency(worst.max_ns),
        clock(when),
        found.len(),
        course.moments.len(),
        format_latency(usual)
    );
    if let Some(celsius) = celsius {
        text.push_str(&format!("; the drive had {celsius:.0} C"));
    }
    if let Some(idle) = cpu {
        text.push_str(&format!("; the host's CPUs were {:.0} % idle", idle * 100.0));
    }
    text.push('.');
    Some(Insight {
        kind: InsightKind::Outlier,
        title: format!("An outlier of {} at {}", format_latency(worst.max_ns), clock(when)),
        text,
        place: Some(course.cell.path.clone()),
        evidence: json!({"at_s": when, "max_ns": worst.max_ns, "usual_ns": usual, "celsius": celsius}),
    })
}

/// Hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    fn noise(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn a_rhythm_is_found_and_noise_has_none() {
        let mut rng = Rng::new(3);
        let mut false_alarms = 0;
        for _ in 0..200 {
            let mut last = 0.0;
            let values: Vec<f64> = (0..300)
                .map(|_| {
                    last = 0.5 * last + noise(&mut rng);
                    1000.0 + 10.0 * last
                })
                .collect();
            let found = rhythm(&detrended(&values));
            false_alarms += usize::from(found.is_some_and(|(_, r)| r >= RHYTHM_MIN));
        }
        assert!(false_alarms <= 1, "{false_alarms} of 200");
        let values: Vec<f64> = (0..300)
            .map(|n| 1000.0 + 10.0 * noise(&mut rng) - if n % 17 == 0 { 200.0 } else { 0.0 })
            .collect();
        let (lag, strength) = rhythm(&detrended(&values)).unwrap();
        assert_eq!(lag % 17, 0, "{lag}");
        assert!(strength > 0.6, "{strength}");
    }

    #[test]
    fn the_best_split_is_where_the_level_changes() {
        let values: Vec<f64> = (0..100).map(|n| if n < 37 { 10.0 } else { 4.0 }).collect();
        assert_eq!(split(&values), Some((37, 10.0, 4.0)));
        assert_eq!(split(&[1.0; 5]), None);
    }
}
