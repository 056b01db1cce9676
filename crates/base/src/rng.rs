//! A small seeded random generator: one 128-bit multiplication a draw, no state but a counter.
//!
//! A Weyl sequence mixed by a folded wide product (the public-domain "wyrand" construction). Streams
//! with different seeds are independent for our purpose; it is no cipher.

/// Seeded generator. Two generators with one seed give the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

const STEP: u64 = 0x2d35_8dcc_aa6c_78a5;
const MIX: u64 = 0x8bb8_4b93_962e_acc9;

/// Mixes two words into one by a folded wide product.
#[inline(always)]
pub fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Derives an independent seed from a seed and a stream number (SplitMix64 finaliser).
pub fn derive(seed: u64, stream: u64) -> u64 {
    let mut z = seed ^ stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Rng {
        Rng(derive(seed, 0))
    }

    /// The next 64 random bits.
    #[allow(clippy::should_implement_trait)] // A generator has no end: it is no iterator.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0, self.0 ^ MIX)
    }

    /// A number in `0..n` without a division (Lemire 2019, without the rejection step: the bias is
    /// below `n / 2^64`, far under what any test of addresses can see). `n` of 0 gives 0.
    #[inline(always)]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponential variate with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// A zipf-distributed rank in `0..n` by rejection-inversion (Hoermann and Derflinger 1996):
/// constant memory and time, any `n`.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    accept: f64,
}

impl Zipf {
    /// Ranks `0..n` with probability proportional to `1 / (rank + 1)^theta`.
    /// `theta` is clamped to `0.01..=10` and kept away from 1, where the formula has a pole.
    pub fn new(n: u64, theta: f64) -> Zipf {
        let theta = theta.clamp(0.01, 10.0);
        let theta = if (theta - 1.0).abs() < 1e-6 { 1.0 + 1e-6 } else { theta };
        let n = n.max(1) as f64;
        let mut zipf = Zipf { n, theta, h_first: 0.0, h_last: 0.0, accept: 0.0 };
        zipf.h_first = zipf.h(1.5) - 1.0;
        zipf.h_last = zipf.h(n + 0.5);
        zipf.accept = 2.0 - zipf.h_inverse(zipf.h(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// The integral of `x^-theta`.
    fn h(&self, x: f64) -> f64 {
        x.powf(1.0 - self.theta) / (1.0 - self.theta)
    }

    fn h_inverse(&self, y: f64) -> f64 {
        (y * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
    }

    /// The next rank.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.h_last + rng.unit() * (self.h_first - self.h_last);
            let x = self.h_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.accept || u >= self.h(k + 0.5) - k.powf(-self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_over_their_range() {
        let mut rng = Rng::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        // Chi-square with 9 degrees of freedom: 33.7 is the 99.99 % point.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 33.7, "chi-square {chi}");
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(draw(42), draw(42));
        assert_ne!(draw(42), draw(43));
    }

    #[test]
    fn zipf_matches_its_law() {
        for theta in [0.6, 1.0, 1.2] {
            let n = 1000u64;
            let zipf = Zipf::new(n, theta);
            let mut rng = Rng::new(3);
            let mut counts = vec![0u64; n as usize];
            let draws = 400_000u64;
            for _ in 0..draws {
                counts[zipf.next(&mut rng) as usize] += 1;
            }
            let norm: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
            for rank in [0usize, 1, 2, 9, 99] {
                let expected = draws as f64 * ((rank + 1) as f64).powf(-theta) / norm;
                let off = (counts[rank] as f64 - expected).abs() / expected.sqrt();
                assert!(off < 5.0, "theta {theta} rank {rank}: {} for {expected}", counts[rank]);
            }
        }
    }

    #[test]
    fn zipf_survives_huge_ranges() {
        let zipf = Zipf::new(1 << 42, 1.1);
        let mut rng = Rng::new(1);
        assert!((0..10_000).all(|_| zipf.next(&mut rng) < 1 << 42));
    }
}
