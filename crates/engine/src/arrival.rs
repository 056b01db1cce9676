//! The schedule of an open-loop load: intended starts on an absolute time line, never re-based, so
//! that a stall leaves its full backlog behind.

use crate::script::Recorded;
use base::rng::Rng;
use plan::Arrival;

/// Intended starts in ns, rising. Fractions of a nanosecond are carried, so the rate has no bias.
#[derive(Clone, Debug)]
pub struct Schedule {
    next_ns: f64,
    origin_ns: u64,
    mean_gap_ns: f64,
    arrival: Arrival,
    /// The times of a recording instead.
    recorded: Option<Recorded>,
}

impl Schedule {
    /// Arrivals at `rate` per second from `origin_ns` on; `phase` in 0..1 shifts equal gaps so that
    /// several workers interleave.
    pub fn new(origin_ns: u64, rate: f64, arrival: Arrival, phase: f64, rng: &mut Rng) -> Schedule {
        let mean_gap_ns = 1e9 / rate;
        let mut schedule =
            Schedule { next_ns: 0.0, origin_ns, mean_gap_ns, arrival, recorded: None };
        match arrival {
            Arrival::Recorded => {}
            Arrival::Deterministic => schedule.next_ns = schedule.mean_gap_ns * phase,
            Arrival::Poisson | Arrival::Uniform => schedule.advance(rng),
        }
        schedule
    }

    /// The times of a recording, from `origin_ns` on.
    pub fn recorded(origin_ns: u64, recorded: Recorded) -> Schedule {
        let (mean_gap_ns, arrival) = (1.0, Arrival::Recorded);
        Schedule { next_ns: 0.0, origin_ns, mean_gap_ns, arrival, recorded: Some(recorded) }
    }

    /// Which request of a recording is next; none for other schedules.
    #[inline]
    pub fn position(&self) -> Option<usize> {
        self.recorded.as_ref().map(|recorded| recorded.at)
    }

    /// The next intended start; `u64::MAX` behind the last one of a recording.
    #[inline]
    pub fn next(&self) -> u64 {
        if let Some(recorded) = &self.recorded {
            return recorded.time().map_or(u64::MAX, |time| self.origin_ns.saturating_add(time));
        }
        self.origin_ns + self.next_ns as u64
    }

    /// Goes on to the one after.
    #[inline]
    pub fn advance(&mut self, rng: &mut Rng) {
        if let Some(recorded) = &mut self.recorded {
            return recorded.advance();
        }
        self.next_ns += match self.arrival {
            Arrival::Poisson => self.mean_gap_ns * rng.exponential(),
            Arrival::Uniform => self.mean_gap_ns * 2.0 * rng.unit(),
            Arrival::Deterministic | Arrival::Recorded => self.mean_gap_ns,
        };
    }

    /// How many arrivals fit between the next one and `now_ns`, by the mean.
    pub fn overdue(&self, now_ns: u64) -> u64 {
        if let Some(recorded) = &self.recorded {
            return recorded.overdue(now_ns.saturating_sub(self.origin_ns));
        }
        (now_ns.saturating_sub(self.next()) as f64 / self.mean_gap_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kolmogorov-Smirnov distance of samples to a distribution function.
    fn ks(mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        samples.sort_by(f64::total_cmp);
        let n = samples.len() as f64;
        let distance = |(i, &x): (usize, &f64)| {
            let f = cdf(x);
            (f - i as f64 / n).abs().max((f - (i + 1) as f64 / n).abs())
        };
        samples.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    fn gaps(arrival: Arrival, rate: f64, n: usize) -> (Vec<f64>, f64) {
        let mut rng = Rng::new(11);
        let mut schedule = Schedule::new(1 << 50, rate, arrival, 0.0, &mut rng);
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            times.push(schedule.next());
            schedule.advance(&mut rng);
        }
        let achieved = (n - 1) as f64 / (times[n - 1] - times[0]) as f64 * 1e9;
        (times.windows(2).map(|w| (w[1] - w[0]) as f64).collect(), achieved)
    }

    #[test]
    fn gaps_have_their_distribution_at_every_rate() {
        let n = 200_000;
        // 1.63 / sqrt(n) is the 1 % point of the statistic.
        let limit = 1.63 / (n as f64).sqrt();
        for rate in [10_000.0, 50_000.0, 200_000.0, 3_000_000.0] {
            let mean = 1e9 / rate;
            let (poisson, achieved) = gaps(Arrival::Poisson, rate, n);
            // Gaps are whole ns: at 3M/s a step of the empirical distribution is 0.3 %.
            let grain = 1.0 / mean;
            let d = ks(poisson, |x| 1.0 - (-x / mean).exp());
            assert!(d < limit + grain, "poisson at {rate}: D = {d}");
            assert!((achieved / rate - 1.0).abs() < 4.0 / (n as f64).sqrt(), "{achieved}");
            let (uniform, _) = gaps(Arrival::Uniform, rate, n);
            let d = ks(uniform, |x| (x / (2.0 * mean)).clamp(0.0, 1.0));
            assert!(d < limit + grain, "uniform at {rate}: D = {d}");
            let (equal, achieved) = gaps(Arrival::Deterministic, rate, n);
            assert!(equal.iter().all(|gap| (gap - mean).abs() <= 1.0));
            assert!((achieved / rate - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn workers_with_equal_gaps_interleave() {
        let mut rng = Rng::new(1);
        let starts: Vec<u64> = (0..4)
            .map(|w| Schedule::new(0, 1000.0, Arrival::Deterministic, f64::from(w) / 4.0, &mut rng))
            .map(|schedule| schedule.next())
            .collect();
        assert_eq!(starts, [0, 250_000, 500_000, 750_000]);
    }
}
