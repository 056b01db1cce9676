//! The state machine of a run.

use crate::bed::{Bed, unit_of};
use crate::cell::Place;
use crate::error::RunError;
use crate::flight::Snapshot;
use crate::history::Histories;
use crate::observe::{Observer, Progress};
use crate::replay::{DONE, Replay, is_below};
use crate::setup::Instrument;
use crate::start::{RunEnd, RunOptions};
use crate::telemetry::Sampler;
use crate::traces::Traces;
use analysis::{Figures, Status, adds_nothing};
use base::clock::{Clock, unix_ms};
use base::units::{Bytes, Nanos};
use drive::Settings;
use engine::{Backend, Outcome};
use plan::{
    Amount, BlockMix, Cell, Claim, Coordinate, Data, Demand, Extent, Load, Pattern, Plan, Repeat,
    Step, Streams, Sweep, Verb, Window, estimate, estimate_most,
};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{CellRecord, RunWriter, State};

/// Name of the backend that fills whole intervals from tables.
const INTERVALS: &str = "virtual";

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
    /// Cells that were measured before the run was cut and are repeated.
    pub(crate) superseded: Vec<CellRecord>,
    /// End of the last cell on the run's clock.
    pub(crate) last_end: Option<Nanos>,
    pub(crate) claim: Option<Claim>,
    pub(crate) read_only: bool,
    pub(crate) sampler: Sampler,
    /// CPUs of each target's workers; empty for all.
    pub(crate) cpus: Vec<Vec<usize>>,
    /// The drives before the run.
    pub(crate) before: Vec<Option<Snapshot>>,
    /// What drives warned of during the run: target and text.
    pub(crate) health: Vec<(usize, String)>,
    /// Settings that this run changes, remembered until they are put back.
    pub(crate) settings: Settings,
    /// Simulated I/Os behind the figures of the cell with the fewest, on virtual drives.
    pub(crate) simulated: Option<u64>,
    /// Recordings that are replayed.
    pub(crate) traces: Traces,
}

impl Runner<'_> {
    pub(crate) fn whole(&mut self, plan: &Plan, skip: usize) -> Result<RunEnd, RunError> {
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
        let ended = match self.prepare(&root) {
            Ok(Outcome::Completed) => self.steps(&plan.steps[skip.min(plan.steps.len())..], &root),
            other => other,
        };
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(error) => {
                // Whatever went wrong with the file, the drives are left as they were found.
                let _ = self.restore_settings();
                return Err(error);
            }
        };
        self.histories.flush(&self.beds, unix_ms());
        self.restore_settings()?;
        if outcome != Outcome::Interrupted {
            self.postflight()?;
        }
        if outcome == Outcome::Completed {
            self.judge_simulation()?;
        }
        let (state, message) = match outcome {
            Outcome::Completed if self.worst == Status::Fail => (State::Invalid, None),
            Outcome::Completed => (State::Done, None),
            Outcome::Interrupted => (State::Interrupted, None),
            Outcome::Faulted(fault) => {
                let gone = self.what_is_gone(&fault).unwrap_or_default();
                (State::Failed, Some(format!("{fault}{gone}")))
            }
            Outcome::Failed(message) => (State::Failed, Some(message)),
        };
        if let Some(message) = &message {
            self.event("failed", message)?;
        }
        self.writer.finish(state, unix_ms())?;
        Ok(RunEnd { state, message })
    }

    /// In interval mode the tail of a distribution repeats a limited sample: nobody may take it for more.
    fn judge_simulation(&self) -> Result<(), RunError> {
        let Some(ios) = self.simulated.filter(|ios| *ios > 0 && self.backend.name() == INTERVALS)
        else {
            return Ok(());
        };
        let shown = 100.0 * (1.0 - 1.0 / ios as f64);
        let text = format!(
            "the virtual drive ran in interval mode: the figures repeat {ios} simulated I/Os or more, and \
             percentiles beyond p{shown:.4} show the largest of them; with mode=exact every I/O is simulated"
        );
        let evidence = json!({"simulated_ios": ios});
        Ok(self.writer.verdict(None, "simulation", Status::Info.word(), &text, &evidence)?)
    }

    /// Whether steps at the head need not be done: the ledger says that they were, and nothing since.
    pub(crate) fn reuse(&mut self, options: &RunOptions<'_>) -> Result<usize, RunError> {
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
            let text =
                format!("step {} was done by {from}, and nothing was written since", step.name);
            self.event("reused", &text)?;
            self.observer.on(Progress::Note(&text));
        }
        self.deviate("preconditioning taken over from an earlier run")?;
        Ok(n)
    }

    /// Notes what the plan claims, with every deviation known so far.
    pub(crate) fn set_claim(&mut self) -> Result<(), RunError> {
        if let Some(claim) = &self.claim {
            let text = serde_json::to_string(claim).unwrap_or_default();
            self.writer.set_meta("claim", &text)?;
        }
        Ok(())
    }

    /// The run does not follow the method that the plan claims.
    pub(crate) fn deviate(&mut self, how: &str) -> Result<(), RunError> {
        match &mut self.claim {
            Some(claim) if !claim.deviations.iter().any(|known| known == how) => {
                claim.deviations.push(how.to_owned());
                self.set_claim()
            }
            _ => Ok(()),
        }
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

    /// What repeated cells wrote is on the drives of this host, after all that is told again; a
    /// virtual drive is back before it.
    pub(crate) fn count_superseded(&mut self) {
        for cell in std::mem::take(&mut self.superseded) {
            if !self.is_virtual {
                self.histories.wrote_before_cut(&cell);
            }
        }
    }

    /// What was measured in a part that allows no gap and was cut does not count.
    pub(crate) fn give_up(&mut self, path: &str, why: &str) -> Result<(), RunError> {
        if !self.replay.is_resumed() || self.replay.is_done(path) {
            return Ok(());
        }
        let given_up = self.replay.give_up(path, why, &self.writer)?;
        let cut = self.superseded.iter().any(|cell| is_below(&cell.path, path));
        if !given_up.is_empty() || cut {
            self.event("repeat", &format!("{path}: {why}; it is repeated"))?;
        }
        self.superseded.extend(given_up);
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
        let cell = Cell { loads: vec![layout_load(scratch)], window, until: None, stability: None };
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
            if self.read_only && step.writes() && step.verb.children().is_empty() {
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
            Verb::Set(setting) => self.set(setting, &place("set")),
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
            if point.cell.block_off(unit_of(&self.beds)).is_some() {
                self.not_supported(&point.label, &place.path)?;
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

    /// A cell that cannot run here is left out and said so, never replaced by another.
    fn not_supported(&mut self, label: &str, path: &str) -> Result<(), RunError> {
        let unit = unit_of(&self.beds).0;
        let text = format!("not supported: {label}, the target's unit is {unit} bytes");
        self.deviate(&text)?;
        let first = !path.contains('#') || path.contains("#1/");
        if first && !self.replaying(path) { self.note(&text) } else { Ok(()) }
    }

    fn repeat(&mut self, repeat: &Repeat, place: &Place) -> Result<Outcome, RunError> {
        for round in 0..repeat.discard + repeat.times {
            if round > 0 && repeat.gap.0 > 0 {
                let gap =
                    Place { path: format!("{}#{}/gap", place.path, round + 1), ..place.clone() };
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
        verify: None,
    }
}
