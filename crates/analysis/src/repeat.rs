//! Repeated cells: peak and mean over the iterations, spread over intervals.

use crate::summary::summarize;
use store::CellRecord;

/// All counted iterations of one cell of a repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSummary {
    /// Path without iteration.
    pub name: String,
    /// Counted iterations.
    pub times: usize,
    /// Largest bandwidth in bytes per second.
    pub peak_bandwidth_bytes: f64,
    /// Mean bandwidth in bytes per second.
    pub mean_bandwidth_bytes: f64,
    /// Largest IOPS.
    pub peak_iops: f64,
    /// Mean IOPS.
    pub mean_iops: f64,
    /// Smallest of the mean latencies in ns, as CrystalDiskMark shows it.
    pub best_latency_ns: f64,
    /// Mean of the mean latencies, weighted by I/Os, in ns.
    pub mean_latency_ns: f64,
    /// Sample standard deviation over mean of the IOPS, in percent; none below two iterations.
    pub cov_percent: Option<f64>,
}

/// The rows of a run that repeats: one for each path, in order of first appearance.
pub fn rows(cells: &[CellRecord]) -> Vec<RowSummary> {
    let mut names: Vec<String> = Vec::new();
    let repeated = |cell: &&CellRecord| cell.iteration > 0 && cell.counted && cell.len.0 > 0;
    for cell in cells.iter().filter(repeated) {
        let name = plain_path(&cell.path, &cell.label);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |name: String| {
        let same = |cell: &&CellRecord| plain_path(&cell.path, &cell.label) == name;
        let found: Vec<_> = cells.iter().filter(repeated).filter(same).map(summarize).collect();
        let n = found.len() as f64;
        let iops: Vec<f64> = found.iter().map(|cell| cell.iops).collect();
        let bandwidth = |cell: &crate::CellSummary| cell.bandwidth_bytes;
        let mean_latency = |cell: &crate::CellSummary| {
            let sides = [&cell.reads, &cell.writes].into_iter().flatten();
            let (mut sum, mut ios) = (0.0, 0u64);
            for side in sides {
                if let Some(latency) = side.felt() {
                    sum += latency.mean_ns * latency.count as f64;
                    ios += latency.count;
                }
            }
            (sum, ios)
        };
        let latencies: Vec<(f64, u64)> = found.iter().map(mean_latency).collect();
        let total_ios: u64 = latencies.iter().map(|(_, ios)| ios).sum();
        let total: f64 = latencies.iter().map(|(sum, _)| sum).sum();
        let means = latencies.iter().filter(|(_, n)| *n > 0).map(|(sum, n)| sum / *n as f64);
        RowSummary {
            times: found.len(),
            peak_bandwidth_bytes: found.iter().map(bandwidth).fold(0.0, f64::max),
            mean_bandwidth_bytes: found.iter().map(bandwidth).sum::<f64>() / n,
            peak_iops: iops.iter().copied().fold(0.0, f64::max),
            mean_iops: iops.iter().sum::<f64>() / n,
            best_latency_ns: means.fold(f64::INFINITY, f64::min),
            mean_latency_ns: total / total_ios.max(1) as f64,
            cov_percent: spread(&iops),
            name,
        }
    };
    names.into_iter().map(row).collect()
}

/// The path of a cell without its iterations: `rows#2/run` is `rows/run`.
fn plain_path(path: &str, label: &str) -> String {
    let part = |part: &str| part.split('#').next().unwrap_or(part).to_owned();
    let mut name = path.split('/').map(part).collect::<Vec<_>>().join("/");
    if !label.is_empty() {
        name.push(' ');
        name.push_str(label);
    }
    name
}

/// Sample standard deviation over mean in percent; none below two values or at mean zero.
pub fn spread(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(variance.sqrt() / mean * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_the_sample_coefficient_of_variation() {
        // Mean 100, deviations -10, 0, 10: variance 200 / 2.
        assert!((spread(&[90.0, 100.0, 110.0]).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(spread(&[5.0]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
    }

    #[test]
    fn paths_lose_their_iterations() {
        assert_eq!(plain_path("rows#2/run", ""), "rows/run");
        assert_eq!(plain_path("a#1/b#12/c", "depth=4"), "a/b/c depth=4");
    }
}
