//! A keyed permutation of `0..n` in constant memory: random order without repetition and without a
//! map of what was visited.
//!
//! A balanced Feistel network over the next even power of two, walked until it lands inside the
//! range (fewer than four steps on average, since the domain is less than four times the range).

use crate::rng::{derive, mix};

const ROUNDS: usize = 4;

/// A permutation of `0..len`, chosen by its key.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    half_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` for `key`; `len` up to 2^62.
    pub fn new(len: u64, key: u64) -> Permutation {
        let bits = 64 - len.max(2).saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2);
        let keys = std::array::from_fn(|round| derive(key, round as u64) | 1);
        Permutation { len, half_bits, half_mask: (1 << half_bits) - 1, keys }
    }

    /// How many elements it permutes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to permute.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where `index` goes; `index` must be below `len`.
    #[inline]
    pub fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.len);
        let mut value = index;
        loop {
            value = self.encrypt(value);
            if value < self.len {
                return value;
            }
        }
    }

    /// Where `place` came from: the inverse of [`Permutation::apply`]; `place` must be below `len`.
    pub fn invert(&self, place: u64) -> u64 {
        debug_assert!(place < self.len);
        let mut value = place;
        loop {
            value = self.decrypt(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn decrypt(&self, value: u64) -> u64 {
        let mut left = value >> self.half_bits;
        let mut right = value & self.half_mask;
        for key in self.keys.into_iter().rev() {
            let round = mix(left ^ key, key ^ 0x9e37_79b9_7f4a_7c15) >> 7;
            (left, right) = (right ^ (round & self.half_mask), left);
        }
        left << self.half_bits | right
    }

    #[inline]
    fn encrypt(&self, value: u64) -> u64 {
        let mut left = value >> self.half_bits;
        let mut right = value & self.half_mask;
        for key in self.keys {
            let round = mix(right ^ key, key ^ 0x9e37_79b9_7f4a_7c15) >> 7;
            (left, right) = (right, left ^ (round & self.half_mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_is_visited_exactly_once(len in 1u64..3000, key: u64) {
            let permutation = Permutation::new(len, key);
            let mut seen = vec![false; len as usize];
            for index in 0..len {
                let place = permutation.apply(index) as usize;
                prop_assert!(!seen[place]);
                seen[place] = true;
            }
        }
    }

    /// 16 TiB in blocks of 4 KiB: each block of a sampled range has exactly one turn in the pass.
    #[test]
    fn every_block_of_a_sample_of_16_tib_has_exactly_one_turn() {
        let blocks = (16u64 << 40) / 4096;
        let permutation = Permutation::new(blocks, 99);
        let first = blocks / 3;
        let mut turns: Vec<u64> =
            (first..first + 100_000).map(|block| permutation.invert(block)).collect();
        for (block, &turn) in (first..).zip(&turns) {
            assert!(turn < blocks);
            assert_eq!(permutation.apply(turn), block);
        }
        turns.sort_unstable();
        turns.dedup();
        assert_eq!(turns.len(), 100_000, "two blocks share a turn");
    }

    #[test]
    fn order_is_not_sequential_and_depends_on_the_key() {
        let order = |key| {
            let p = Permutation::new(10_000, key);
            (0..10_000).map(|i| p.apply(i)).collect::<Vec<_>>()
        };
        let (a, b) = (order(1), order(2));
        let adjacent = a.windows(2).filter(|w| w[1] == w[0] + 1).count();
        assert!(adjacent < 10, "{adjacent} neighbours follow each other");
        assert!(a.iter().zip(&b).filter(|(x, y)| x == y).count() < 10);
        // Every tenth of the pass covers the whole range evenly: no clustering at its end.
        for tenth in a.chunks(1000) {
            let low = tenth.iter().filter(|&&v| v < 5000).count();
            assert!((420..580).contains(&low), "{low} of 1000 in the lower half");
        }
    }
}
