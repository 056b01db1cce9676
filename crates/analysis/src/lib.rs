//! Percentiles, curves and verdicts: pure functions over samples. Opens no file, reads no clock.

mod claims;
mod compare;
mod course;
mod figures;
mod flight;
mod insight;
mod knee;
mod limits;
mod outline;
mod paired;
mod repeat;
mod stability;
mod steady;
mod summary;
mod verdict;

pub use claims::{
    Pivot, SteadyGroup, WindowRow, claim_of, coordinates_of, in_rounds, pivot, place_in_rounds,
    result_cells, steady_groups, step_path,
};
pub use compare::{
    Arm, Compare, Compared, Comparison, Estimate, Judgement, Rules, UnitKind, compare,
};
pub use course::{Moment, PERCENTS, felt, moments};
pub use figures::Figures;
pub use flight::{HostBefore, TargetAfter, TargetBefore, after_run, before_run};
pub use insight::{Insight, InsightKind, Reader, findings, findings_with};
pub use knee::knee;
pub use limits::{Kept, Limit, invalid_run, parse_limits};
pub use outline::{Eta, Outline, OutlineStep, StepState};
pub use paired::{Block, Finding, Ratio, student_quantile};
pub use repeat::{RowSummary, rows, spread};
pub use stability::Stability;
pub use steady::{TimedSteady, Tracked, Window, all_steady, judge_window};
pub use summary::{
    CellSummary, Latency, NINES, SideSummary, beyond, percentile_name, summarize, summarize_counts,
};
pub use verdict::{CellEvidence, DeviceBytes, Status, Verdict, adds_nothing, judge, overall};
