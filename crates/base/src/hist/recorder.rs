//! The counting half of a histogram that lives on a worker's hot path.
//!
//! Fixed arrays, no allocation, one range check that guards minimum, maximum and the clamp together.
//! It is emptied into a [`Hist`] once per interval, off the hot path.

use super::{BUCKETS, Hist, Kind, bucket_of};
use std::marker::PhantomData;

/// Counts of one kind of time for one interval: at most 2^32 - 1 samples a bucket.
pub struct Recorder<K> {
    counts: [u32; BUCKETS],
    sum_ns: u64,
    min_ns: u64,
    /// `max - min`, so that one comparison finds a value outside of both.
    span_ns: u64,
    kind: PhantomData<K>,
}

impl<K: Kind> Recorder<K> {
    /// An empty recorder, on the heap.
    pub fn boxed() -> Box<Self> {
        Box::new(Recorder {
            counts: [0; BUCKETS],
            sum_ns: 0,
            min_ns: u64::MAX,
            span_ns: 0,
            kind: PhantomData,
        })
    }

    /// Counts one value in ns.
    #[inline(always)]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Counts `n` equal values in ns.
    #[inline(always)]
    pub fn record_n(&mut self, value_ns: u64, n: u32) {
        if value_ns.wrapping_sub(self.min_ns) > self.span_ns {
            self.widen(value_ns);
        }
        self.sum_ns = self.sum_ns.wrapping_add(value_ns.wrapping_mul(u64::from(n)));
        if let Some(count) = self.counts.get_mut(bucket_of(value_ns)) {
            *count += n;
        } else {
            self.counts[BUCKETS - 1] += n;
        }
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, value_ns: u64) {
        if self.min_ns == u64::MAX {
            self.min_ns = value_ns;
            return;
        }
        let max = (self.min_ns + self.span_ns).max(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.span_ns = max - self.min_ns;
    }

    /// Adds all counts to `hist` and starts again from nothing.
    pub fn drain_into(&mut self, hist: &mut Hist<K>) {
        if self.min_ns == u64::MAX {
            return;
        }
        let first = bucket_of(self.min_ns).min(BUCKETS - 1);
        let last = bucket_of(self.min_ns + self.span_ns).min(BUCKETS - 1);
        hist.cover(first, last + 1);
        let from = first - hist.first;
        for (mine, theirs) in self.counts[first..=last].iter_mut().zip(&mut hist.counts[from..]) {
            *theirs += u64::from(*mine);
            hist.count += u64::from(std::mem::take(mine));
        }
        hist.sum_ns += u128::from(self.sum_ns);
        hist.min_ns = hist.min_ns.min(self.min_ns);
        hist.max_ns = hist.max_ns.max(self.min_ns + self.span_ns);
        (self.sum_ns, self.min_ns, self.span_ns) = (0, u64::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Service;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn recorder_and_histogram_count_alike(
            values in prop::collection::vec(0u64..1 << 50, 0..200),
        ) {
            let mut recorder = Recorder::<Service>::boxed();
            let mut drained = Hist::new();
            let mut direct = Hist::new();
            for part in values.chunks(37) {
                part.iter().for_each(|&v| { recorder.record(v); direct.record(v) });
                recorder.drain_into(&mut drained);
            }
            prop_assert_eq!(drained, direct);
        }
    }
}
