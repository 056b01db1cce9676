//! What can go wrong with a run file.

use std::path::PathBuf;

/// Errors of writing or reading a run file; each names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("{path}: {what}: {error}{advice}", advice = advice(error))]
    Database {
        /// The run file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        error: rusqlite::Error,
    },
    /// The system refused.
    #[error("{path}: {error}")]
    System {
        /// The run file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is a file already.
    #[error("{0}: exists already; choose another name (-o) or move it away")]
    Exists(PathBuf),
    /// Another program writes to it.
    #[error("{0}: a run is writing to it now")]
    Held(PathBuf),
    /// The ledger cannot be read.
    #[error("{path}: {why}; move it away to start a new one")]
    Ledger {
        /// The ledger of a drive.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Not a run file.
    #[error("{0}: is not a run file of fathom")]
    Foreign(PathBuf),
    /// From a later version.
    #[error("{path}: has format {found}, this fathom reads up to {known}; use a newer fathom")]
    TooNew {
        /// The run file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// Known up to.
        known: i64,
    },
    /// A row contradicts the format.
    #[error("{path}: cell {cell}, interval {seq}: {error}; the file is damaged")]
    Damaged {
        /// The run file.
        path: PathBuf,
        /// Which cell.
        cell: i64,
        /// Which interval.
        seq: i64,
        /// What is wrong.
        error: base::hist::DecodeError,
    },
}

impl StoreError {
    /// Whether the disk that holds the run file is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Database { error, .. } => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            StoreError::System { error, .. } => error.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

fn advice(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => {
            "; the disk that holds the run file is full: free some space or use -o on another disk"
        }
        Some(rusqlite::ErrorCode::CannotOpen) => "; does the folder exist, and can it be written?",
        Some(rusqlite::ErrorCode::NotADatabase) => "; it is not a run file",
        Some(rusqlite::ErrorCode::ReadOnly) => "; the file or its folder cannot be written",
        _ => "",
    }
}
