//! What is written: incompressible by default, or with a compression and a deduplication ratio.
//!
//! Each unit is a fixed random text, exclusive-or a 64-bit key, in its first `unit / ratio` bytes and
//! zero after. A new key gives a unit that shares no eight bytes with any other; an old key repeats
//! an old unit. One pass over memory, no generator per byte.

use base::rng::{Rng, derive, mix};
use plan::Data;

/// Fills buffers for one worker.
#[derive(Clone, Debug)]
pub struct Filler {
    text: Vec<[u8; 8]>,
    unit: usize,
    random_bytes: usize,
    /// Buffers are also read into: what is to be zero is made so.
    clear: bool,
    dedup: Option<Dedup>,
}

#[derive(Clone, Debug)]
struct Dedup {
    new_share: f64,
    distinct: u64,
    key: u64,
}

impl Filler {
    /// A filler for `data`; `seed` must be the run's, `worker` differs for each worker and cell, so
    /// that no two workers write the same unit unless by ratio. With `reads_too` the buffers are also read
    /// into. None where nothing is to be done for zeros to be written.
    pub fn new(data: &Data, seed: u64, worker: u64, reads_too: bool) -> Option<Filler> {
        if data.zero && !reads_too {
            return None;
        }
        let unit = data.unit.0 as usize;
        let mut rng = Rng::new(derive(seed, 0x7e87));
        let text = (0..unit / 8).map(|_| rng.next().to_le_bytes()).collect();
        let random = if data.zero { 0 } else { (unit as f64 / data.compress_ratio) as usize };
        let dedup = (data.dedup_ratio > 1.0).then(|| Dedup {
            new_share: 1.0 / data.dedup_ratio,
            distinct: 0,
            key: derive(seed, worker) | 1,
        });
        let random_bytes = random.next_multiple_of(8).min(unit);
        Some(Filler { text, unit, random_bytes, clear: reads_too && random_bytes < unit, dedup })
    }

    /// Puts new content into `buffer`, whose bytes beyond the random part of each unit are zero unless it
    /// is read into.
    #[inline]
    pub fn fill(&mut self, buffer: &mut [u8], rng: &mut Rng) {
        for unit in buffer.chunks_mut(self.unit) {
            let key = self.next_key(rng).to_le_bytes();
            let random = self.random_bytes.min(unit.len());
            let (words, _) = unit[..random].as_chunks_mut::<8>();
            for (word, text) in words.iter_mut().zip(&self.text) {
                *word = (u64::from_ne_bytes(*text) ^ u64::from_ne_bytes(key)).to_ne_bytes();
            }
            if self.clear {
                unit[random..].fill(0);
            }
        }
    }

    #[inline]
    fn next_key(&mut self, rng: &mut Rng) -> u64 {
        let Some(dedup) = &mut self.dedup else {
            return rng.next();
        };
        let index = if dedup.distinct == 0 || rng.unit() < dedup.new_share {
            dedup.distinct += 1;
            dedup.distinct - 1
        } else {
            rng.below(dedup.distinct)
        };
        mix(dedup.key ^ index, 0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::Bytes;
    use std::collections::HashSet;

    /// 64 MiB in writes of 64 KiB, as a worker would make them.
    fn written(data: Data) -> Vec<u8> {
        let mut filler = Filler::new(&data, 9, 1, false).unwrap();
        let mut rng = Rng::new(5);
        let mut buffer = vec![0u8; 64 << 10];
        let mut all = Vec::new();
        for _ in 0..1024 {
            filler.fill(&mut buffer, &mut rng);
            all.extend_from_slice(&buffer);
        }
        all
    }

    fn ratio(data: Data, compress: impl Fn(&[u8]) -> usize) -> f64 {
        let all = written(data);
        let packed: usize = all.chunks(128 << 10).map(compress).sum();
        all.len() as f64 / packed as f64
    }

    fn lz4(chunk: &[u8]) -> usize {
        lz4_flex::block::compress(chunk).len()
    }

    fn zstd(chunk: &[u8]) -> usize {
        zstd::bulk::compress(chunk, 3).unwrap().len()
    }

    #[test]
    fn default_data_does_not_compress_even_over_a_long_window() {
        let data = Data::default();
        assert!(ratio(data, lz4) < 1.01);
        assert!(ratio(data, zstd) < 1.01);
        let all = written(data);
        let whole = zstd::bulk::compress(&all, 9).unwrap().len();
        assert!(all.len() as f64 / (whole as f64) < 1.01, "long-range matches found");
        let units: HashSet<&[u8]> = all.chunks(512).collect();
        assert_eq!(units.len(), all.len() / 512, "a 512-byte block repeats");
    }

    #[test]
    fn compress_ratio_is_within_5_percent() {
        for wanted in [1.3, 2.0, 3.0, 5.0] {
            for unit in [4096, 8192, 32768] {
                let data = Data { compress_ratio: wanted, unit: Bytes(unit), ..Data::default() };
                for (name, found) in [("lz4", ratio(data, lz4)), ("zstd", ratio(data, zstd))] {
                    let off = (found / wanted - 1.0).abs();
                    assert!(off < 0.05, "{name} found {found} for {wanted} in units of {unit}");
                }
            }
        }
    }

    #[test]
    fn dedup_ratio_is_within_5_percent() {
        for wanted in [1.5, 2.0, 4.0, 10.0] {
            let data = Data { dedup_ratio: wanted, compress_ratio: 2.0, ..Data::default() };
            let all = written(data);
            let units: HashSet<&[u8]> = all.chunks(4096).collect();
            let found = (all.len() / 4096) as f64 / units.len() as f64;
            assert!((found / wanted - 1.0).abs() < 0.05, "{found} for {wanted}");
        }
    }

    #[test]
    fn workers_do_not_repeat_each_other() {
        let data = Data { dedup_ratio: 2.0, ..Data::default() };
        let blocks = |worker| {
            let mut filler = Filler::new(&data, 9, worker, false).unwrap();
            let mut buffer = vec![0u8; 4 << 20];
            filler.fill(&mut buffer, &mut Rng::new(worker));
            buffer.chunks(4096).map(<[u8]>::to_vec).collect::<HashSet<_>>()
        };
        assert_eq!(blocks(1).intersection(&blocks(2)).count(), 0);
    }

    #[test]
    fn zero_data_has_no_filler() {
        assert!(Filler::new(&Data { zero: true, ..Data::default() }, 1, 1, false).is_none());
    }

    #[test]
    fn what_was_read_into_a_buffer_is_not_written() {
        let half = Data { compress_ratio: 2.0, ..Data::default() };
        for (data, random) in [(half, 2048), (Data { zero: true, ..Data::default() }, 0)] {
            let mut filler = Filler::new(&data, 1, 1, true).unwrap();
            let mut buffer = [0xaa; 8192];
            filler.fill(&mut buffer, &mut Rng::new(1));
            for unit in buffer.chunks(4096) {
                assert!(unit[random..].iter().all(|byte| *byte == 0));
                assert!(unit[..random].iter().filter(|byte| **byte == 0xaa).count() < 64);
            }
        }
    }
}
