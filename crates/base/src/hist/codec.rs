//! The lossless byte form of a histogram, small enough for one row a second over days.
//!
//! Head: count, sum, minimum, maximum - minimum as varints (nothing more when empty). Body: runs of
//! touched buckets as (gap, length) varints, then the counts as adaptive Rice codes, either plain or
//! as differences to the bucket before, whichever is shorter. `docs/run-file.md` has the format.

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
    used: u32,
}

impl BitWriter {
    fn bits(&mut self, value: u64, n: u32) {
        for shift in (0..n).rev() {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let bit = (value >> shift & 1) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (7 - self.used);
            }
            self.used = (self.used + 1) % 8;
        }
    }

    fn rice(&mut self, value: u64, k: u32) {
        let prefix = value >> k;
        if prefix >= u64::from(UNARY_MAX) {
            self.bits((1 << (UNARY_MAX + 1)) - 1, UNARY_MAX + 1);
            self.bits(value, 64);
        } else {
            self.bits((1 << (prefix + 1)) - 2, prefix as u32 + 1);
            self.bits(value, k);
        }
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn bit(&mut self) -> Result<u64, DecodeError> {
        let byte = *self.bytes.get(self.at / 8).ok_or(DecodeError::Truncated)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Ok(u64::from(bit))
    }

    fn bits(&mut self, n: u32) -> Result<u64, DecodeError> {
        let mut value = 0;
        for _ in 0..n {
            value = value << 1 | self.bit()?;
        }
        Ok(value)
    }

    fn rice(&mut self, k: u32) -> Result<u64, DecodeError> {
        let mut prefix = 0;
        while self.bit()? == 1 {
            prefix += 1;
            if prefix > UNARY_MAX {
                return self.bits(64);
            }
        }
        Ok(u64::from(prefix) << k | self.bits(k)?)
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Rice codes of the counts of all runs, plain or as differences.
fn encode_counts(counts: &[u64], runs: &[(usize, usize)], differences: bool) -> Vec<u8> {
    let mut writer = BitWriter::default();
    let mut model = Adaptive { mean_x16: 64 };
    for &(start, length) in runs {
        let mut before = 0u64;
        for &count in &counts[start..start + length] {
            let symbol =
                if differences { zigzag(count.wrapping_sub(before) as i64) } else { count };
            writer.rice(symbol, model.parameter());
            model.learn(symbol);
            before = count;
        }
    }
    writer.bytes
}

/// Runs of touched buckets as (start, length); short gaps belong to the run.
fn runs_of(counts: &[u64]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (bucket, _) in counts.iter().enumerate().filter(|&(_, &n)| n > 0) {
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
        let runs = runs_of(&self.counts);
        varint::put(out, runs.len() as u64);
        let mut end = 0;
        for &(start, length) in &runs {
            varint::put(out, (start - end) as u64);
            varint::put(out, length as u64);
            end = start + length;
        }
        let plain = encode_counts(&self.counts, &runs, false);
        let differences = encode_counts(&self.counts, &runs, true);
        let (mode, body) =
            if plain.len() <= differences.len() { (0, plain) } else { (1, differences) };
        varint::put(out, (body.len() as u64) << 1 | mode);
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
        let length = usize::try_from(head >> 1).map_err(|_| DecodeError::Truncated)?;
        let body = input.get(..length).ok_or(DecodeError::Truncated)?;
        *input = &input[length..];
        decode_counts(&mut hist.counts, &runs, head & 1 == 1, body)?;
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
    runs: &[(usize, usize)],
    differences: bool,
    body: &[u8],
) -> Result<(), DecodeError> {
    let mut reader = BitReader { bytes: body, at: 0 };
    let mut model = Adaptive { mean_x16: 64 };
    for &(start, length) in runs {
        let mut before = 0u64;
        for count in &mut counts[start..start + length] {
            let symbol = reader.rice(model.parameter())?;
            model.learn(symbol);
            *count =
                if differences { before.wrapping_add(unzigzag(symbol) as u64) } else { symbol };
            before = *count;
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
