//! The state machine of a run.

use crate::cell::Place;
use crate::error::RunError;
use crate::observe::{Observer, Progress};
use crate::setup::{Instrument, measure_instrument, open};
use analysis::{Status, adds_nothing};
use base::clock::{Clock, unix_ms};
use base::units::{Bytes, Nanos};
use drive::{Kind, Subject};
use engine::{Backend, Engine, Outcome, host_backend};
use plan::{
    Amount, BlockMix, Cell, Data, Demand, Extent, Load, Pattern, Plan, Repeat, Step, Streams,
    Sweep, Verb, Window, estimate,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{RunHead, RunWriter, State};

/// What to run, on what, how.
pub struct RunOptions<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The targets; at least one.
    pub subjects: &'a [Subject],
    /// Words that name what may be destroyed.
    pub destroy: &'a [String],
    /// Leave every step out that writes.
    pub read_only: bool,
    /// The engine.
    pub engine: Engine,
    /// The run file to make.
    pub file: PathBuf,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Its state in the run file.
    pub state: State,
    /// What went wrong, when something did.
    pub message: Option<String>,
}

/// A run in progress.
pub(crate) struct Runner<'a> {
    pub(crate) clock: Clock,
    pub(crate) writer: RunWriter,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) subjects: &'a [Subject],
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) instrument: Instrument,
    pub(crate) interval: Nanos,
    pub(crate) seed: u64,
    pub(crate) worst: Status,
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
    let plan = options.plan;
    let writes = plan.writes() && !options.read_only;
    if options.read_only && plan.steps.iter().all(Step::writes) {
        return Err(RunError::NothingToDo);
    }
    let mut targets = Vec::new();
    let mut heads = Vec::new();
    let mut permits = Vec::new();
    for subject in options.subjects {
        // A scratch file is laid out first, also for plans that only read it.
        let scratch = matches!(subject.kind, Kind::Scratch(_));
        let ready = open(subject, writes || scratch, options.destroy)?;
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
    let mut facts = instrument.as_json();
    if options.engine == Engine::Fio {
        facts["fio_version"] = engine::fio_version().into();
    }
    let head = RunHead {
        fathom_version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: unix_ms(),
        plan_name: plan.name.clone(),
        plan_title: plan.title.clone(),
        plan_source: plan.source.clone(),
        settings: plan.params.iter().map(|p| (p.name.clone(), p.value.clone())).collect(),
        seed: plan.seed,
        engine: backend.name().into(),
        interval: plan.interval,
        host: serde_json::to_value(drive::host_facts()).unwrap_or_default(),
        instrument: facts,
    };
    let writer = RunWriter::create(&options.file, &head, &heads)?;
    for permit in &permits {
        writer.event(clock.now(), None, "permit", permit)?;
    }
    let mut runner = Runner {
        clock,
        writer,
        observer,
        backend,
        subjects: options.subjects,
        interrupt,
        instrument,
        interval: plan.interval,
        seed: plan.seed,
        worst: Status::Pass,
        read_only: options.read_only,
    };
    runner.whole(plan)
}

impl Runner<'_> {
    fn whole(&mut self, plan: &Plan) -> Result<RunEnd, RunError> {
        let size = self.subjects.iter().map(Subject::size).max().unwrap_or_default();
        let mut cost = estimate(plan, size);
        if self.read_only {
            cost.amount.0 -= cost.amount_written.0;
        }
        let file = self.writer.path().to_owned();
        self.observer.on(Progress::Started { file: &file, estimate: cost });
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
            outcome = self.steps(&plan.steps, &root)?;
        }
        let (state, message) = match outcome {
            Outcome::Completed if self.worst == Status::Fail => (State::Invalid, None),
            Outcome::Completed => (State::Done, None),
            Outcome::Interrupted => (State::Interrupted, None),
            Outcome::Faulted(fault) => (State::Failed, Some(fault.to_string())),
            Outcome::Failed(message) => (State::Failed, Some(message)),
        };
        self.writer.finish(state, unix_ms())?;
        Ok(RunEnd { state, message })
    }

    /// Lays scratch files out, so that no hole is measured.
    fn prepare(&mut self, root: &Place) -> Result<Outcome, RunError> {
        let scratch: Vec<usize> = (0..self.subjects.len())
            .filter(|&index| matches!(self.subjects[index].kind, Kind::Scratch(_)))
            .collect();
        if scratch.is_empty() {
            return Ok(Outcome::Completed);
        }
        let window = Window { ramp: Nanos(0), time: None, amount: Some(Amount::Passes(1.0)) };
        let cell = Cell { loads: vec![layout_load(scratch)], window };
        let place = Place {
            path: "prepare".into(),
            step: "prepare".into(),
            verb: "fill",
            counted: false,
            ..root.clone()
        };
        Ok(self.run_cell(&cell, &place)?.outcome)
    }

    /// Runs steps in order until one does not complete.
    fn steps(&mut self, steps: &[Step], parent: &Place) -> Result<Outcome, RunError> {
        for step in steps {
            if self.read_only && step.writes() && !matches!(step.verb, Verb::Repeat(_)) {
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
        let place =
            |verb| Place { path: path.clone(), step: step.name.clone(), verb, ..parent.clone() };
        match &step.verb {
            Verb::Fill(cell) => {
                let place = Place { counted: false, ..place("fill") };
                Ok(self.run_cell(cell, &place)?.outcome)
            }
            Verb::Load(cell) => Ok(self.run_cell(cell, &place("load"))?.outcome),
            Verb::Sweep(sweep) => self.sweep(sweep, &place("sweep")),
            Verb::Curve(curve) => self.run_curve(curve, &place("curve")),
            Verb::Repeat(repeat) => self.repeat(repeat, &place("repeat")),
            Verb::Idle(time) => {
                self.observer.on(Progress::Idle(*time));
                Ok(self.idle(*time))
            }
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
                self.note(&format!("{label} adds less than {gain} %: larger values are left out"))?;
            }
            row = Some((outer, result.iops));
        }
        Ok(Outcome::Completed)
    }

    fn repeat(&mut self, repeat: &Repeat, place: &Place) -> Result<Outcome, RunError> {
        for round in 0..repeat.discard + repeat.times {
            if round > 0 && repeat.gap.0 > 0 {
                self.observer.on(Progress::Idle(repeat.gap));
                let outcome = self.idle(repeat.gap);
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

    fn note(&mut self, text: &str) -> Result<(), RunError> {
        self.observer.on(Progress::Note(text));
        Ok(self.writer.event(self.clock.now(), None, "note", text)?)
    }
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
