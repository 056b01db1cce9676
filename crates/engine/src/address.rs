//! Where the next I/O goes: constant memory for every pattern, whatever the size of the target.

use base::permutation::Permutation;
use base::rng::{Rng, Zipf, derive};
use plan::{Load, Pattern, Streams, Zone};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A block size with the number of places it fits.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Bytes.
    pub len: u32,
    /// Addresses are multiples of this, from the start of the range.
    pub unit: u64,
    /// Places in the range.
    pub places: u64,
    /// Chosen when a 32-bit draw is below this.
    pub below: u64,
}

/// Choices of a weighted mix over `span` bytes.
pub fn choices(mix: &plan::BlockMix, align: Option<u64>, span: u64) -> Vec<Choice> {
    let total: f64 = mix.0.iter().map(|&(_, weight)| weight).sum();
    let mut sum = 0.0;
    let choice = |&(block, weight): &(base::units::Bytes, f64)| {
        sum += weight / total;
        let unit = align.unwrap_or(block.0);
        let places = span.checked_sub(block.0).map_or(0, |room| room / unit + 1);
        let below = (sum * (1u64 << 32) as f64).round() as u64;
        Choice { len: block.0 as u32, unit, places, below }
    };
    let mut choices: Vec<Choice> = mix.0.iter().map(choice).collect();
    if let Some(last) = choices.last_mut() {
        last.below = u64::MAX;
    }
    choices
}

/// The state of a pattern for one worker.
pub enum Cursor {
    /// A stream of its own.
    Own {
        /// Next address.
        next: u64,
        /// First byte.
        start: u64,
        /// End of the part.
        end: u64,
    },
    /// A stream that all workers of the target continue.
    Shared {
        /// Bytes issued, shared by the workers.
        next: Arc<AtomicU64>,
        /// First byte.
        start: u64,
        /// Length of the range.
        span: u64,
    },
    /// Uniform.
    Random {
        /// First byte.
        start: u64,
    },
    /// A share of random places; from there on in order.
    Jumps {
        /// A random place when a 32-bit draw is below this.
        below: u64,
        /// Where the last I/O ended.
        next: Option<u64>,
        /// First byte.
        start: u64,
        /// End of the range.
        end: u64,
        /// Addresses are multiples of this from the start, where that was asked for.
        align: u64,
        /// Where random places are; the whole range when empty.
        zones: Vec<ZonePart>,
    },
    /// Each block once a pass: this worker takes every `step`-th of the permuted order.
    Once {
        /// Order of this pass.
        order: Permutation,
        /// Next place in it.
        index: u64,
        /// First place of this worker.
        first: u64,
        /// Number of workers.
        step: u64,
        /// Number of the pass.
        pass: u64,
        /// Seed of the orders.
        key: u64,
        /// First byte.
        start: u64,
    },
    /// Zipf over blocks, scattered.
    Zipf {
        /// Ranks.
        zipf: Zipf,
        /// From rank to place.
        order: Permutation,
        /// First byte.
        start: u64,
    },
    /// Uniform within zones.
    Zones {
        /// The zones.
        zones: Vec<ZonePart>,
    },
}

/// A zone on the target.
pub struct ZonePart {
    below: u64,
    start: u64,
    span: u64,
}

/// What a cursor needs to know of its worker.
pub struct CursorPlace {
    /// First byte of the range.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Number of the worker among its group.
    pub index: u32,
    /// Workers of the group.
    pub of: u32,
    /// Seed shared by all workers of the load.
    pub load_seed: u64,
    /// Kept pointer of the stream.
    pub pointer: Arc<AtomicU64>,
}

impl Cursor {
    /// The cursor of a load for one worker.
    pub fn new(load: &Load, place: &CursorPlace) -> Cursor {
        let CursorPlace { start, end, index, of, load_seed, .. } = *place;
        let unit = load.align.unwrap_or(load.block_max()).0;
        let blocks = ((end - start).saturating_sub(load.block_max().0) / unit + 1).max(1);
        match &load.pattern {
            Pattern::Sequential(Streams::PerWorker) => {
                let part = (end - start) / unit / u64::from(of) * unit;
                let first = start + part * u64::from(index);
                let last = if index + 1 == of { end } else { first + part };
                let next = first + place.pointer.load(Ordering::Relaxed);
                Cursor::Own {
                    next: if next < last { next } else { first },
                    start: first,
                    end: last,
                }
            }
            Pattern::Sequential(Streams::Shared) if of == 1 => {
                let next = start + place.pointer.load(Ordering::Relaxed);
                Cursor::Own { next: if next < end { next } else { start }, start, end }
            }
            Pattern::Sequential(Streams::Shared) => {
                let span = (end - start) / unit * unit;
                Cursor::Shared { next: place.pointer.clone(), start, span }
            }
            // The order of a recording is its own: see `script`.
            Pattern::Random | Pattern::Trace(_) => Cursor::Random { start },
            Pattern::Jumps(percent) => jumps(load, (start, end), *percent, Vec::new()),
            Pattern::ZoneJumps(zones, percent) => {
                jumps(load, (start, end), *percent, place_zones(zones, start, end, unit))
            }
            Pattern::RandomOnce => Cursor::Once {
                order: Permutation::new(blocks, load_seed),
                index: u64::from(index),
                first: u64::from(index),
                step: u64::from(of),
                pass: 0,
                key: load_seed,
                start,
            },
            Pattern::Zipf(theta) => Cursor::Zipf {
                zipf: Zipf::new(blocks, *theta),
                // Keyed by the load alone: hot blocks stay hot over workers.
                order: Permutation::new(blocks, load_seed),
                start,
            },
            Pattern::Zones(zones) => Cursor::Zones { zones: place_zones(zones, start, end, unit) },
        }
    }

    /// Address and length of the next I/O.
    #[inline(always)]
    pub fn next(&mut self, choice: &Choice, rng: &mut Rng) -> (u64, u32) {
        match self {
            Cursor::Random { start } => {
                (*start + rng.below(choice.places) * choice.unit, choice.len)
            }
            Cursor::Own { next, start, end } => own(next, *start, *end, choice.len),
            _ => self.next_rare(choice, rng),
        }
    }

    fn next_rare(&mut self, choice: &Choice, rng: &mut Rng) -> (u64, u32) {
        let len = u64::from(choice.len);
        let address = match self {
            Cursor::Shared { next, start, span } => {
                let mut at = next.fetch_add(len, Ordering::Relaxed) % *span;
                if at + len > *span {
                    at = 0;
                }
                *start + at
            }
            Cursor::Jumps { below, next, start, end, align, zones } => {
                let jump = rng.next() >> 32 < *below;
                let on = next.map(|at| *start + (at - *start).next_multiple_of(*align));
                let at = match on.filter(|at| !jump && at + len <= *end) {
                    Some(at) => at,
                    None if !zones.is_empty() => zoned(zones, choice, rng),
                    None => *start + rng.below(choice.places) * choice.unit,
                };
                *next = Some(at + len);
                at
            }
            Cursor::Once { order, index, first, step, pass, key, start } => {
                if *index >= order.len() {
                    *pass += 1;
                    *order = Permutation::new(order.len(), derive(*key, *pass));
                    *index = (*first).min(order.len() - 1);
                }
                let at = order.apply(*index);
                *index += *step;
                *start + at * choice.unit
            }
            Cursor::Zipf { zipf, order, start } => {
                let block = order.apply(zipf.next(rng));
                *start + (block * choice.unit).min((choice.places - 1) * choice.unit)
            }
            Cursor::Zones { zones } => zoned(zones, choice, rng),
            Cursor::Random { .. } | Cursor::Own { .. } => unreachable!("handled in next"),
        };
        (address, choice.len)
    }

    /// Where a stream of this worker's own stands, from its start; none for other patterns.
    pub fn pointer(&self) -> Option<u64> {
        match self {
            Cursor::Own { next, start, .. } => Some(next - start),
            _ => None,
        }
    }
}

/// The next piece of a stream; the last piece before the end may be shorter.
#[inline(always)]
pub(crate) fn own(next: &mut u64, start: u64, end: u64, len: u32) -> (u64, u32) {
    let at = *next;
    let after = at + u64::from(len);
    if after < end {
        *next = after;
        return (at, len);
    }
    *next = start;
    (at, (end - at).min(u64::from(len)) as u32)
}

fn jumps(load: &Load, range: (u64, u64), percent: f64, zones: Vec<ZonePart>) -> Cursor {
    Cursor::Jumps {
        below: (percent / 100.0 * (1u64 << 32) as f64).round() as u64,
        next: None,
        start: range.0,
        end: range.1,
        align: load.align.map_or(1, |align| align.0),
        zones,
    }
}

fn place_zones(zones: &[Zone], start: u64, end: u64, unit: u64) -> Vec<ZonePart> {
    let (mut access, mut size) = (0.0, 0.0);
    let at = |size: f64| start + ((end - start) as f64 * size / 100.0 / unit as f64) as u64 * unit;
    let mut parts = Vec::new();
    for zone in zones {
        let first = at(size);
        (access, size) = (access + zone.access, size + zone.size);
        let last = if size >= 99.99 { end } else { at(size) };
        let below = (access / 100.0 * (1u64 << 32) as f64).round() as u64;
        parts.push(ZonePart { below, start: first, span: (last - first).max(unit) });
    }
    if let Some(last) = parts.last_mut() {
        last.below = u64::MAX;
    }
    parts
}

fn zoned(zones: &[ZonePart], choice: &Choice, rng: &mut Rng) -> u64 {
    let draw = rng.next() >> 32;
    let zone = zones.iter().find(|zone| draw < zone.below).unwrap_or(&zones[0]);
    let places = zone.span.saturating_sub(u64::from(choice.len)) / choice.unit + 1;
    zone.start + rng.below(places) * choice.unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::Bytes;
    use plan::BlockMix;
    use std::collections::HashMap;

    const BLOCK: u64 = 4096;

    fn load(pattern: Pattern) -> Load {
        let text = "name=\"t\"\n[[step]]\nload={time=1}";
        let plan = plan::parse("t", text, &[]).unwrap();
        let plan::Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
        Load { pattern, ..cell.loads[0].clone() }
    }

    fn cursor(load: &Load, end: u64, index: u32, of: u32) -> (Cursor, Choice) {
        let place =
            CursorPlace { start: 0, end, index, of, load_seed: 77, pointer: Arc::default() };
        let mix = BlockMix::one(Bytes(BLOCK));
        (Cursor::new(load, &place), choices(&mix, None, end).remove(0))
    }

    #[test]
    fn once_visits_every_block_once_over_workers_and_again_in_the_next_pass() {
        let load = load(Pattern::RandomOnce);
        let blocks = 10_007;
        let mut rng = Rng::new(1);
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for worker in 0..4 {
            let (mut cursor, choice) = cursor(&load, blocks * BLOCK, worker, 4);
            let mine = (blocks - u64::from(worker)).div_ceil(4);
            for _ in 0..2 * mine {
                *seen.entry(cursor.next(&choice, &mut rng).0 / BLOCK).or_default() += 1;
            }
        }
        assert_eq!(seen.len() as u64, blocks);
        assert!(seen.values().all(|&n| n == 2));
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = vec![
            Zone { access: 50.0, size: 5.0 },
            Zone { access: 30.0, size: 15.0 },
            Zone { access: 20.0, size: 80.0 },
        ];
        let load = load(Pattern::Zones(zones));
        let (mut cursor, choice) = cursor(&load, 100_000 * BLOCK, 0, 1);
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            let share = cursor.next(&choice, &mut rng).0 as f64 / (100_000 * BLOCK) as f64;
            counts[if share < 0.05 {
                0
            } else if share < 0.2 {
                1
            } else {
                2
            }] += 1;
        }
        for (count, wanted) in counts.into_iter().zip([50_000.0, 30_000.0, 20_000.0]) {
            assert!((f64::from(count) - wanted).abs() < 700.0, "{counts:?}");
        }
    }

    #[test]
    fn random_covers_the_range_evenly_and_stays_inside() {
        let load = load(Pattern::Random);
        let (mut cursor, choice) = cursor(&load, 64 * BLOCK, 0, 1);
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 64];
        for _ in 0..64_000 {
            counts[(cursor.next(&choice, &mut rng).0 / BLOCK) as usize] += 1;
        }
        // Chi-square with 63 degrees of freedom: 114 is beyond the 99.99 % point.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 114.0, "{chi}");
    }

    #[test]
    fn streams_cover_the_range_in_order_with_its_tail() {
        let load = load(Pattern::Sequential(Streams::Shared));
        let end = 3 * BLOCK + 512;
        let (mut cursor, choice) = cursor(&load, end, 0, 1);
        let mut rng = Rng::new(1);
        let pieces: Vec<_> = (0..5).map(|_| cursor.next(&choice, &mut rng)).collect();
        assert_eq!(pieces, [(0, 4096), (4096, 4096), (8192, 4096), (12288, 512), (0, 4096)]);
        assert_eq!(cursor.pointer(), Some(4096));
    }

    #[test]
    fn workers_continue_one_shared_stream() {
        let load = load(Pattern::Sequential(Streams::Shared));
        let pointer: Arc<AtomicU64> = Arc::default();
        let mut rng = Rng::new(1);
        let mut addresses = Vec::new();
        for index in 0..2 {
            let place = CursorPlace {
                start: 0,
                end: 8 * BLOCK,
                index,
                of: 2,
                load_seed: 1,
                pointer: pointer.clone(),
            };
            let mut cursor = Cursor::new(&load, &place);
            let choice = choices(&BlockMix::one(Bytes(BLOCK)), None, 8 * BLOCK).remove(0);
            addresses.extend((0..4).map(|_| cursor.next(&choice, &mut rng).0 / BLOCK));
        }
        assert_eq!(addresses, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn jumps_come_at_their_share_and_the_rest_goes_on() {
        let load = load(Pattern::Jumps(80.0));
        let (mut cursor, choice) = cursor(&load, 100_000 * BLOCK, 0, 1);
        let mut rng = Rng::new(3);
        let (mut last, mut on) = (u64::MAX, 0);
        for _ in 0..20_000 {
            let (at, len) = cursor.next(&choice, &mut rng);
            assert!(at.is_multiple_of(BLOCK) && at + u64::from(len) <= 100_000 * BLOCK);
            on += u32::from(at == last);
            last = at + u64::from(len);
        }
        // 20 % of 20,000, and three standard deviations.
        assert!((3830..=4170).contains(&on), "{on}");
    }

    #[test]
    fn per_worker_streams_divide_the_range() {
        let load = load(Pattern::Sequential(Streams::PerWorker));
        let firsts: Vec<u64> = (0..4)
            .map(|index| {
                let (mut cursor, choice) = cursor(&load, 100 * BLOCK, index, 4);
                cursor.next(&choice, &mut Rng::new(1)).0 / BLOCK
            })
            .collect();
        assert_eq!(firsts, [0, 25, 50, 75]);
    }
}
