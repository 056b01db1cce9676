//! A line of a million points in as many pixels as there are: each column keeps its first, lowest, highest
//! and last value, so that no extreme is lost.

/// The points to draw when `columns` pixels stand for `from..to`. Points in order of x; NaN is a gap.
pub(crate) fn thin(x: &[f64], y: &[f64], from: f64, to: f64, columns: usize) -> Vec<(f64, f64)> {
    if x.len() <= columns * 4 || to <= from {
        return x.iter().copied().zip(y.iter().copied()).collect();
    }
    let column = |value: f64| ((value - from) / (to - from) * columns as f64) as i64;
    let mut points = Vec::with_capacity(columns * 4);
    let mut start = 0;
    while start < x.len() {
        let this = column(x[start]);
        let mut end = start + 1;
        while end < x.len() && column(x[end]) == this {
            end += 1;
        }
        push(&mut points, x, y, start, end);
        start = end;
    }
    points
}

fn push(points: &mut Vec<(f64, f64)>, x: &[f64], y: &[f64], start: usize, end: usize) {
    let (mut low, mut high) = (start, start);
    for at in start..end {
        if y[at] < y[low] || y[low].is_nan() {
            low = at;
        }
        if y[at] > y[high] || y[high].is_nan() {
            high = at;
        }
    }
    let mut kept = [start, low, high, end - 1];
    kept.sort_unstable();
    let mut last = None;
    for at in kept {
        if last != Some(at) {
            points.push((x[at], y[at]));
            last = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_outlier_of_a_day_is_kept() {
        let x: Vec<f64> = (0..86_400).map(f64::from).collect();
        let mut y = vec![100.0; x.len()];
        (y[51_234], y[7]) = (40_000.0, 1.0);
        let points = thin(&x, &y, 0.0, 86_400.0, 800);
        assert!(points.len() <= 800 * 4 + 4);
        assert!(points.contains(&(51_234.0, 40_000.0)) && points.contains(&(7.0, 1.0)));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(thin(&[1.0, 2.0], &[3.0, 4.0], 0.0, 5.0, 100), [(1.0, 3.0), (2.0, 4.0)]);
    }
}
