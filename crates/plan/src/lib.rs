//! The plan language: parse, check, and what a plan will cost. Suites are files, not code.
//!
//! `model` and `load` are what everyone else sees; `parse` makes them from TOML and names file, line and
//! mistake for everything it does not accept. Nothing here does I/O, reads a clock or knows a device.

mod builtin;
mod estimate;
pub mod import;
mod load;
mod method;
mod model;
mod params;
mod parse;
mod placement;
mod reader;
mod suggest;

pub use builtin::{BUILTIN, Builtin, find_builtin};
pub use estimate::{Bound, Estimate, estimate, estimate_most, estimate_step};
pub use load::*;
pub use method::*;
pub use model::*;
pub use params::{Param, ParamKind};
pub use parse::parse;
pub use placement::Placement;
pub use reader::{PlanError, PlanErrors};
pub use suggest::closest;
