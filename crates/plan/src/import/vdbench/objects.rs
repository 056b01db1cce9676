//! The objects of a parameter file: storage (SD), workloads (WD) and runs (RD), with what `default` gives
//! them.

use super::syntax::Item;
use super::value::{number, numbers};
use crate::import::told::Placed;
use crate::import::{Note, mistake};
use crate::reader::PlanError;

/// Clones of an SD at most.
const CLONES_MAX: usize = 1000;

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Storage,
    Workload,
    Run,
}

/// An object with its options in the order they stand.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) options: Vec<Item>,
}

/// Everything of a file.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) general: Vec<Item>,
    pub(super) storage: Vec<Object>,
    pub(super) workloads: Vec<Object>,
    pub(super) runs: Vec<Object>,
    /// What `wd=default` gives: the workload of a run that names none.
    pub(super) workload_default: Vec<Item>,
    pub(super) errors: Vec<PlanError>,
    pub(super) notes: Vec<Note>,
}

impl Objects {
    fn general(&self, key: &str) -> Option<&Item> {
        self.general.iter().rev().find(|item| item.key == key)
    }

    /// Whether data are checked.
    pub(super) fn validates(&self) -> bool {
        let item = self.general("validate");
        item.is_some_and(|item| item.values.first().is_none_or(|value| value != "no"))
    }

    /// Wrong places after which a run ends: `data_errors`, 50 when it does not say.
    pub(super) fn stop_after(&self) -> u64 {
        let number = self.general("data_errors").and_then(|item| item.values.first()?.parse().ok());
        number.unwrap_or(crate::Verify::STOP_AFTER)
    }
}

/// Keywords in the order in which VDBench tries them: any prefix of two letters or more will do, but for
/// those that are marked, which it wants whole.
const STORAGE: &[&str] = &[
    "host",
    "lun",
    "count",
    "size",
    "threads",
    "hitarea",
    "offset",
    "align",
    "kstat",
    "instance",
    "replay!",
    "journal",
    "resetlun",
    "resetbus",
    "openflags",
    "range",
    "dedupratio!",
    "dedupunit!",
    "dedupsets!",
    "validate",
    "streams",
];
const WORKLOADS: &[&str] = &[
    "sd!",
    "skew",
    "xfersize",
    "readpct",
    "rdpct",
    "writepct",
    "wrpct",
    "range",
    "hotband",
    "seekpct",
    "stride",
    "priority",
    "iorate",
    "rhpct",
    "whpct",
    "host",
    "hd!",
    "openflags",
    "user!",
    "threads",
    "streams",
];
const RUNS: &[&str] = &[
    "wd!",
    "sd!",
    "fsd!",
    "iorate",
    "maxdata!",
    "maxdataread!",
    "maxdatawritten!",
    "curve",
    "stopcurve",
    "elapsed",
    "interval",
    "warmup",
    "replay!",
    "pause",
    "forxfersize",
    "forthreads",
    "forrdpct",
    "forrhpct",
    "forwhpct",
    "forseekpct",
    "forhitarea",
    "forcompratio",
    "xfersize",
    "threads",
    "rdpct",
    "readpct",
    "rhpct",
    "whpct",
    "seekpct",
    "hitarea",
    "compratio",
    "distribution",
    "startcmd!",
    "endcmd!",
    "fwd!",
    "fwdrate",
    "operations",
    "format",
    "openflags",
    "mount",
];
const GENERAL: &[&str] = &[
    "compratio",
    "compression",
    "dedupratio!",
    "dedupunit!",
    "dedupsets!",
    "deduphotsets!",
    "dedupflipflop!",
    "dedupacross!",
    "dedupmaxkey!",
    "pattern",
    "pattern_buffer",
    "compressionseed",
    "validate",
    "journal!",
    "data_errors",
    "force_error_after",
    "concatenatesds",
    "formatsds",
    "formatxfersize",
    "histogram",
    "report",
    "report_run_totals",
    "startcmd!",
    "endcmd!",
    "monitor",
    "messagescan",
    "loop",
    "port",
    "timeout",
    "abort_failed_skew",
    "ios_per_jvm",
    "fwd_thread_adjust",
    "psrset",
    "create_anchors",
    "showlba",
    "debug",
    "misc",
    "auxreport",
];

impl Kind {
    fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Host => &[],
            Kind::Storage => STORAGE,
            Kind::Workload => WORKLOADS,
            Kind::Run => RUNS,
        }
    }
}

/// The keyword that a word stands for.
fn keyword(word: &str, known: &'static [&'static str]) -> Option<&'static str> {
    known.iter().find_map(|full| {
        let (name, whole) = match full.strip_suffix('!') {
            Some(name) => (name, true),
            None => (*full, false),
        };
        let fits = name == word || (!whole && word.len() >= 2 && name.starts_with(word));
        fits.then_some(name)
    })
}

/// Two spellings of one keyword.
fn canonical(name: &'static str) -> &'static str {
    match name {
        "readpct" => "rdpct",
        "writepct" => "wrpct",
        "xfersize" => "forxfersize",
        "threads" => "forthreads",
        "seekpct" => "forseekpct",
        "rhpct" => "forrhpct",
        "whpct" => "forwhpct",
        "hitarea" => "forhitarea",
        "compratio" => "forcompratio",
        other => other,
    }
}

/// Sorts items to their objects.
pub(super) fn objects(items: Vec<Item>) -> Objects {
    let mut all = Objects::default();
    let mut open: Option<Kind> = None;
    let mut current: Option<(Kind, Object)> = None;
    let mut defaults: [Vec<Item>; 4] = Default::default();
    for item in items {
        if ["fsd", "fwd", "rg"].contains(&item.key.as_str()) {
            let what = "file-system workloads and replay are not measured: only raw devices and files (sd, wd, rd)";
            all.errors.push(mistake(&item.file, item.line, format!("{}=: {what}", item.key)));
            continue;
        }
        if let Some(kind) = opens(&item.key, open) {
            if let Some((kind, object)) = current.take() {
                all.close(kind, object, &mut defaults);
            }
            let name = item.values.first().cloned().unwrap_or_default();
            let options = defaults[kind as usize].clone();
            current = Some((kind, Object { name, file: item.file, line: item.line, options }));
            open = Some(kind);
            continue;
        }
        match &mut current {
            None => all.add_general(item),
            // A host says from where I/O comes, which is from here.
            Some((Kind::Host, _)) => all.add_host(&item),
            Some((kind, object)) => match keyword(&item.key, kind.words()) {
                Some(name) => {
                    let key = match kind {
                        Kind::Run if name == "rdpct" || name == "readpct" => "forrdpct",
                        Kind::Run => canonical(name),
                        _ if name == "readpct" || name == "writepct" => canonical(name),
                        _ => name,
                    };
                    object.options.push(Item { key: key.to_owned(), ..item });
                }
                None => {
                    let text = format!("`{}` is no keyword here", item.key);
                    all.errors.push(mistake(&item.file, item.line, text));
                }
            },
        }
    }
    if let Some((kind, object)) = current.take() {
        all.close(kind, object, &mut defaults);
    }
    all
}

/// Which object an item opens, seen from the one that is open.
fn opens(key: &str, open: Option<Kind>) -> Option<Kind> {
    match (key, open) {
        ("hd", None | Some(Kind::Host)) => Some(Kind::Host),
        ("host", None | Some(Kind::Host)) => Some(Kind::Host),
        // In a workload or a run `sd` says on which.
        ("sd", None | Some(Kind::Host | Kind::Storage)) => Some(Kind::Storage),
        ("wd", None | Some(Kind::Host | Kind::Storage | Kind::Workload)) => Some(Kind::Workload),
        ("rd", _) => Some(Kind::Run),
        _ => None,
    }
}

impl Objects {
    /// I/O comes from this host, whatever a file says.
    fn add_host(&mut self, item: &Item) {
        let remote = item.key.starts_with("sy")
            && item
                .values
                .iter()
                .any(|value| !["localhost", "127.0.0.1"].contains(&value.as_str()));
        let text = match remote {
            true => format!("{}={}: I/O comes from this host", item.key, item.values.join(",")),
            false => format!("{}: I/O comes from this host", item.key),
        };
        let note = Note { file: item.file.clone(), line: item.line, text, differs: remote };
        self.notes.push(note);
    }

    fn add_general(&mut self, item: Item) {
        match keyword(&item.key, GENERAL) {
            Some(name) => self.general.push(Item { key: name.to_owned(), ..item }),
            None => {
                let text =
                    format!("`{}` is no keyword before the first hd, sd, wd or rd", item.key);
                self.errors.push(mistake(&item.file, item.line, text));
            }
        }
    }

    fn close(&mut self, kind: Kind, object: Object, defaults: &mut [Vec<Item>; 4]) {
        if object.name == "default" {
            if kind == Kind::Workload {
                self.workload_default.clone_from(&object.options);
            }
            defaults[kind as usize] = object.options;
            return;
        }
        let list = match kind {
            Kind::Host => return,
            Kind::Storage => &mut self.storage,
            Kind::Workload => &mut self.workloads,
            Kind::Run => &mut self.runs,
        };
        if list.iter().any(|other| other.name == object.name) {
            let text = format!("the name {} stands twice", object.name);
            self.errors.push(mistake(&object.file, object.line, text));
            return;
        }
        match object.option("count").map(|item| numbers(&item.values, false)) {
            None => list.push(object),
            Some(Some(pair)) if pair.len() == 2 && (1.0..=CLONES_MAX as f64).contains(&pair[1]) => {
                list.extend((0..pair[1] as u64).map(|n| object.clone_number(pair[0] as u64 + n)));
            }
            Some(_) => {
                let text = format!("{}: count=(start,n) with at most {CLONES_MAX}", object.name);
                self.errors.push(mistake(&object.file, object.line, text));
            }
        }
    }
}

impl Placed for Object {
    fn place(&self) -> (&str, usize) {
        (&self.file, self.line)
    }
}

impl Placed for Item {
    fn place(&self) -> (&str, usize) {
        (&self.file, self.line)
    }
}

impl Object {
    /// The last option of a name.
    pub(super) fn option(&self, key: &str) -> Option<&Item> {
        self.options.iter().rev().find(|item| item.key == key)
    }

    /// Its first value as a number.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        let item = self.option(key)?;
        number(item.values.first()?, is_time(key))
    }

    /// A clone with a number behind its name and its file, or in place of `%d`.
    fn clone_number(&self, n: u64) -> Object {
        let mut clone = self.clone();
        let put = |text: &str| match text.split_once('%').and_then(|(a, b)| {
            let end = b.find('d')?;
            let width: usize = b[..end].trim_start_matches('0').parse().unwrap_or(0).min(20);
            Some(format!("{a}{n:0width$}{}", &b[end + 1..]))
        }) {
            Some(text) => text,
            None => format!("{text}{n}"),
        };
        clone.name = put(&self.name);
        clone.options.retain(|item| item.key != "count");
        for item in clone.options.iter_mut().filter(|item| item.key == "lun") {
            item.values = item.values.iter().map(|value| put(value)).collect();
        }
        clone
    }
}

/// Keywords in which `m` means minutes.
pub(super) fn is_time(key: &str) -> bool {
    ["el", "in", "pa", "wa"].iter().any(|start| key.starts_with(start))
}
