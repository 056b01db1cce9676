//! The run files of one folder: names, what they hold, tags. A name that is not in the folder's own
//! listing leads nowhere, whatever it looks like.

use crate::view::head_of;
use analysis::summarize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use store::{RunFile, State};

/// Where tags are kept, in the folder of the runs.
const TAGS_FILE: &str = "fathom-tags.json";
/// Longest tag, and most tags of a run.
const TAG_MAX: usize = 60;
const TAGS_MAX: usize = 30;

/// A folder of run files.
pub(crate) struct Library {
    folder: PathBuf,
    known: Mutex<HashMap<String, Known>>,
    /// One reader a file: closing a handle drops the locks of others in this process.
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    tags: Mutex<()>,
}

/// What was found in a file, as long as it is the same.
struct Known {
    stamp: (u64, Option<SystemTime>),
    summary: Value,
}

/// The guarded value, also after a panic of another holder: all that is kept here is whole at any time.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    pub(crate) fn new(folder: &Path) -> Library {
        Library {
            folder: folder.to_owned(),
            known: Mutex::default(),
            locks: Mutex::default(),
            tags: Mutex::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of the run files, the newest first.
    pub(crate) fn names(&self) -> std::io::Result<Vec<String>> {
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let Ok(entry) = entry else { continue };
            let Ok(name) = entry.file_name().into_string() else { continue };
            // A link may lead out of the folder.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() && name.ends_with(".fathom") && !name.starts_with('.') {
                found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), name));
            }
        }
        found.sort_by(|a, b| b.cmp(a));
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }

    /// The file of a name; none when the folder has no such run.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.names().ok()?.iter().any(|known| known == name).then(|| self.folder.join(name))
    }

    /// Holds others off a file while it is open.
    pub(crate) fn lock_of(&self, name: &str) -> Arc<Mutex<()>> {
        hold(&self.locks).entry(name.to_owned()).or_default().clone()
    }

    /// What each run is, the newest first; with `search` those that have all of its words.
    pub(crate) fn list(&self, search: &str) -> std::io::Result<Vec<Value>> {
        let names = self.names()?;
        hold(&self.known).retain(|name, _| names.contains(name));
        let tags = self.tags();
        let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
        let mut all = Vec::new();
        for name in names {
            let mut summary = self.summary(&name);
            summary["tags"] = tags.get(&name).cloned().unwrap_or_default().into();
            if words.iter().all(|word| has(&summary, word)) {
                all.push(summary);
            }
        }
        Ok(all)
    }

    /// What a run is.
    pub(crate) fn summary(&self, name: &str) -> Value {
        let path = self.folder.join(name);
        let stamp = std::fs::metadata(&path)
            .map(|meta| (meta.len(), meta.modified().ok()))
            .unwrap_or((0, None));
        if let Some(known) = hold(&self.known).get(name).filter(|known| known.stamp == stamp) {
            return known.summary.clone();
        }
        let lock = self.lock_of(name);
        let _one_reader = hold(&lock);
        let (summary, keep) = match RunFile::open(&path) {
            Ok(run) => {
                // A running one grows; whether it is cut off shows by its lock alone.
                let keep = !matches!(run.state, State::Running | State::CutOff);
                (summary_of(name, &run), keep)
            }
            Err(error) => {
                let message = error.to_string().replace(&path.display().to_string(), name);
                (json!({ "name": name, "state": "unreadable", "error": message }), true)
            }
        };
        if keep {
            let known = Known { stamp, summary: summary.clone() };
            hold(&self.known).insert(name.to_owned(), known);
        }
        summary
    }

    fn tags(&self) -> BTreeMap<String, Vec<String>> {
        let text = std::fs::read_to_string(self.folder.join(TAGS_FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Sets the tags of a run.
    pub(crate) fn set_tags(&self, name: &str, tags: Vec<String>) -> Result<(), String> {
        let mut tags: Vec<String> =
            tags.iter().map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect();
        tags.sort();
        tags.dedup();
        if tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.chars().count() > TAG_MAX) {
            return Err(format!("at most {TAGS_MAX} tags of at most {TAG_MAX} letters"));
        }
        let _one_writer = hold(&self.tags);
        // What cannot be read is not written over.
        let mut all: BTreeMap<String, Vec<String>> =
            match std::fs::read_to_string(self.folder.join(TAGS_FILE)) {
                Ok(text) => serde_json::from_str(&text)
                    .map_err(|error| format!("{TAGS_FILE}: {error}; mend it or move it away"))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
                Err(error) => return Err(format!("{TAGS_FILE}: {error}")),
            };
        all.insert(name.to_owned(), tags);
        all.retain(|_, tags| !tags.is_empty());
        let text = serde_json::to_string_pretty(&all).unwrap_or_default();
        report::write_file(&self.folder.join(TAGS_FILE), text.as_bytes()).map_err(|e| e.to_string())
    }
}

fn summary_of(name: &str, run: &RunFile) -> Value {
    let mut all = head_of(name, run);
    let counted = run.cells.iter().filter(|cell| cell.counted && cell.status == "done");
    let (mut iops, mut bandwidth): (f64, f64) = (0.0, 0.0);
    for cell in counted.filter(|cell| cell.verb != "fill") {
        let summary = summarize(cell);
        iops = iops.max(summary.iops);
        bandwidth = bandwidth.max(summary.bandwidth_bytes);
    }
    all["state"] = run.state.word().into();
    all["cells"] = run.cells.len().into();
    all["highest_iops"] = iops.into();
    all["highest_bandwidth_bytes"] = bandwidth.into();
    let bad = run.verdicts.iter().filter(|verdict| verdict.status == "fail");
    all["failed_checks"] = bad.map(|v| v.name.clone()).collect::<Vec<_>>().into();
    all
}

/// Whether a word, in small letters, stands in what people see of a run.
fn has(summary: &Value, word: &str) -> bool {
    let seen = |value: &Value| value.as_str().is_some_and(|s| s.to_lowercase().contains(word));
    let all: &Map<String, Value> = match summary.as_object() {
        Some(all) => all,
        None => return false,
    };
    let lists = [&summary["targets"], &summary["tags"], &summary["failed_checks"]];
    ["name", "plan", "title", "state", "engine"].iter().any(|key| all.get(*key).is_some_and(seen))
        || lists.iter().filter_map(|list| list.as_array()).flatten().any(|entry| {
            seen(entry) || entry.as_object().is_some_and(|fields| fields.values().any(seen))
        })
}
