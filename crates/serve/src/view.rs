//! A run as its viewers see it: built from what the run file gained, told in whole or in changes.

use crate::course::{COLUMNS, Course};
use analysis::{Moment, Outline, StepState, summarize, summarize_counts};
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos, format_span};
use report::{cell_line, interval_line};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use store::{CellRecord, Mark, News, RunFile, State, StoreError, news};

/// Cells, events and verdicts that a new viewer gets: the last ones.
const LAST: usize = 500;

/// Rows that are read at once: a run of days is shown from the first look on, and grows.
const ROWS_MAX: usize = 40_000;

/// The running cell.
#[derive(Clone, Debug, Default)]
struct Running {
    total: StreamSample,
    len: Nanos,
    cpu: CpuUse,
    /// Time and bytes with the ramp, for the time still to go.
    gone: Nanos,
    moved: u64,
    /// The last interval, all streams together.
    last: Option<(StreamSample, Nanos, CpuUse, Moment)>,
}

/// A run, as far as it was read.
pub(crate) struct View {
    mark: Mark,
    head: Value,
    outline: Option<Outline>,
    pub(crate) state: Option<State>,
    /// More is in the file than was read.
    pub(crate) behind: bool,
    running: BTreeMap<i64, Running>,
    current: Option<(i64, Value)>,
    pub(crate) course: Course,
    cells: Vec<Value>,
    events: Vec<Value>,
    /// Time of the first event: a run's clock counts from the start of the machine.
    zero: Option<Nanos>,
    verdicts: Vec<Value>,
    /// How much of each list viewers have.
    told: Told,
    /// Figures for Prometheus.
    pub(crate) gauges: Gauges,
}

#[derive(Clone, Copy, Default)]
struct Told {
    cells: usize,
    events: usize,
    verdicts: usize,
}

/// The last interval and the counts of the run so far, for a monitoring system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) iops: f64,
    pub(crate) bandwidth_bytes: f64,
    /// p50, p99, p99.9 and p99.99 of the last interval, ns.
    pub(crate) percentiles_ns: [f64; 4],
    pub(crate) max_ns: f64,
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) cells: usize,
    pub(crate) left_s: Option<f64>,
}

impl View {
    /// A run that nothing was read of.
    pub(crate) fn new(name: &str, path: &Path) -> Result<View, StoreError> {
        let run = RunFile::open_head(path)?;
        Ok(View {
            mark: Mark::default(),
            head: head_of(name, &run),
            outline: outline_of(&run),
            state: None,
            behind: false,
            running: BTreeMap::new(),
            current: None,
            course: Course::new(),
            cells: Vec::new(),
            events: Vec::new(),
            zero: None,
            verdicts: Vec::new(),
            told: Told::default(),
            gauges: Gauges::default(),
        })
    }

    /// Reads what is new; gives the change for those who watch, none when there is none.
    pub(crate) fn read_on(&mut self, path: &Path) -> Result<Option<Value>, StoreError> {
        let mut mark = self.mark.clone();
        let first = mark == Mark::default();
        let before = self.state;
        let (course, running, gauges) = (&mut self.course, &mut self.running, &mut self.gauges);
        let found = news(path, &mut mark, ROWS_MAX, |cell, sample| {
            take(course, running.entry(cell).or_default(), gauges, sample);
        })?;
        self.mark = mark;
        let before = (before, std::mem::replace(&mut self.behind, found.more));
        if found.anew && !first {
            // It goes on: cells of before may be repeated now.
            (self.cells, self.events, self.verdicts) = Default::default();
            (self.told, self.current, self.gauges.cells) = (Told::default(), None, 0);
            self.outline = outline_of(&RunFile::open_head(path)?);
        }
        let quiet = found.cells.is_empty() && found.events.is_empty() && found.verdicts.is_empty();
        self.state = Some(found.state);
        let anew = found.anew;
        self.add(found);
        if quiet && !self.course.has_changed() && before == (self.state, self.behind) {
            return Ok(None);
        }
        let change = self.tell(anew);
        self.course.seen();
        self.told = Told {
            cells: self.cells.len(),
            events: self.events.len(),
            verdicts: self.verdicts.len(),
        };
        Ok(Some(change))
    }

    fn add(&mut self, found: News) {
        for cell in found.cells {
            let name = match cell.label.as_str() {
                "" => cell.path.clone(),
                label => format!("{} {label}", cell.path),
            };
            if cell.status == "running" {
                if self.current.as_ref().is_none_or(|(id, _)| *id != cell.id)
                    && let Some(outline) = &mut self.outline
                {
                    outline.began(&cell.path);
                }
                let describe = describe(&cell);
                let head = json!({ "name": name, "path": cell.path, "describe": describe });
                self.current = Some((cell.id, head));
                continue;
            }
            self.running.remove(&cell.id);
            if self.current.as_ref().is_some_and(|(id, _)| *id == cell.id) {
                self.current = None;
            }
            if let Some(outline) = self.outline.as_mut().filter(|_| cell.status == "done") {
                outline.ended(&cell.path);
            }
            self.gauges.cells += 1;
            self.cells.push(cell_json(&cell, &name));
        }
        if let Some(first) = found.events.first() {
            self.zero.get_or_insert(first.at);
        }
        let zero = self.zero.unwrap_or_default().as_secs_f64();
        self.events.extend(found.events.into_iter().map(|event| {
            let at_s = event.at.as_secs_f64() - zero;
            json!({ "at_s": at_s, "kind": event.kind, "text": event.text })
        }));
        self.verdicts.extend(found.verdicts.into_iter().map(
            |v| json!({ "cell": v.cell, "name": v.name, "status": v.status, "text": v.text }),
        ));
        // What was read of cells that are over is in their totals.
        let current = self.current.as_ref().map(|(id, _)| *id);
        self.running.retain(|id, _| Some(*id) == current);
        let rate = self.running.values().next().and_then(|r| Some(r.last.as_ref()?.3.bandwidth));
        if let (Some(outline), Some(rate)) = (&mut self.outline, rate) {
            outline.moves(rate);
        }
    }

    /// The run as a whole, for a new viewer.
    pub(crate) fn whole(&self) -> Value {
        let mut all = self.tell(true);
        all["course"] = self.course.as_json(true);
        all
    }

    /// What changed; lists are told from the beginning when `anew`.
    fn tell(&self, anew: bool) -> Value {
        let told = if anew { Told::default() } else { self.told };
        let mut all = Map::new();
        let state = self.state.unwrap_or(State::CutOff);
        if anew {
            all.insert("anew".into(), true.into());
            all.insert("head".into(), self.head.clone());
            all.insert("columns".into(), json!(COLUMNS));
        }
        all.insert("state".into(), state.word().into());
        all.insert("behind".into(), self.behind.into());
        all.insert("state_line".into(), report::state_line(state).into());
        let totals = [self.cells.len(), self.events.len(), self.verdicts.len()];
        all.insert("totals".into(), json!(totals));
        if let Some(outline) = &self.outline {
            all.insert("outline".into(), outline_json(outline, state, anew));
        }
        if state == State::Running {
            all.insert("left".into(), self.left());
        }
        all.insert("now".into(), self.now());
        all.insert("course".into(), self.course.as_json(anew));
        let last = |list: &[Value], from: usize| -> Value {
            list[from.max(list.len().saturating_sub(LAST))..].to_vec().into()
        };
        for (name, list, from) in [
            ("cells", &self.cells, told.cells),
            ("events", &self.events, told.events),
            ("verdicts", &self.verdicts, told.verdicts),
        ] {
            if anew || from < list.len() {
                all.insert(name.into(), last(list, from));
            }
        }
        all.into()
    }

    fn running_cell(&self) -> Option<(&Value, &Running)> {
        let (id, head) = self.current.as_ref()?;
        Some((head, self.running.get(id)?))
    }

    /// The running cell with its last interval and its figures so far.
    fn now(&self) -> Value {
        let Some((head, running)) = self.running_cell() else {
            return self.current.as_ref().map_or(Value::Null, |(_, head)| head.clone());
        };
        let mut now = head.clone();
        if let Some((sum, len, cpu, moment)) = &running.last {
            now["line"] = interval_line(&summarize_counts(sum, *len, *cpu)).into();
            let [p50, p99, _, p9999, _] = moment.percentiles_ns;
            now["interval"] = json!({
                "seconds": moment.seconds, "ramp": moment.ramp, "iops": moment.iops,
                "bandwidth_bytes": moment.bandwidth, "mean_ns": moment.mean_ns, "p50_ns": p50,
                "p99_ns": p99, "p99.99_ns": p9999, "max_ns": moment.max_ns, "cpu": moment.cpu,
            });
        }
        if running.len.0 > 0 {
            let so_far = summarize_counts(&running.total, running.len, running.cpu);
            now["so_far"] = cell_line("", &so_far).trim_start_matches(": ").into();
            now["seconds"] = running.len.as_secs_f64().into();
        }
        now
    }

    fn left_time(&self) -> Option<(Nanos, Nanos)> {
        let (here, moved) = match self.running_cell() {
            Some((_, running)) => (running.gone, Bytes(running.moved)),
            None => (Nanos(0), Bytes(0)),
        };
        Some(self.outline.as_ref()?.left(here, moved))
    }

    fn left(&self) -> Value {
        let Some((least, most)) = self.left_time() else { return Value::Null };
        let mut text = format!("{} to go", format_span(least));
        if most.0 > least.0 + 1_000_000_000 {
            text += &format!(" if steady at the first chance, {} at most", format_span(most));
        }
        json!({ "least_s": least.as_secs_f64(), "most_s": most.as_secs_f64(), "text": text })
    }

    /// The figures for a monitoring system.
    pub(crate) fn gauges(&self) -> Gauges {
        let left_s = self.left_time().map(|(least, _)| least.as_secs_f64());
        Gauges { left_s, ..self.gauges.clone() }
    }

    /// Name of the plan and of the first target, for labels.
    pub(crate) fn labels(&self) -> (String, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&self.head["plan"]), text(&self.head["targets"][0]["name"]))
    }
}

fn take(course: &mut Course, running: &mut Running, gauges: &mut Gauges, sample: IntervalSample) {
    let mut sum = StreamSample::default();
    sample.streams.iter().for_each(|stream| sum.merge(stream));
    let (len, cpu, ramp) = (sample.len, sample.cpu, sample.ramp);
    running.gone.0 += len.0;
    running.moved += sum.bytes();
    if !ramp {
        running.total.merge(&sum);
        running.len.0 += len.0;
        running.cpu.merge(cpu);
    }
    gauges.ios += sum.ios();
    gauges.bytes += sum.bytes();
    gauges.errors += sum.reads.errors + sum.writes.errors;
    let one = IntervalSample { streams: vec![sum.clone()], ..sample };
    let (moment, _) = Moment::of(one);
    let [p50, p99, p999, p9999, _] = moment.percentiles_ns;
    gauges.percentiles_ns = [p50, p99, p999, p9999];
    (gauges.iops, gauges.bandwidth_bytes) = (moment.iops, moment.bandwidth);
    gauges.max_ns = moment.max_ns;
    course.add(&moment);
    running.last = Some((sum, len, cpu, moment));
}

fn describe(cell: &CellRecord) -> String {
    let mut all: Vec<&str> = cell.streams.iter().map(|stream| stream.describe.as_str()).collect();
    all.dedup();
    all.join(" + ")
}

fn cell_json(cell: &CellRecord, name: &str) -> Value {
    let summary = summarize(cell);
    let hist = analysis::felt(&cell.merged());
    json!({
        "id": cell.id, "name": name, "describe": describe(cell), "status": cell.status,
        "counted": cell.counted, "message": cell.message, "line": cell_line(name, &summary),
        "seconds": summary.seconds, "iops": summary.iops,
        "bandwidth_bytes": summary.bandwidth_bytes, "mean_ns": hist.mean_ns(),
        "p50_ns": hist.percentile_ns(50.0), "p99_ns": hist.percentile_ns(99.0),
        "p99.99_ns": hist.percentile_ns(99.99), "max_ns": hist.max_ns(),
    })
}

fn outline_json(outline: &Outline, state: State, anew: bool) -> Value {
    let whole = matches!(state, State::Done | State::Invalid);
    let states: Vec<StepState> = outline.states(state == State::Running, whole);
    let step = |(step, state): (&analysis::OutlineStep, &StepState)| {
        let mut all = json!({ "state": state.word(), "cells": step.cells, "round": step.round });
        if anew {
            all["name"] = step.name.clone().into();
            all["path"] = step.path.clone().into();
            all["verb"] = step.verb.into();
            all["describe"] = step.describe.clone().into();
            all["depth"] = step.depth.into();
            all["rounds"] = step.rounds.into();
        }
        all
    };
    outline.steps.iter().zip(&states).map(step).collect::<Vec<_>>().into()
}

/// What is known of a run from its head.
pub(crate) fn head_of(name: &str, run: &RunFile) -> Value {
    let targets: Vec<Value> = run
        .targets
        .iter()
        .map(|target| {
            json!({
                "name": target["name"], "model": target["facts"]["model"],
                "serial": target["facts"]["serial"], "size_bytes": target["size_bytes"],
                "kind": target["kind"],
            })
        })
        .collect();
    json!({
        "name": name, "plan": run.meta("plan_name"), "title": run.meta("plan_title"),
        "targets": targets, "read_only": run.meta("read_only") == "true",
        "started_unix_ms": run.meta("started_unix_ms").parse::<u64>().unwrap_or(0),
        "interval_ns": run.meta("interval_ns").parse::<u64>().unwrap_or(0),
        "engine": run.meta("engine"), "version": run.meta("fathom_version"),
    })
}

/// The plan of a run, as it was run.
pub(crate) fn plan_of(run: &RunFile) -> Option<plan::Plan> {
    let settings: Vec<(String, String)> =
        serde_json::from_str::<BTreeMap<String, String>>(run.meta("settings"))
            .unwrap_or_default()
            .into_iter()
            .collect();
    plan::parse(run.meta("plan_name"), run.meta("plan_source"), &settings).ok()
}

fn outline_of(run: &RunFile) -> Option<Outline> {
    let size = run.targets.iter().filter_map(|target| target["size_bytes"].as_u64()).max()?;
    Some(Outline::new(&plan_of(run)?, Bytes(size)))
}
