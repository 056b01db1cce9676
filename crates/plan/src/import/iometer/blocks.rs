//! The blocks of a file: test setup, access specifications, managers and workers.

use super::spec::{Spec, check, row};
use crate::import::told::{Placed, Told};

/// A line that says something.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    file: String,
    number: usize,
    pub(super) text: String,
}

impl Placed for Line {
    fn place(&self) -> (&str, usize) {
        (&self.file, self.number)
    }
}

/// Start, end and step of what is cycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) step: u32,
    pub(super) exponential: bool,
}

impl Outstanding {
    /// The values, in order.
    pub(super) fn values(self) -> Vec<u32> {
        let mut all = Vec::new();
        let mut value = self.start.max(1);
        while value <= self.end.clamp(1, 4096) && all.len() < 100 {
            all.push(value);
            value = match self.exponential {
                true => value.saturating_mul(self.step.max(2)),
                false => value.saturating_add(self.step.max(1)),
            };
        }
        all
    }
}

/// What a test does again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cycle {
    #[default]
    Normal,
    Outstanding(Outstanding),
    Workers(Outstanding),
    /// Told.
    Refused,
}

/// A worker of a manager.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) depth: u32,
    /// First byte and end, where it does not use all.
    pub(super) range: Option<(u64, u64)>,
    pub(super) specs: Vec<String>,
    pub(super) targets: Vec<String>,
    pub(super) at: Line,
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) run_seconds: f64,
    pub(super) ramp_seconds: f64,
    pub(super) cycle: Cycle,
    pub(super) specs: Vec<Spec>,
    pub(super) workers: Vec<Worker>,
    pub(super) at: Line,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Outside,
    Setup,
    Display,
    Specs,
    Managers,
}

/// What is read so far.
struct Reader<'a> {
    config: Config,
    part: Part,
    /// What the last line with an apostrophe announced, in small letters.
    key: String,
    spec: Option<(Spec, Line)>,
    worker: Option<Worker>,
    in_specs: bool,
    in_targets: bool,
    queue: Option<Outstanding>,
    workers: Option<Outstanding>,
    told: &'a mut Told,
}

/// Reads the blocks of a file.
pub(super) fn config(file: &str, text: &str, told: &mut Told) -> Config {
    let mut reader = Reader {
        config: Config::default(),
        part: Part::Outside,
        key: String::new(),
        spec: None,
        worker: None,
        in_specs: false,
        in_targets: false,
        queue: None,
        workers: None,
        told,
    };
    for (index, raw) in text.lines().enumerate() {
        let line = Line { file: file.to_owned(), number: index + 1, text: raw.trim().to_owned() };
        match line.text.strip_prefix('\'') {
            // Names of columns, below the name of what they belong to.
            Some(columns) if columns.starts_with([' ', '\t']) => {}
            Some(comment) => reader.comment(comment.trim(), &line),
            None if line.text.is_empty() => {}
            None => reader.value(&line),
        }
    }
    reader.end_spec();
    reader.end_worker();
    reader.finish(file)
}

impl Reader<'_> {
    /// A line with an apostrophe: the edge of a block, or the name of what follows.
    fn comment(&mut self, text: &str, line: &Line) {
        let upper = text.to_ascii_uppercase();
        let opens = |name: &str| upper.starts_with(name) && upper.contains("==");
        match () {
            () if opens("TEST SETUP") => self.part = Part::Setup,
            () if opens("RESULTS DISPLAY") => self.part = Part::Display,
            () if opens("ACCESS SPECIFICATIONS") => self.part = Part::Specs,
            () if opens("MANAGER LIST") => self.part = Part::Managers,
            () if upper.starts_with("END ACCESS SPECIFICATIONS") => {
                self.end_spec();
                self.part = Part::Outside;
            }
            () if upper.starts_with("END ASSIGNED ACCESS SPECS") => self.in_specs = false,
            () if upper.starts_with("ASSIGNED ACCESS SPECS") => self.in_specs = true,
            () if upper.starts_with("END TARGET ASSIGNMENTS") => self.in_targets = false,
            () if upper.starts_with("TARGET ASSIGNMENTS") => self.in_targets = true,
            () if upper.starts_with("END WORKER") => self.end_worker(),
            () if upper.starts_with("END ") => {}
            () => {
                if self.part == Part::Specs && upper.starts_with("ACCESS SPECIFICATION NAME") {
                    self.end_spec();
                }
                if self.part == Part::Managers
                    && upper.starts_with("WORKER")
                    && !upper.contains("TYPE")
                {
                    self.end_worker();
                    self.worker = Some(Worker { depth: 1, at: line.clone(), ..Worker::default() });
                }
                self.key = text.to_ascii_lowercase();
            }
        }
    }

    fn value(&mut self, line: &Line) {
        match self.part {
            Part::Setup => self.setup(line),
            Part::Specs => self.spec(line),
            Part::Managers => self.manager(line),
            Part::Outside => {
                let version = line.text.strip_prefix("Version ");
                if version.is_some_and(|version| {
                    !version.starts_with("1.1") && !version.starts_with("2006")
                }) {
                    self.told.note(line, format!("{}: read as version 1.1.0", line.text));
                }
            }
            Part::Display => {}
        }
    }

    fn setup(&mut self, line: &Line) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        let key = self.key.clone();
        match () {
            () if key.starts_with("run time") => {
                let part = |at: usize| number(at).unwrap_or(0.0).clamp(0.0, 1e6);
                self.config.run_seconds = part(0) * 3600.0 + part(1) * 60.0 + part(2);
                self.config.at = line.clone();
            }
            () if key.starts_with("ramp up") => {
                self.config.ramp_seconds = number(0).unwrap_or(0.0).clamp(0.0, 1e6);
            }
            () if key.starts_with("queue depth cycling")
                || key.starts_with("start") && key.contains("step") =>
            {
                self.queue = self.queue.or_else(|| cycling(&words));
            }
            () if key.starts_with("worker cycling") => self.workers = cycling(&words),
            () if key.starts_with("test type") => self.test_type(line),
            () => {}
        }
    }

    fn test_type(&mut self, line: &Line) {
        self.config.cycle = match line.text.as_str() {
            "NORMAL" => Cycle::Normal,
            "CYCLE_OUTSTANDING_IOS" => {
                let cycle = self.queue.map(Cycle::Outstanding);
                cycle.unwrap_or_else(|| {
                    self.told.refuse(line, "queue depth cycling without start, end and step");
                    Cycle::Refused
                })
            }
            "CYCLE_WORKERS" => self.workers.map_or(Cycle::Normal, Cycle::Workers),
            other => {
                let text =
                    format!("{other}: cycling of targets is not there; name the targets of a run");
                self.told.refuse(line, text);
                Cycle::Refused
            }
        };
    }

    fn spec(&mut self, line: &Line) {
        if self.key.starts_with("access specification name") {
            // `name,default assignment`; commas may be part of the name.
            let name = line.text.rsplit_once(',').map_or(line.text.as_str(), |(name, _)| name);
            let spec = Spec { name: name.trim().to_owned(), rows: Vec::new() };
            self.spec = Some((spec, line.clone()));
            self.key = "size".into();
        } else if let Some((spec, _)) = &mut self.spec {
            spec.rows.extend(row(line, self.told));
        }
    }

    fn end_spec(&mut self) {
        if let Some((spec, at)) = self.spec.take() {
            // `Idle` has no row.
            if !spec.rows.is_empty() {
                check(&spec, &at, self.told);
            }
            self.config.specs.push(spec);
        }
    }

    fn manager(&mut self, line: &Line) {
        if self.key.starts_with("manager id") && self.worker.is_none() {
            return;
        }
        let Some(worker) = &mut self.worker else { return };
        let key = self.key.as_str();
        let number = line.text.split(',').next().and_then(|word| word.trim().parse::<u64>().ok());
        match () {
            () if self.in_specs => worker.specs.push(line.text.clone()),
            () if self.in_targets => {
                if key.starts_with("target") && !key.contains("type") {
                    worker.targets.push(line.text.clone());
                    self.key.clear();
                } else if key.starts_with("target type") && line.text != "DISK" {
                    self.told
                        .refuse(line, format!("{}: network targets are not measured", line.text));
                }
            }
            () if key == "worker" => worker.name = line.text.clone(),
            () if key.starts_with("worker type") && line.text != "DISK" => {
                self.told.refuse(line, format!("{}: network workers are not measured", line.text));
            }
            () if key.starts_with("number of outstanding") => {
                worker.depth = number.unwrap_or(1).clamp(1, 4096) as u32;
                if line.text.contains("ENABLED")
                    && line.text.split(',').nth(1).is_some_and(|w| w == "ENABLED")
                {
                    self.told.refuse(line, "a test of the connection rate is not there");
                }
            }
            () if key.starts_with("disk maximum size") => {
                let mut parts =
                    line.text.split(',').filter_map(|word| word.trim().parse::<u64>().ok());
                let (size, start) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
                // Sectors; 0 is all of the disk.
                let end = size.saturating_add(start).saturating_mul(512);
                worker.range = (size > 0).then_some((start.saturating_mul(512), end));
                if size == 0 && start > 0 {
                    self.told
                        .note(line, "the starting sector is left out: all of the target is used");
                }
            }
            () => {}
        }
    }

    fn end_worker(&mut self) {
        (self.in_specs, self.in_targets) = (false, false);
        if let Some(worker) = self.worker.take() {
            self.config.workers.push(worker);
        }
    }

    fn finish(mut self, file: &str) -> Config {
        if self.config.at.file.is_empty() {
            self.config.at = Line { file: file.to_owned(), number: 1, text: String::new() };
        }
        if self.config.run_seconds <= 0.0 && self.told.errors.is_empty() {
            self.told.refuse(&self.config.at, "without a run time the test never ends");
        }
        self.config
    }
}

/// `1 32 2 EXPONENTIAL`, after a word or without.
fn cycling(words: &[&str]) -> Option<Outstanding> {
    let numbers: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [start, end, step, ..] = numbers.as_slice() else { return None };
    let exponential = words.iter().any(|word| word.eq_ignore_ascii_case("EXPONENTIAL"));
    Some(Outstanding { start: *start, end: *end, step: *step, exponential })
}
