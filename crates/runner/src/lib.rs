//! One state machine from plan to run file: preflight, prepare, measure, finish.
//!
//! The only room that knows plan, engine and store together. It prints nothing: an [`Observer`] is
//! told what happens.

mod bed;
mod calibrate;
mod cell;
mod curve;
mod error;
mod flight;
mod history;
mod method;
mod observe;
mod placement;
mod prepare;
mod replay;
mod resize;
mod run;
mod scan;
mod setup;
mod start;
mod telemetry;
mod telemetry_cost;
mod traces;
mod verify;

pub use bed::Targets;
pub use calibrate::{Calibration, Pacing, PathCost, calibrate};
pub use error::RunError;
pub use observe::{CellPlan, Observer, Progress};
pub use resize::over_provision;
pub use scan::{Arm, Bench, Domain, Level, Scan, ScanRules, domains, scan};
pub use setup::{Instrument, default_file_name, measure_instrument};
pub use start::{RunEnd, RunOptions, resume, run};
pub use telemetry_cost::{TelemetryCost, telemetry_cost};
pub use traces::read_recording;
pub use verify::Journaling;
