//! Reading a run file: also while it grows, and after its writer was killed.

use crate::error::StoreError;
use crate::schema::{APPLICATION_ID, SCHEMA_VERSION, State, cell_of, interval_id, seq_of};
use base::hist::{DecodeError, Hist};
use base::sample::{CpuUse, IntervalSample, Side, StreamSample};
use base::units::Nanos;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An opened run file, everything but its intervals in memory.
pub struct RunFile {
    path: PathBuf,
    pub(crate) connection: Connection,
    meta: BTreeMap<String, String>,
    /// How the run stands.
    pub state: State,
    /// Its targets as JSON objects: name, identity, kind, size_bytes, block_bytes, facts.
    pub targets: Vec<Value>,
    /// Its cells in order, those that were measured again left out.
    pub cells: Vec<CellRecord>,
    /// Cells that were measured again after the run was cut; why is in their message.
    pub repeated: Vec<CellRecord>,
    /// Its events in order.
    pub events: Vec<Event>,
    /// Its verdicts.
    pub verdicts: Vec<VerdictRow>,
}

/// A cell as stored.
#[derive(Clone, Debug)]
pub struct CellRecord {
    /// Number in the file.
    pub id: i64,
    /// Step names from the outermost.
    pub path: String,
    /// Name of the step.
    pub step: String,
    /// What tells it from its siblings.
    pub label: String,
    /// The verb.
    pub verb: String,
    /// Place on the axes of a sweep.
    pub coordinates: Value,
    /// Iteration of the innermost repeat, from 1; 0 outside of one.
    pub iteration: u32,
    /// Whether it counts.
    pub counted: bool,
    /// The loads.
    pub spec: Value,
    /// Start on the run's clock.
    pub start: Nanos,
    /// `done`, `interrupted`, `failed`; `running` in a run that goes on or was cut off.
    pub status: String,
    /// Why it failed.
    pub message: Option<String>,
    /// Facts about its running.
    pub facts: Value,
    /// Its streams.
    pub streams: Vec<StreamRecord>,
    /// Merged counts of each stream over the counted intervals.
    pub totals: Vec<StreamSample>,
    /// Length of the counted intervals together.
    pub len: Nanos,
    /// How many intervals count.
    pub intervals: u32,
    /// CPU time of the workers in them.
    pub cpu: CpuUse,
}

impl CellRecord {
    /// All streams together.
    pub fn merged(&self) -> StreamSample {
        let mut sum = StreamSample::default();
        self.totals.iter().for_each(|stream| sum.merge(stream));
        sum
    }
}

/// A stream of a cell as stored.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// Name of the load.
    pub load: String,
    /// Index of the target.
    pub target: usize,
    /// Short form of the load.
    pub describe: String,
    /// The rate asked for; none in closed loop.
    pub rate_iops: Option<f64>,
}

/// An event as stored.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, on the run's clock.
    pub at: Nanos,
    /// In which cell.
    pub cell: Option<i64>,
    /// Kind: `permit`, `prepare`, `fault`, ...
    pub kind: String,
    /// For people.
    pub text: String,
}

/// A telemetry sample as stored.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// When, on the run's clock.
    pub at: Nanos,
    /// What was asked.
    pub source: String,
    /// Which value.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// A verdict as stored.
#[derive(Clone, Debug)]
pub struct VerdictRow {
    /// On which cell; none for the whole run.
    pub cell: Option<i64>,
    /// Name of the check.
    pub name: String,
    /// `pass`, `info`, `warning`, `fail`.
    pub status: String,
    /// For people.
    pub text: String,
    /// The figures it rests on.
    pub evidence: Value,
}

impl RunFile {
    /// Opens a run file for reading.
    ///
    /// # Errors
    /// When it is none, is too new, or cannot be read.
    pub fn open(path: &Path) -> Result<RunFile, StoreError> {
        let mut run = RunFile::bare(path)?;
        let read = run.cannot("cannot be read");
        run.targets = read_targets(&run.connection).map_err(&read)?;
        run.events = read_events(&run.connection, 0).map_err(&read)?.1;
        run.verdicts = read_verdicts(&run.connection, 0).map_err(&read)?.1;
        run.cells = read_cells(&run.connection, 0).map_err(&read)?;
        run.load_totals()?;
        let all = std::mem::take(&mut run.cells);
        (run.repeated, run.cells) = all.into_iter().partition(|cell| cell.status == "repeated");
        Ok(run)
    }

    /// Opens a run file without its cells, events and verdicts.
    ///
    /// # Errors
    /// As [`RunFile::open`].
    pub fn open_head(path: &Path) -> Result<RunFile, StoreError> {
        let mut run = RunFile::bare(path)?;
        run.targets = read_targets(&run.connection).map_err(run.cannot("cannot be read"))?;
        Ok(run)
    }

    /// A run file with its head alone.
    pub(crate) fn bare(path: &Path) -> Result<RunFile, StoreError> {
        // Asked before the database opens the file: closing a handle drops its locks.
        let held = is_held(path)?;
        let wrap = |what| move |error| StoreError::Database { path: path.to_owned(), what, error };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(wrap("cannot be opened"))?;
        check_format(&connection, path)?;
        let meta = read_meta(&connection).map_err(wrap("cannot be read"))?;
        let state = match meta.get("state").and_then(|word| State::from_word(word)) {
            Some(State::Running) | None if held => State::Running,
            Some(State::Running) | None => State::CutOff,
            Some(state) => state,
        };
        Ok(RunFile {
            path: path.to_owned(),
            targets: Vec::new(),
            events: Vec::new(),
            verdicts: Vec::new(),
            cells: Vec::new(),
            repeated: Vec::new(),
            connection,
            meta,
            state,
        })
    }

    fn cannot(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |error| StoreError::Database { path: path.clone(), what, error }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A value of the head; empty when missing.
    pub fn meta(&self, key: &str) -> &str {
        self.meta.get(key).map_or("", String::as_str)
    }

    /// A JSON value of the head; null when missing.
    pub fn meta_json(&self, key: &str) -> Value {
        serde_json::from_str(self.meta(key)).unwrap_or(Value::Null)
    }

    /// Intervals of a cell in order, ramp included. They hold no submission times: those are in the
    /// cell's totals.
    ///
    /// # Errors
    /// When a row is damaged.
    pub fn intervals(&self, cell: i64) -> Result<Vec<IntervalSample>, StoreError> {
        let mut samples = Vec::new();
        self.each_interval(cell, 0, |sample| samples.push(sample))?;
        Ok(samples)
    }

    /// As [`RunFile::intervals`] from number `first` on, one at a time: a day is a million samples.
    ///
    /// # Errors
    /// When a row is damaged.
    pub fn each_interval(
        &self,
        cell: i64,
        first: u32,
        mut each: impl FnMut(IntervalSample),
    ) -> Result<(), StoreError> {
        let range = interval_id(cell, first, 0)..interval_id(cell + 1, 0, 0);
        self.each_between(range, |_, sample| {
            each(sample);
            true
        })
    }

    /// Intervals with ids in `range`, of whichever cells, until `each` wants no more.
    pub(crate) fn each_between(
        &self,
        range: Range<i64>,
        mut each: impl FnMut(i64, IntervalSample) -> bool,
    ) -> Result<(), StoreError> {
        let wrap = self.cannot("intervals cannot be read");
        let mut query = self
            .connection
            .prepare_cached("SELECT * FROM interval WHERE id >= ?1 AND id < ?2 ORDER BY id")
            .map_err(&wrap)?;
        let mut rows = query.query([range.start, range.end]).map_err(&wrap)?;
        let mut open: Option<(i64, IntervalSample)> = None;
        while let Some(row) = rows.next().map_err(&wrap)? {
            let mut sample = head_of_interval(row).map_err(&wrap)?;
            let cell = cell_of(row.get("id").map_err(&wrap)?);
            let stream = self.stream_of(row, cell, i64::from(sample.seq), 4)?;
            match &mut open {
                Some((of, last)) if (*of, last.seq) == (cell, sample.seq) => {
                    last.streams.push(stream);
                }
                _ => {
                    sample.streams.push(stream);
                    if let Some((of, done)) = open.replace((cell, sample))
                        && !each(of, done)
                    {
                        return Ok(());
                    }
                }
            }
        }
        if let Some((of, done)) = open {
            each(of, done);
        }
        Ok(())
    }

    /// Telemetry in order of time.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn telemetry(&self) -> Result<Vec<Telemetry>, StoreError> {
        let read = || {
            let mut query = self.connection.prepare(
                "SELECT at_ns, source, name, value FROM telemetry JOIN series ON id = series
                 ORDER BY at_ns, telemetry.rowid",
            )?;
            let rows = query.query_map([], |row| {
                Ok(Telemetry {
                    at: Nanos(row.get::<_, i64>(0)? as u64),
                    source: row.get(1)?,
                    name: row.get(2)?,
                    value: row.get(3)?,
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| StoreError::Database {
            path: self.path.clone(),
            what: "telemetry cannot be read",
            error,
        })
    }

    /// Stored sums, and for a cell that goes on or was cut off the intervals after them.
    fn load_totals(&mut self) -> Result<(), StoreError> {
        let mut cells = std::mem::take(&mut self.cells);
        for cell in &mut cells {
            let next = self.stored_totals(cell)?;
            if cell.status != "running" && next > 0 {
                continue;
            }
            let CellRecord { id, totals, len, intervals, cpu, .. } = cell;
            self.each_interval(*id, next, |sample| {
                if sample.ramp {
                    return;
                }
                totals.resize_with(sample.streams.len(), StreamSample::default);
                for (total, stream) in totals.iter_mut().zip(&sample.streams) {
                    total.merge(stream);
                }
                len.0 += sample.len.0;
                *intervals += 1;
                cpu.merge(sample.cpu);
            })?;
        }
        self.cells = cells;
        Ok(())
    }

    /// Reads the stored sums; gives the number of the first interval that is not in them.
    pub(crate) fn stored_totals(&self, cell: &mut CellRecord) -> Result<u32, StoreError> {
        let wrap = |error| StoreError::Database {
            path: self.path.clone(),
            what: "totals cannot be read",
            error,
        };
        let mut query = self
            .connection
            .prepare_cached("SELECT * FROM total WHERE cell=?1 ORDER BY stream")
            .map_err(wrap)?;
        let mut rows = query.query([cell.id]).map_err(wrap)?;
        let mut next = 0;
        while let Some(row) = rows.next().map_err(wrap)? {
            let n = |name: &str| row.get::<_, i64>(name).map(|n| n as u64).map_err(wrap);
            cell.len = Nanos(n("len_ns")?);
            cell.intervals = n("intervals")? as u32;
            cell.cpu.merge(CpuUse { user_ns: n("cpu_user_ns")?, system_ns: n("cpu_system_ns")? });
            cell.totals.push(self.stream_of(row, cell.id, -1, 5)?);
            next = n("through_seq")? as u32 + 1;
        }
        Ok(next)
    }

    /// The counts of one stream. `at` is the column of `read_bytes`.
    fn stream_of(
        &self,
        row: &Row<'_>,
        cell: i64,
        seq: i64,
        at: usize,
    ) -> Result<StreamSample, StoreError> {
        let wrap = |error| StoreError::Database {
            path: self.path.clone(),
            what: "counts cannot be read",
            error,
        };
        let n = |column: usize| row.get::<_, i64>(at + column).map(|n| n as u64).map_err(wrap);
        let hists = row.get_ref("hists").and_then(|value| Ok(value.as_blob()?)).map_err(wrap)?;
        let mut sample = decode(hists).map_err(|error| StoreError::Damaged {
            path: self.path.clone(),
            cell,
            seq,
            error,
        })?;
        (sample.reads.bytes, sample.reads.errors) = (n(0)?, n(1)?);
        (sample.writes.bytes, sample.writes.errors) = (n(2)?, n(3)?);
        (sample.waited, sample.shed) = (n(4)?, n(5)?);
        Ok(sample)
    }
}

/// Whether a process holds the run: it goes on.
fn is_held(path: &Path) -> Result<bool, StoreError> {
    let system = |error| StoreError::System { path: path.to_owned(), error };
    let file = File::open(path).map_err(system)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(system(error)),
    }
}

fn check_format(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let id = match pragma("application_id") {
        Ok(id) => id,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        Err(error) => {
            let what = "cannot be read";
            return Err(StoreError::Database { path: path.to_owned(), what, error });
        }
    };
    let version = pragma("user_version").unwrap_or(0);
    if id != APPLICATION_ID || version < 1 {
        return Err(StoreError::Foreign(path.to_owned()));
    }
    if version > SCHEMA_VERSION {
        let (path, known) = (path.to_owned(), SCHEMA_VERSION);
        return Err(StoreError::TooNew { path, found: version, known });
    }
    Ok(())
}

fn read_meta(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut query = connection.prepare("SELECT key, value FROM meta")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn json(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn read_targets(connection: &Connection) -> rusqlite::Result<Vec<Value>> {
    let mut query = connection.prepare("SELECT * FROM target ORDER BY id")?;
    let rows = query.query_map([], |row| {
        Ok(serde_json::json!({
            "name": row.get::<_, String>(1)?,
            "identity": row.get::<_, String>(2)?,
            "kind": row.get::<_, String>(3)?,
            "size_bytes": row.get::<_, i64>(4)?,
            "block_bytes": row.get::<_, i64>(5)?,
            "facts": json(row.get(6)?),
        }))
    })?;
    rows.collect()
}

/// Events after a row, and the last row there is.
pub(crate) fn read_events(
    connection: &Connection,
    after: i64,
) -> rusqlite::Result<(i64, Vec<Event>)> {
    let mut query = connection.prepare(
        "SELECT at_ns, cell, kind, text, rowid FROM event WHERE rowid > ?1 ORDER BY rowid",
    )?;
    let mut last = after;
    let rows = query.query_map([after], |row| {
        last = row.get(4)?;
        Ok(Event {
            at: Nanos(row.get::<_, i64>(0)? as u64),
            cell: row.get(1)?,
            kind: row.get(2)?,
            text: row.get(3)?,
        })
    })?;
    let all = rows.collect::<rusqlite::Result<_>>()?;
    Ok((last, all))
}

/// Verdicts after a row, and the last row there is.
pub(crate) fn read_verdicts(
    connection: &Connection,
    after: i64,
) -> rusqlite::Result<(i64, Vec<VerdictRow>)> {
    let mut query = connection.prepare(
        "SELECT cell, name, status, text, evidence, rowid FROM verdict WHERE rowid > ?1
         ORDER BY rowid",
    )?;
    let mut last = after;
    let rows = query.query_map([after], |row| {
        last = row.get(5)?;
        Ok(VerdictRow {
            cell: row.get(0)?,
            name: row.get(1)?,
            status: row.get(2)?,
            text: row.get(3)?,
            evidence: json(row.get(4)?),
        })
    })?;
    let all = rows.collect::<rusqlite::Result<_>>()?;
    Ok((last, all))
}

/// Cells from a number on.
pub(crate) fn read_cells(connection: &Connection, from: i64) -> rusqlite::Result<Vec<CellRecord>> {
    let mut query = connection.prepare(
        "SELECT id, path, step, label, verb, coordinates, iteration, counted, spec, start_ns,
            status, message, facts FROM cell WHERE id >= ?1 ORDER BY id",
    )?;
    let rows = query.query_map([from], |row| {
        Ok(CellRecord {
            id: row.get(0)?,
            path: row.get(1)?,
            step: row.get(2)?,
            label: row.get(3)?,
            verb: row.get(4)?,
            coordinates: json(row.get(5)?),
            iteration: row.get(6)?,
            counted: row.get(7)?,
            spec: json(row.get(8)?),
            start: Nanos(row.get::<_, i64>(9)? as u64),
            status: row.get(10)?,
            message: row.get(11)?,
            facts: json(row.get(12)?),
            streams: Vec::new(),
            totals: Vec::new(),
            len: Nanos(0),
            intervals: 0,
            cpu: CpuUse::default(),
        })
    })?;
    let mut cells: Vec<CellRecord> = rows.collect::<rusqlite::Result<_>>()?;
    let mut query = connection.prepare(
        "SELECT load, target, describe, rate_iops FROM stream WHERE cell=?1 ORDER BY idx",
    )?;
    for cell in &mut cells {
        let rows = query.query_map([cell.id], |row| {
            Ok(StreamRecord {
                load: row.get(0)?,
                target: row.get::<_, i64>(1)? as usize,
                describe: row.get(2)?,
                rate_iops: row.get(3)?,
            })
        })?;
        cell.streams = rows.collect::<rusqlite::Result<_>>()?;
    }
    Ok(cells)
}

fn head_of_interval(row: &Row<'_>) -> rusqlite::Result<IntervalSample> {
    let n = |name: &str| row.get::<_, i64>(name).map(|n| n as u64);
    Ok(IntervalSample {
        seq: seq_of(row.get("id")?),
        start: Nanos(n("start_ns")?),
        len: Nanos(n("len_ns")?),
        ramp: row.get("ramp")?,
        streams: Vec::new(),
        cpu: CpuUse { user_ns: n("cpu_user_ns")?, system_ns: n("cpu_system_ns")? },
    })
}

/// The inverse of the writer's encoding; bytes and errors stand in columns of their own.
fn decode(mut bytes: &[u8]) -> Result<StreamSample, DecodeError> {
    let input = &mut bytes;
    let mut side = || {
        Ok::<_, DecodeError>(Side {
            submission: Hist::decode_from(input)?,
            service: Hist::decode_from(input)?,
            response: Hist::decode_from(input)?,
            ..Side::default()
        })
    };
    let (reads, writes) = (side()?, side()?);
    let lateness = Hist::decode_from(input)?;
    Ok(StreamSample { reads, writes, lateness, ..StreamSample::default() })
}
