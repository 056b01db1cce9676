//! Other tools' files as plans. Every construct is honoured, or named in a note with file and line and what
//! it means for the result, or refused with the reason; nothing is dropped in silence.

mod fio;
mod iometer;
mod table;
mod told;
mod vdbench;

pub use fio::{fio_arguments, fio_jobs};
pub use iometer::iometer_configuration;
pub use table::{Fate, Row, table};
pub use vdbench::vdbench_parameters;

use crate::reader::PlanError;
use std::fmt;

/// What a file of another tool amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The plan, in the plan language.
    pub plan: String,
    /// The targets that the file names, in the order of the plan's target numbers.
    pub targets: Vec<String>,
    /// What is not exactly as in the other tool, in the order of the file.
    pub notes: Vec<Note>,
}

/// A construct that is taken otherwise than its tool takes it, or that needs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file it stands in.
    pub file: String,
    /// 1-based line; 0 for what is missing rather than written.
    pub line: usize,
    /// What it is, and what it means for the result.
    pub text: String,
    /// Whether the result differs; else it is only why nothing has to be done.
    pub differs: bool,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}: {}", self.file, self.text),
        }
    }
}

/// What a file may ask of its surroundings: this crate reads neither files nor the environment.
pub trait Surroundings {
    /// The text of an included file.
    ///
    /// # Errors
    /// With the reason why it cannot be read.
    fn include(&self, path: &str) -> Result<String, String>;
    /// An environment variable; empty when unset, as fio has it.
    fn variable(&self, name: &str) -> String;
}

fn mistake(file: &str, line: usize, message: impl Into<String>) -> PlanError {
    PlanError { file: file.to_owned(), line, column: 1, message: message.into() }
}

/// A name as the plan language takes it: other letters become `-`, and it ends after `most`.
fn word(text: &str, most: usize) -> String {
    let ok = |c: char| if c.is_ascii_alphanumeric() || "-_.+%".contains(c) { c } else { '-' };
    text.chars().map(ok).take(most).collect()
}
