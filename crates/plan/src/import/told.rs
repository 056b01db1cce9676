//! What is told while a file is read, each thing once.

use super::{Note, mistake};
use crate::reader::PlanError;

/// A place in a file.
pub(super) trait Placed {
    /// File and 1-based line.
    fn place(&self) -> (&str, usize);
}

/// Notes and mistakes.
#[derive(Default)]
pub(super) struct Told {
    pub(super) notes: Vec<Note>,
    pub(super) errors: Vec<PlanError>,
}

impl Told {
    /// The result differs from the other tool's.
    pub(super) fn note(&mut self, at: &dyn Placed, text: impl Into<String>) {
        self.add(at, text.into(), true);
    }

    /// Nothing has to be done.
    pub(super) fn free(&mut self, at: &dyn Placed, text: impl Into<String>) {
        self.add(at, text.into(), false);
    }

    fn add(&mut self, at: &dyn Placed, text: String, differs: bool) {
        let (file, line) = at.place();
        let note = Note { file: file.to_owned(), line, text, differs };
        // An option for all is told once.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// It would not be the same without it.
    pub(super) fn refuse(&mut self, at: &dyn Placed, text: impl Into<String>) {
        let (file, line) = at.place();
        let error = mistake(file, line, text);
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// In the order of the file.
    pub(super) fn sort(&mut self) {
        self.errors.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        self.notes.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    }
}
