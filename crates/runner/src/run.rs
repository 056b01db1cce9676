//! The state machine of a run.

use crate::bed::{Bed, Targets};
use crate::cell::Place;
use crate::error::RunError;
use crate::history::{Histories, check_unchanged};
use crate::observe::{Observer, Progress};
use crate::replay::{DONE, Replay};
use crate::setup::{Instrument, measure_instrument, open};
use analysis::{Figures, Status, adds_nothing};
use base::clock::{Clock, unix_ms};
use base::units::{Bytes, Nanos};
use drive::{Kind, Subject};
use engine::{Backend, Engine, Outcome, host_backend};
use plan::{
    Amount, BlockMix, Cell, Claim, Coordinate, Data, Demand, Extent, Load, Pattern, Plan, Purge,
    Repeat, Step, Streams, Sweep, Verb, Window, estimate, estimate_most,
};
use serde_json::json;
use sim::{VirtualBackend, VirtualTarget};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{RunFile, RunHead, RunWriter, State, TargetHead};

/// What to run, on what, how.
pub struct RunOptions<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The targets; at least one.
    pub targets: Targets<'a>,
    /// Words that name what may be destroyed.
    pub destroy: &'a [String],
    /// Leave every step out that writes.
    pub read_only: bool,
    /// The engine, for targets of this host.
    pub engine: Engine,
    /// The run file to make, or to go on with.
    pub file: PathBuf,
    /// Folder of the ledger; none to keep none.
    pub ledger: Option<PathBuf>,
    /// What the first steps did may be taken over from an earlier run, where the plan allows it.
    pub reuse: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Its state in the run file.
    pub state: State,
    /// What went wrong, when something did.
    pub message: Option<String>,
}

/// A cell that was measured in this run, for the steps after it.
pub(crate) struct Measured {
    pub(crate) path: String,
    pub(crate) coordinates: Vec<Coordinate>,
    pub(crate) figures: Figures,
    pub(crate) loads: Vec<Load>,
}

/// A run in progress.
pub(crate) struct Runner<'a> {
    pub(crate) clock: Clock,
    pub(crate) writer: RunWriter,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) beds: Vec<Bed<'a>>,
    pub(crate) is_virtual: bool,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) instrument: Instrument,
    pub(crate) interval: Nanos,
    pub(crate) seed: u64,
    pub(crate) worst: Status,
    pub(crate) histories: Histories,
    pub(crate) measured: Vec<Measured>,
    /// First and last round of the window, by the path of the rounds.
    pub(crate) windows: HashMap<String, (u32, u32)>,
    pub(crate) replay: Replay,
    claim: Option<Claim>,
    read_only: bool,
}

/// Runs a plan. `interrupt` ends it early and keeps what was measured.
///
/// # Errors
/// When it cannot start, or the run file cannot be written any more.
pub fn run(
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<RunEnd, RunError> {
    let ready = Prepared::new(options)?;
    let mut writer = RunWriter::create(&options.file, &ready.head(options), &ready.heads)?;
    writer.set_batched(options.targets.is_virtual());
    let mut runner = ready.runner(options, writer, observer, interrupt, Replay::default())?;
    runner.set_claim()?;
    let skip = runner.reuse(options)?;
    runner.whole(options.plan, skip)
}

/// Goes on with a run that was cut, where it stopped: `options.file` is its run file, plan and targets
/// are those it names.
///
/// # Errors
/// When a target is another one or was written to since, or as [`run`].
pub fn resume(
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<RunEnd, RunError> {
    let cut = RunFile::open(&options.file)?;
    if matches!(cut.state, State::Running | State::Done | State::Invalid) {
        let word = cut.state.word();
        return Err(RunError::Resume(format!(
            "{}: the run is {word}: there is nothing to resume",
            options.file.display()
        )));
    }
    let ready = Prepared::new(options)?;
    let notes = ready.check_same(&cut)?;
    let (replay, unfinished) = Replay::new(&cut);
    let skip = cut.events.iter().filter(|event| event.kind == "reused").count();
    let state = cut.state.word();
    // Closing a handle of a file drops the locks of its database: it is closed before it is written.
    drop(cut);
    let mut writer = RunWriter::resume(&options.file)?;
    writer.set_batched(options.targets.is_virtual());
    let mut runner = ready.runner(options, writer, observer, interrupt, replay)?;
    runner.event("resume", &format!("the run was {state}; it goes on"))?;
    for cell in &unfinished {
        runner.writer.mark_repeated(cell.id, "was cut, and is measured again")?;
        runner.replay.again += 1;
    }
    for note in notes {
        runner.note(&note)?;
    }
    runner.set_claim()?;
    runner.whole(options.plan, skip)
}

/// Everything that is opened and measured before the first step.
struct Prepared<'a> {
    beds: Vec<Bed<'a>>,
    heads: Vec<TargetHead>,
    permits: Vec<String>,
    clock: Clock,
    instrument: Instrument,
    backend: Box<dyn Backend>,
}

impl<'a> Prepared<'a> {
    fn new(options: &RunOptions<'a>) -> Result<Prepared<'a>, RunError> {
        if options.read_only && options.plan.steps.iter().all(Step::writes) {
            return Err(RunError::NothingToDo);
        }
        match options.targets {
            Targets::Host(subjects) => Prepared::host(options, subjects),
            Targets::Virtual(drives) => Ok(Prepared::virtual_drives(drives)),
        }
    }

    fn host(options: &RunOptions<'a>, subjects: &'a [Subject]) -> Result<Prepared<'a>, RunError> {
        check_purges(&options.plan.steps)?;
        let writes = options.plan.writes() && !options.read_only;
        let (mut beds, mut heads, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        let mut targets = Vec::new();
        for subject in subjects {
            // A scratch file is laid out first, also for plans that only read it.
            let scratch = matches!(subject.kind, Kind::Scratch(_));
            let ready = open(subject, writes || scratch, options.destroy)?;
            beds.push(Bed {
                name: subject.name(),
                identity: subject.identity(),
                size: subject.size(),
                subject: Some(subject),
                writable: ready.target.file.clone().filter(|_| ready.permit.is_some()),
            });
            targets.push(ready.target);
            heads.push(ready.head);
            permits.extend(ready.permit);
        }
        let clock = Clock::host();
        let instrument = measure_instrument(&clock, None).or_else(|error| match options.engine {
            // The synchronous engine also serves hosts that have no io_uring at all.
            Engine::Sync => Ok(Instrument { clock: clock.measure(), costs: Vec::new() }),
            _ => Err(error),
        })?;
        let backend = host_backend(options.engine, targets, clock.clone());
        Ok(Prepared { beds, heads, permits, clock, instrument, backend })
    }

    fn virtual_drives(drives: &[VirtualTarget]) -> Prepared<'a> {
        let clock = Clock::virtual_at(0);
        Prepared {
            beds: drives.iter().map(virtual_bed).collect(),
            heads: drives.iter().map(virtual_head).collect(),
            permits: Vec::new(),
            instrument: Instrument { clock: clock.measure(), costs: Vec::new() },
            backend: Box::new(VirtualBackend::new(drives, clock.clone())),
            clock,
        }
    }

    fn head(&self, options: &RunOptions<'_>) -> RunHead {
        let plan = options.plan;
        let mut facts = self.instrument.as_json();
        if options.engine == Engine::Fio && !options.targets.is_virtual() {
            facts["fio_version"] = engine::fio_version().into();
        }
        RunHead {
            fathom_version: env!("CARGO_PKG_VERSION").into(),
            started_unix_ms: unix_ms(),
            plan_name: plan.name.clone(),
            plan_title: plan.title.clone(),
            plan_source: plan.source.clone(),
            settings: plan.params.iter().map(|p| (p.name.clone(), p.value.clone())).collect(),
            seed: plan.seed,
            engine: self.backend.name().into(),
            interval: plan.interval,
            host: serde_json::to_value(drive::host_facts()).unwrap_or_default(),
            instrument: facts,
        }
    }

    /// Checks that the targets are those of a cut run, and unchanged. Gives what cannot be known.
    fn check_same(&self, cut: &RunFile) -> Result<Vec<String>, RunError> {
        if cut.targets.len() != self.beds.len() {
            let n = cut.targets.len();
            return Err(RunError::Resume(format!("the run has {n} targets; name all of them")));
        }
        if cut.meta("engine") != self.backend.name() {
            return Err(RunError::Resume(format!(
                "the run was made with the engine {}, not {}",
                cut.meta("engine"),
                self.backend.name()
            )));
        }
        let states: Vec<Option<drive::WriteState>> =
            serde_json::from_str(cut.meta("write_state")).unwrap_or_default();
        let mut notes = Vec::new();
        for (index, (bed, then)) in self.beds.iter().zip(&cut.targets).enumerate() {
            let identity = then["identity"].as_str().unwrap_or_default();
            if identity != bed.identity || then["size_bytes"].as_u64() != Some(bed.size.0) {
                return Err(RunError::Resume(format!(
                    "{}: is not the target of the run ({identity}, {} bytes)",
                    bed.name, then["size_bytes"]
                )));
            }
            if bed.is_scratch() {
                notes.push(format!("{}: was laid out anew", bed.name));
            }
            let then = states.get(index).and_then(Option::as_ref);
            notes.extend(check_unchanged(bed, then, fastest_interval(cut))?);
        }
        Ok(notes)
    }

    fn runner(
        self,
        options: &RunOptions<'a>,
        writer: RunWriter,
        observer: &'a mut dyn Observer,
        interrupt: &'a AtomicBool,
        replay: Replay,
    ) -> Result<Runner<'a>, RunError> {
        for permit in &self.permits {
            writer.event(self.clock.now(), None, "permit", permit)?;
        }
        let ledger = options.ledger.as_deref();
        let histories = Histories::new(&self.beds, ledger, &options.file, unix_ms());
        Ok(Runner {
            clock: self.clock,
            writer,
            observer,
            backend: self.backend,
            beds: self.beds,
            is_virtual: options.targets.is_virtual(),
            interrupt,
            instrument: self.instrument,
            interval: options.plan.interval,
            seed: options.plan.seed,
            worst: Status::Pass,
            histories,
            measured: Vec::new(),
            windows: HashMap::new(),
            replay,
            claim: options.plan.claim.clone(),
            read_only: options.read_only,
        })
    }
}

/// Methods of purging that this version has for targets of the host.
fn check_purges(steps: &[Step]) -> Result<(), RunError> {
    for step in steps {
        match &step.verb {
            Verb::Purge(method @ (Purge::Format | Purge::Sanitize)) => {
                return Err(RunError::NotHere(format!(
                    "step {}: purge = \"{}\" needs admin commands, which this version does not send; \
                     use \"auto\" or \"discard\", or purge the drive yourself and use \"none\"",
                    step.name,
                    method.word()
                )));
            }
            Verb::Group(inner) => check_purges(inner)?,
            Verb::Repeat(repeat) => check_purges(&repeat.steps)?,
            Verb::Rounds(rounds) => check_purges(&rounds.steps)?,
            Verb::Points(points) => check_purges(&points.steps)?,
            _ => {}
        }
    }
    Ok(())
}

/// Most bytes an interval of the last cells moved: what a killed run may have written after its last
/// note.
fn fastest_interval(cut: &RunFile) -> u64 {
    let rate = |cell: &store::CellRecord| {
        let seconds = cell.len.as_secs_f64().max(0.1);
        (cell.merged().writes.bytes as f64 / seconds) as u64
    };
    let seconds = cut.meta("interval_ns").parse::<u64>().unwrap_or(0).div_ceil(1_000_000_000);
    cut.cells.iter().map(rate).max().unwrap_or(0) * (seconds + 2)
}

fn virtual_bed<'a>(drive: &VirtualTarget) -> Bed<'a> {
    Bed {
        name: drive.name.clone(),
        identity: drive.serial(),
        size: drive.size(),
        subject: None,
        writable: None,
    }
}

fn virtual_head(drive: &VirtualTarget) -> TargetHead {
    let setup = &drive.setup;
    let published = drive.profile.published.iter().map(|figure| {
        json!({
            "what": figure.what, "value": figure.value, "unit": figure.unit,
            "status": format!("{:?}", figure.status), "residual_percent": figure.residual_percent,
        })
    });
    TargetHead {
        name: drive.name.clone(),
        identity: drive.serial(),
        kind: "virtual",
        size_bytes: drive.size().0,
        block_bytes: setup.block.0,
        facts: json!({
            "model": drive.profile.model, "serial": drive.serial(), "virtual": true,
            "fidelity": format!("{:?}", setup.fidelity).to_lowercase(),
            "samples_per_table_entry": setup.samples, "spare": drive.spare(),
            "power_cap_w": setup.power_w, "published": published.collect::<Vec<_>>(),
        }),
    }
}

impl Runner<'_> {
    fn whole(&mut self, plan: &Plan, skip: usize) -> Result<RunEnd, RunError> {
        let size = self.beds.iter().map(|bed| bed.size).max().unwrap_or_default();
        let (mut cost, most) = (estimate(plan, size), estimate_most(plan, size));
        if self.read_only {
            cost.amount.0 -= cost.amount_written.0;
        }
        let file = self.writer.path().to_owned();
        self.observer.on(Progress::Started { file: &file, estimate: cost, most });
        for note in std::mem::take(&mut self.histories.notes) {
            self.note(&note)?;
        }
        let root = Place {
            path: String::new(),
            step: String::new(),
            label: String::new(),
            verb: "",
            coordinates: Vec::new(),
            iteration: 0,
            counted: true,
        };
        let mut outcome = self.prepare(&root)?;
        if outcome == Outcome::Completed {
            outcome = self.steps(&plan.steps[skip.min(plan.steps.len())..], &root)?;
        }
        let (state, message) = match outcome {
            Outcome::Completed if self.worst == Status::Fail => (State::Invalid, None),
            Outcome::Completed => (State::Done, None),
            Outcome::Interrupted => (State::Interrupted, None),
            Outcome::Faulted(fault) => (State::Failed, Some(fault.to_string())),
            Outcome::Failed(message) => (State::Failed, Some(message)),
        };
        if let Some(message) = &message {
            self.event("failed", message)?;
        }
        self.writer.finish(state, unix_ms())?;
        Ok(RunEnd { state, message })
    }

    /// Whether steps at the head need not be done: the ledger says that they were, and nothing since.
    fn reuse(&mut self, options: &RunOptions<'_>) -> Result<usize, RunError> {
        if !options.reuse {
            return Ok(0);
        }
        let Some((n, from)) = self.histories.reusable(&options.plan.steps) else {
            self.note(
                "no preconditioning is reused: the plan allows none, or the ledger does not show \
                 exactly these steps as the last that were done to the drive",
            )?;
            return Ok(0);
        };
        for step in &options.plan.steps[..n] {
            let text = format!("step {} was done by {from}, and nothing was written since", step.name);
            self.event("reused", &text)?;
            self.observer.on(Progress::Note(&text));
        }
        self.deviate("preconditioning taken over from an earlier run")?;
        Ok(n)
    }

    /// Notes what the plan claims, with every deviation known so far.
    fn set_claim(&mut self) -> Result<(), RunError> {
        if let Some(claim) = &self.claim {
            let text = serde_json::to_string(claim).unwrap_or_default();
            self.writer.set_meta("claim", &text)?;
        }
        Ok(())
    }

    /// The run does not follow the method that the plan claims.
    pub(crate) fn deviate(&mut self, how: &str) -> Result<(), RunError> {
        if let Some(claim) = &mut self.claim
            && !claim.deviations.iter().any(|known| known == how)
        {
            claim.deviations.push(how.to_owned());
        }
        self.set_claim()
    }

    pub(crate) fn event(&self, kind: &str, text: &str) -> Result<(), RunError> {
        Ok(self.writer.event(self.clock.now(), None, kind, text)?)
    }

    /// A round, a continuous step or an action came to its end: it need not be done again.
    pub(crate) fn mark_done(&mut self, path: &str) -> Result<(), RunError> {
        if !self.replay.is_done(path) {
            self.event(DONE, path)?;
        }
        Ok(())
    }

    /// Whether this part of the plan was done before the run was cut.
    pub(crate) fn replaying(&self, path: &str) -> bool {
        self.replay.is_done(path)
    }

    /// What was measured in a part that allows no gap and was cut does not count.
    pub(crate) fn give_up(&mut self, path: &str, why: &str) -> Result<(), RunError> {
        if !self.replay.is_empty() && self.replay.give_up(path, why, &self.writer)? > 0 {
            self.event("repeat", &format!("{path}: {why}; it is repeated"))?;
        }
        Ok(())
    }

    /// Lays scratch files out, so that no hole is measured.
    fn prepare(&mut self, root: &Place) -> Result<Outcome, RunError> {
        let scratch: Vec<usize> =
            (0..self.beds.len()).filter(|&index| self.beds[index].is_scratch()).collect();
        if scratch.is_empty() {
            return Ok(Outcome::Completed);
        }
        let window = Window { ramp: Nanos(0), time: None, amount: Some(Amount::Passes(1.0)) };
        let cell = Cell { loads: vec![layout_load(scratch)], window, until: None };
        let place = Place {
            path: "prepare".into(),
            step: "prepare".into(),
            verb: "fill",
            counted: false,
            ..root.clone()
        };
        // A cut run has a new scratch file, which is laid out again.
        if let Some((before, _)) = self.replay.take("prepare", "") {
            self.writer.mark_repeated(before.id, "the scratch file was laid out anew")?;
        }
        Ok(self.run_cell(&cell, &place)?.outcome)
    }

    /// Runs steps in order until one does not complete.
    pub(crate) fn steps(&mut self, steps: &[Step], parent: &Place) -> Result<Outcome, RunError> {
        for step in steps {
            if self.read_only && step.writes() && !has_children(&step.verb) {
                self.note(&format!("step {} writes and is left out (--read-only)", step.name))?;
                continue;
            }
            let outcome = self.step(step, parent)?;
            if outcome != Outcome::Completed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Completed)
    }

    fn step(&mut self, step: &Step, parent: &Place) -> Result<Outcome, RunError> {
        let path = match parent.path.as_str() {
            "" => step.name.clone(),
            above => format!("{above}/{}", step.name),
        };
        if step.continuous {
            self.give_up(&path, "the step was cut, and it allows no gap")?;
        }
        let place =
            |verb| Place { path: path.clone(), step: step.name.clone(), verb, ..parent.clone() };
        let outcome = self.verb(&step.verb, &place)?;
        if step.continuous && outcome == Outcome::Completed {
            self.mark_done(&path)?;
        }
        Ok(outcome)
    }

    fn verb(
        &mut self,
        verb: &Verb,
        place: &dyn Fn(&'static str) -> Place,
    ) -> Result<Outcome, RunError> {
        match verb {
            Verb::Fill(cell) => {
                let place = Place { counted: false, ..place("fill") };
                Ok(self.run_cell(cell, &place)?.outcome)
            }
            Verb::Load(cell) => Ok(self.run_cell(cell, &place("load"))?.outcome),
            Verb::Sweep(sweep) => self.sweep(sweep, &place("sweep")),
            Verb::Curve(curve) => self.run_curve(curve, &place("curve")),
            Verb::Repeat(repeat) => self.repeat(repeat, &place("repeat")),
            Verb::Idle(time) => self.rest(*time, &place("idle")),
            Verb::Purge(purge) => self.purge(*purge, &place("purge")),
            Verb::Set(setting) => self.set(*setting, &place("set")),
            Verb::Rounds(rounds) => self.rounds(rounds, &place("rounds")),
            Verb::Points(points) => self.points(points, &place("points")),
            Verb::Group(steps) => self.steps(steps, &place("plan")),
        }
    }

    fn sweep(&mut self, sweep: &Sweep, place: &Place) -> Result<Outcome, RunError> {
        // The place on all axes but the innermost, and the IOPS of the cell before on that one.
        let mut row: Option<(Vec<plan::Coordinate>, f64)> = None;
        let mut skip_row = false;
        for point in &sweep.cells {
            let outer = point.coordinates[..point.coordinates.len() - 1].to_vec();
            let before = row.as_ref().filter(|(at, _)| *at == outer).map(|(_, iops)| *iops);
            skip_row &= before.is_some();
            if skip_row {
                continue;
            }
            let place = Place {
                label: point.label.clone(),
                coordinates: point.coordinates.clone(),
                ..place.clone()
            };
            let result = self.run_cell(&point.cell, &place)?;
            if result.outcome != Outcome::Completed {
                return Ok(result.outcome);
            }
            if let (Some(gain), Some(before)) = (sweep.stop_gain_percent, before)
                && adds_nothing(before, result.iops, gain)
            {
                skip_row = true;
                let label = &point.label;
                let text = format!("{label} adds less than {gain} %: larger values are left out");
                self.note(&text)?;
            }
            row = Some((outer, result.iops));
        }
        Ok(Outcome::Completed)
    }

    fn repeat(&mut self, repeat: &Repeat, place: &Place) -> Result<Outcome, RunError> {
        for round in 0..repeat.discard + repeat.times {
            if round > 0 && repeat.gap.0 > 0 {
                let gap = Place { path: format!("{}#{}/gap", place.path, round + 1), ..place.clone() };
                let outcome = self.rest(repeat.gap, &gap)?;
                if outcome != Outcome::Completed {
                    return Ok(outcome);
                }
            }
            let inner = Place {
                path: format!("{}#{}", place.path, round + 1),
                iteration: round + 1,
                counted: place.counted && round >= repeat.discard,
                ..place.clone()
            };
            let outcome = self.steps(&repeat.steps, &inner)?;
            if outcome != Outcome::Completed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Completed)
    }

    /// Does nothing for a time; a rest before cells that are done already is not repeated.
    fn rest(&mut self, time: Nanos, place: &Place) -> Result<Outcome, RunError> {
        if self.backend.idle(time) {
            let stopped = self.interrupt.load(Ordering::Relaxed);
            return Ok(if stopped { Outcome::Interrupted } else { Outcome::Completed });
        }
        if self.replaying(&place.path) {
            return Ok(Outcome::Completed);
        }
        self.observer.on(Progress::Idle(time));
        let outcome = self.idle(time);
        if outcome == Outcome::Completed {
            self.mark_done(&place.path)?;
        }
        Ok(outcome)
    }

    fn idle(&self, time: Nanos) -> Outcome {
        let end = self.clock.now().0 + time.0;
        loop {
            let now = self.clock.now().0;
            if self.interrupt.load(Ordering::Relaxed) {
                return Outcome::Interrupted;
            }
            if now >= end {
                return Outcome::Completed;
            }
            self.clock.sleep_until(Nanos((now + 100_000_000).min(end)));
        }
    }

    pub(crate) fn note(&mut self, text: &str) -> Result<(), RunError> {
        self.observer.on(Progress::Note(text));
        Ok(self.writer.event(self.clock.now(), None, "note", text)?)
    }
}

/// Whether a verb's own writes are all in its children.
fn has_children(verb: &Verb) -> bool {
    matches!(verb, Verb::Repeat(_) | Verb::Rounds(_) | Verb::Points(_) | Verb::Group(_))
}

/// One pass of large sequential writes.
fn layout_load(targets: Vec<usize>) -> Load {
    let block = BlockMix::one(Bytes(1 << 20));
    Load {
        name: String::new(),
        pattern: Pattern::Sequential(Streams::Shared),
        read_blocks: block.clone(),
        write_blocks: block,
        read_percent: 0.0,
        range: (Extent::Percent(0.0), Extent::Percent(100.0)),
        align: None,
        depth: 8,
        workers: 1,
        demand: Demand::Closed,
        data: Data::default(),
        weight: None,
        targets,
    }
}
