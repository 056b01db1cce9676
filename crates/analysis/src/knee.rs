//! The knee of a load curve.

/// The rate at which latency turns up: the point farthest below the straight line from the first point to
/// the one of the highest rate, both axes scaled to 1 (Satopaa et al., "Finding a Kneedle in a Haystack",
/// 2011, without smoothing). `load` is (rate, latency); none when there are fewer than four points, or
/// latency grows in proportion.
pub fn knee(load: &[(f64, f64)]) -> Option<f64> {
    const DEPTH_MIN: f64 = 0.1;
    let mut points: Vec<(f64, f64)> =
        load.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if points.len() < 4 {
        return None;
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let low = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    if last.0 <= first.0 || high <= low {
        return None;
    }
    let below = |(x, y): (f64, f64)| (x - first.0) / (last.0 - first.0) - (y - low) / (high - low);
    let best = points.into_iter().max_by(|a, b| below(*a).total_cmp(&below(*b)))?;
    (below(best) >= DEPTH_MIN).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_a_queue_is_before_its_limit_and_a_line_has_none() {
        // Service of 100 us at one server: latency 100 / (1 - load).
        let queue: Vec<(f64, f64)> = (1..=99)
            .map(|percent| {
                let share = f64::from(percent) / 100.0;
                (share * 10_000.0, 100.0 / (1.0 - share))
            })
            .collect();
        let rate = knee(&queue).unwrap();
        // The largest x/0.98 - (1/(1-x))/98.99 is where (1-x)^2 = 0.98/98.99: x = 0.9005.
        assert!((rate - 9_000.0).abs() <= 100.0, "{rate}");
        let line: Vec<(f64, f64)> = (1..20).map(|n| (f64::from(n), f64::from(n) * 7.0)).collect();
        assert_eq!(knee(&line), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, f64::NAN)]), None);
    }
}
