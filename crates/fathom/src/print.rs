//! Results go to standard output, everything else to standard error.

use serde_json::Value;
use std::io::{self, Write};

/// Writes results; a closed pipe is an error of its own kind, not a panic.
pub(crate) fn out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes one JSON document.
pub(crate) fn json(value: &Value) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    out(&(text + "\n"))
}
