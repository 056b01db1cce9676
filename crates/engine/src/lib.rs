//! Workers and back ends that do I/O.
//!
//! A back end runs one cell and hands over interval samples; it knows no percentile, no plan file and
//! no suite. Nothing is allocated, locked or logged per I/O. `unsafe` stays in `sys`.

mod address;
mod arrival;
mod backend;
mod collect;
mod core;
mod data;
mod error;
mod external;
mod fault;
mod ledger;
mod null;
mod plain;
mod script;
mod spec;
mod sync;
mod sys;
mod uring;
pub mod verify;

pub use crate::core::{IoRecord, Timeline};
pub use crate::sys::memory::WordMap;
pub use crate::sys::thread::allowed_cpus;
pub use address::{Choice, Cursor, CursorPlace, ZonePart, choices};
pub use arrival::Schedule;
pub use backend::{
    Backend, CellEnd, CellFacts, Control, Engine, Next, Outcome, Sink, TargetCounts, host_backend,
};
pub use data::Filler;
pub use error::EngineError;
pub use external::fio_version;
pub use fault::{Fault, FaultKind};
pub use null::{OwnCost, measure_own_cost};
pub use script::{Act, Recorded, Script};
pub use spec::{CellSpec, CommandTarget, Direct, Polling, Stream, Target, extent, streams};
