//! Percentiles, curves and verdicts: pure functions over samples. Opens no file, reads no clock.

mod repeat;
mod summary;
mod verdict;

pub use repeat::{RowSummary, rows, spread};
pub use summary::{
    CellSummary, Latency, NINES, SideSummary, beyond, percentile_name, summarize, summarize_counts,
};
pub use verdict::{CellEvidence, DeviceBytes, Status, Verdict, adds_nothing, judge, overall};
