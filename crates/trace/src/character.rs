//! What a recording is like: mix, sizes, where, in what order, how often.

use crate::{Request, Trace};
use std::collections::{HashMap, HashSet};

/// Streams that are followed at a time when telling what goes on where another request ended.
const STREAMS: usize = 64;
/// Pieces of the address space in which accesses are counted.
pub(crate) const PIECES: usize = 1024;
/// Unit of what is touched, in bytes.
const TOUCH: u64 = 4096;

/// A size and its share of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeShare {
    /// Bytes.
    pub len: u32,
    /// 0..=1.
    pub share: f64,
}

/// How much of what is accessed is accessed again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reuse {
    /// Bytes that are accessed at all, to 4 KiB.
    pub footprint: u64,
    /// Share of the accesses that go to the busiest hundredth, twentieth and fifth of the address space.
    pub hottest: [f64; 3],
}

/// The character of a trace, or of its reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Character {
    /// Requests.
    pub n: u64,
    /// Bytes.
    pub bytes: u64,
    /// Share of reads, 0..=1.
    pub reads: f64,
    /// Sizes, most frequent first.
    pub sizes: Vec<SizeShare>,
    /// Share of requests that start where one of the last requests ended, 0..=1.
    pub sequential: f64,
    /// Largest power of two from 512 on that all addresses are multiples of.
    pub align: u64,
    /// Requests per second over the whole.
    pub rate: f64,
    /// Most requests in one second.
    pub peak: u64,
    /// Standard deviation of the gaps over their mean: 0 for equal gaps, 1 for independent arrivals, more
    /// for bursts.
    pub gap_variation: f64,
    /// Accesses in each of 1024 equal pieces of the address space.
    pub pieces: Vec<u64>,
    /// Where, and how often again.
    pub reuse: Reuse,
}

impl Character {
    /// Of all requests of a trace.
    pub fn of(trace: &Trace) -> Character {
        Character::of_those(&trace.requests, trace.end(), |_| true)
    }

    /// Of its writes, or its reads; the address space is that of the whole.
    pub fn of_direction(trace: &Trace, write: bool) -> Character {
        Character::of_those(&trace.requests, trace.end(), |request| request.write == write)
    }

    /// Of some requests within addresses up to `end`.
    pub fn of_those(
        requests: &[Request],
        end: u64,
        filter: impl Fn(&Request) -> bool,
    ) -> Character {
        let those = || requests.iter().filter(|request| filter(request));
        let n = those().count() as u64;
        let (mut bytes, mut reads, mut align) = (0, 0u64, 1u64 << 20);
        let mut sizes: HashMap<u32, u64> = HashMap::new();
        let mut pieces = vec![0; PIECES];
        let piece = (end.div_ceil(PIECES as u64)).max(1);
        for request in those() {
            bytes += u64::from(request.len);
            reads += u64::from(!request.write);
            align = align.min(1 << request.offset.trailing_zeros().min(20));
            *sizes.entry(request.len).or_default() += 1;
            pieces[((request.offset / piece) as usize).min(PIECES - 1)] += 1;
        }
        let mut sizes: Vec<SizeShare> = sizes
            .into_iter()
            .map(|(len, count)| SizeShare { len, share: count as f64 / n.max(1) as f64 })
            .collect();
        sizes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.len.cmp(&b.len)));
        let span = requests.last().map_or(0, |r| r.time) - requests.first().map_or(0, |r| r.time);
        Character {
            n,
            bytes,
            reads: reads as f64 / n.max(1) as f64,
            sizes,
            sequential: sequential(those()),
            align: align.max(512),
            rate: n as f64 / (span as f64 / 1e9).max(1e-9),
            peak: peak(those()),
            gap_variation: gap_variation(those()),
            reuse: reuse(those(), &pieces),
            pieces,
        }
    }

    /// Mean size in bytes.
    pub fn mean_size(&self) -> f64 {
        self.bytes as f64 / self.n.max(1) as f64
    }
}

/// Share of requests that start where one of the last ones ended.
fn sequential<'a>(requests: impl Iterator<Item = &'a Request>) -> f64 {
    let mut ends: Vec<u64> = Vec::with_capacity(STREAMS);
    let (mut on, mut n) = (0u64, 0u64);
    for request in requests {
        n += 1;
        let end = request.offset + u64::from(request.len);
        match ends.iter().rposition(|end| *end == request.offset) {
            Some(place) => {
                on += 1;
                ends.remove(place);
            }
            None if ends.len() == STREAMS => {
                ends.remove(0);
            }
            None => {}
        }
        ends.push(end);
    }
    on as f64 / n.max(1) as f64
}

fn peak<'a>(requests: impl Iterator<Item = &'a Request>) -> u64 {
    let mut best = 0;
    let (mut second, mut count) = (0, 0);
    for request in requests {
        let this = request.time / 1_000_000_000;
        (second, count) = if this == second { (second, count + 1) } else { (this, 1) };
        best = best.max(count);
    }
    best
}

fn gap_variation<'a>(requests: impl Iterator<Item = &'a Request>) -> f64 {
    let times: Vec<u64> = requests.map(|request| request.time).collect();
    let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let variance =
        gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len().max(1) as f64;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

fn reuse<'a>(requests: impl Iterator<Item = &'a Request>, pieces: &[u64]) -> Reuse {
    let mut touched = HashSet::new();
    for request in requests {
        let end = request.offset + u64::from(request.len);
        touched.extend(request.offset / TOUCH..end.div_ceil(TOUCH));
    }
    let mut sorted = pieces.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let all = sorted.iter().sum::<u64>().max(1) as f64;
    let share = |part: f64| {
        let exact = PIECES as f64 * part;
        let whole = exact as usize;
        let sum = sorted[..whole].iter().sum::<u64>() as f64;
        (sum + sorted[whole] as f64 * exact.fract()) / all
    };
    Reuse {
        footprint: touched.len() as u64 * TOUCH,
        hottest: [share(0.01), share(0.05), share(0.2)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    fn trace(requests: Vec<Request>) -> Trace {
        Trace { requests, ..Trace::default() }
    }

    #[test]
    fn a_stream_is_sequential_and_chance_is_not() {
        let stream = |n: u64| Request { time: n * 1000, offset: n * 8192, len: 8192, write: false };
        let found = Character::of(&trace((0..1000).map(stream).collect()));
        assert!((found.sequential - 0.999).abs() < 1e-9);
        assert_eq!((found.align, found.n, found.peak), (8192, 1000, 1000));
        assert!(found.gap_variation < 1e-9);
        assert!((found.rate - 1000.0 / 999e-6).abs() < 1.0);
        let mut rng = Rng::new(1);
        let mut time = 0.0;
        let chance = (0..20_000).map(|n| {
            time += rng.exponential() * 1e5;
            let offset = rng.below(1 << 20) * 4096;
            Request { time: time as u64, offset, len: 4096, write: n % 4 == 0 }
        });
        let found = Character::of(&trace(chance.collect()));
        assert!(found.sequential < 0.001);
        assert!((found.gap_variation - 1.0).abs() < 0.05, "{}", found.gap_variation);
        assert!((found.reads - 0.75).abs() < 1e-9);
        // Twenty accesses a piece: by chance alone some have more than others.
        assert!((found.reuse.hottest[2] - 0.2).abs() < 0.08, "{:?}", found.reuse.hottest);
    }

    #[test]
    fn two_streams_side_by_side_are_both_seen() {
        let request = |n: u64| {
            let base = if n.is_multiple_of(2) { 0 } else { 1 << 30 };
            Request { time: n, offset: base + n / 2 * 4096, len: 4096, write: n % 2 == 1 }
        };
        let found = Character::of(&trace((0..1000).map(request).collect()));
        assert!((found.sequential - 0.998).abs() < 1e-9);
    }

    #[test]
    fn heat_is_found() {
        let mut rng = Rng::new(2);
        let request = |n: u64, rng: &mut Rng| {
            let hot = rng.unit() < 0.8;
            let offset = if hot { rng.below(1 << 16) } else { rng.below(1 << 20) } * 4096;
            Request { time: n, offset, len: 4096, write: false }
        };
        let all = (0..50_000).map(|n| request(n, &mut rng)).collect();
        let found = Character::of(&trace(all));
        // A sixteenth of the space takes 80 % and its share of the rest.
        assert!((found.reuse.hottest[2] - 0.84).abs() < 0.02, "{:?}", found.reuse.hottest);
    }
}
