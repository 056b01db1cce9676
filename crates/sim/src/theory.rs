//! Write amplification in closed form: what the state layer is checked against, and what a planner
//! may use where a simulation is not worth it.
//!
//! `spare` is physical over logical pages (alpha), `b` the pages of a superblock.

/// First-in-first-out cleaning, and greedy cleaning with very large superblocks: a page survives one
/// pass with probability exp(-alpha/A) (Desnoyers, SYSTOR 2012; Xiang and Kurkoski, 2011).
pub fn fifo(spare: f64) -> f64 {
    // A = spare / (spare + W0(-spare exp(-spare))), W0 by Newton's iteration from above.
    let x = -spare * (-spare).exp();
    let mut w = -1.0 + (2.0 * (1.0 + std::f64::consts::E * x)).max(0.0).sqrt();
    for _ in 0..100 {
        let e = w.exp();
        let step = (w * e - x) / (e * (w + 1.0)).abs().max(1e-300);
        w -= step;
        if step.abs() < 1e-14 {
            break;
        }
    }
    spare / (spare + w)
}

/// Greedy cleaning with superblocks of `b` pages under uniform random writes: victims hold one of two
/// successive numbers of valid pages (after Bux and Iliadis, 2010).
pub fn greedy(spare: f64, b: u32) -> f64 {
    let rho = 1.0 / spare;
    let pages = f64::from(b);
    let harmonic: Vec<f64> = std::iter::once(0.0)
        .chain((1..=b).scan(0.0, |sum, n| {
            *sum += 1.0 / f64::from(n);
            Some(*sum)
        }))
        .collect();
    let all = harmonic[b as usize];
    // The level k of the victims is where its share fits between none and the full flow.
    for k in 1..b {
        let level = f64::from(k);
        let flow = (level - rho * pages) / (level * (all - harmonic[k as usize]) - (pages - level));
        let share = (rho * pages - flow * (pages - level)) / level;
        if flow > 0.0 && share >= -1e-12 && share <= flow / level + 1e-12 {
            return flow / rho;
        }
    }
    fifo(spare)
}

/// The spare that remains in effect when a share of the requests, below one half, are trims
/// (Frankie, Hughes and Kreutz-Delgado, 2012).
pub fn trimmed(spare: f64, share: f64) -> f64 {
    spare * (1.0 - share) / (1.0 - 2.0 * share)
}

/// The spare seen by writes that touch only a share of a full drive.
pub fn active_range(spare: f64, share: f64) -> f64 {
    (spare - (1.0 - share)) / share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_points() {
        assert!((fifo(1.3) - 2.36).abs() < 0.01, "{}", fifo(1.3));
        for (over, b, expected) in
            [(0.07, 64, 7.010), (0.14, 256, 4.189), (0.28, 1024, 2.476), (0.07, 1024, 7.761)]
        {
            let found = greedy(1.0 + over, b);
            assert!((found / expected - 1.0).abs() < 0.001, "{over} {b}: {found}");
        }
    }

    #[test]
    fn large_superblocks_meet_the_fifo_formula() {
        for over in [0.07, 0.14, 0.28, 0.5] {
            let (greedy, fifo) = (greedy(1.0 + over, 8192), fifo(1.0 + over));
            assert!((greedy / fifo - 1.0).abs() < 0.01, "{over}: {greedy} {fifo}");
        }
    }
}
