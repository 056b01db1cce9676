//! Ratios from blocks: each block measures every arm once, between two measurements of a reference.
//! Drift that is slower than a block cancels (Kalibera and Jones, ISMM 2013, give the reason to repeat
//! whole blocks rather than to measure longer).

/// One block: the reference before and after, and the arms in the order they were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The reference, first and last.
    pub reference: [f64; 2],
    /// Arm and value, in the order of time.
    pub values: Vec<(usize, f64)>,
}

impl Block {
    /// The logarithm of each arm's ratio to the reference, which is taken to move evenly in the block.
    /// None where a value cannot be.
    pub fn log_ratios(&self) -> Option<Vec<(usize, f64)>> {
        let [first, last] = self.reference;
        let steps = self.values.len() as f64 + 1.0;
        let ratio = |(place, &(arm, value)): (usize, &(usize, f64))| {
            let reference = first + (last - first) * (place as f64 + 1.0) / steps;
            let ratio = value / reference;
            (ratio.is_finite() && ratio > 0.0).then(|| (arm, ratio.ln()))
        };
        self.values.iter().enumerate().map(ratio).collect()
    }
}

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean.
    pub ratio: f64,
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
    /// Values it rests on.
    pub n: usize,
}

/// What can be said of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Greater than 1.
    Higher,
    /// Less than 1.
    Lower,
    /// Equal within the resolution.
    Same,
    /// Neither can be said.
    Open,
}

impl Ratio {
    /// From logarithms of ratios, one a block; `arms` intervals hold together with `confidence`
    /// (Bonferroni). An eighth of the values at each end is left out of the mean, and the interval is that of
    /// a trimmed mean by Student's t (Yuen, Biometrika 61, 1974): a host that is taken away
    /// for a moment gives far values on both sides, which would hide everything else. With fewer than ten
    /// values nothing is left out. None with fewer than 3.
    pub fn of(logs: &[f64], confidence: f64, arms: usize) -> Option<Ratio> {
        let n = logs.len();
        if n < 3 || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let cut = if n < 10 { 0 } else { n / 8 };
        let mut sorted = logs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let kept = n - 2 * cut;
        let mean = sorted[cut..n - cut].iter().sum::<f64>() / kept as f64;
        // The values left out count as the last ones kept.
        let (least, most) = (sorted[cut], sorted[n - cut - 1]);
        let winsorized = || sorted.iter().map(|log| log.clamp(least, most));
        let middle = winsorized().sum::<f64>() / n as f64;
        let square = winsorized().map(|log| (log - middle).powi(2)).sum::<f64>() / (n - 1) as f64;
        let tail = (1.0 - confidence) / 2.0 / arms.max(1) as f64;
        let scale = (n - 1) as f64 / (kept as f64 * (kept - 1) as f64);
        let half = student_quantile(1.0 - tail, kept - 1) * (square * scale).sqrt();
        Some(Ratio { ratio: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp(), n })
    }

    /// Half the width of the interval, as a share.
    pub fn half_width(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }

    /// What can be said; `resolution` is a share, such as 0.005.
    pub fn finding(&self, resolution: f64) -> Finding {
        let margin = 1.0 + resolution;
        match (self.low > 1.0, self.high < 1.0) {
            (true, _) => Finding::Higher,
            (_, true) => Finding::Lower,
            _ if self.low >= 1.0 / margin && self.high <= margin => Finding::Same,
            _ => Finding::Open,
        }
    }
}

/// The value that a Student distribution with `dof` degrees of freedom stays below with probability `p`,
/// 0.5 to 1.
pub fn student_quantile(p: f64, dof: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if student_below(middle, dof as f64) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Probability of a Student distribution below `t`, from 0 on: the density integrated by Simpson's rule,
/// in an angle, so that the tail needs no cut (t = sqrt(dof) tan a).
fn student_below(t: f64, dof: f64) -> f64 {
    const STEPS: usize = 400;
    let power = |angle: f64| angle.cos().powf(dof - 1.0);
    let integral = |to: f64| {
        let step = to / STEPS as f64;
        let sum: f64 = (0..=STEPS)
            .map(|n| {
                let weight = match n {
                    0 | STEPS => 1.0,
                    n if n % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                weight * power(n as f64 * step)
            })
            .sum();
        sum * step / 3.0
    };
    0.5 + 0.5 * integral((t / dof.sqrt()).atan()) / integral(std::f64::consts::FRAC_PI_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, dof, table) in [
            (0.975, 2, 4.303),
            (0.975, 9, 2.262),
            (0.975, 30, 2.042),
            (0.995, 9, 3.250),
            (0.95, 15, 1.753),
            (0.975, 1000, 1.962),
        ] {
            let found = student_quantile(p, dof);
            assert!((found - table).abs() < 0.002, "{p} {dof}: {found}, {table}");
        }
    }

    #[test]
    fn drift_in_a_block_cancels() {
        // The reference rises from 100 to 112 over the block; the arms are 1.1 and 0.9 of it.
        let block =
            Block { reference: [100.0, 112.0], values: vec![(1, 104.0 * 1.1), (0, 108.0 * 0.9)] };
        let logs = block.log_ratios().unwrap();
        assert!((logs[0].1.exp() - 1.1).abs() < 1e-12 && (logs[1].1.exp() - 0.9).abs() < 1e-12);
        assert_eq!(Block { reference: [0.0, 0.0], values: vec![(0, 1.0)] }.log_ratios(), None);
    }

    #[test]
    fn findings_follow_the_interval() {
        let ratio = |low: f64, high: f64| Ratio { ratio: (low * high).sqrt(), low, high, n: 10 };
        assert_eq!(ratio(1.001, 1.02).finding(0.005), Finding::Higher);
        assert_eq!(ratio(0.98, 0.999).finding(0.005), Finding::Lower);
        assert_eq!(ratio(0.996, 1.004).finding(0.005), Finding::Same);
        assert_eq!(ratio(0.99, 1.004).finding(0.005), Finding::Open);
        assert_eq!(Ratio::of(&[0.1, 0.1], 0.95, 1), None);
        assert_eq!(Ratio::of(&[0.0, f64::NAN, 0.0], 0.95, 1), None);
    }

    /// By simulation: intervals of 95 % miss the truth in 5 % of cases, and a planted 1 % is found; also
    /// where one value in ten is ten times as far away.
    #[test]
    fn intervals_hold_what_they_promise() {
        promise(0.0, 16);
        promise(0.1, 20);
    }

    fn promise(far: f64, n: usize) {
        let mut rng = Rng::new(5);
        let mut normal = || {
            let plain = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            if rng.unit() < far { 10.0 * plain } else { plain }
        };
        let (mut missed, mut found, repeats) = (0, 0, 2000);
        for _ in 0..repeats {
            let logs: Vec<f64> = (0..n).map(|_| 0.01 * normal()).collect();
            let ratio = Ratio::of(&logs, 0.95, 1).unwrap();
            missed += u32::from(ratio.low > 1.0 || ratio.high < 1.0);
            let planted: Vec<f64> = logs.iter().map(|log| log - 0.01).collect();
            let ratio = Ratio::of(&planted, 0.95, 1).unwrap();
            found += u32::from(ratio.finding(0.005) == Finding::Lower);
        }
        let (missed, found) =
            (f64::from(missed) / f64::from(repeats), f64::from(found) / f64::from(repeats));
        println!(
            "{far}: missed {:.2} %, planted 1 % found in {:.1} %",
            missed * 100.0,
            found * 100.0
        );
        // A trimmed mean of few values promises a little more than it needs.
        assert!((0.02..0.065).contains(&missed), "{missed}");
        assert!(found > 0.85, "{found}");
    }
}
