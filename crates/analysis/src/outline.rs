//! How far a run has come: the steps of its plan with their state, and the time still to go.

use base::units::{Bytes, Nanos};
use plan::{Bound, Estimate, Plan, Step, Verb, estimate_step};
use std::ops::Range;

/// Rate taken for amounts before one was seen, in bytes per second.
const ASSUMED_RATE: f64 = 5e8;

/// Time still to go: what the clock gives, and amounts at the rate last seen.
#[derive(Clone, Debug)]
pub struct Eta {
    timed: Nanos,
    amount: Bytes,
    rate_bytes: f64,
    behind: (Nanos, Bytes),
}

impl Eta {
    /// The whole of a plan.
    pub fn new(whole: Estimate) -> Eta {
        Eta {
            timed: whole.timed,
            amount: whole.amount,
            rate_bytes: ASSUMED_RATE,
            behind: (Nanos(0), Bytes(0)),
        }
    }

    /// More to move than the plan said, such as the layout of a scratch file.
    pub fn add_amount(&mut self, amount: Bytes) {
        self.amount.0 += amount.0;
    }

    /// A cell that ends by amount moves this many bytes a second.
    pub fn set_rate(&mut self, bytes_per_s: f64) {
        self.rate_bytes = bytes_per_s.max(1e6);
    }

    /// A cell ended: one with an amount by that, another by its time.
    pub fn ended(&mut self, time: Option<Nanos>, amount: Option<Bytes>) {
        match (time, amount) {
            (_, Some(amount)) => self.behind.1.0 += amount.0,
            (Some(time), None) => self.behind.0.0 += time.0,
            (None, None) => {}
        }
    }

    /// Time still to go when the running cell has gone on for `here` of its time and moved so many of
    /// its bytes.
    pub fn left(&self, here: Nanos, moved: Bytes) -> Nanos {
        let timed = self.timed.0.saturating_sub(self.behind.0.0).saturating_sub(here.0);
        let bytes = self.amount.0.saturating_sub(self.behind.1.0).saturating_sub(moved.0);
        Nanos(timed + Nanos::from_secs_f64(bytes as f64 / self.rate_bytes).0)
    }
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Not reached yet.
    Waiting,
    /// It goes on now.
    Running,
    /// Behind, as far as this round goes.
    Done,
    /// The run ended, or was cut, inside of it.
    Cut,
    /// The run is over and it was not measured: left out, or not reached.
    LeftOut,
}

impl StepState {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            StepState::Waiting => "waiting",
            StepState::Running => "running",
            StepState::Done => "done",
            StepState::Cut => "cut",
            StepState::LeftOut => "left-out",
        }
    }
}

/// A step of the plan, as the run has come to it.
#[derive(Clone, Debug)]
pub struct OutlineStep {
    /// Names from the outermost.
    pub path: String,
    /// Its name.
    pub name: String,
    /// How many steps it lies in.
    pub depth: usize,
    /// The verb.
    pub verb: &'static str,
    /// What it does, in a few words.
    pub describe: String,
    /// Cells of it that ended.
    pub cells: u32,
    /// The round it is in, from 1; 0 for a step without.
    pub round: u32,
    /// Rounds at most; 0 for a step without.
    pub rounds: u32,
    /// One past the last step inside of it.
    end: usize,
    /// Time and amount of one of its cells.
    each: Estimate,
}

/// The steps of a plan in order, and how far a run of it is.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The steps, those inside of another after it.
    pub steps: Vec<OutlineStep>,
    /// With everything steady at the first chance.
    pub least: Eta,
    /// With nothing ever steady.
    pub most: Eta,
    last: Option<usize>,
    running: Option<usize>,
}

impl Outline {
    /// A run of `plan` on targets of `size` that has not begun.
    pub fn new(plan: &Plan, size: Bytes) -> Outline {
        let mut steps = Vec::new();
        add(&mut steps, &plan.steps, "", 0, size);
        Outline {
            steps,
            least: Eta::new(plan::estimate(plan, size)),
            most: Eta::new(plan::estimate_most(plan, size)),
            last: None,
            running: None,
        }
    }

    /// A cell began.
    pub fn began(&mut self, path: &str) {
        if let Some(at) = self.reach(path) {
            self.running = Some(at);
        }
    }

    /// A cell ended.
    pub fn ended(&mut self, path: &str) {
        self.running = None;
        let Some(at) = self.reach(path) else { return };
        let step = &mut self.steps[at];
        step.cells += 1;
        let (time, amount) = (step.each.timed, step.each.amount);
        let amount = (amount.0 > 0).then_some(amount);
        self.least.ended(Some(time), amount);
        self.most.ended(Some(time), amount);
    }

    /// The running cell moves this many bytes a second: what amounts still to come are taken to need.
    pub fn moves(&mut self, bytes_per_s: f64) {
        if self.running.is_some_and(|at| self.steps[at].each.amount.0 > 0) {
            self.least.set_rate(bytes_per_s);
            self.most.set_rate(bytes_per_s);
        }
    }

    /// Time still to go at least and at most.
    pub fn left(&self, here: Nanos, moved: Bytes) -> (Nanos, Nanos) {
        let each = self.running.map(|at| self.steps[at].each).unwrap_or_default();
        let (here, moved) = (here.min(each.timed), moved.min(each.amount));
        let least = self.least.left(here, moved);
        (least, self.most.left(here, moved).max(least))
    }

    /// How each step stands; `running` says whether the run goes on, `whole` whether it ended by itself.
    pub fn states(&self, running: bool, whole: bool) -> Vec<StepState> {
        let leaves: Vec<StepState> =
            (0..self.steps.len()).map(|at| self.leaf(at, running, whole)).collect();
        let of = |at: usize| {
            let inner = at + 1..self.steps[at].end;
            if inner.is_empty() {
                return leaves[at];
            }
            let has = |state| inner.clone().any(|n| self.is_leaf(n) && leaves[n] == state);
            let only = |state| inner.clone().all(|n| !self.is_leaf(n) || leaves[n] == state);
            match () {
                () if has(StepState::Cut) => StepState::Cut,
                () if has(StepState::Running) => StepState::Running,
                () if only(StepState::Waiting) => StepState::Waiting,
                () if only(StepState::LeftOut) => StepState::LeftOut,
                () if has(StepState::Waiting) => StepState::Running,
                () => StepState::Done,
            }
        };
        (0..self.steps.len()).map(of).collect()
    }

    fn is_leaf(&self, at: usize) -> bool {
        self.steps[at].end == at + 1
    }

    fn leaf(&self, at: usize, running: bool, whole: bool) -> StepState {
        let measures = self.steps[at].each.cells > 0;
        let behind =
            self.last.is_some_and(|last| at < last || (at == last && self.running.is_none()));
        match () {
            () if self.running == Some(at) && running => StepState::Running,
            () if self.running == Some(at) => StepState::Cut,
            () if behind && measures && self.steps[at].cells == 0 => StepState::LeftOut,
            () if behind => StepState::Done,
            () if running && self.running.is_none() && self.is_next(at) => StepState::Running,
            () if running => StepState::Waiting,
            () if whole && !measures => StepState::Done,
            () => StepState::LeftOut,
        }
    }

    /// Whether a step is the first after the last that was measured: what a run does between two cells.
    fn is_next(&self, at: usize) -> bool {
        let from = self.last.map_or(0, |last| last + 1);
        (from..self.steps.len()).find(|&n| self.is_leaf(n)) == Some(at)
    }

    /// Moves on to the step of a cell and notes the rounds it lies in. None for a cell that is not in
    /// the plan, such as the layout of a scratch file.
    fn reach(&mut self, path: &str) -> Option<usize> {
        let mut parts = path.split('/');
        let mut inside = 0..self.steps.len();
        let mut found = None;
        while let Some(part) = parts.next() {
            let (name, round) = part.split_once('#').unwrap_or((part, "0"));
            let mut at = inside.start;
            while at < inside.end && self.steps[at].name != name {
                at = self.steps[at].end;
            }
            if at >= inside.end {
                return None;
            }
            self.steps[at].round = round.parse().unwrap_or(0);
            // Below `points` stands the name of the chosen one.
            if self.steps[at].verb == "points" {
                parts.next();
            }
            inside = at + 1..self.steps[at].end;
            found = Some(at);
        }
        if let Some(at) = found {
            self.rested(at);
            self.last = Some(at);
        }
        found
    }

    /// Idle times between the last cell and the one at `to` are behind.
    fn rested(&mut self, to: usize) {
        let Some(from) = self.last else { return self.rest(0..to) };
        if to > from {
            return self.rest(from + 1..to);
        }
        // Once more around: from the last cell to the end of the round, and from its beginning.
        let around = (0..to).rev().find(|&n| self.steps[n].end > from).unwrap_or(to);
        self.rest(from + 1..self.steps[around].end);
        self.rest(around..to);
    }

    fn rest(&mut self, steps: Range<usize>) {
        for at in steps.filter(|&at| self.steps[at].verb == "idle").collect::<Vec<_>>() {
            let time = self.steps[at].each.timed;
            self.least.ended(Some(time), None);
            self.most.ended(Some(time), None);
        }
    }
}

fn add(list: &mut Vec<OutlineStep>, steps: &[Step], above: &str, depth: usize, size: Bytes) {
    for step in steps {
        let path = match above {
            "" => step.name.clone(),
            above => format!("{above}/{}", step.name),
        };
        let whole = estimate_step(step, size, Bound::Least);
        let n = u64::from(whole.cells.max(1));
        let leaf = step.verb.children().is_empty();
        let each = Estimate {
            timed: Nanos(whole.timed.0 / n),
            amount: Bytes(whole.amount.0 / n),
            cells: u32::from(leaf && whole.cells > 0),
            ..Estimate::default()
        };
        let at = list.len();
        list.push(OutlineStep {
            path: path.clone(),
            name: step.name.clone(),
            depth,
            verb: step.verb.word(),
            describe: describe(step, whole),
            cells: 0,
            round: 0,
            rounds: match &step.verb {
                Verb::Rounds(rounds) => rounds.most,
                Verb::Repeat(repeat) => repeat.times + repeat.discard,
                _ => 0,
            },
            end: at + 1,
            each,
        });
        add(list, step.verb.children(), &path, depth + 1, size);
        list[at].end = list.len();
    }
}

fn describe(step: &Step, whole: Estimate) -> String {
    let loads = |cell: &plan::Cell| {
        cell.loads.iter().map(plan::Load::describe).collect::<Vec<_>>().join(" + ")
    };
    match &step.verb {
        Verb::Fill(cell) | Verb::Load(cell) => loads(cell),
        Verb::Sweep(_) | Verb::Curve(_) => format!("{} cells", whole.cells),
        Verb::Idle(time) => base::units::format_span(*time),
        Verb::Purge(purge) => purge.word().to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepState::{Cut, Done, LeftOut, Running, Waiting};

    const PLAN: &str = "
name = \"t\"
[[step]]
name = \"before\"
load = { block = \"4k\", time = \"10s\" }
[[step]]
name = \"rest\"
idle = \"5s\"
[[step]]
name = \"again\"
repeat = 3
[[step.step]]
name = \"a\"
load = { block = \"4k\", time = \"20s\" }
[[step.step]]
name = \"b\"
load = { block = \"8k\", time = \"20s\" }
[[step]]
name = \"after\"
load = { block = \"4k\", time = \"10s\" }
";

    fn outline() -> Outline {
        Outline::new(&plan::parse("t", PLAN, &[]).unwrap(), Bytes(1 << 30))
    }

    #[test]
    fn steps_stand_as_the_run_has_come_to_them() {
        let mut outline = outline();
        let names: Vec<&str> = outline.steps.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(names, ["before", "rest", "again", "again/a", "again/b", "after"]);
        let depths: Vec<usize> = outline.steps.iter().map(|step| step.depth).collect();
        assert_eq!(depths, [0, 0, 0, 1, 1, 0]);
        let waiting = [Running, Waiting, Waiting, Waiting, Waiting, Waiting];
        assert_eq!(outline.states(true, false), waiting, "what comes first is under way");
        outline.began("before");
        assert_eq!(outline.states(true, false)[..2], [Running, Waiting]);
        outline.ended("before");
        assert_eq!(outline.states(true, false)[..3], [Done, Running, Waiting]);
        outline.began("again#1/a");
        outline.ended("again#1/a");
        outline.began("again#1/b");
        outline.ended("again#1/b");
        outline.began("again#2/a");
        assert_eq!(outline.states(true, false), [Done, Done, Running, Running, Waiting, Waiting]);
        assert_eq!((outline.steps[2].round, outline.steps[2].rounds), (2, 3));
        assert_eq!(outline.steps[3].cells, 1);
        // Cut here.
        assert_eq!(outline.states(false, false)[2..], [Cut, Cut, LeftOut, LeftOut]);
        outline.ended("again#2/a");
        outline.began("after");
        outline.ended("after");
        assert_eq!(outline.states(false, true), [Done; 6]);
        // Cells that are not in the plan change nothing.
        outline.began("prepare");
        outline.ended("nowhere/else");
        assert_eq!(outline.states(false, true), [Done; 6]);
    }

    #[test]
    fn amounts_take_their_time_at_the_rate_that_was_seen() {
        let text = "name=\"f\"\n[[step]]\nname=\"fill\"\nfill={ amount=\"2x\" }\n";
        let mut outline = Outline::new(&plan::parse("f", text, &[]).unwrap(), Bytes(1_000_000_000));
        let left = |outline: &Outline, moved: u64| {
            outline.left(Nanos(0), Bytes(moved)).0.as_secs_f64().round()
        };
        assert_eq!(left(&outline, 0), 4.0, "at the assumed rate");
        outline.began("fill");
        outline.moves(1e8);
        assert_eq!((left(&outline, 0), left(&outline, 500_000_000)), (20.0, 15.0));
    }

    #[test]
    fn time_to_go_shrinks_by_what_is_behind() {
        let mut outline = outline();
        let left = |outline: &Outline, here: u64| {
            outline.left(Nanos(here * 1_000_000_000), Bytes(0)).0.as_secs_f64()
        };
        assert_eq!(left(&outline, 0), 145.0);
        outline.began("before");
        assert_eq!(left(&outline, 4), 141.0);
        // A cell that takes longer than planned takes nothing from the others.
        assert_eq!(left(&outline, 40), 135.0);
        outline.ended("before");
        for round in 1..=3 {
            for step in ["a", "b"] {
                outline.began(&format!("again#{round}/{step}"));
                outline.ended(&format!("again#{round}/{step}"));
            }
        }
        assert_eq!(left(&outline, 0), 10.0);
    }
}
