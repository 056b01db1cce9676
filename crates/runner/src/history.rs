//! What was written to each target since its purge: within the run, and across runs by the ledger.

use crate::bed::Bed;
use crate::error::RunError;
use drive::{WriteState, write_state};
use plan::{Cell, Load, Pattern, Step, Verb};
use serde::{Deserialize, Serialize};
use std::path::Path;
use store::{CellRecord, Ledger, LedgerEntry, LedgerPurge, LedgerStep, RunWriter, StoreError};

/// Histories of all targets of a run.
pub(crate) struct Histories {
    ledger: Option<Ledger>,
    run: String,
    targets: Vec<History>,
    /// A note for the user about each thing that is not known.
    pub(crate) notes: Vec<String>,
    kept_unix_ms: u64,
    /// What is told now happened before the run was cut: the ledger knows it.
    pub(crate) retold: bool,
}

/// The ledger is written at most this often while cells follow each other: writing it takes time that
/// would be a gap. What is not in it when the power fails shows by the drive's counters.
const KEEP_EVERY_MS: u64 = 10_000;

#[derive(Clone, Deserialize, Serialize)]
struct History {
    entry: LedgerEntry,
    /// The state of never having been written is known to have been there.
    purged: bool,
    /// Nobody but Fathom wrote since.
    sure: bool,
    /// Kept in the ledger: a drive, not a file that is gone after the run.
    kept: bool,
    /// Kind of the last writes, and bytes since it changed: the flash follows a change of workload for
    /// about a drive fill.
    kind: Option<WriteKind>,
    /// Something was written or purged that the ledger does not have yet.
    dirty: bool,
    since_change: u64,
}

/// Kinds of writes that leave the flash in different states.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
enum WriteKind {
    Sequential,
    Random,
}

/// The kind of a cell's writes: random where any load writes at random.
fn kind_of(cell: &Cell) -> WriteKind {
    let random = |load: &Load| load.writes() && !matches!(load.pattern, Pattern::Sequential(_));
    if cell.loads.iter().any(random) { WriteKind::Random } else { WriteKind::Sequential }
}

impl Histories {
    /// Reads the ledger for targets of this host; virtual drives and scratch files are fresh.
    pub(crate) fn new(
        beds: &[Bed<'_>],
        folder: Option<&Path>,
        run: &Path,
        now_unix_ms: u64,
    ) -> Histories {
        let ledger = folder.map(Ledger::new);
        let run = std::path::absolute(run).unwrap_or(run.to_owned()).display().to_string();
        let mut notes = Vec::new();
        let targets = beds
            .iter()
            .map(|bed| {
                let kept = bed.subject.is_some() && !bed.is_scratch();
                let fresh = LedgerEntry {
                    identity: bed.identity.clone(),
                    size_bytes: bed.size.0,
                    updated_unix_ms: now_unix_ms,
                    ..LedgerEntry::default()
                };
                let mut history = History {
                    entry: fresh,
                    // A virtual drive is new; what lies under a scratch file is not known.
                    purged: bed.subject.is_none(),
                    sure: true,
                    kept,
                    kind: None,
                    dirty: false,
                    since_change: 0,
                };
                let found = match (&ledger, kept) {
                    (Some(ledger), true) => ledger.read(&bed.identity),
                    _ => Ok(None),
                };
                match found {
                    Ok(Some(entry)) if entry.size_bytes == bed.size.0 => {
                        history.sure =
                            bed.subject.is_some_and(|s| untouched(&entry, &write_state(s)));
                        history.purged = entry.purge.is_some() && history.sure;
                        history.entry = entry;
                        if !history.sure {
                            // What others wrote ends what the ledger knows, for good.
                            let what = "writes that are not Fathom's".to_owned();
                            let unknown = LedgerStep { what, ..LedgerStep::default() };
                            history.entry.purge = None;
                            history.entry.steps = vec![unknown];
                            history.entry.written_bytes = 0;
                        }
                    }
                    Ok(_) => history.sure = !kept,
                    Err(error) => {
                        // What cannot be read is not written over.
                        (history.sure, history.kept) = (false, false);
                        notes.push(format!("the ledger is not used: {error}"));
                    }
                }
                history
            })
            .collect();
        Histories { ledger, run, targets, notes, kept_unix_ms: 0, retold: false }
    }

    /// What is known at the start of a run, for going on with it later.
    pub(crate) fn as_json(&self) -> String {
        serde_json::to_string(&self.targets).unwrap_or_default()
    }

    /// Goes back to what was known at the start of a cut run; what it did since is told again.
    pub(crate) fn restore(&mut self, json: &str) {
        if let Ok(targets) = serde_json::from_str::<Vec<History>>(json)
            && targets.len() == self.targets.len()
        {
            self.targets = targets;
        }
    }

    /// What a cell wrote before it was cut is on the drives, though the cell is repeated.
    pub(crate) fn wrote_before_cut(&mut self, cell: &CellRecord) {
        for (stream, counts) in cell.streams.iter().zip(&cell.totals) {
            if let Some(target) = self.targets.get_mut(stream.target)
                && counts.writes.bytes > 0
            {
                let (bytes, run) = (counts.writes.bytes, self.run.clone());
                target.entry.written_bytes += bytes;
                target.since_change += bytes;
                target.dirty = true;
                let what = format!("{}, cut", stream.describe);
                target.entry.steps.push(LedgerStep { what, bytes, run, whole: false });
            }
        }
    }

    /// Drive fills since the purge of the target that has the fewest; none when no purge is known.
    pub(crate) fn fills(&self) -> Option<f64> {
        let known = self.targets.iter().all(|target| target.purged);
        known.then(|| self.least_fills())
    }

    fn least_fills(&self) -> f64 {
        let of = |history: &History| {
            history.entry.written_bytes as f64 / history.entry.size_bytes.max(1) as f64
        };
        self.targets.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Drive fills since the writes changed between sequential and random, of the target that has the
    /// fewest.
    pub(crate) fn fills_of_kind(&self) -> f64 {
        let of = |history: &History| {
            history.since_change as f64 / history.entry.size_bytes.max(1) as f64
        };
        self.targets.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// A purge came to its end.
    pub(crate) fn purged(&mut self, beds: &[Bed<'_>], method: &str, unix_ms: u64) {
        for target in &mut self.targets {
            target.entry.purge = Some(LedgerPurge { method: method.to_owned(), unix_ms });
            (target.entry.written_bytes, target.entry.steps) = (0, Vec::new());
            (target.purged, target.sure, target.dirty) = (true, true, true);
            (target.kind, target.since_change) = (None, 0);
        }
        self.flush(beds, unix_ms);
    }

    /// A cell wrote these bytes to each target.
    pub(crate) fn wrote(
        &mut self,
        beds: &[Bed<'_>],
        cell: &Cell,
        bytes: &[u64],
        whole: bool,
        unix_ms: u64,
    ) {
        let (what, kind) = (describe_writes(cell), kind_of(cell));
        for (target, &bytes) in self.targets.iter_mut().zip(bytes) {
            if bytes == 0 {
                continue;
            }
            if target.kind.replace(kind) != Some(kind) {
                target.since_change = 0;
            }
            target.since_change += bytes;
            target.entry.written_bytes += bytes;
            target.dirty = true;
            let (what, run) = (what.clone(), self.run.clone());
            let steps = &mut target.entry.steps;
            steps.push(LedgerStep { what, bytes, run, whole });
            // What came first and last matters; a ledger need not grow without end.
            if steps.len() > 200 {
                steps.remove(100);
            }
        }
        if unix_ms >= self.kept_unix_ms + KEEP_EVERY_MS {
            self.flush(beds, unix_ms);
        }
    }

    /// Writes the ledger down for targets that have one.
    pub(crate) fn flush(&mut self, beds: &[Bed<'_>], unix_ms: u64) {
        if self.retold {
            return;
        }
        self.kept_unix_ms = unix_ms;
        let Some(ledger) = &self.ledger else {
            return;
        };
        for (target, bed) in self.targets.iter_mut().zip(beds) {
            let (true, Some(subject)) = (target.kept && target.dirty, bed.subject) else {
                continue;
            };
            target.dirty = false;
            target.entry.state = serde_json::to_value(write_state(subject)).unwrap_or_default();
            target.entry.updated_unix_ms = unix_ms;
            if let Err(error) = ledger.write(&target.entry) {
                self.notes.push(format!("the ledger is not kept: {error}"));
                target.kept = false;
            }
        }
    }

    /// How many of the plan's first steps are done already, to the byte, and nothing since: those
    /// that allow it, and only when every target's ledger says the same. Gives the run they are from.
    pub(crate) fn reusable(&self, steps: &[Step]) -> Option<(usize, String)> {
        let allowed: Vec<&Step> = steps.iter().take_while(|step| step.reuse).collect();
        let wanted: Vec<String> = allowed.iter().filter_map(|step| signature(step)).collect();
        if wanted.is_empty() || !allowed.iter().any(|step| matches!(step.verb, Verb::Purge(_))) {
            return None;
        }
        let fits = |target: &History| {
            let steps = &target.entry.steps;
            target.sure
                && target.entry.purge.is_some()
                && steps.len() == wanted.len()
                && steps.iter().zip(&wanted).all(|(step, what)| step.whole && step.what == *what)
        };
        let from = self.targets.first()?.entry.steps.first()?.run.clone();
        self.targets.iter().all(fits).then_some((allowed.len(), from))
    }
}

/// What a step writes, in words that two equal steps share; none when it writes nothing.
fn signature(step: &Step) -> Option<String> {
    match &step.verb {
        Verb::Fill(cell) | Verb::Load(cell) if cell.writes() => Some(describe_writes(cell)),
        _ => None,
    }
}

/// What a cell writes: everything about its loads that reaches the drive, and how long.
fn describe_writes(cell: &Cell) -> String {
    // All of a load but its name: a mix of blocks or a list of zones is more than its short form.
    let load = |load: &Load| {
        let nameless = Load { name: String::new(), ..load.clone() };
        format!("{}: {nameless:?}", load.describe())
    };
    let loads: Vec<String> = cell.loads.iter().filter(|l| l.writes()).map(load).collect();
    format!("{} time={:?} amount={:?}", loads.join(" + "), cell.window.time, cell.window.amount)
}

/// Whether nothing was written to a target since its entry; a device that counts nothing gives no
/// evidence of it.
fn untouched(entry: &LedgerEntry, now: &WriteState) -> bool {
    let evident = now.written_bytes.is_some() || now.modified_unix_ms.is_some();
    evident
        && serde_json::from_value(entry.state.clone()).is_ok_and(|then: WriteState| then == *now)
}

/// Notes what a resumed run must know of each target.
pub(crate) fn note_states(writer: &RunWriter, beds: &[Bed<'_>]) -> Result<(), StoreError> {
    let states: Vec<_> = beds.iter().map(|bed| bed.subject.map(write_state)).collect();
    writer.set_meta("write_state", &serde_json::to_string(&states).unwrap_or_default())
}

/// Bytes that may have been written between the last note of a killed run and its end.
const LAST_WRITES: u64 = 64 << 20;
/// Time for the same, for files, in ms.
const LAST_WRITES_MS: i64 = 10_000;

/// Checks that nothing else wrote to a target since a run noted its state, which itself wrote at most
/// `rate_bytes` a note, or nothing. Gives what cannot be known.
///
/// # Errors
/// When somebody else wrote to it.
pub(crate) fn check_unchanged(
    bed: &Bed<'_>,
    then: Option<&WriteState>,
    rate_bytes: u64,
    writes: bool,
) -> Result<Option<String>, RunError> {
    let (Some(subject), Some(then)) = (bed.subject, then) else {
        return Ok(None);
    };
    let now = write_state(subject);
    let changed = |how: String| {
        Err(RunError::Resume(format!(
            "{}: {how} since the run was cut; what it measured before no longer belongs to this \
             state: start a new run",
            bed.name
        )))
    };
    if then.file.is_some() && then.file != now.file && !bed.is_scratch() {
        return changed("is another file".into());
    }
    if then.boot != now.boot && now.file.is_none() {
        return Ok(Some(format!(
            "{}: the host was restarted; whether somebody else wrote to the drive in between cannot \
             be known",
            bed.name
        )));
    }
    if now.file.is_none() && (then.written_bytes.is_none() || now.written_bytes.is_none()) {
        return Ok(Some(format!(
            "{}: the device counts nothing; whether somebody else wrote to it cannot be known",
            bed.name
        )));
    }
    let slack = LAST_WRITES + 2 * rate_bytes;
    if let (Some(before), Some(after)) = (then.written_bytes, now.written_bytes)
        && (after < before || after - before > slack)
    {
        let more = after.saturating_sub(before);
        return changed(format!("the device counted {more} bytes written"));
    }
    if let (Some(before), Some(after)) = (then.modified_unix_ms, now.modified_unix_ms)
        && after - before > if writes { LAST_WRITES_MS } else { 0 }
        && !bed.is_scratch()
    {
        return changed("the file was changed".into());
    }
    Ok(None)
}
