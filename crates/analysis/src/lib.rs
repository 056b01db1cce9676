//! Percentiles, curves and verdicts: pure functions over samples. Opens no file, reads no clock.

mod claims;
mod figures;
mod repeat;
mod stability;
mod steady;
mod summary;
mod verdict;

pub use claims::{
    Pivot, SteadyGroup, WindowRow, claim_of, coordinates_of, in_rounds, pivot, steady_groups,
};
pub use figures::Figures;
pub use repeat::{RowSummary, rows, spread};
pub use stability::Stability;
pub use steady::{TimedSteady, Tracked, Window, all_steady, judge_window};
pub use summary::{
    CellSummary, Latency, NINES, SideSummary, beyond, percentile_name, summarize, summarize_counts,
};
pub use verdict::{CellEvidence, DeviceBytes, Status, Verdict, adds_nothing, judge, overall};
