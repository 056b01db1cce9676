//! How a run starts, or a cut one goes on: everything that is opened, measured and checked before the
//! first step.

use crate::bed::{Bed, Targets, unit_of};
use crate::error::RunError;
use crate::history::{Histories, check_unchanged};
use crate::observe::Observer;
use crate::prepare::{SETTING_LOST, can};
use crate::replay::Replay;
use crate::run::Runner;
use crate::setup::{Instrument, measure_instrument, open};
use crate::telemetry::Sampler;
use crate::traces::Traces;
use crate::verify::Journaling;
use analysis::Status;
use base::clock::{Clock, unix_ms};
use base::units::Nanos;
use drive::{Kind, Settings, Subject};
use engine::{Backend, Engine, host_backend};
use plan::{Claim, Placement, Plan, Purge, Step, Verb};
use serde_json::json;
use sim::{VirtualBackend, VirtualTarget};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
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
    /// Folder in which changed settings of drives are remembered until they are put back.
    pub settings: PathBuf,
    /// Time between two samples of host and drives, a second at least; none samples nothing.
    pub telemetry: Option<Nanos>,
    /// Workers run on these CPUs, until the plan says otherwise.
    pub placement: Placement,
    /// What was done to the targets before, for the run file: a namespace made anew.
    pub before: &'a [String],
    /// What the first steps did may be taken over from an earlier run, where the plan allows it.
    pub reuse: bool,
    /// What loads that verify know of the targets; a resumed run goes on with what it had.
    pub journaling: Journaling,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Its state in the run file.
    pub state: State,
    /// What went wrong, when something did.
    pub message: Option<String>,
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
    runner.writer.set_meta("history", &runner.histories.as_json())?;
    runner.writer.set_meta("read_only", &options.read_only.to_string())?;
    runner.writer.set_meta("placement", &options.placement.to_string())?;
    runner.set_claim()?;
    runner.start_verifying(options.plan, &options.journaling)?;
    // What a killed run left behind is put back before this one remembers what it finds.
    runner.restore_settings()?;
    for text in options.before {
        runner.event("set", text)?;
    }
    runner.place(&options.placement, true)?;
    runner.preflight(&options.plan.steps)?;
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
    let history = cut.meta("history").to_owned();
    let before = serde_json::from_str(cut.meta("drives_before")).unwrap_or_default();
    let health =
        cut.events.iter().filter(|event| event.kind == "health").filter_map(health_of).collect();
    let lost = cut.verdicts.iter().any(|v| v.name == SETTING_LOST && v.status == "fail");
    let version = cut.meta("fathom_version").to_owned();
    let verify = cut.meta("verify").to_owned();
    let claim: Option<Claim> = serde_json::from_str(cut.meta("claim")).ok();
    // Closing a handle of a file drops the locks of its database: it is closed before it is written.
    drop(cut);
    let mut writer = RunWriter::resume(&options.file)?;
    writer.set_batched(options.targets.is_virtual());
    let mut runner = ready.runner(options, writer, observer, interrupt, replay)?;
    runner.event("resume", &format!("the run was {state}; it goes on"))?;
    // With the deviations that were found before the cut.
    runner.claim = claim.or(runner.claim);
    runner.histories.restore(&history);
    for cell in &unfinished {
        runner.writer.mark_repeated(cell.id, "was cut, and is measured again")?;
    }
    runner.superseded = unfinished;
    runner.before = before;
    runner.health = health;
    if lost {
        runner.worst = Status::Fail;
    }
    runner.place(&options.placement, true)?;
    if version != env!("CARGO_PKG_VERSION") {
        runner.note(&format!("the run was begun by fathom {version}"))?;
    }
    for note in notes {
        runner.note(&note)?;
    }
    runner.resume_verifying(options.plan, &verify)?;
    runner.set_claim()?;
    runner.whole(options.plan, skip)
}

/// Target and text of an event in which a drive warned: `target0: text`.
fn health_of(event: &store::Event) -> Option<(usize, String)> {
    let (target, text) = event.text.split_once(": ")?;
    Some((target.strip_prefix("target")?.parse().ok()?, text.to_owned()))
}

/// Everything that is opened and measured before the first step.
struct Prepared<'a> {
    beds: Vec<Bed<'a>>,
    heads: Vec<TargetHead>,
    permits: Vec<String>,
    clock: Clock,
    instrument: Instrument,
    backend: Box<dyn Backend>,
    traces: Traces,
}

impl<'a> Prepared<'a> {
    fn new(options: &RunOptions<'a>) -> Result<Prepared<'a>, RunError> {
        if options.read_only && options.plan.steps.iter().all(Step::writes) {
            return Err(RunError::NothingToDo);
        }
        check_verifying(options)?;
        let traces = Traces::read(options.plan)?;
        let mut ready = match options.targets {
            Targets::Host(subjects) => Prepared::host(options, subjects)?,
            Targets::Virtual(drives) => Prepared::virtual_drives(drives),
        };
        check_steps(&options.plan.steps, &ready.beds)?;
        ready.traces = traces;
        Ok(ready)
    }

    fn host(options: &RunOptions<'a>, subjects: &'a [Subject]) -> Result<Prepared<'a>, RunError> {
        let writes = options.plan.writes() && !options.read_only;
        let (mut beds, mut heads, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        let mut targets = Vec::new();
        for subject in subjects {
            let generic = subject.device().is_some_and(|device| device.generic.is_some());
            if generic && options.engine != Engine::Uring {
                return Err(RunError::NotHere(format!(
                    "{}: takes NVMe commands, which only --engine uring sends",
                    subject.name()
                )));
            }
            // A scratch file is laid out first, also for plans that only read it.
            let scratch = matches!(subject.kind, Kind::Scratch(_));
            let ready = open(subject, writes || scratch, options.destroy)?;
            beds.push(Bed {
                name: subject.name(),
                identity: subject.identity(),
                size: subject.size(),
                block: ready.target.block,
                subject: Some(subject),
                eraser: ready.eraser,
            });
            targets.push(ready.target);
            heads.push(ready.head);
            permits.extend(ready.permit);
        }
        let clock = Clock::host();
        let instrument =
            measure_instrument(&clock, None).or_else(|error| match options.engine {
                // The synchronous engine also serves hosts that have no io_uring at all.
                Engine::Sync => Ok(Instrument { clock: clock.measure(), costs: Vec::new() }),
                _ => Err(error),
            })?;
        let backend = host_backend(options.engine, targets, clock.clone());
        let traces = Traces::default();
        Ok(Prepared { beds, heads, permits, clock, instrument, backend, traces })
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
            traces: Traces::default(),
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
            let writes = bed.eraser.is_some();
            notes.extend(check_unchanged(bed, then, fastest_interval(cut), writes)?);
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
        let sampler = Sampler::new(self.clock.clone(), &self.beds, options.telemetry);
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
            superseded: Vec::new(),
            last_end: None,
            claim: options.plan.claim.clone(),
            read_only: options.read_only,
            sampler,
            cpus: Vec::new(),
            before: Vec::new(),
            health: Vec::new(),
            settings: Settings::new(&options.settings),
            simulated: None,
            traces: self.traces,
        })
    }
}

/// Data can be checked, and a journal kept, where there are data.
fn check_verifying(options: &RunOptions<'_>) -> Result<(), RunError> {
    let verifies = options.plan.verifies();
    let why = match () {
        () if !verifies && options.journaling != Journaling::Off => {
            "a journal is kept of loads that verify, and this plan has none: put `verify = true` into a load"
        }
        () if verifies && options.targets.is_virtual() => {
            "virtual drives hold no data: `verify` needs a target of this host"
        }
        () if verifies && options.engine == Engine::Fio => {
            "`verify` needs the engine uring or sync: fio writes what it likes"
        }
        () => return Ok(()),
    };
    Err(RunError::NotHere(why.into()))
}

/// What a plan asks for and cannot have here, found before anything is purged or written: blocks that a
/// target's unit does not allow, in cells that are no part of a sweep; and ways to purge that a target
/// of this host does not have.
fn check_steps(steps: &[Step], beds: &[Bed<'_>]) -> Result<(), RunError> {
    let unit = unit_of(beds);
    for step in steps {
        match &step.verb {
            Verb::Purge(way @ (Purge::Format | Purge::Sanitize)) => {
                for bed in beds {
                    let Some(Err(why)) = bed.eraser.as_ref().map(|e| can(e, *way)) else {
                        continue;
                    };
                    return Err(RunError::NotHere(format!(
                        "step {}: purge = \"{}\" is not possible on {}: {why}; use \"auto\" or \
                         \"discard\", or purge the drive yourself and use \"none\"",
                        step.name,
                        way.word(),
                        bed.name
                    )));
                }
            }
            // A sweep leaves such cells out, and says so.
            Verb::Sweep(_) => {}
            verb => {
                if let Some(block) = verb.cells().find_map(|cell| cell.block_off(unit)) {
                    return Err(RunError::NotHere(format!(
                        "step {}: not supported: blocks of {} bytes, the target's unit is {} bytes",
                        step.name, block.0, unit.0
                    )));
                }
            }
        }
        check_steps(step.verb.children(), beds)?;
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
        block: drive.setup.block,
        subject: None,
        eraser: None,
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
            "link_read_bytes_per_s": drive.profile.link_bytes().0,
            "link_write_bytes_per_s": drive.profile.link_bytes().1,
            "power_cap_w": setup.power_w, "published": published.collect::<Vec<_>>(),
        }),
    }
}
