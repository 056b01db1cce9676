//! The run file: one SQLite file a run, written every interval, readable while it grows and after a
//! crash. It stores and computes nothing. `docs/run-file.md` is the written format.

mod batch;
mod error;
mod ledger;
mod read;
mod schema;
mod tail;
mod write;

pub use error::StoreError;
pub use ledger::{Ledger, LedgerEntry, LedgerPurge, LedgerStep};
pub use read::{CellRecord, Event, RunFile, StreamRecord, Telemetry, VerdictRow};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION, State};
pub use tail::{Mark, News, news};
pub use write::{CellHead, CellSums, RunHead, RunWriter, StreamHead, TargetHead};
