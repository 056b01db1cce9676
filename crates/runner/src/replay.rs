//! What a cut run has done already, for going on with it.
//!
//! The plan is walked again from its start. A cell that is done gives its stored result; on a virtual
//! drive it is simulated again, which brings the drive's state back and must give the same counts.
//! Rounds and steps that allow no gap count as done only when they came to their end.

use crate::error::RunError;
use std::collections::{HashMap, HashSet};
use store::{CellRecord, RunFile, RunWriter, VerdictRow};

/// Done cells by path and label, and what came to its end.
#[derive(Default)]
pub(crate) struct Replay {
    cells: HashMap<(String, String), CellRecord>,
    verdicts: Vec<VerdictRow>,
    resumed: bool,
    /// Paths of rounds, continuous steps and actions that came to their end.
    done: HashSet<String>,
}

/// Kind of the event that says that a path came to its end.
pub(crate) const DONE: &str = "done";

impl Replay {
    /// Reads what is done from a run file.
    pub(crate) fn new(run: &RunFile) -> (Replay, Vec<CellRecord>) {
        let mut replay = Replay {
            done: run.events.iter().filter(|e| e.kind == DONE).map(|e| e.text.clone()).collect(),
            verdicts: run.verdicts.clone(),
            resumed: true,
            ..Replay::default()
        };
        let (done, cut): (Vec<CellRecord>, Vec<CellRecord>) =
            run.cells.iter().cloned().partition(|cell| cell.status == "done");
        for cell in done {
            replay.cells.insert((cell.path.clone(), cell.label.clone()), cell);
        }
        (replay, cut)
    }

    /// The stored result of a cell, when it is done.
    pub(crate) fn take(&mut self, path: &str, label: &str) -> Option<(CellRecord, bool)> {
        let found = self.cells.remove(&(path.to_owned(), label.to_owned()))?;
        let failed = self.verdicts.iter().any(|v| v.cell == Some(found.id) && v.status == "fail");
        Some((found, failed))
    }

    /// Whether a path came to its end.
    pub(crate) fn is_done(&self, path: &str) -> bool {
        self.done.contains(path)
    }

    /// Gives up what was measured below a path that did not come to its end.
    pub(crate) fn give_up(
        &mut self,
        path: &str,
        why: &str,
        writer: &RunWriter,
    ) -> Result<Vec<CellRecord>, RunError> {
        let below = |cell: &CellRecord| is_below(&cell.path, path);
        let keys: Vec<_> =
            self.cells.iter().filter(|(_, cell)| below(cell)).map(|(key, _)| key.clone()).collect();
        let given_up: Vec<CellRecord> =
            keys.iter().filter_map(|key| self.cells.remove(key)).collect();
        for cell in &given_up {
            writer.mark_repeated(cell.id, why)?;
        }
        // What was done in it, such as a purge, is done again too.
        self.done.retain(|done| !is_below(done, path));
        Ok(given_up)
    }

    /// Whether a cut run goes on.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed
    }
}

/// Whether a path stands below another one: in it, or in one of its rounds.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '#']))
}
