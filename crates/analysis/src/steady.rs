//! Steady state by the rule of the PTS (2.0.2, definition 2.1.24), for rounds and for time.

use base::sample::{IntervalSample, StreamSample};
use base::units::Nanos;
use plan::{SteadyRule, Until};
use serde_json::{Value, json};

use crate::figures::Figures;

/// The rule applied to one window of one tracked value: all the evidence a report must show.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The points: number of the round (or the value), from 1, and the value.
    pub points: Vec<(f64, f64)>,
    /// Average of the values.
    pub average: f64,
    /// Largest less smallest value that is allowed.
    pub range_allowed: f64,
    /// Largest less smallest value.
    pub range: f64,
    /// Rise of the line over the window that is allowed.
    pub slope_allowed: f64,
    /// Rise of the line over the window, without sign.
    pub slope_excursion: f64,
    /// Slope of the least-squares line, by round.
    pub slope: f64,
    /// Its value at round 0.
    pub intercept: f64,
    /// Correlation of value and round, -1..1; 0 where all values are equal.
    pub correlation: f64,
    /// Both limits are kept.
    pub steady: bool,
}

/// Judges one window. Limits are inclusive: "no more than".
pub fn judge_window(points: &[(f64, f64)], rule: SteadyRule) -> Window {
    let n = points.len().max(1) as f64;
    let average = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let middle = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| f(x, y)).sum::<f64>();
    let across = sum(&|x, _| (x - middle).powi(2));
    let along = sum(&|x, y| (x - middle) * (y - average));
    let spread = sum(&|_, y| (y - average).powi(2));
    let slope = if across > 0.0 { along / across } else { 0.0 };
    let most = points.iter().map(|(_, y)| *y).fold(f64::MIN, f64::max);
    let least = points.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min);
    let width = match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.0 - first.0,
        _ => 0.0,
    };
    let range = if points.is_empty() { 0.0 } else { most - least };
    let (range_allowed, slope_allowed) =
        (rule.range_percent / 100.0 * average, rule.slope_percent / 100.0 * average);
    let slope_excursion = (slope * width).abs();
    // Rounding must not refuse what lies exactly on a limit.
    let slack = average.abs() * 1e-12;
    let kept = range <= range_allowed + slack && slope_excursion <= slope_allowed + slack;
    let correlation =
        if across > 0.0 && spread > 0.0 { along / (across * spread).sqrt() } else { 0.0 };
    Window {
        points: points.to_vec(),
        average,
        range_allowed,
        range,
        slope_allowed,
        slope_excursion,
        slope,
        intercept: average - slope * middle,
        correlation,
        // Nothing done is not steady.
        steady: kept && points.len() == rule.window as usize && average > 0.0,
    }
}

impl Window {
    /// The evidence for programs.
    pub fn as_json(&self) -> Value {
        json!({
            "points": self.points, "average": self.average,
            "range_allowed": self.range_allowed, "range": self.range,
            "slope_allowed": self.slope_allowed, "slope_excursion": self.slope_excursion,
            "slope": self.slope, "intercept": self.intercept,
            "correlation": self.correlation, "steady": self.steady,
        })
    }
}

/// The series of one tracked value, and its rule over the last window.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked {
    /// What it is, for people.
    pub name: String,
    /// One value a round, from round 1 on.
    pub values: Vec<f64>,
}

impl Tracked {
    /// The last `rule.window` values judged; the points are numbered by round.
    pub fn last_window(&self, rule: SteadyRule) -> Window {
        let first = self.values.len().saturating_sub(rule.window as usize);
        let points: Vec<(f64, f64)> = self
            .values
            .iter()
            .enumerate()
            .skip(first)
            .map(|(index, &value)| (index as f64 + 1.0, value))
            .collect();
        judge_window(&points, rule)
    }
}

/// Whether all tracked values are steady in the same, last window.
pub fn all_steady(tracked: &[Tracked], rule: SteadyRule) -> bool {
    !tracked.is_empty() && tracked.iter().all(|series| series.last_window(rule).steady)
}

/// Steady state on time: one value every so often out of the intervals of a running cell.
#[derive(Clone, Debug)]
pub struct TimedSteady {
    until: Until,
    /// Counted time so far.
    at: Nanos,
    gathered: StreamSample,
    gathered_len: Nanos,
    /// The values so far.
    pub series: Tracked,
}

impl TimedSteady {
    /// Before the first interval.
    pub fn new(until: Until, name: String) -> TimedSteady {
        TimedSteady {
            until,
            at: Nanos(0),
            gathered: StreamSample::default(),
            gathered_len: Nanos(0),
            series: Tracked { name, values: Vec::new() },
        }
    }

    /// Takes an interval that counts; gives whether a value was completed by it.
    pub fn add(&mut self, sample: &IntervalSample) -> bool {
        // Values stand at the beginning of each period: minutes 1, 31, 61, ... of half hours.
        let (start, period) = (self.at.0, self.until.every.0);
        self.at.0 += sample.len.0;
        let within = start % period;
        if within < self.until.average.0 {
            sample.streams.iter().for_each(|stream| self.gathered.merge(stream));
            self.gathered_len.0 += sample.len.0;
        }
        let full = self.gathered_len.0 > 0 && within + sample.len.0 >= self.until.average.0;
        if !full {
            return false;
        }
        let figures = Figures::of(&self.gathered, self.gathered_len);
        let value = figures.get(self.until.figure, self.until.way).unwrap_or(f64::NAN);
        self.series.values.push(value);
        (self.gathered, self.gathered_len) = (StreamSample::default(), Nanos(0));
        true
    }

    /// How many values there are so far.
    pub fn values(&self) -> usize {
        self.series.values.len()
    }

    /// The rule.
    pub fn rule(&self) -> SteadyRule {
        self.until.rule
    }

    /// Whether the last window is steady.
    pub fn steady(&self) -> bool {
        self.series.last_window(self.until.rule).steady
    }

    /// Counted time so far.
    pub fn elapsed(&self) -> Nanos {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Figure, Way};
    use proptest::prelude::*;

    fn window(values: &[f64]) -> Window {
        let series = Tracked { name: String::new(), values: values.to_vec() };
        series.last_window(SteadyRule::default())
    }

    #[test]
    fn the_worked_example_of_the_sample_report() {
        // Average 11726.8, range 300, slope -6.4: allowed 2345.36 and 1172.68, found 300 and 25.6.
        let values = [11_738.8, 11_862.8, 11_562.8, 11_734.8, 11_734.8];
        let found = window(&values);
        assert!((found.average - 11_726.8).abs() < 1e-6, "{}", found.average);
        assert!((found.range - 300.0).abs() < 1e-6);
        assert!((found.range_allowed - 2345.36).abs() < 1e-6);
        assert!((found.slope_allowed - 1172.68).abs() < 1e-6);
        let by_hand = (-2.0 * values[0] - values[1] + values[3] + 2.0 * values[4]) / 10.0;
        assert!((found.slope - by_hand).abs() < 1e-9);
        assert!((found.slope_excursion - 4.0 * by_hand.abs()).abs() < 1e-9);
        assert!(found.steady);
    }

    #[test]
    fn a_fit_of_minus_six_point_four_a_round_excurses_by_twenty_five_point_six() {
        let found = window(&[11_739.6, 11_733.2, 11_726.8, 11_720.4, 11_714.0]);
        assert!((found.slope + 6.4).abs() < 1e-9 && (found.slope_excursion - 25.6).abs() < 1e-9);
        assert!((found.correlation + 1.0).abs() < 1e-9);
        assert!((found.intercept - (11_726.8 + 6.4 * 3.0)).abs() < 1e-6);
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(window(&[90.0, 110.0, 100.0, 90.0, 110.0]).steady, "range exactly 20 %");
        assert!(!window(&[89.9, 110.1, 100.0, 90.0, 110.0]).steady);
        assert!(window(&[95.0, 97.5, 100.0, 102.5, 105.0]).steady, "slope exactly 10 %");
        assert!(!window(&[94.9, 97.5, 100.0, 102.5, 105.1]).steady);
    }

    #[test]
    fn a_skewed_window_may_leave_the_band_and_still_pass() {
        // Range 20 % and flat, but one value lies 12 % below the average: the test is the range.
        let found = window(&[88.0, 106.0, 100.0, 106.0, 100.0]);
        assert!(found.steady && 88.0 < 0.9 * found.average);
    }

    #[test]
    fn less_than_a_window_and_nothing_done_are_not_steady() {
        assert!(!window(&[100.0; 4]).steady);
        assert!(!window(&[0.0; 5]).steady);
        assert!(!window(&[100.0, 100.0, f64::NAN, 100.0, 100.0]).steady);
    }

    #[test]
    fn all_values_must_be_steady_in_the_same_window() {
        let series = |values: [f64; 6]| Tracked { name: String::new(), values: values.to_vec() };
        let rule = SteadyRule::default();
        let calm = series([100.0; 6]);
        // Steady in rounds 1 to 5, not in 2 to 6.
        let late = series([100.0, 100.0, 100.0, 100.0, 100.0, 200.0]);
        assert!(all_steady(std::slice::from_ref(&calm), rule));
        assert!(!all_steady(&[calm, late], rule));
        assert!(!all_steady(&[], rule));
    }

    fn intervals(seconds: u64, rate: impl Fn(u64) -> u64) -> Vec<IntervalSample> {
        let sample = |second: u64| {
            let mut stream = StreamSample::default();
            stream.writes.service.record_n(1000, rate(second));
            IntervalSample {
                seq: second as u32,
                start: Nanos(second * 1_000_000_000),
                len: Nanos::SECOND,
                ramp: false,
                streams: vec![stream],
                cpu: Default::default(),
            }
        };
        (0..seconds).map(sample).collect()
    }

    #[test]
    fn on_time_the_values_are_those_of_minutes_1_31_61() {
        let until = Until {
            rule: SteadyRule::default(),
            every: Nanos(1_800_000_000_000),
            average: Nanos(60_000_000_000),
            figure: Figure::Iops,
            way: Way::Both,
        };
        let mut steady = TimedSteady::new(until, "w".into());
        // Each minute has its own number as its rate.
        let mut first = None;
        for sample in intervals(122 * 60, |second| 1000 + second / 60) {
            let done = steady.add(&sample);
            if done && steady.steady() {
                first.get_or_insert(steady.elapsed());
            }
        }
        assert_eq!(steady.series.values, [1000.0, 1030.0, 1060.0, 1090.0, 1120.0]);
        assert_eq!(first, None, "the line rises by 11.3 %");
        let mut steady = TimedSteady::new(until, "w".into());
        let mut first = None;
        for sample in intervals(122 * 60, |_| 1000) {
            if steady.add(&sample) && steady.steady() {
                first.get_or_insert(steady.elapsed());
            }
        }
        assert_eq!(first, Some(Nanos(121 * 60 * 1_000_000_000)), "the earliest stop is minute 121");
    }

    proptest! {
        #[test]
        fn scaling_all_values_changes_nothing(
            values in prop::collection::vec(1.0..1e6f64, 5), factor in 0.001..1000.0f64,
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let (a, b) = (window(&values), window(&scaled));
            prop_assert_eq!(a.steady, b.steady);
            prop_assert!((a.range * factor / b.range.max(1e-300) - 1.0).abs() < 1e-6 || a.range == 0.0);
            prop_assert!((a.correlation - b.correlation).abs() < 1e-6);
        }

        #[test]
        fn adding_a_constant_can_only_calm(
            values in prop::collection::vec(1.0..1e6f64, 5), constant in 0.0..1e6f64,
        ) {
            let raised: Vec<f64> = values.iter().map(|value| value + constant).collect();
            let (a, b) = (window(&values), window(&raised));
            prop_assert!((a.range - b.range).abs() < 1e-6);
            prop_assert!((a.slope - b.slope).abs() < 1e-6);
            prop_assert!(!a.steady || b.steady);
        }

        #[test]
        fn reversing_time_turns_the_slope_and_keeps_the_verdict(
            values in prop::collection::vec(1.0..1e6f64, 5),
        ) {
            let backwards: Vec<f64> = values.iter().rev().copied().collect();
            let (a, b) = (window(&values), window(&backwards));
            prop_assert_eq!(a.steady, b.steady);
            prop_assert!((a.slope + b.slope).abs() < 1e-6);
        }

        #[test]
        fn counting_rounds_from_elsewhere_keeps_the_verdict(
            values in prop::collection::vec(1.0..1e6f64, 5), before in 0usize..20,
        ) {
            let mut all = vec![1e9; before];
            all.extend(&values);
            let (a, b) = (window(&values), window(&all));
            prop_assert_eq!(a.steady, b.steady);
            prop_assert!((a.slope_excursion - b.slope_excursion).abs() < 1e-6 * (1.0 + a.slope_excursion));
        }
    }
}
