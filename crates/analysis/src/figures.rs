//! The figures of a cell that a method may track, choose by or average.

use base::sample::{Side, StreamSample};
use base::units::Nanos;
use plan::{Figure, Way};

/// All figures of a cell, by direction. Latencies are in ns, those of the response where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    ways: [WayFigures; 3],
}

#[derive(Clone, Debug, Default, PartialEq)]
struct WayFigures {
    iops: f64,
    bandwidth: f64,
    mean: Option<f64>,
    max: Option<f64>,
    percentiles: [Option<f64>; Figure::PERCENTS.len()],
}

impl Figures {
    /// The figures of counts over a time.
    pub fn of(counts: &StreamSample, len: Nanos) -> Figures {
        let mut both = counts.reads.clone();
        both.merge(&counts.writes);
        Figures { ways: [&both, &counts.reads, &counts.writes].map(|side| way_of(side, len)) }
    }

    /// One figure; none where nothing was counted, or too little for a percentile.
    pub fn get(&self, figure: Figure, way: Way) -> Option<f64> {
        let way = &self.ways[way as usize];
        match figure {
            Figure::Iops => Some(way.iops),
            Figure::Bandwidth => Some(way.bandwidth),
            Figure::Mean => way.mean,
            Figure::Max => way.max,
            Figure::Percentile(percent) => {
                let at = Figure::PERCENTS.iter().position(|known| *known == percent)?;
                way.percentiles[at]
            }
        }
    }
}

fn way_of(side: &Side, len: Nanos) -> WayFigures {
    let seconds = len.as_secs_f64();
    let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let mut way =
        WayFigures { iops: rate(side.ios()), bandwidth: rate(side.bytes), ..Default::default() };
    let at = |percent: f64| match side.response.is_empty() {
        true => side.service.percentile_ns(percent),
        false => side.response.percentile_ns(percent),
    };
    way.percentiles = Figure::PERCENTS.map(|percent| at(percent).map(|ns| ns as f64));
    (way.mean, way.max) = match side.response.is_empty() {
        true => (side.service.mean_ns(), side.service.max_ns().map(|ns| ns as f64)),
        false => (side.response.mean_ns(), side.response.max_ns().map(|ns| ns as f64)),
    };
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_add_up_and_latencies_merge_per_io() {
        let mut counts = StreamSample::default();
        counts.reads.service.record_n(100, 300);
        counts.writes.service.record_n(500, 100);
        (counts.reads.bytes, counts.writes.bytes) = (300 * 4096, 100 * 4096);
        let figures = Figures::of(&counts, Nanos(2_000_000_000));
        assert_eq!(figures.get(Figure::Iops, Way::Both), Some(200.0));
        assert_eq!(figures.get(Figure::Iops, Way::Write), Some(50.0));
        assert_eq!(figures.get(Figure::Mean, Way::Both), Some(200.0));
        assert_eq!(figures.get(Figure::Max, Way::Read), Some(100.0));
        assert_eq!(figures.get(Figure::Percentile(99.999), Way::Both), None, "too few for five 9s");
        assert!(figures.get(Figure::Percentile(50.0), Way::Both).is_some());
    }
}
