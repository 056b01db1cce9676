//! What a cell amounts to: rates, latencies, nines.

use base::hist::{Hist, Kind};
use base::sample::{CpuUse, Side, StreamSample};
use base::units::Nanos;
use serde::Serialize;
use store::CellRecord;

/// Percentiles that are always looked at: the quartile points and the nines.
pub const NINES: [f64; 11] =
    [1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999];

/// The usual name: `p50`, `p99.99`.
pub fn percentile_name(percent: f64) -> String {
    format!("p{percent}")
}

/// Samples needed so that at least ten lie beyond a percentile.
pub fn beyond(percent: f64) -> u64 {
    let share = 1.0 - percent / 100.0;
    (base::hist::SAMPLES_BEYOND_MIN as f64 / share - 1e-6).ceil() as u64
}

/// A latency distribution in figures, in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// Exact mean.
    pub mean_ns: f64,
    /// Standard deviation, from buckets.
    pub stddev_ns: f64,
    /// Exact minimum.
    pub min_ns: u64,
    /// Exact maximum.
    pub max_ns: u64,
    /// (percent, value) at [`NINES`]; none where fewer than ten samples lie beyond.
    pub percentiles: Vec<(f64, Option<u64>)>,
}

impl Latency {
    /// The figures of a histogram; none when it is empty.
    pub fn of<K: Kind>(hist: &Hist<K>) -> Option<Latency> {
        Some(Latency {
            count: hist.count(),
            mean_ns: hist.mean_ns()?,
            stddev_ns: hist.stddev_ns()?,
            min_ns: hist.min_ns()?,
            max_ns: hist.max_ns()?,
            percentiles: NINES.iter().map(|&p| (p, hist.percentile_ns(p))).collect(),
        })
    }

    /// One of the percentiles in [`NINES`].
    pub fn at(&self, percent: f64) -> Option<u64> {
        self.percentiles.iter().find(|(p, _)| *p == percent).and_then(|(_, value)| *value)
    }
}

/// One direction of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideSummary {
    /// I/Os completed.
    pub ios: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bandwidth_bytes: f64,
    /// Issue to completion.
    pub service: Option<Latency>,
    /// Intended start to completion; none in closed loop.
    pub response: Option<Latency>,
    /// Inside the submitting call.
    pub submission: Option<Latency>,
}

impl SideSummary {
    /// The latency a user feels: response time in open loop, service time in closed loop.
    pub fn felt(&self) -> Option<&Latency> {
        self.response.as_ref().or(self.service.as_ref())
    }
}

/// A cell in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Counted time in seconds.
    pub seconds: f64,
    /// I/Os per second, both directions.
    pub iops: f64,
    /// Bytes per second, both directions.
    pub bandwidth_bytes: f64,
    /// Reads; none when there were none.
    pub reads: Option<SideSummary>,
    /// Writes; none when there were none.
    pub writes: Option<SideSummary>,
    /// Intended start to actual start; none in closed loop.
    pub lateness: Option<Latency>,
    /// Arrivals that found every slot taken.
    pub waited: u64,
    /// Arrivals that were shed.
    pub shed: u64,
    /// CPUs' worth of time the workers used: 1.0 is one CPU all the time.
    pub cpu: f64,
    /// CPU time per I/O in ns.
    pub cpu_per_io_ns: f64,
}

impl CellSummary {
    /// The direction with more I/Os.
    pub fn main_side(&self) -> Option<&SideSummary> {
        match (&self.reads, &self.writes) {
            (Some(reads), Some(writes)) if writes.ios > reads.ios => Some(writes),
            (Some(reads), _) => Some(reads),
            (None, writes) => writes.as_ref(),
        }
    }
}

/// Summarises a stored cell, all streams together.
pub fn summarize(cell: &CellRecord) -> CellSummary {
    summarize_counts(&cell.merged(), cell.len, cell.cpu)
}

/// Summarises counts over a time.
pub fn summarize_counts(counts: &StreamSample, len: Nanos, cpu: CpuUse) -> CellSummary {
    let seconds = len.as_secs_f64();
    let rate = |n: u64| {
        if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
    };
    let ios = counts.ios();
    CellSummary {
        seconds,
        iops: rate(ios),
        bandwidth_bytes: rate(counts.bytes()),
        reads: side(&counts.reads, rate),
        writes: side(&counts.writes, rate),
        lateness: Latency::of(&counts.lateness),
        waited: counts.waited,
        shed: counts.shed,
        cpu: if len.0 > 0 { cpu.total_ns() as f64 / len.0 as f64 } else { 0.0 },
        cpu_per_io_ns: if ios > 0 { cpu.total_ns() as f64 / ios as f64 } else { 0.0 },
    }
}

fn side(side: &Side, rate: impl Fn(u64) -> f64) -> Option<SideSummary> {
    (side.ios() > 0 || side.errors > 0).then(|| SideSummary {
        ios: side.ios(),
        bytes: side.bytes,
        errors: side.errors,
        iops: rate(side.ios()),
        bandwidth_bytes: rate(side.bytes),
        service: Latency::of(&side.service),
        response: Latency::of(&side.response),
        submission: Latency::of(&side.submission),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_counts_over_time() {
        let mut counts = StreamSample::default();
        (0..300).for_each(|i| counts.reads.service.record(1000 + i));
        counts.reads.bytes = 300 * 4096;
        (0..100).for_each(|i| counts.writes.service.record(5000 + i));
        counts.writes.bytes = 100 * 4096;
        let cpu = CpuUse { user_ns: 500_000_000, system_ns: 500_000_000 };
        let cell = summarize_counts(&counts, Nanos(2_000_000_000), cpu);
        assert_eq!((cell.iops, cell.bandwidth_bytes), (200.0, 819_200.0));
        assert_eq!((cell.cpu, cell.cpu_per_io_ns), (0.5, 2_500_000.0));
        let reads = cell.reads.as_ref().unwrap();
        assert_eq!((reads.iops, reads.ios), (150.0, 300));
        let latency = reads.felt().unwrap();
        assert_eq!((latency.min_ns, latency.max_ns), (1000, 1299));
        assert_eq!(latency.mean_ns, 1149.5);
        assert!(latency.at(90.0).is_some(), "30 samples lie beyond p90");
        assert_eq!(latency.at(99.0), None, "only 3 lie beyond p99");
        assert_eq!(cell.main_side().unwrap().ios, 300);
    }

    #[test]
    fn each_nine_needs_ten_times_the_samples() {
        assert_eq!([beyond(90.0), beyond(99.0), beyond(99.99)], [100, 1000, 100_000]);
        assert_eq!(beyond(99.99999), 100_000_000);
    }

    #[test]
    fn nothing_measured_is_no_figure_and_no_division_by_zero() {
        let cell = summarize_counts(&StreamSample::default(), Nanos(0), CpuUse::default());
        assert_eq!((cell.iops, cell.cpu, cell.cpu_per_io_ns), (0.0, 0.0, 0.0));
        assert!(cell.reads.is_none() && cell.main_side().is_none());
    }
}
