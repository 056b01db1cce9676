//! A ratio of two arms, with an interval. The spread of an estimate is had by resampling units with
//! replacement (bootstrap), because a percentile has no formula for it; the interval is that of Student's t
//! with Welch's degrees of freedom, because a handful of units knows its own spread badly.

use super::Compared;
use super::units::Unit;
use crate::paired::student_quantile;
use base::hist::Hist;
use base::rng::Rng;

/// Resamplings of an arm.
const RESAMPLINGS: usize = 400;

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Other arm over reference.
    pub ratio: f64,
    /// Lower limit at the level that was asked for.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
    /// Units of the smaller arm.
    pub units: usize,
    /// Standard error of the ratio's logarithm.
    error: f64,
    /// Degrees of freedom.
    freedom: usize,
}

impl Estimate {
    /// The interval in which the ratio lies with probability 1 - `level`.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = student_quantile(1.0 - level / 2.0, self.freedom) * self.error;
        (self.ratio * (-half).exp(), self.ratio * half.exp())
    }

    /// Units an arm needs to find a difference of this factor in four of five cases, were their spread that
    /// of these: n = ((1.96 + 0.84) s / d)^2. None where it would be absurd.
    pub(super) fn units_needed(&self, factor: f64) -> Option<u64> {
        let needed = self.units as f64 * (2.8 * self.error / factor.ln()).powi(2);
        (needed < 1e5).then(|| (needed.ceil() as u64).max(self.units as u64 + 1))
    }

    pub(super) fn widen(&mut self, level: f64) {
        (self.low, self.high) = self.interval(level);
    }
}

const FIGURES: usize = Compared::ALL.len();

/// All figures of these units together; NaN where too few samples lie beyond a percentile, unless `drawn`:
/// a resampling may have a few less.
fn figures(units: &[&Unit], drawn: bool) -> [f64; FIGURES] {
    let mut hist = Hist::new();
    let (mut ios, mut seconds) = (0u64, 0.0);
    for unit in units {
        hist.merge(&unit.hist);
        (ios, seconds) = (ios + unit.ios, seconds + unit.seconds);
    }
    let at = |p| if drawn { hist.quantile_ns(p) } else { hist.percentile_ns(p) };
    Compared::ALL.map(|figure| match figure {
        Compared::Iops => ios as f64 / f64::max(seconds, 1e-9),
        Compared::Mean => hist.mean_ns().unwrap_or(f64::NAN),
        Compared::Percentile(p) => at(p).map_or(f64::NAN, |ns| ns as f64),
    })
}

/// Standard errors of the logarithms of an arm's figures.
fn errors(units: &[Unit], rng: &mut Rng) -> [f64; FIGURES] {
    let n = units.len();
    let mut sums = [(0.0, 0.0); FIGURES];
    for _ in 0..RESAMPLINGS {
        let drawn: Vec<&Unit> = (0..n).map(|_| &units[rng.below(n as u64) as usize]).collect();
        for ((sum, squares), value) in sums.iter_mut().zip(figures(&drawn, true)) {
            let log = value.ln();
            (*sum, *squares) = (*sum + log, *squares + log * log);
        }
    }
    let count = RESAMPLINGS as f64;
    // A resampling of n units varies as if there were n - 1.
    let few = (n as f64 / (n as f64 - 1.0)).sqrt();
    sums.map(|(sum, squares)| {
        let mean = sum / count;
        ((squares / count - mean * mean).max(0.0) * count / (count - 1.0)).sqrt() * few
    })
}

/// Values of reference and other arm, and their ratio, by figure.
pub(super) fn estimate(sides: &[Vec<Unit>; 2], paired: bool) -> Vec<([f64; 2], Option<Estimate>)> {
    let whole = sides.each_ref().map(|units| figures(&units.iter().collect::<Vec<_>>(), false));
    let units = sides[0].len().min(sides[1].len());
    let values = |at: usize| [whole[0][at], whole[1][at]];
    if units < 2 {
        return (0..FIGURES).map(|at| (values(at), None)).collect();
    }
    if paired {
        return (0..FIGURES).map(|at| (values(at), by_pairs(sides, at))).collect();
    }
    let mut rng = Rng::new(0x00c0_4a5e);
    let error = sides.each_ref().map(|units| errors(units, &mut rng));
    (0..FIGURES)
        .map(|at| {
            let (a, b) = (error[0][at], error[1][at]);
            let ratio = whole[1][at] / whole[0][at];
            let error = (a * a + b * b).sqrt();
            let estimate = (ratio.is_finite() && error.is_finite()).then(|| Estimate {
                ratio,
                low: ratio,
                high: ratio,
                units,
                // A histogram's bucket is 0.8 % wide at most: two equal ones are no proof of more.
                error: error.max(rounding(Compared::ALL[at])),
                freedom: welch((a, sides[0].len()), (b, sides[1].len())),
            });
            (values(at), estimate)
        })
        .collect()
}

/// Standard error that rounding to buckets leaves: a share of 0.8 %, even over its width, in both arms.
fn rounding(figure: Compared) -> f64 {
    match figure {
        Compared::Percentile(_) => (1.0f64 / 128.0) / 12f64.sqrt() * 2f64.sqrt(),
        _ => 1e-9,
    }
}

/// Degrees of freedom of a difference (Welch 1947), at least 1.
fn welch((a, n): (f64, usize), (b, m): (f64, usize)) -> usize {
    let (va, vb) = (a * a, b * b);
    let below = va * va / (n as f64 - 1.0) + vb * vb / (m as f64 - 1.0);
    if below <= 0.0 {
        (n + m).saturating_sub(2).max(1)
    } else {
        ((va + vb).powi(2) / below) as usize
    }
    .max(1)
}

/// From the ratio of each pair of runs.
fn by_pairs(sides: &[Vec<Unit>; 2], at: usize) -> Option<Estimate> {
    let logs: Vec<f64> = sides[0]
        .iter()
        .zip(&sides[1])
        .map(|(a, b)| (figures(&[b], true)[at] / figures(&[a], true)[at]).ln())
        .collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (square / n).sqrt().max(rounding(Compared::ALL[at]) / n.sqrt());
    let ratio = mean.exp();
    ratio.is_finite().then(|| Estimate {
        ratio,
        low: ratio,
        high: ratio,
        units: logs.len(),
        error,
        freedom: logs.len() - 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    /// Runs whose rate and latency vary by 1 % from run to run.
    fn arm(rng: &mut Rng, n: usize, times: f64) -> Vec<Unit> {
        (0..n)
            .map(|_| {
                let rate = 100_000.0 * times * (1.0 + 0.01 * normal(rng));
                let mut hist = Hist::new();
                for step in 0..200u64 {
                    hist.record_n(((50_000 + step * 500) as f64 / rate * 1e5) as u64, 100);
                }
                Unit { ios: rate as u64 * 10, seconds: 10.0, hist }
            })
            .collect()
    }

    /// What "95 %" means is counted: 2000 pairs of arms with no true difference, and with one of 2 %.
    #[test]
    fn intervals_miss_as_often_as_they_say_and_find_two_percent() {
        for n in [3, 5, 10] {
            let mut rng = Rng::new(n as u64);
            let (mut missed, mut found) = (0, 0);
            for _ in 0..500 {
                let same = [arm(&mut rng, n, 1.0), arm(&mut rng, n, 1.0)];
                let (low, high) = estimate(&same, false)[0].1.unwrap().interval(0.05);
                missed += u32::from(low > 1.0 || high < 1.0);
                let other = [same[0].clone(), arm(&mut rng, n, 1.02)];
                let (low, _) = estimate(&other, false)[0].1.unwrap().interval(0.05);
                found += u32::from(low > 1.0);
            }
            println!(
                "{n} runs an arm, 1 % from run to run: {missed} of 500 false, 2 % found {found} of 500"
            );
            assert!(missed <= 40, "{n}: {missed} of 500 for 25 stated");
            assert!(n < 10 || found >= 450, "{n}: {found}");
        }
    }

    #[test]
    fn pairs_take_out_what_both_have() {
        let mut rng = Rng::new(7);
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..6 {
            let drift = 1.0 + 0.1 * normal(&mut rng);
            sides[0].extend(arm(&mut rng, 1, drift));
            sides[1].extend(arm(&mut rng, 1, drift * 1.05));
        }
        let paired = estimate(&sides, true)[0].1.unwrap().interval(0.05);
        let unpaired = estimate(&sides, false)[0].1.unwrap().interval(0.05);
        assert!(paired.0 > 1.0 && unpaired.0 < 1.0, "{paired:?} {unpaired:?}");
    }
}
