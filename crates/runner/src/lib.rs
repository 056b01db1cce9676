//! One state machine from plan to run file: preflight, prepare, measure, finish.
//!
//! The only room that knows plan, engine and store together. It prints nothing: an [`Observer`] is
//! told what happens.

mod bed;
mod calibrate;
mod cell;
mod curve;
mod error;
mod history;
mod method;
mod observe;
mod replay;
mod run;
mod setup;
mod start;

pub use bed::Targets;
pub use calibrate::{Calibration, Pacing, PathCost, calibrate};
pub use error::RunError;
pub use observe::{CellPlan, Observer, Progress};

pub use setup::{Instrument, default_file_name, measure_instrument};
pub use start::{RunEnd, RunOptions, resume, run};
