//! Checking of data: what each target must hold, and the journal that outlives a cut.
//!
//! A journal is a file of a head (JSON, padded to [`HEAD`] bytes) and, for each target, one 32-bit word
//! for each granule: the oldest generation that may be there, little-endian, 0 where nothing was
//! acknowledged, all bits set where it is not followed.

use crate::error::RunError;
use crate::run::Runner;
use analysis::Status;
use base::units::{Bytes, Nanos};
use engine::WordMap;
use engine::verify::{Journal, Kind, Mismatch, SECTOR, Tracker, Verified};
use plan::Plan;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes before the first word.
const HEAD: u64 = 64 << 10;
/// Wrong places that become events of the run; all are counted.
const EVENTS_MAX: usize = 1000;

/// What a run knows of what is on its targets, and what it leaves behind of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Journaling {
    /// Nothing but what the run itself writes.
    #[default]
    Off,
    /// A new journal.
    Keep {
        /// The file to make; better not on a target.
        path: PathBuf,
        /// Acknowledged writes are on its medium before the next ones are issued: it survives power
        /// loss, not only a killed run.
        flush: bool,
    },
    /// What an earlier run's journal says must be there.
    Check(PathBuf),
    /// Nothing: stamps are checked against themselves.
    Stamps,
}

/// The head of a journal; also how a run file remembers it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Head {
    fathom_journal: u32,
    run: u64,
    granule: u64,
    targets: Vec<HeadTarget>,
    /// In a run file only.
    #[serde(default)]
    journal: Option<(PathBuf, bool)>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct HeadTarget {
    identity: String,
    size: u64,
}

impl Head {
    /// Where the words of a target start.
    fn offset(&self, target: usize) -> u64 {
        let bytes =
            |target: &HeadTarget| (target.size.div_ceil(self.granule) * 4).next_multiple_of(HEAD);
        HEAD + self.targets[..target].iter().map(bytes).sum::<u64>()
    }

    fn read(path: &Path) -> Result<(Head, File), RunError> {
        let wrong = |why: String| RunError::NotHere(format!("{}: {why}", path.display()));
        let mut file = File::open(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let mut bytes = vec![0; HEAD as usize];
        let no_journal = "is no journal of fathom";
        file.read_exact(&mut bytes).map_err(|_| wrong(no_journal.into()))?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let head: Head =
            serde_json::from_slice(&bytes[..end]).map_err(|_| wrong(no_journal.into()))?;
        let sane = head.granule >= SECTOR as u64
            && head.granule.is_power_of_two()
            && head.targets.iter().all(|target| target.size < 1 << 56);
        let len = file.metadata().map(|meta| meta.len()).unwrap_or(0);
        if !sane || len < head.offset(head.targets.len()) {
            return Err(wrong(format!("{no_journal}, or it was cut")));
        }
        Ok((head, file))
    }

    /// Makes the file; one that is there already may be the only proof of another run.
    fn write(&self, path: &Path) -> Result<File, RunError> {
        let failed = |error: std::io::Error| {
            let advice = match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    "; it may belong to another run: name another file"
                }
                _ => "",
            };
            RunError::NotHere(format!(
                "{}: no journal can be made: {error}{advice}",
                path.display()
            ))
        };
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create_new(true).open(path).map_err(failed)?;
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() as u64 >= HEAD {
            return Err(failed(std::io::Error::other("too many targets")));
        }
        let made = (|| {
            file.write_all(text.as_bytes())?;
            set_aside(&mut file, self.offset(self.targets.len()))?;
            file.sync_all()?;
            // After a power cut its name must be there, too.
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        })();
        if let Err(error) = made {
            let _ = std::fs::remove_file(path);
            return Err(failed(error));
        }
        Ok(file)
    }
}

/// Makes a file this long with room on its disk for every byte: a mapped page that has none would kill
/// the process.
fn set_aside(file: &mut File, len: u64) -> std::io::Result<()> {
    let from = file.metadata()?.len();
    match rustix::fs::fallocate(&*file, rustix::fs::FallocateFlags::empty(), 0, len) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
        Ok(()) => return Ok(()),
    }
    let zeros = vec![0; 1 << 20];
    let mut at = from;
    while at < len {
        let part = (len - at).min(zeros.len() as u64) as usize;
        file.write_all(&zeros[..part])?;
        at += part as u64;
    }
    Ok(())
}

impl Runner<'_> {
    /// Before the first step of a plan that verifies.
    pub(crate) fn start_verifying(
        &mut self,
        plan: &Plan,
        journaling: &Journaling,
    ) -> Result<(), RunError> {
        if !plan.verifies() {
            return Ok(());
        }
        let trackers = match journaling {
            Journaling::Stamps => {
                (0..self.beds.len()).map(|target| Tracker::alone(target as u32)).collect()
            }
            Journaling::Check(path) => Ok(self.trackers_of(path)?),
            _ => Ok(self.new_trackers(plan, journaling)?),
        };
        self.give_trackers(trackers.map_err(no_memory)?)
    }

    /// Goes on with what a cut run knew.
    pub(crate) fn resume_verifying(&mut self, plan: &Plan, meta: &str) -> Result<(), RunError> {
        if !plan.verifies() {
            return Ok(());
        }
        let head: Head = serde_json::from_str(meta).map_err(|_| {
            RunError::Resume("the run file does not say how data were checked: run anew".into())
        })?;
        let mut trackers = self.trackers_with(&head)?;
        match &head.journal {
            Some((path, flush)) => {
                let (there, file) = Head::read(path)?;
                self.check_targets(&there, path)?;
                if there.run != head.run {
                    let path = path.display();
                    return Err(RunError::Resume(format!("{path}: is the journal of another run")));
                }
                drop(file);
                let file = OpenOptions::new().read(true).write(true).open(path);
                let file = file.map_err(|error| {
                    RunError::Resume(format!("{}: cannot be written: {error}", path.display()))
                })?;
                for (index, tracker) in trackers.iter_mut().enumerate() {
                    let map = map_of(&there, index, |at, len| WordMap::of_file(&file, at, len))?;
                    tracker.set_journal(Journal { map, flush: *flush });
                }
            }
            None => self.note(
                "without a journal nothing is known of what was written before the cut: it is checked \
                 again once it was written anew",
            )?,
        }
        self.give_trackers(trackers)
    }

    fn give_trackers(&mut self, trackers: Vec<Tracker>) -> Result<(), RunError> {
        if self.backend.verify(trackers.into_iter().map(Arc::new).collect()) {
            return Ok(());
        }
        let text = "the engine cannot check data: use uring or sync";
        Err(RunError::NotHere(text.into()))
    }

    /// Empty entries for every target, with a journal where one is kept.
    fn new_trackers(
        &mut self,
        plan: &Plan,
        journaling: &Journaling,
    ) -> Result<Vec<Tracker>, RunError> {
        let target = |bed: &crate::bed::Bed<'_>| HeadTarget {
            identity: bed.identity.clone(),
            size: bed.size.0,
        };
        let unit = plan.write_unit().0;
        let mut head = Head {
            fathom_journal: 1,
            run: RandomState::new().build_hasher().finish() | 1,
            // Sizes need not be powers of two.
            granule: (1 << unit.trailing_zeros()).max(SECTOR as u64),
            targets: self.beds.iter().map(target).collect(),
            journal: None,
        };
        let mut trackers = self.trackers_with(&head)?;
        if let Journaling::Keep { path, flush } = journaling {
            let file = head.write(path)?;
            for (index, tracker) in trackers.iter_mut().enumerate() {
                let map = map_of(&head, index, |at, len| WordMap::of_file(&file, at, len))?;
                tracker.set_journal(Journal { map, flush: *flush });
            }
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            head.journal = Some((path, *flush));
        }
        let text = serde_json::to_string(&head).unwrap_or_default();
        self.writer.set_meta("verify", &text)?;
        Ok(trackers)
    }

    fn trackers_with(&self, head: &Head) -> Result<Vec<Tracker>, RunError> {
        let sizes = || head.targets.iter().map(|target| target.size);
        let bytes: u64 = sizes().map(|size| Tracker::memory(size, head.granule)).sum();
        let total = rustix::system::sysinfo();
        let memory = total.totalram as u64 * u64::from(total.mem_unit);
        if bytes > memory / 10 * 9 {
            return Err(RunError::NotHere(format!(
                "checking needs {} of memory for blocks of {} (8 bytes each), and this host has {}: use \
                 larger blocks or a part of the target (a partition or a file)",
                Bytes(bytes),
                Bytes(head.granule),
                Bytes(memory)
            )));
        }
        let tracker = |(index, size)| Tracker::new(head.run, index as u32, size, head.granule);
        sizes().enumerate().map(tracker).collect::<Result<_, _>>().map_err(no_memory)
    }

    /// What a journal says, without changing it.
    fn trackers_of(&mut self, path: &Path) -> Result<Vec<Tracker>, RunError> {
        let (head, file) = Head::read(path)?;
        self.check_targets(&head, path)?;
        let mut trackers = self.trackers_with(&head)?;
        for (index, tracker) in trackers.iter_mut().enumerate() {
            let map = map_of(&head, index, |at, len| WordMap::copy_of_file(&file, at, len))?;
            tracker.set_journal(Journal { map, flush: false });
        }
        Ok(trackers)
    }

    /// A journal is of certain targets in a certain order. Another identity is told, as a target may
    /// have moved; another size cannot be the same.
    fn check_targets(&mut self, head: &Head, path: &Path) -> Result<(), RunError> {
        let path = path.display();
        if head.targets.len() != self.beds.len() {
            return Err(RunError::NotHere(format!(
                "{path}: is the journal of {} targets ({}): name all of them in that order",
                head.targets.len(),
                head.targets.iter().map(|t| t.identity.as_str()).collect::<Vec<_>>().join(", ")
            )));
        }
        let mut notes = Vec::new();
        for (bed, then) in self.beds.iter().zip(&head.targets) {
            if then.size != bed.size.0 {
                return Err(RunError::NotHere(format!(
                    "{path}: is of a target of {} bytes ({}); {} has {}",
                    then.size, then.identity, bed.name, bed.size.0
                )));
            }
            if then.identity != bed.identity {
                let (name, then) = (&bed.name, &then.identity);
                notes.push(format!("{name}: the journal is of {then}; checked as if it were that"));
            }
        }
        notes.iter().try_for_each(|note| self.note(note))
    }

    /// Stores what checking found in a cell.
    pub(crate) fn note_verified(
        &mut self,
        cell: i64,
        now: Nanos,
        verified: &Verified,
    ) -> Result<(), RunError> {
        let status = if verified.sectors_wrong() > 0 { Status::Fail } else { Status::Pass };
        let text = text_of(verified, &self.names());
        self.writer.verdict(Some(cell), "data", status.word(), &text, &evidence_of(verified))?;
        for mismatch in verified.mismatches.iter().take(EVENTS_MAX) {
            let text = describe(mismatch, &self.names());
            self.writer.event(mismatch.at.min(now), Some(cell), "mismatch", &text)?;
        }
        self.worst = self.worst.max(status);
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        self.beds.iter().map(|bed| bed.name.clone()).collect()
    }
}

fn no_memory(error: std::io::Error) -> RunError {
    RunError::NotHere(format!("no memory for checking: {error}"))
}

/// The words of a target.
fn map_of<T>(
    head: &Head,
    target: usize,
    map: impl FnOnce(u64, usize) -> std::io::Result<T>,
) -> Result<T, RunError> {
    let words = head.targets[target].size.div_ceil(head.granule) as usize;
    map(head.offset(target), words)
        .map_err(|error| RunError::NotHere(format!("the journal cannot be mapped: {error}")))
}

/// One place, with its difference on lines of their own.
fn describe(mismatch: &Mismatch, names: &[String]) -> String {
    let name = names.get(mismatch.target as usize).map_or("target", String::as_str);
    format!("{name}: {mismatch}\n{}", mismatch.difference)
}

fn text_of(verified: &Verified, names: &[String]) -> String {
    let size = |sectors: u64| Bytes(sectors * SECTOR as u64);
    let wrong = verified.sectors_wrong();
    let rest = match verified.unknown {
        0 => String::new(),
        unknown => format!("; {} not known to this run", size(unknown)),
    };
    let Some(first) = verified.mismatches.first().filter(|_| wrong > 0) else {
        return format!("{} read back right, nothing wrong{rest}", size(verified.clean));
    };
    let kinds: Vec<String> = verified
        .wrong
        .iter()
        .map(|(kind, sectors)| format!("{} {}", size(*sectors), kind.word()))
        .collect();
    let name = names.get(first.target as usize).map_or("target", String::as_str);
    format!(
        "{} wrong in {} places: {}; {} right{rest}; first: {name}: {first}",
        size(wrong),
        verified.places(),
        kinds.join(", "),
        size(verified.clean),
    )
}

/// Counts for programs, with the first places.
pub(crate) fn evidence_of(verified: &Verified) -> Value {
    let counts: serde_json::Map<String, Value> = Kind::ALL
        .iter()
        .map(|kind| (kind.word().to_owned(), json!(verified.wrong.get(kind).copied().unwrap_or(0))))
        .collect();
    let place = |mismatch: &Mismatch| {
        json!({
            "target": mismatch.target, "address": mismatch.address.0, "bytes": mismatch.len.0,
            "kind": mismatch.kind.word(), "wanted": [mismatch.wanted.0, mismatch.wanted.1],
            "found_generation": mismatch.found.map(|stamp| stamp.generation),
            "found_address": mismatch.found.map(|stamp| stamp.address),
        })
    };
    json!({
        "sector_bytes": SECTOR,
        "clean_sectors": verified.clean,
        "unknown_sectors": verified.unknown,
        "acknowledged_writes": verified.acknowledged,
        "wrong_sectors": counts,
        "wrong_places": verified.places(),
        "first": verified.mismatches.iter().take(EVENTS_MAX).map(place).collect::<Vec<_>>(),
    })
}
