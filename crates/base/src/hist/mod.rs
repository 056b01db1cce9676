//! Latency histograms: fixed log-linear layout, exact minimum, maximum, sum and count, exact merge.
//!
//! Layout: below 256 ns every nanosecond has its bucket; above, each octave has 128 buckets, up to
//! 2^42 ns (73 min). A bucket is reported by its midpoint, so the relative error of any reported
//! value is at most 1/256 (0.39 %). Larger values fall in the last bucket; the maximum stays exact.
//! A histogram carries the kind of time it counts in its type; kinds cannot be mixed.

mod codec;
mod recorder;

pub use codec::DecodeError;
pub use recorder::Recorder;

use std::marker::PhantomData;

/// log2 of the buckets in an octave.
const SUB_BITS: u32 = 7;
/// Buckets in an octave.
const SUB: usize = 1 << SUB_BITS;
/// First power of two that is out of range.
const TOP_BITS: u32 = 42;
/// Number of buckets of the layout.
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) * SUB;

/// Samples that must lie beyond a percentile before it is given (DESIGN 3.3).
pub const SAMPLES_BEYOND_MIN: u64 = 10;

/// The bucket of a value in ns; values beyond the range give an index of `BUCKETS` or more.
#[inline(always)]
pub const fn bucket_of(value: u64) -> usize {
    let shift = 63 - SUB_BITS - (value | SUB as u64).leading_zeros();
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest value in ns of a bucket.
pub const fn bucket_low(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    ((bucket - (shift << SUB_BITS)) as u64) << shift
}

/// How many ns a bucket spans.
pub const fn bucket_width(bucket: usize) -> u64 {
    if bucket < 2 * SUB { 1 } else { 1 << ((bucket >> SUB_BITS) - 1) }
}

/// The value in ns that stands for a bucket.
pub const fn bucket_mid(bucket: usize) -> u64 {
    bucket_low(bucket) + bucket_width(bucket) / 2
}

/// A kind of time that is counted: see the glossary.
pub trait Kind: Copy {
    /// The glossary's word.
    const NAME: &'static str;
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;
        impl Kind for $name {
            const NAME: &'static str = $word;
        }
    };
}

kind!(
    /// Time inside the submitting system call, shared by the batch.
    Submission, "submission"
);
kind!(
    /// From just before the submitting system call to the completion being seen.
    Service, "service"
);
kind!(
    /// From the intended start to the completion being seen.
    Response, "response"
);
kind!(
    /// From the intended start to the actual start.
    Lateness, "lateness"
);

/// A mergeable histogram of one kind of time. Memory only for the span of buckets that was touched.
#[derive(Clone)]
pub struct Hist<K> {
    /// Counts of the buckets from `first` on.
    counts: Vec<u64>,
    first: usize,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    kind: PhantomData<K>,
}

impl<K: Kind> Default for Hist<K> {
    fn default() -> Self {
        Hist::new()
    }
}

impl<K: Kind> PartialEq for Hist<K> {
    fn eq(&self, other: &Self) -> bool {
        let head = |h: &Self| (h.count, h.sum_ns, h.min_ns, h.max_ns);
        head(self) == head(other) && self.buckets().eq(other.buckets())
    }
}

impl<K: Kind> Eq for Hist<K> {}

impl<K: Kind> std::fmt::Debug for Hist<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Hist { count, sum_ns, min_ns, max_ns, .. } = self;
        write!(f, "Hist<{}>({count}, sum {sum_ns}, {min_ns}..{max_ns} ns)", K::NAME)
    }
}

impl<K: Kind> Hist<K> {
    /// An empty histogram.
    pub fn new() -> Self {
        Hist {
            counts: Vec::new(),
            first: 0,
            count: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            kind: PhantomData,
        }
    }

    /// Makes room for the buckets `from..to`.
    fn cover(&mut self, from: usize, to: usize) {
        if self.counts.is_empty() {
            self.first = from;
        }
        if from < self.first {
            let more = self.first - from;
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = from;
        }
        if to > self.first + self.counts.len() {
            self.counts.resize(to - self.first, 0);
        }
    }

    /// Counts one value in ns.
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Counts `n` equal values in ns.
    pub fn record_n(&mut self, value_ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let bucket = bucket_of(value_ns).min(BUCKETS - 1);
        self.cover(bucket, bucket + 1);
        self.counts[bucket - self.first] += n;
        self.count += n;
        self.sum_ns += u128::from(value_ns) * u128::from(n);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds everything `other` counted. Exact, in any order.
    pub fn merge(&mut self, other: &Hist<K>) {
        if other.count == 0 {
            return;
        }
        self.cover(other.first, other.first + other.counts.len());
        let from = other.first - self.first;
        for (mine, theirs) in self.counts[from..].iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The same counts as another kind of time, where both are known to be the same by definition.
    pub fn counted_as<J: Kind>(self) -> Hist<J> {
        let Hist { counts, first, count, sum_ns, min_ns, max_ns, .. } = self;
        Hist { counts, first, count, sum_ns, min_ns, max_ns, kind: PhantomData }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Exact smallest value in ns; none when empty.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Exact largest value in ns; none when empty.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// Exact sum of all values in ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Exact mean in ns; none when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Standard deviation in ns, from bucket midpoints; none when empty.
    pub fn stddev_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let squares: f64 = self
            .buckets()
            .map(|(bucket, n)| (bucket_mid(bucket) as f64 - mean).powi(2) * n as f64)
            .sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// The value below or at which `percent` of the samples lie, as the midpoint of its bucket kept
    /// within minimum and maximum; none unless at least [`SAMPLES_BEYOND_MIN`] samples lie beyond it.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = self.rank(percent)?;
        (self.count - rank >= SAMPLES_BEYOND_MIN).then(|| self.value_at_rank(rank))
    }

    /// [`Hist::percentile_ns`] of rising percents, in one pass.
    pub fn percentiles_ns<const N: usize>(&self, percents: [f64; N]) -> [Option<u64>; N] {
        let mut found = [None; N];
        let mut buckets = self.buckets();
        let (mut seen, mut value) = (0, self.max_ns);
        for (percent, found) in percents.into_iter().zip(&mut found) {
            let Some(rank) = self.rank(percent) else { continue };
            while seen < rank {
                let Some((bucket, n)) = buckets.next() else { break };
                (seen, value) = (seen + n, bucket_mid(bucket).clamp(self.min_ns, self.max_ns));
            }
            *found = (self.count - rank >= SAMPLES_BEYOND_MIN).then_some(value);
        }
        found
    }

    /// As [`Hist::percentile_ns`] without the rule about samples beyond: for drawing curves only.
    pub fn quantile_ns(&self, percent: f64) -> Option<u64> {
        Some(self.value_at_rank(self.rank(percent)?))
    }

    /// 1-based rank of a percentile (nearest-rank definition).
    fn rank(&self, percent: f64) -> Option<u64> {
        if self.count == 0 || !(0.0..=100.0).contains(&percent) {
            return None;
        }
        // 99.9 / 100 is not exact in binary: without the margin, 999 of 1000 would become 1000.
        let exact = percent / 100.0 * self.count as f64;
        Some(((exact - exact * 1e-12).ceil() as u64).clamp(1, self.count))
    }

    fn value_at_rank(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for (bucket, n) in self.buckets() {
            seen += n;
            if seen >= rank {
                return bucket_mid(bucket).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    /// How many values are above `limit_ns`, to bucket accuracy.
    pub fn count_above(&self, limit_ns: u64) -> u64 {
        let limit = bucket_of(limit_ns).min(BUCKETS - 1);
        self.buckets().filter(|(bucket, _)| *bucket > limit).map(|(_, n)| n).sum()
    }

    /// Non-empty buckets in rising order, as (bucket, count).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let numbered = self.counts.iter().enumerate().map(|(at, &n)| (self.first + at, n));
        numbered.filter(|&(_, n)| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_in_one_pass_are_those_one_by_one(
            values in prop::collection::vec((0u64..1 << 40, 1u64..5000), 0..60),
        ) {
            let mut hist = Hist::<Service>::new();
            values.iter().for_each(|(value, n)| hist.record_n(*value, *n));
            let percents = [0.0, 1.0, 50.0, 99.0, 99.9, 99.99, 100.0];
            prop_assert_eq!(hist.percentiles_ns(percents), percents.map(|p| hist.percentile_ns(p)));
        }
    }

    #[test]
    fn buckets_tile_the_range_without_gap() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_low(bucket), next, "bucket {bucket}");
            assert_eq!(bucket_of(next), bucket);
            next += bucket_width(bucket);
            assert_eq!(bucket_of(next - 1), bucket);
        }
        assert_eq!(next, 1 << TOP_BITS);
        assert!(next >= 3_600_000_000_000, "one hour fits");
    }

    proptest! {
        #[test]
        fn reported_value_is_within_0_4_percent(value in 1u64..3_600_000_000_000) {
            let mid = bucket_mid(bucket_of(value));
            prop_assert!(mid.abs_diff(value) as f64 <= 0.004 * value as f64);
        }

        #[test]
        fn percentiles_match_a_sorted_list(
            mut values in prop::collection::vec(1u64..10_000_000_000, 1..400),
            percent in 0.0f64..100.0,
        ) {
            let mut hist = Hist::<Service>::new();
            values.iter().for_each(|&v| hist.record(v));
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let truth = values[rank - 1];
            let told = hist.quantile_ns(percent).unwrap();
            prop_assert!(told.abs_diff(truth) as f64 <= 0.004 * truth as f64 + 1.0);
            let beyond = (values.len() - rank) as u64;
            prop_assert_eq!(hist.percentile_ns(percent).is_some(), beyond >= SAMPLES_BEYOND_MIN);
        }

        #[test]
        fn merge_is_the_same_as_counting_together(
            a in prop::collection::vec(any::<u64>(), 0..50),
            b in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let (mut left, mut right, mut both) =
                (Hist::<Response>::new(), Hist::new(), Hist::new());
            a.iter().for_each(|&v| { left.record(v); both.record(v) });
            b.iter().for_each(|&v| { right.record(v); both.record(v) });
            left.merge(&right);
            prop_assert_eq!(left, both);
        }
    }

    #[test]
    fn the_999th_of_1000_is_the_999th() {
        let mut hist = Hist::<Service>::new();
        (1..=1000).for_each(|v| hist.record(v));
        assert_eq!(hist.quantile_ns(99.9), Some(bucket_mid(bucket_of(999))));
        assert_eq!(hist.percentile_ns(99.0), Some(bucket_mid(bucket_of(990))));
        assert_eq!(hist.percentile_ns(99.1), None, "only nine samples lie beyond");
    }

    #[test]
    fn values_beyond_the_range_keep_the_exact_maximum() {
        let mut hist = Hist::<Service>::new();
        hist.record(u64::MAX);
        assert_eq!((hist.count(), hist.max_ns()), (1, Some(u64::MAX)));
    }
}
