//! Output files: written beside, synced, renamed. A reader never sees half a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why an output could not be made.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The run file.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// The file.
    #[error("{path}: cannot be written: {error}")]
    System {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The columnar format.
    #[error("parquet: {0}")]
    Parquet(String),
    /// The workbook.
    #[error("xlsx: {0}")]
    Xlsx(String),
    /// The printed page.
    #[error("pdf: {0}")]
    Browser(String),
}

/// Writes a whole file or nothing.
///
/// # Errors
/// When the folder cannot be written or is full.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let write = || {
        // What a killed program left there goes first; a link is not followed.
        let _ = std::fs::remove_file(&beside);
        let mut file = File::options().write(true).create_new(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        OutputError::System { path: path.to_owned(), error }
    })
}
