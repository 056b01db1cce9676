//! The course of a run in a bounded number of points: however long it is, a viewer gets all of it at
//! once, and no extreme is lost.

use analysis::Moment;
use serde_json::{Value, json};

/// Points at most; then neighbours become one.
const POINTS_MAX: usize = 1500;

/// Some intervals in a row.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// Start since the run's first cell, s.
    at: f64,
    seconds: f64,
    intervals: u32,
    iops: f64,
    iops_min: f64,
    iops_max: f64,
    bandwidth: f64,
    mean_ns: f64,
    /// The highest p50, p99, p99.9 and p99.99 of the intervals.
    percentiles_ns: [f64; 4],
    max_ns: f64,
}

/// Points of equal numbers of intervals; the last may have fewer.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    points: Vec<Point>,
    each: u32,
    /// The first point that a viewer has not seen as it is.
    changed: usize,
    /// Added to times: a run that went on after a reboot has a new clock.
    shift: f64,
    zero: Option<f64>,
}

impl Course {
    pub(crate) fn new() -> Course {
        Course { points: Vec::new(), each: 1, changed: 0, shift: 0.0, zero: None }
    }

    /// Adds an interval.
    pub(crate) fn add(&mut self, moment: &Moment) {
        let start = moment.at_s - moment.seconds / 2.0;
        let zero = *self.zero.get_or_insert(start);
        let end = self.points.last().map_or(0.0, |last| last.at + last.seconds);
        if start - zero + self.shift < end - 1e-6 {
            self.shift = end - (start - zero);
        }
        let point = Point::of(moment, start - zero + self.shift);
        match self.points.last_mut() {
            Some(last) if last.intervals < self.each => {
                self.changed = self.changed.min(self.points.len() - 1);
                let last = self.points.len() - 1;
                self.points[last].take(&point);
            }
            _ => {
                self.changed = self.changed.min(self.points.len());
                self.points.push(point);
            }
        }
        if self.points.len() > POINTS_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let merged = self.points.chunks(2).map(|pair| {
            let mut point = pair[0].clone();
            pair[1..].iter().for_each(|other| point.take(other));
            point
        });
        self.points = merged.collect();
        self.each *= 2;
        self.changed = 0;
    }

    /// Everything, or what changed since the last call.
    pub(crate) fn as_json(&self, whole: bool) -> Value {
        let from = if whole { 0 } else { self.changed.min(self.points.len()) };
        let points: Vec<Value> = self.points[from..].iter().map(Point::as_json).collect();
        json!({ "from": from, "each": self.each, "points": points })
    }

    /// What changes from here on is new.
    pub(crate) fn seen(&mut self) {
        self.changed = self.points.len();
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.changed < self.points.len()
    }
}

impl Point {
    fn of(moment: &Moment, at: f64) -> Point {
        let [p50, p99, p999, p9999, _] = moment.percentiles_ns;
        Point {
            at,
            seconds: moment.seconds,
            intervals: 1,
            iops: moment.iops,
            iops_min: moment.iops,
            iops_max: moment.iops,
            bandwidth: moment.bandwidth,
            mean_ns: moment.mean_ns,
            percentiles_ns: [p50, p99, p999, p9999],
            max_ns: moment.max_ns,
        }
    }

    /// Takes the point after this one in: rates by time, mean latency by I/Os, the highest of the rest.
    fn take(&mut self, other: &Point) {
        let seconds = self.seconds + other.seconds;
        let ios = [self.iops * self.seconds, other.iops * other.seconds];
        let by_time = |a: f64, b: f64| (a * self.seconds + b * other.seconds) / seconds;
        let mean = match (self.mean_ns.is_nan(), other.mean_ns.is_nan()) {
            (true, _) => other.mean_ns,
            (_, true) => self.mean_ns,
            _ => (self.mean_ns * ios[0] + other.mean_ns * ios[1]) / (ios[0] + ios[1]).max(1e-9),
        };
        (self.iops, self.bandwidth) =
            (by_time(self.iops, other.iops), by_time(self.bandwidth, other.bandwidth));
        self.mean_ns = mean;
        self.iops_min = self.iops_min.min(other.iops_min);
        self.iops_max = self.iops_max.max(other.iops_max);
        for (mine, theirs) in self.percentiles_ns.iter_mut().zip(other.percentiles_ns) {
            *mine = mine.max(theirs);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.seconds = seconds;
        self.intervals += other.intervals;
    }

    /// In the order of `COLUMNS`; what is not a number is null.
    fn as_json(&self) -> Value {
        let [p50, p99, p999, p9999] = self.percentiles_ns;
        json!([
            self.at,
            self.seconds,
            self.iops,
            self.iops_min,
            self.iops_max,
            self.bandwidth,
            self.mean_ns,
            p50,
            p99,
            p999,
            p9999,
            self.max_ns
        ])
    }
}

/// What the values of a point are, in order.
pub(crate) const COLUMNS: [&str; 12] = [
    "at_s",
    "seconds",
    "iops",
    "iops_min",
    "iops_max",
    "bandwidth_bytes",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "p99.9_ns",
    "p99.99_ns",
    "max_ns",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moment(n: usize, iops: f64, max_ns: f64) -> Moment {
        Moment {
            at_s: n as f64 + 0.5,
            seconds: 1.0,
            iops,
            max_ns,
            mean_ns: max_ns,
            ..Moment::default()
        }
    }

    proptest! {
        #[test]
        fn no_extreme_is_lost_and_the_mean_is_that_of_all(
            values in prop::collection::vec((1.0f64..1e6, 1.0f64..1e9), 1..9000),
        ) {
            let mut course = Course::new();
            for (n, (iops, max)) in values.iter().enumerate() {
                course.add(&moment(n, *iops, *max));
            }
            prop_assert!(course.points.len() <= POINTS_MAX);
            let most = |get: fn(&Point) -> f64| course.points.iter().map(get).fold(0.0, f64::max);
            let max_iops = values.iter().map(|v| v.0).fold(0.0, f64::max);
            prop_assert_eq!(most(|p| p.iops_max), max_iops);
            prop_assert_eq!(most(|p| p.max_ns), values.iter().map(|v| v.1).fold(0.0, f64::max));
            let ios: f64 = course.points.iter().map(|p| p.iops * p.seconds).sum();
            let all: f64 = values.iter().map(|v| v.0).sum();
            prop_assert!((ios - all).abs() < all * 1e-9);
            let intervals: u32 = course.points.iter().map(|p| p.intervals).sum();
            prop_assert_eq!(intervals as usize, values.len());
        }

        /// A viewer who takes every change has at any time what a new one gets.
        #[test]
        fn changes_add_up_to_the_whole(parts in prop::collection::vec(1usize..700, 1..12)) {
            let mut course = Course::new();
            let mut seen: Vec<Value> = Vec::new();
            let mut n = 0;
            for part in parts {
                for _ in 0..part {
                    course.add(&moment(n, n as f64 + 1.0, 1.0));
                    n += 1;
                }
                let change = course.as_json(false);
                seen.truncate(change["from"].as_u64().unwrap() as usize);
                seen.extend(change["points"].as_array().unwrap().iter().cloned());
                course.seen();
                prop_assert_eq!(&Value::from(seen.clone()), &course.as_json(true)["points"]);
            }
        }
    }

    #[test]
    fn a_new_clock_goes_on_where_the_old_one_stood() {
        let mut course = Course::new();
        course.add(&moment(100, 1.0, 1.0));
        course.add(&moment(101, 1.0, 1.0));
        course.add(&moment(3, 1.0, 1.0));
        course.add(&moment(4, 1.0, 1.0));
        let at: Vec<f64> = course.points.iter().map(|point| point.at).collect();
        assert_eq!(at, [0.0, 1.0, 2.0, 3.0]);
    }
}
