//! Writing a run file: every interval is one transaction.

use crate::batch::{Batch, Change};
use crate::error::StoreError;
use crate::schema::{APPLICATION_ID, SCHEMA_VERSION, State, TABLES, interval_id};
use base::hist::Hist;
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::Nanos;
use rusqlite::{Connection, OpenFlags, params};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is known when a run starts.
#[derive(Clone, Debug, Default)]
pub struct RunHead {
    /// Version of the program.
    pub fathom_version: String,
    /// Wall time of the start, ms since the Unix epoch.
    pub started_unix_ms: u64,
    /// Name of the plan.
    pub plan_name: String,
    /// Title of the plan.
    pub plan_title: String,
    /// Text of the plan.
    pub plan_source: String,
    /// Parameters in force as (name, value).
    pub settings: Vec<(String, String)>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Engine.
    pub engine: String,
    /// Length of an interval.
    pub interval: Nanos,
    /// Facts about the host.
    pub host: Value,
    /// Facts about the instrument: clock, own cost.
    pub instrument: Value,
}

/// A target of the run.
#[derive(Clone, Debug)]
pub struct TargetHead {
    /// Name.
    pub name: String,
    /// Serial number or what stands for it.
    pub identity: String,
    /// `device`, `file`, `scratch`.
    pub kind: &'static str,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Unit of I/O in bytes.
    pub block_bytes: u64,
    /// Everything else.
    pub facts: Value,
}

/// What is known when a cell starts.
#[derive(Clone, Debug)]
pub struct CellHead {
    /// Step names from the outermost, with iterations: `rows#2/sweep`.
    pub path: String,
    /// Name of the step.
    pub step: String,
    /// What tells it from its siblings; empty when there are none.
    pub label: String,
    /// The verb: `load`, `fill`, `sweep`, `curve`.
    pub verb: &'static str,
    /// Place on the axes of a sweep.
    pub coordinates: Value,
    /// Iteration of the innermost repeat, from 1; 0 outside of one.
    pub iteration: u32,
    /// Whether it counts; iterations before the counted ones and preparations do not.
    pub counted: bool,
    /// The loads, for people and programs.
    pub spec: Value,
    /// Start on the run's clock.
    pub start: Nanos,
    /// Its streams.
    pub streams: Vec<StreamHead>,
}

/// A stream of a cell.
#[derive(Clone, Debug)]
pub struct StreamHead {
    /// Name of the load.
    pub load: String,
    /// Index of the target.
    pub target: usize,
    /// Short form of the load.
    pub describe: String,
    /// The rate asked for in I/Os per second; none in closed loop.
    pub rate_iops: Option<f64>,
}

/// A run file that is being written. Exactly one process can hold it.
pub struct RunWriter {
    path: PathBuf,
    connection: Connection,
    /// Source and name of each telemetry series, by number.
    series: Vec<(String, String)>,
    batch: Batch,
    /// Held as long as the run goes on; after a crash the kernel lets go of it. Dropped last: closing
    /// any handle of a file drops the locks the database holds on it.
    _lock: File,
}

impl RunWriter {
    /// Makes a new run file.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn create(
        path: &Path,
        head: &RunHead,
        targets: &[TargetHead],
    ) -> Result<RunWriter, StoreError> {
        let system = |error| StoreError::System { path: path.to_owned(), error };
        let lock = match File::options().write(true).read(true).create_new(true).open(path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists(path.to_owned()));
            }
            Err(error) => return Err(system(error)),
        };
        lock.lock().map_err(system)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database =
            |what| move |error| StoreError::Database { path: path.to_owned(), what, error };
        let connection =
            Connection::open_with_flags(path, flags).map_err(database("cannot be opened"))?;
        let mut writer = RunWriter {
            path: path.to_owned(),
            connection,
            series: Vec::new(),
            batch: Batch::default(),
            _lock: lock,
        };
        writer.set_up(head, targets).map_err(database("cannot be set up"))?;
        Ok(writer)
    }

    /// Opens a run file to go on with it.
    ///
    /// # Errors
    /// When it is none, cannot be opened, or a program is writing to it.
    pub fn resume(path: &Path) -> Result<RunWriter, StoreError> {
        let system = |error| StoreError::System { path: path.to_owned(), error };
        let lock = File::options().write(true).read(true).open(path).map_err(system)?;
        if lock.try_lock().is_err() {
            return Err(StoreError::Held(path.to_owned()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let wrap = |what| move |error| StoreError::Database { path: path.to_owned(), what, error };
        let connection =
            Connection::open_with_flags(path, flags).map_err(wrap("cannot be opened"))?;
        let series = (|| {
            connection.execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=OFF;
                 DELETE FROM meta WHERE key='ended_unix_ms';
                 UPDATE meta SET value='running' WHERE key='state';
                 DELETE FROM verdict WHERE cell IS NULL;",
            )?;
            let mut query = connection.prepare("SELECT source, name FROM series ORDER BY id")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
        })()
        .map_err(wrap("cannot be resumed"))?;
        let path = path.to_owned();
        Ok(RunWriter { path, connection, series, batch: Batch::default(), _lock: lock })
    }

    /// Writes many intervals in one transaction: for time that is not real, where a lost second is
    /// simulated again.
    pub fn set_batched(&mut self, on: bool) {
        self.batch.on.set(on);
    }

    /// Sets a value of the head.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let insert = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)";
        let result = self.connection.execute(insert, params![key, value]);
        self.wrap("the head cannot be written", result.map(|_| ()))
    }

    /// Marks a cell as measured again elsewhere in the file, and why. Its counts are kept.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn mark_repeated(&self, cell: i64, why: &str) -> Result<(), StoreError> {
        let update = "UPDATE cell SET status='repeated', message=?2 WHERE id=?1";
        let result = self.connection.execute(update, params![cell, why]);
        self.wrap("a cell cannot be marked", result.map(|_| ()))
    }

    fn flush(&self) -> rusqlite::Result<()> {
        if self.batch.open.replace(false) {
            self.batch.changes.set(0);
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn set_up(&mut self, head: &RunHead, targets: &[TargetHead]) -> rusqlite::Result<()> {
        let connection = &mut self.connection;
        // Rows are near 1 kB: small pages would be half empty.
        connection.pragma_update(None, "page_size", 16384)?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A crash of the program loses nothing; a power cut may lose the last seconds, never the file.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let change = connection.transaction()?;
        change.execute_batch(TABLES)?;
        let settings: serde_json::Map<String, Value> =
            head.settings.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect();
        for (key, value) in [
            ("fathom_version", head.fathom_version.clone()),
            ("started_unix_ms", head.started_unix_ms.to_string()),
            ("plan_name", head.plan_name.clone()),
            ("plan_title", head.plan_title.clone()),
            ("plan_source", head.plan_source.clone()),
            ("settings", Value::Object(settings).to_string()),
            ("seed", head.seed.to_string()),
            ("engine", head.engine.clone()),
            ("interval_ns", head.interval.0.to_string()),
            ("host", head.host.to_string()),
            ("instrument", head.instrument.to_string()),
            ("state", State::Running.word().to_owned()),
        ] {
            change.execute("INSERT INTO meta VALUES (?1, ?2)", params![key, value])?;
        }
        for (id, target) in targets.iter().enumerate() {
            change.execute(
                "INSERT INTO target VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    id as i64,
                    target.name,
                    target.identity,
                    target.kind,
                    target.size_bytes as i64,
                    target.block_bytes as i64,
                    target.facts.to_string()
                ],
            )?;
        }
        change.commit()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn wrap<T>(&self, what: &'static str, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::Database { path: self.path.clone(), what, error })
    }

    /// Starts a cell; gives its number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn start_cell(&mut self, head: &CellHead) -> Result<i64, StoreError> {
        let result = self.insert_cell(head);
        self.wrap("a cell cannot be written", result)
    }

    fn insert_cell(&mut self, head: &CellHead) -> rusqlite::Result<i64> {
        let change = Change::open(&self.connection, &self.batch)?;
        change.execute(
            "INSERT INTO cell (path, step, label, verb, coordinates, iteration, counted, spec,
                start_ns, status, facts) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,'running','{}')",
            params![
                head.path,
                head.step,
                head.label,
                head.verb,
                head.coordinates.to_string(),
                head.iteration,
                head.counted,
                head.spec.to_string(),
                head.start.0 as i64
            ],
        )?;
        let cell = change.last_insert_rowid();
        for (idx, stream) in head.streams.iter().enumerate() {
            change.execute(
                "INSERT INTO stream VALUES (?1,?2,?3,?4,?5,?6,?7)",
                params![
                    cell,
                    idx as i64,
                    stream.load,
                    stream.target as i64,
                    stream.describe,
                    stream.rate_iops.is_some(),
                    stream.rate_iops
                ],
            )?;
        }
        change.commit()?;
        Ok(cell)
    }

    /// Adds one interval: one transaction.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_interval(&mut self, cell: i64, sample: &IntervalSample) -> Result<(), StoreError> {
        let result = self.insert_interval(cell, sample);
        self.wrap("an interval cannot be written", result)
    }

    fn insert_interval(&mut self, cell: i64, sample: &IntervalSample) -> rusqlite::Result<()> {
        let change = Change::open(&self.connection, &self.batch)?;
        {
            let mut insert = change.prepare_cached(
                "INSERT INTO interval VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
            )?;
            for (stream, counts) in sample.streams.iter().enumerate() {
                // The workers' CPU time belongs to the interval: it stands in the first stream.
                let cpu = if stream == 0 { sample.cpu } else { CpuUse::default() };
                insert.execute(params![
                    interval_id(cell, sample.seq, stream),
                    sample.start.0 as i64,
                    sample.len.0 as i64,
                    sample.ramp,
                    counts.reads.bytes as i64,
                    counts.reads.errors as i64,
                    counts.writes.bytes as i64,
                    counts.writes.errors as i64,
                    counts.waited as i64,
                    counts.shed as i64,
                    cpu.user_ns as i64,
                    cpu.system_ns as i64,
                    encode(counts, Submission::Left)
                ])?;
            }
        }
        change.commit()
    }

    /// Ends a cell. `sums` are the merged counted intervals of each stream.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end_cell(
        &mut self,
        cell: i64,
        end: Nanos,
        status: &str,
        message: Option<&str>,
        facts: &Value,
        sums: &CellSums<'_>,
    ) -> Result<(), StoreError> {
        let result = (|| {
            let change = Change::open(&self.connection, &self.batch)?;
            change.execute(
                "UPDATE cell SET end_ns=?2, status=?3, message=?4, facts=?5 WHERE id=?1",
                params![cell, end.0 as i64, status, message, facts.to_string()],
            )?;
            insert_sums(&change, cell, sums)?;
            change.commit()?;
            self.flush()
        })();
        self.wrap("the end of a cell cannot be written", result)
    }

    /// Notes the sums so far, so that a long cell opens fast while it grows and after a crash.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn checkpoint(&mut self, cell: i64, sums: &CellSums<'_>) -> Result<(), StoreError> {
        let result = (|| {
            let change = Change::open(&self.connection, &self.batch)?;
            insert_sums(&change, cell, sums)?;
            change.commit()
        })();
        self.wrap("sums cannot be written", result)
    }

    /// Notes an event.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn event(
        &self,
        at: Nanos,
        cell: Option<i64>,
        kind: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO event VALUES (?1,?2,?3,?4)";
        let result = self.connection.execute(insert, params![at.0 as i64, cell, kind, text]);
        self.wrap("an event cannot be written", result.map(|_| ()))
    }

    /// Adds a telemetry sample.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn telemetry(
        &mut self,
        at: Nanos,
        source: &str,
        name: &str,
        value: f64,
    ) -> Result<(), StoreError> {
        let known = self.series.iter().position(|known| *known == (source.into(), name.into()));
        let result = (|| {
            let id = match known {
                Some(id) => id,
                None => {
                    let id = self.series.len();
                    let insert = "INSERT INTO series VALUES (?1,?2,?3)";
                    self.connection.execute(insert, params![id as i64, source, name])?;
                    self.series.push((source.into(), name.into()));
                    id
                }
            };
            let mut insert =
                self.connection.prepare_cached("INSERT INTO telemetry VALUES (?1,?2,?3)")?;
            insert.execute(params![at.0 as i64, id as i64, value]).map(|_| ())
        })();
        self.wrap("telemetry cannot be written", result)
    }

    /// Stores telemetry of one moment, in one transaction.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn telemetry_rows(
        &mut self,
        at: Nanos,
        rows: &[(String, String, f64)],
    ) -> Result<(), StoreError> {
        let own = !self.batch.on.get();
        if own {
            let begun = self.connection.execute_batch("BEGIN");
            self.wrap("telemetry cannot be written", begun)?;
        }
        let stored = rows
            .iter()
            .try_for_each(|(source, name, value)| self.telemetry(at, source, name, *value));
        if own {
            let ended =
                self.connection.execute_batch(if stored.is_ok() { "COMMIT" } else { "ROLLBACK" });
            self.wrap("telemetry cannot be written", ended)?;
        }
        stored
    }

    /// Adds a verdict on a cell, or on the whole run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn verdict(
        &self,
        cell: Option<i64>,
        name: &str,
        status: &str,
        text: &str,
        evidence: &Value,
    ) -> Result<(), StoreError> {
        let insert = "INSERT INTO verdict VALUES (?1,?2,?3,?4,?5)";
        let result = self
            .connection
            .execute(insert, params![cell, name, status, text, evidence.to_string()]);
        self.wrap("a verdict cannot be written", result.map(|_| ()))
    }

    /// Ends the run.
    ///
    /// # Errors
    /// When it cannot be written; what was written before stays.
    pub fn finish(&mut self, state: State, ended_unix_ms: u64) -> Result<(), StoreError> {
        let result = (|| {
            self.flush()?;
            self.batch.on.set(false);
            let change = Change::open(&self.connection, &self.batch)?;
            change.execute("UPDATE meta SET value=?1 WHERE key='state'", params![state.word()])?;
            change.execute(
                "INSERT OR REPLACE INTO meta VALUES ('ended_unix_ms', ?1)",
                params![ended_unix_ms.to_string()],
            )?;
            change.commit()?;
            // A finished run is one plain file, to be copied and read anywhere. A reader that has it
            // open now keeps the log beside it, which does no harm.
            let one_file = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE";
            let _ = self.connection.execute_batch(one_file);
            Ok(())
        })();
        self.wrap("the end of the run cannot be written", result)
    }
}

/// The merged counted intervals of a cell.
#[derive(Clone, Copy, Debug)]
pub struct CellSums<'a> {
    /// Of each stream.
    pub totals: &'a [StreamSample],
    /// Number of the last interval that is in them.
    pub through_seq: u32,
    /// Length of the intervals together.
    pub len: Nanos,
    /// How many intervals.
    pub intervals: u32,
    /// CPU time of the workers in them.
    pub cpu: CpuUse,
}

fn insert_sums(change: &Connection, cell: i64, sums: &CellSums<'_>) -> rusqlite::Result<()> {
    let mut insert = change.prepare_cached(
        "INSERT OR REPLACE INTO total VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
    )?;
    for (stream, counts) in sums.totals.iter().enumerate() {
        let cpu = if stream == 0 { sums.cpu } else { CpuUse::default() };
        insert.execute(params![
            cell,
            stream as i64,
            sums.through_seq,
            sums.len.0 as i64,
            sums.intervals,
            counts.reads.bytes as i64,
            counts.reads.errors as i64,
            counts.writes.bytes as i64,
            counts.writes.errors as i64,
            counts.waited as i64,
            counts.shed as i64,
            cpu.user_ns as i64,
            cpu.system_ns as i64,
            encode(counts, Submission::Kept)
        ])?;
    }
    Ok(())
}

/// Whether submission times are written: they are in the sums of a cell, not in its intervals.
#[derive(Clone, Copy, PartialEq)]
enum Submission {
    Kept,
    Left,
}

/// The histograms of a stream in their fixed order.
fn encode(counts: &StreamSample, submission: Submission) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    for side in [&counts.reads, &counts.writes] {
        match submission {
            Submission::Kept => side.submission.encode_into(&mut bytes),
            Submission::Left => Hist::<base::hist::Submission>::new().encode_into(&mut bytes),
        }
        side.service.encode_into(&mut bytes);
        side.response.encode_into(&mut bytes);
    }
    counts.lateness.encode_into(&mut bytes);
    bytes
}
