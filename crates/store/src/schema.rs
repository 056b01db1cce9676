//! The tables. A change here is a new version, a new golden file and a line in `docs/run-file.md`.

/// Format written by this program.
pub const SCHEMA_VERSION: i64 = 1;
/// SQLite's application id: `Fthm`.
pub const APPLICATION_ID: i64 = 0x4674_686d;

pub(crate) const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE target (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, identity TEXT NOT NULL, kind TEXT NOT NULL,
    size_bytes INTEGER NOT NULL, block_bytes INTEGER NOT NULL, facts TEXT NOT NULL);
CREATE TABLE cell (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, step TEXT NOT NULL, label TEXT NOT NULL,
    verb TEXT NOT NULL, coordinates TEXT NOT NULL, iteration INTEGER NOT NULL,
    counted INTEGER NOT NULL, spec TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER,
    status TEXT NOT NULL, message TEXT, facts TEXT NOT NULL);
CREATE TABLE stream (
    cell INTEGER NOT NULL REFERENCES cell, idx INTEGER NOT NULL, load TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES target, describe TEXT NOT NULL, open_loop INTEGER NOT NULL,
    rate_iops REAL, PRIMARY KEY (cell, idx)) WITHOUT ROWID;
CREATE TABLE interval (
    id INTEGER PRIMARY KEY, start_ns INTEGER NOT NULL, len_ns INTEGER NOT NULL,
    ramp INTEGER NOT NULL, read_bytes INTEGER NOT NULL, read_errors INTEGER NOT NULL,
    write_bytes INTEGER NOT NULL, write_errors INTEGER NOT NULL,
    waited INTEGER NOT NULL, shed INTEGER NOT NULL,
    cpu_user_ns INTEGER NOT NULL, cpu_system_ns INTEGER NOT NULL, hists BLOB NOT NULL);
CREATE TABLE total (
    cell INTEGER NOT NULL REFERENCES cell, stream INTEGER NOT NULL, through_seq INTEGER NOT NULL,
    len_ns INTEGER NOT NULL, intervals INTEGER NOT NULL, read_bytes INTEGER NOT NULL,
    read_errors INTEGER NOT NULL, write_bytes INTEGER NOT NULL, write_errors INTEGER NOT NULL,
    waited INTEGER NOT NULL, shed INTEGER NOT NULL,
    cpu_user_ns INTEGER NOT NULL, cpu_system_ns INTEGER NOT NULL,
    hists BLOB NOT NULL, PRIMARY KEY (cell, stream));
CREATE TABLE series (id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE telemetry (
    at_ns INTEGER NOT NULL, series INTEGER NOT NULL REFERENCES series, value REAL NOT NULL);
CREATE TABLE event (
    at_ns INTEGER NOT NULL, cell INTEGER, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE verdict (
    cell INTEGER, name TEXT NOT NULL, status TEXT NOT NULL, text TEXT NOT NULL,
    evidence TEXT NOT NULL);
";

/// Bits of an interval's id that hold the stream, and the interval's number within the cell.
const STREAM_BITS: u32 = 12;
const SEQ_BITS: u32 = 32;

/// The id of an interval's row: rows of a cell lie together and in order.
pub(crate) fn interval_id(cell: i64, seq: u32, stream: usize) -> i64 {
    cell << (SEQ_BITS + STREAM_BITS) | i64::from(seq) << STREAM_BITS | stream as i64
}

/// The cell of an interval, from its id.
pub(crate) fn cell_of(id: i64) -> i64 {
    id >> (SEQ_BITS + STREAM_BITS)
}

/// The number of the interval in the cell, from its id.
pub(crate) fn seq_of(id: i64) -> u32 {
    (id >> STREAM_BITS) as u32
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its program is writing to it now.
    Running,
    /// It ended by itself, and every check passed.
    Done,
    /// It ended by itself, but is not valid: see the verdicts.
    Invalid,
    /// Somebody stopped it; it can be resumed.
    Interrupted,
    /// It failed.
    Failed,
    /// Its program ended without a word: killed, crashed or without power.
    CutOff,
}

impl State {
    /// The word in the file and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Done => "done",
            State::Invalid => "not-valid",
            State::Interrupted => "interrupted",
            State::Failed => "failed",
            State::CutOff => "cut-off",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<State> {
        [State::Running, State::Done, State::Invalid, State::Interrupted, State::Failed]
            .into_iter()
            .find(|state| state.word() == word)
    }
}
