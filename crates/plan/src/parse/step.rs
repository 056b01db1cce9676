//! Steps and their verbs.

use super::load::{read_cell, read_cell_table};
use super::method::*;
use super::read_name;
use crate::load::*;
use crate::model::*;
use crate::reader::{Raw, Table, Value};
use base::units::{Nanos, parse_span};

const CELLS_MAX: usize = 10_000;
const NESTING_MAX: usize = 8;
const VERBS: [&str; 11] = [
    "fill", "load", "sweep", "curve", "repeat", "idle", "purge", "set", "rounds", "points", "plan",
];

const ARRIVALS: [(&str, Arrival); 3] = [
    ("poisson", Arrival::Poisson),
    ("uniform", Arrival::Uniform),
    ("deterministic", Arrival::Deterministic),
];

pub(super) fn arrival(value: &Value<'_>) -> Option<Arrival> {
    value.word(&ARRIVALS)
}

/// Reads the steps of a plan, which is `plans` levels down in plans; names must differ. The claims of
/// plans among them go to `claims`.
pub(super) fn read_steps(value: &Value<'_>, plans: usize, claims: &mut Vec<Claim>) -> Vec<Step> {
    steps_of(value, 0, &mut |table: &mut Table<'_>| {
        let (steps, claim) = read_plan_step(table, plans)?;
        claims.push(claim);
        Some(Verb::Group(steps))
    })
}

/// Reads the children of a step; a whole plan cannot be one of them.
pub(super) fn nested_steps(value: &Value<'_>, level: usize) -> Vec<Step> {
    steps_of(value, level, &mut |table: &mut Table<'_>| {
        table.error("`plan` stands at the top level of a plan only");
        None
    })
}

/// Reads a `plan` step.
type PlanReader<'r> = &'r mut dyn FnMut(&mut Table<'_>) -> Option<Verb>;

fn steps_of(value: &Value<'_>, level: usize, plan: PlanReader<'_>) -> Vec<Step> {
    if level > NESTING_MAX {
        value.error(format!("steps are nested deeper than {NESTING_MAX}"));
        return Vec::new();
    }
    let mut steps: Vec<Step> = Vec::new();
    for (index, item) in value.items().iter().enumerate() {
        let Some(table) = item.table("step") else {
            continue;
        };
        let Some(step) = read_step(table, index, level, &mut *plan) else {
            continue;
        };
        if steps.iter().any(|other| other.name == step.name) {
            item.error(format!("two steps have the name `{}`", step.name));
        }
        steps.push(step);
    }
    steps
}

fn read_step(
    mut table: Table<'_>,
    index: usize,
    level: usize,
    plan: PlanReader<'_>,
) -> Option<Step> {
    let named = table.take("name").and_then(|v| read_name(&v));
    let continuous = table.take("continuous").and_then(|v| v.flag()).unwrap_or(false);
    let reuse = table.take("reuse").and_then(|v| v.flag()).unwrap_or(false);
    let found: Vec<&str> = VERBS.iter().copied().filter(|verb| table.has(verb)).collect();
    let verb = match found.as_slice() {
        ["fill"] => read_fill(&mut table).map(Verb::Fill),
        ["load"] => read_cell(&mut table).map(Verb::Load),
        ["sweep"] => read_sweep(&mut table).map(Verb::Sweep),
        ["curve"] => read_curve(&mut table).map(Verb::Curve),
        ["repeat"] => read_repeat(&mut table, level).map(Verb::Repeat),
        ["purge"] => read_purge(&mut table).map(Verb::Purge),
        ["set"] => read_set(&mut table).map(Verb::Set),
        ["rounds"] => read_rounds(&mut table, level).map(Verb::Rounds),
        ["points"] => read_points(&mut table, level).map(Verb::Points),
        ["plan"] => plan(&mut table),
        ["idle"] => table.take("idle").and_then(|v| v.span()).map(Verb::Idle),
        [] => {
            table.error(format!("a step needs a verb: one of {}", VERBS.join(", ")));
            None
        }
        several => {
            table.error(format!("a step has one verb, this one has {}", several.join(" and ")));
            None
        }
    };
    let name = named.unwrap_or_else(|| match found.first() {
        Some(verb) => format!("{}-{verb}", index + 1),
        None => format!("{}", index + 1),
    });
    // Also the keys of the other verbs are known here, so that only real slips are reported.
    for verb in VERBS
        .iter()
        .chain(["step", "time", "ramp", "amount", "until", "stability", "with", "skip"].iter())
    {
        table.take(verb);
    }
    table.finish();
    Some(Step { name, continuous, reuse, verb: verb? })
}

/// A fill is a load that writes; sequential, large and once over the target unless it says else.
fn read_fill(table: &mut Table<'_>) -> Option<Cell> {
    let value = table.take("fill")?;
    let fields = value.table("fill")?;
    read_cell_table(fields, &value, true)
}

fn read_sweep(table: &mut Table<'_>) -> Option<Sweep> {
    let value = table.take("sweep")?;
    let mut fields = value.table("sweep")?;
    let over = fields.take("over");
    let load = fields.take("load");
    let stop_gain_percent = fields.take("stop_gain").and_then(|v| v.percent(1000.0));
    let (Some(over), Some(load)) = (over, load) else {
        fields.error("a sweep needs `over` (its axes) and `load`");
        return None;
    };
    fields.finish();
    let axes = over.table("axes")?.in_order();
    let mut points: Vec<Vec<(String, Value<'_>)>> = vec![Vec::new()];
    for (axis, _, values) in &axes {
        let items = values.items();
        if points.len() * items.len() > CELLS_MAX {
            over.error(format!("this sweep has more than {CELLS_MAX} cells"));
            return None;
        }
        let mut grown = Vec::with_capacity(points.len() * items.len());
        for point in &points {
            for item in &items {
                let mut next = point.clone();
                next.push((axis.clone(), item.clone()));
                grown.push(next);
            }
        }
        points = grown;
    }
    if axes.is_empty() || points.is_empty() {
        over.error("a sweep needs at least one axis with at least one value");
        return None;
    }
    let cells = points.into_iter().map(|point| sweep_cell(point, &load)).collect::<Option<_>>()?;
    let axes = axes.into_iter().map(|(axis, ..)| axis).collect();
    Some(Sweep { axes, cells, stop_gain_percent })
}

fn sweep_cell(point: Vec<(String, Value<'_>)>, load: &Value<'_>) -> Option<SweepCell> {
    let mut fields = load.table("load")?;
    let mut coordinates = Vec::new();
    for (axis, value) in point {
        let axis_value = Coordinate { axis: axis.clone(), value: value.as_written() };
        coordinates.push(axis_value);
        fields.set(&axis, value);
    }
    let cell = read_cell_table(fields, load, false)?;
    let label =
        coordinates.iter().map(|c| format!("{}={}", c.axis, c.value)).collect::<Vec<_>>().join(" ");
    Some(SweepCell { label, coordinates, cell })
}

fn read_curve(table: &mut Table<'_>) -> Option<Curve> {
    let value = table.take("curve")?;
    let mut fields = value.table("curve")?;
    let load = fields.take("load");
    let percents = fields.take("percents");
    let arrival = fields.take("arrival").and_then(|v| arrival(&v)).unwrap_or(Arrival::Poisson);
    let depth = fields.take("depth").and_then(|v| v.count(1, u64::from(DEPTH_MAX)));
    let (Some(load), Some(percents)) = (load, percents) else {
        fields.error("a curve needs `load` (which finds the maximum) and `percents`");
        return None;
    };
    let cell = match load.raw {
        // Several side by side, with `time` and `ramp` in the curve.
        Raw::List(_) => read_cell(&mut fields)?,
        _ => read_cell_table(load.table("load")?, &load, false)?,
    };
    let rates = fields
        .take("rates")
        .and_then(|v| v.word(&[("exact", Rates::Exact), ("vdbench", Rates::Vdbench)]));
    let stop = fields.take("stop").and_then(|v| v.span()).filter(|stop| stop.0 > 0);
    let search = read_search(&mut fields);
    fields.finish();
    let points: Vec<f64> =
        percents.items().iter().filter_map(|v| v.percent(1000.0).filter(|&p| p > 0.0)).collect();
    if points.is_empty() {
        percents.error("a curve needs at least one point above 0 percent");
        return None;
    }
    if cell.loads.iter().any(|load| load.demand != Demand::Closed) {
        load.error("the load of a curve finds the maximum: it cannot have a `rate`");
    }
    let depth = depth.map_or_else(
        || cell.loads.iter().map(|load| load.depth).max().unwrap_or(1).max(256),
        |d| d as u32,
    );
    let rates = rates.unwrap_or_default();
    Some(Curve { cell, percents: points, arrival, depth, rates, stop, search })
}

/// `limit = "p99 <= 500us"`, with `repeats` and `tolerance`.
fn read_search(fields: &mut Table<'_>) -> Option<Search> {
    let limit = fields.take("limit");
    let repeats = fields.take("repeats").and_then(|v| v.count(1, 1000));
    let tolerance = fields.take("tolerance").and_then(|v| v.percent(50.0));
    let Some(value) = limit else {
        if repeats.is_some() || tolerance.is_some() {
            fields.error("`repeats` and `tolerance` are of a search: give it a `limit`");
        }
        return None;
    };
    let text = value.text()?;
    let parse = || {
        let (figure, limit) = text.split_once("<=")?;
        let percent: f64 = figure.trim().strip_prefix('p')?.parse().ok()?;
        let limit = parse_span(limit.trim()).ok()?;
        (percent > 0.0 && percent < 100.0 && limit.0 > 0).then_some((percent, limit))
    };
    let Some((percent, limit)) = parse() else {
        value.error(format!("`{text}` is no limit such as \"p99 <= 500us\""));
        return None;
    };
    Some(Search {
        percent,
        limit,
        repeats: repeats.unwrap_or(3) as u32,
        tolerance: tolerance.unwrap_or(2.0).max(0.01),
    })
}

fn read_repeat(table: &mut Table<'_>, level: usize) -> Option<Repeat> {
    let value = table.take("repeat")?;
    let (times, gap, discard) = match value.raw {
        Raw::Table(_) => {
            let mut fields = value.table("repeat")?;
            let times = fields.take("times").and_then(|v| v.count(1, 100_000));
            let gap = fields.take("gap").and_then(|v| v.span()).unwrap_or(Nanos(0));
            if times.is_none() {
                fields.error("`repeat` needs `times`");
            }
            let discard = fields.take("discard").and_then(|v| v.count(0, 1000)).unwrap_or(0);
            fields.finish();
            (times?, gap, discard as u32)
        }
        _ => (value.count(1, 100_000)?, Nanos(0), 0),
    };
    let Some(children) = table.take("step") else {
        table.error("`repeat` needs child steps: [[step.step]]");
        return None;
    };
    let steps = nested_steps(&children, level + 1);
    Some(Repeat { times: times as u32, discard, gap, steps })
}
