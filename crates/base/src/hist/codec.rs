//! The lossless byte form of a histogram, small enough for one row a second over days.
//!
//! Head: count, sum, minimum, maximum - minimum as varints (nothing more when empty). Body: runs of
//! touched buckets as (gap, length) varints, then the counts as adaptive Rice codes: plain, or as
//! differences to a prediction from the buckets before, whichever is shorter. `docs/run-file.md` has
//! the format.

use super::{BUCKETS, Hist, Kind};
use crate::varint;

/// Why bytes are not a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end in the middle.
    Truncated,
    /// A number contradicts another or the layout.
    Inconsistent,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the histogram is cut off",
            DecodeError::Inconsistent => "the histogram contradicts itself",
        })
    }
}

impl std::error::Error for DecodeError {}

/// A unary prefix longer than this is followed by the value in 64 plain bits.
const UNARY_MAX: u32 = 24;
/// Touched buckets closer than this are one run: two varints cost more than a few zero counts.
const GAP_MIN: usize = 6;

/// Running estimate of the size of the numbers, which chooses the Rice parameter.
struct Adaptive {
    mean_x16: u64,
}

impl Adaptive {
    fn parameter(&self) -> u32 {
        let mean = self.mean_x16 >> 4;
        if mean == 0 { 0 } else { 63 - mean.leading_zeros() }
    }

    fn learn(&mut self, value: u64) {
        let scaled = value.min(1 << 55) << 4;
        self.mean_x16 = self.mean_x16 - self.mean_x16 / 4 + scaled / 4;
    }
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Bits not yet in `bytes`, low-aligned; fewer than eight after each call.
    held: u64,
    n_held: u32,
}

impl BitWriter {
    /// Appends the `n` low bits of `value`, at most 32, high bit first.
    fn bits(&mut self, value: u64, n: u32) {
        self.held = self.held << n | (value & ((1 << n) - 1));
        self.n_held += n;
        while self.n_held >= 8 {
            self.n_held -= 8;
            self.bytes.push((self.held >> self.n_held) as u8);
        }
    }

    fn rice(&mut self, value: u64, k: u32) {
        let prefix = value >> k;
        if prefix >= u64::from(UNARY_MAX) {
            self.bits((1 << (UNARY_MAX + 1)) - 1, UNARY_MAX + 1);
            self.bits(value >> 32, 32);
            self.bits(value, 32);
            return;
        }
        self.bits((1 << (prefix + 1)) - 2, prefix as u32 + 1);
        if k > 32 {
            self.bits(value >> 32, k - 32);
        }
        self.bits(value, k.min(32));
    }

    fn finish(mut self) -> Vec<u8> {
        if self.n_held > 0 {
            self.bits(0, 8 - self.n_held);
        }
        self.bytes
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits taken out of `bytes` and not yet used, low-aligned.
    held: u64,
    n_held: u32,
}

impl BitReader<'_> {
    /// The next `n` bits, at most 32.
    fn bits(&mut self, n: u32) -> Result<u64, DecodeError> {
        while self.n_held < n {
            let (&byte, rest) = self.bytes.split_first().ok_or(DecodeError::Truncated)?;
            self.bytes = rest;
            self.held = self.held << 8 | u64::from(byte);
            self.n_held += 8;
        }
        self.n_held -= n;
        Ok(self.held >> self.n_held & ((1 << n) - 1))
    }

    fn rice(&mut self, k: u32) -> Result<u64, DecodeError> {
        let mut prefix = 0;
        while self.bits(1)? == 1 {
            prefix += 1;
            if prefix > UNARY_MAX {
                return Ok(self.bits(32)? << 32 | self.bits(32)?);
            }
        }
        let high = if k > 32 { self.bits(k - 32)? << 32 } else { 0 };
        Ok(u64::from(prefix) << k | high | self.bits(k.min(32))?)
    }
}

/// What a count is expected to be, from the three before it in the same run.
#[derive(Clone, Copy)]
enum Prediction {
    Nothing,
    Last,
    Smooth,
}

const PREDICTIONS: [Prediction; 3] = [Prediction::Nothing, Prediction::Last, Prediction::Smooth];

impl Prediction {
    fn of(self, before: [u64; 3]) -> u64 {
        match self {
            Prediction::Nothing => 0,
            Prediction::Last => before[0],
            Prediction::Smooth => {
                let halves = [before[0] / 2, before[1] / 4, before[2] / 4];
                halves.into_iter().fold(0, u64::wrapping_add)
            }
        }
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Rice codes of the counts of all runs. `counts` begins at bucket `first`.
fn encode_counts(
    counts: &[u64],
    first: usize,
    runs: &[(usize, usize)],
    prediction: Prediction,
) -> Vec<u8> {
    let mut writer = BitWriter::default();
    let mut model = Adaptive { mean_x16: 64 };
    for &(start, length) in runs {
        let mut before = [0u64; 3];
        for &count in &counts[start - first..start - first + length] {
            let symbol = match prediction {
                Prediction::Nothing => count,
                _ => zigzag(count.wrapping_sub(prediction.of(before)) as i64),
            };
            writer.rice(symbol, model.parameter());
            model.learn(symbol);
            before = [count, before[0], before[1]];
        }
    }
    writer.finish()
}

/// Runs of touched buckets as (start, length); short gaps belong to the run.
fn runs_of(buckets: impl Iterator<Item = (usize, u64)>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (bucket, _) in buckets {
        match runs.last_mut() {
            Some((start, length)) if bucket - (*start + *length) < GAP_MIN => {
                *length = bucket + 1 - *start;
            }
            _ => runs.push((bucket, 1)),
        }
    }
    runs
}

impl<K: Kind> Hist<K> {
    /// Appends the lossless byte form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        varint::put(out, self.count);
        if self.count == 0 {
            return;
        }
        varint::put(out, self.sum_ns as u64);
        varint::put(out, (self.sum_ns >> 64) as u64);
        varint::put(out, self.min_ns);
        varint::put(out, self.max_ns - self.min_ns);
        let runs = runs_of(self.buckets());
        varint::put(out, runs.len() as u64);
        let mut end = 0;
        for &(start, length) in &runs {
            varint::put(out, (start - end) as u64);
            varint::put(out, length as u64);
            end = start + length;
        }
        let coded = PREDICTIONS.map(|p| encode_counts(&self.counts, self.first, &runs, p));
        let shortest = coded.into_iter().enumerate().min_by_key(|(_, body)| body.len());
        let (mode, body) = shortest.unwrap_or_default();
        varint::put(out, (body.len() as u64) << 2 | mode as u64);
        out.extend_from_slice(&body);
    }

    /// Takes a histogram off the front of `input`.
    ///
    /// # Errors
    /// When the bytes are cut off or contradict themselves; nothing is guessed.
    pub fn decode_from(input: &mut &[u8]) -> Result<Hist<K>, DecodeError> {
        let take = |input: &mut &[u8]| varint::take(input).ok_or(DecodeError::Truncated);
        let mut hist = Hist::new();
        hist.count = take(input)?;
        if hist.count == 0 {
            return Ok(hist);
        }
        let low = take(input)?;
        hist.sum_ns = u128::from(low) | u128::from(take(input)?) << 64;
        hist.min_ns = take(input)?;
        hist.max_ns = hist.min_ns.checked_add(take(input)?).ok_or(DecodeError::Inconsistent)?;
        let runs = decode_runs(input)?;
        let head = take(input)?;
        let prediction = PREDICTIONS.get((head & 3) as usize).ok_or(DecodeError::Inconsistent)?;
        let length = usize::try_from(head >> 2).map_err(|_| DecodeError::Truncated)?;
        let body = input.get(..length).ok_or(DecodeError::Truncated)?;
        *input = &input[length..];
        if let (Some(&(first, _)), Some(&(start, length))) = (runs.first(), runs.last()) {
            hist.cover(first, start + length);
        }
        decode_counts(&mut hist.counts, hist.first, &runs, *prediction, body)?;
        let total = hist.counts.iter().try_fold(0u64, |sum, &n| sum.checked_add(n));
        if total == Some(hist.count) { Ok(hist) } else { Err(DecodeError::Inconsistent) }
    }
}

fn decode_runs(input: &mut &[u8]) -> Result<Vec<(usize, usize)>, DecodeError> {
    let n = varint::take(input).ok_or(DecodeError::Truncated)?;
    if n > BUCKETS as u64 {
        return Err(DecodeError::Inconsistent);
    }
    let mut runs = Vec::with_capacity(n as usize);
    let mut end = 0u64;
    for _ in 0..n {
        let gap = varint::take(input).ok_or(DecodeError::Truncated)?;
        let length = varint::take(input).ok_or(DecodeError::Truncated)?;
        let start = end.checked_add(gap).ok_or(DecodeError::Inconsistent)?;
        end = start.checked_add(length).ok_or(DecodeError::Inconsistent)?;
        if end > BUCKETS as u64 {
            return Err(DecodeError::Inconsistent);
        }
        runs.push((start as usize, length as usize));
    }
    Ok(runs)
}

fn decode_counts(
    counts: &mut [u64],
    first: usize,
    runs: &[(usize, usize)],
    prediction: Prediction,
    body: &[u8],
) -> Result<(), DecodeError> {
    let mut reader = BitReader { bytes: body, held: 0, n_held: 0 };
    let mut model = Adaptive { mean_x16: 64 };
    for &(start, length) in runs {
        let mut before = [0u64; 3];
        for count in &mut counts[start - first..start - first + length] {
            let symbol = reader.rice(model.parameter())?;
            model.learn(symbol);
            *count = match prediction {
                Prediction::Nothing => symbol,
                _ => prediction.of(before).wrapping_add(unzigzag(symbol) as u64),
            };
            before = [*count, before[0], before[1]];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Service;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_histogram_comes_back_the_same(
            values in prop::collection::vec((any::<u64>(), 1u64..1 << 40, 0u32..64), 0..120),
        ) {
            let mut hist = Hist::<Service>::new();
            values.iter().for_each(|&(v, n, shift)| hist.record_n(v >> shift, n));
            let mut bytes = Vec::new();
            hist.encode_into(&mut bytes);
            let mut input = bytes.as_slice();
            prop_assert_eq!(Hist::<Service>::decode_from(&mut input), Ok(hist));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn noise_is_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = Hist::<Service>::decode_from(&mut bytes.as_slice());
        }

        #[test]
        fn flipped_bytes_are_refused_or_consistent(at in 0usize..200, flip in 1u8..) {
            let mut hist = Hist::<Service>::new();
            (0..500u64).for_each(|v| hist.record_n(v * v, v));
            let mut bytes = Vec::new();
            hist.encode_into(&mut bytes);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let _ = Hist::<Service>::decode_from(&mut bytes.as_slice());
        }
    }

    /// A busy second (100,000 samples, log-normal around 100 us) must stay near its entropy.
    #[test]
    fn a_busy_second_takes_few_bytes() {
        let mut rng = crate::rng::Rng::new(1);
        let mut hist = Hist::<Service>::new();
        for _ in 0..100_000 {
            let normal: f64 = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            hist.record((100_000.0 * (0.25 * normal).exp()) as u64);
        }
        let mut bytes = Vec::new();
        hist.encode_into(&mut bytes);
        let touched = hist.buckets().count();
        assert!(bytes.len() < 400, "{} bytes for {touched} buckets", bytes.len());
    }
}
