//! The course of a cell, interval by interval.

use base::hist::{Hist, Response};
use base::sample::{IntervalSample, Side, StreamSample};
use store::{CellRecord, RunFile, StoreError};

/// One interval, all streams together.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Its middle on the run's clock, s.
    pub at_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// Whether it belongs to the ramp and does not count.
    pub ramp: bool,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second, both directions.
    pub bandwidth: f64,
    /// Bytes a second, reads alone.
    pub read_bandwidth: f64,
    /// Bytes written since the cell's start, up to its middle.
    pub written: f64,
    /// CPUs' worth of the workers' time.
    pub cpu: f64,
    /// Mean latency, NaN when nothing ended.
    pub mean_ns: f64,
    /// p50, p99, p99.9, p99.99, p99.999; NaN where too few lie beyond.
    pub percentiles_ns: [f64; 5],
    /// Largest latency, NaN when nothing ended.
    pub max_ns: f64,
}

impl Moment {
    /// An interval alone, with its latencies: `written` is what it wrote itself.
    pub fn of(interval: IntervalSample) -> (Moment, Hist<Response>) {
        let mut streams = interval.streams.into_iter();
        let mut sum = streams.next().unwrap_or_default();
        streams.for_each(|stream| sum.merge(&stream));
        let seconds = interval.len.as_secs_f64().max(1e-9);
        let (ios, bytes, read_bytes) = (sum.ios(), sum.bytes(), sum.reads.bytes);
        let written = sum.writes.bytes as f64;
        let hist = felt_of(sum.reads, sum.writes);
        let moment = Moment {
            at_s: interval.start.as_secs_f64() + seconds / 2.0,
            seconds,
            ramp: interval.ramp,
            read_bandwidth: read_bytes as f64 / seconds,
            iops: ios as f64 / seconds,
            bandwidth: bytes as f64 / seconds,
            written,
            cpu: interval.cpu.total_ns() as f64 / interval.len.0.max(1) as f64,
            mean_ns: hist.mean_ns().unwrap_or(f64::NAN),
            percentiles_ns: hist
                .percentiles_ns(PERCENTS)
                .map(|ns| ns.map_or(f64::NAN, |ns| ns as f64)),
            max_ns: hist.max_ns().map_or(f64::NAN, |ns| ns as f64),
        };
        (moment, hist)
    }
}

/// The percentiles of a [`Moment`].
pub const PERCENTS: [f64; 5] = [50.0, 99.0, 99.9, 99.99, 99.999];

/// Reads and writes of all streams of a cell as one latency distribution: response time where there is
/// one, else service time.
pub fn felt(sample: &StreamSample) -> Hist<Response> {
    felt_of(sample.reads.clone(), sample.writes.clone())
}

fn felt_of(reads: Side, writes: Side) -> Hist<Response> {
    let of = |side: Side| match side.response.is_empty() {
        true => side.service.counted_as(),
        false => side.response,
    };
    let (mut all, more) = (of(reads), of(writes));
    if all.is_empty() {
        return more;
    }
    all.merge(&more);
    all
}

/// The intervals of a cell in order; `each` also gets the latencies of every one.
///
/// # Errors
/// When a row of the run file is damaged.
pub fn moments(
    run: &RunFile,
    cell: &CellRecord,
    mut each: impl FnMut(&Moment, &Hist<Response>),
) -> Result<Vec<Moment>, StoreError> {
    let mut all = Vec::new();
    let mut written = 0.0;
    run.each_interval(cell.id, 0, |interval| {
        let (mut moment, hist) = Moment::of(interval);
        let wrote = moment.written;
        moment.written = written + wrote / 2.0;
        written += wrote;
        each(&moment, &hist);
        all.push(moment);
    })?;
    Ok(all)
}
