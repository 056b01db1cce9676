//! What a run file gained since it was last looked at: for those who watch a run.
//!
//! The file is opened anew each time. A connection that stays open would lose its locks whenever
//! another handle of the file is closed in this process.

use crate::error::StoreError;
use crate::read::{CellRecord, Event, RunFile, VerdictRow, read_cells, read_events, read_verdicts};
use crate::schema::{State, interval_id};
use base::sample::IntervalSample;
use std::path::Path;

/// How far a run file has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    begun: bool,
    cell: i64,
    interval: i64,
    event: i64,
    verdict: i64,
}

/// What is new.
#[derive(Debug)]
pub struct News {
    /// How the run stands now.
    pub state: State,
    /// Cells, events and verdicts were read from the beginning: what was known of them no longer holds.
    pub anew: bool,
    /// There were more intervals than were wanted at once.
    pub more: bool,
    /// Cells that began or changed; those that ended have their totals.
    pub cells: Vec<CellRecord>,
    /// Events in order.
    pub events: Vec<Event>,
    /// Verdicts in order.
    pub verdicts: Vec<VerdictRow>,
}

/// Reads what was written after `mark` and moves it on. `each` is given the new intervals with the
/// number of their cell, in order: about `rows_max` rows of them, a row being one stream's.
///
/// # Errors
/// When the file cannot be read. The mark then stays where it was.
pub fn news(
    path: &Path,
    mark: &mut Mark,
    rows_max: usize,
    mut each: impl FnMut(i64, IntervalSample),
) -> Result<News, StoreError> {
    let run = RunFile::bare(path)?;
    let wrap =
        |error| StoreError::Database { path: path.to_owned(), what: "cannot be read", error };
    // One look: all tables as they were at one moment.
    run.connection.execute_batch("BEGIN").map_err(wrap)?;
    let mut next = mark.clone();
    let (event, mut events) = read_events(&run.connection, mark.event).map_err(wrap)?;
    // A run that goes on marks cells of before as repeated and takes its verdicts back.
    let goes_on = mark.begun && events.iter().any(|event| event.kind == "resume");
    let anew = goes_on || !mark.begun;
    next.begun = true;
    next.event = event;
    if goes_on {
        next = Mark { begun: true, interval: mark.interval, ..Mark::default() };
        (next.event, events) = read_events(&run.connection, 0).map_err(wrap)?;
    }
    let mut cells = read_cells(&run.connection, next.cell).map_err(wrap)?;
    for cell in cells.iter_mut().filter(|cell| cell.status != "running") {
        run.stored_totals(cell)?;
    }
    next.cell = match cells.iter().find(|cell| cell.status == "running") {
        Some(running) => running.id,
        None => cells.last().map_or(next.cell, |last| last.id + 1),
    };
    let verdicts;
    (next.verdict, verdicts) = read_verdicts(&run.connection, next.verdict).map_err(wrap)?;
    let (mut last, mut rows) = (next.interval, 0);
    run.each_between(next.interval..i64::MAX, |cell, sample| {
        last = interval_id(cell, sample.seq + 1, 0);
        rows += sample.streams.len();
        each(cell, sample);
        rows < rows_max
    })?;
    next.interval = last;
    *mark = next;
    Ok(News { state: run.state, anew, more: rows >= rows_max, cells, events, verdicts })
}
