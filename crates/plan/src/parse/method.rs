//! Verbs of a method: `purge`, `set`, `rounds`, `points`, `plan`, and `until` of a load.

use super::load::read_extent;
use super::read_name;
use super::step::nested_steps;
use crate::builtin::find_builtin;
use crate::method::*;
use crate::model::{Claim, Coordinate, Step};
use crate::placement::Placement;
use crate::reader::{Table, Value, unknown};
use base::units::Nanos;

const PURGES: [(&str, Purge); 5] = [
    ("auto", Purge::Auto),
    ("format", Purge::Format),
    ("sanitize", Purge::Sanitize),
    ("discard", Purge::Discard),
    ("none", Purge::None),
];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];
const WAYS: [(&str, Way); 3] = [("both", Way::Both), ("read", Way::Read), ("write", Way::Write)];
const TAKES: [(&str, Take); 5] = [
    ("depth", Take::Depth),
    ("workers", Take::Workers),
    ("block", Take::Block),
    ("read", Take::Read),
    ("rate", Take::Demand),
];
const ROUNDS_MAX: u64 = 10_000;

pub(super) fn read_purge(table: &mut Table<'_>) -> Option<Purge> {
    table.take("purge")?.word(&PURGES)
}

pub(super) fn read_set(table: &mut Table<'_>) -> Option<Setting> {
    let value = table.take("set")?;
    let mut fields = value.table("set")?;
    let write_cache = fields.take("write_cache").and_then(|v| v.word(&SWITCH));
    let power_state = fields.take("power_state").and_then(|v| v.count(0, 31)).map(|n| n as u8);
    let power_w = fields.take("power").and_then(|v| read_watts(&v));
    let thermal_c = fields.take("thermal").and_then(|v| read_thermal(&v));
    let over_provision = fields.take("over_provision").and_then(|v| read_extent(&v));
    let placement = fields.take("placement").and_then(|v| read_placement(&v));
    fields.finish();
    let setting =
        Setting { write_cache, power_state, power_w, thermal_c, over_provision, placement };
    if setting == Setting::default() {
        value.error(
            "`set` needs what is to be set: write_cache, power_state, power, thermal, \
             over_provision, placement",
        );
    }
    if setting.power_state.is_some() && setting.power_w.is_some() {
        value.error("`power_state` and `power` set the same: leave one out");
    }
    Some(setting)
}

fn read_watts(value: &Value<'_>) -> Option<f64> {
    let text = value.text()?;
    let watts = text.trim().strip_suffix(['W', 'w']).and_then(|n| n.trim().parse::<f64>().ok());
    let sane = watts.filter(|watts| (0.1..=1000.0).contains(watts));
    if sane.is_none() {
        value.error(format!("`{text}`: a power is 0.1 W to 1000 W, such as \"15W\""));
    }
    sane
}

/// `["60C", "70C"]`: throttle lightly, heavily.
fn read_thermal(value: &Value<'_>) -> Option<(u16, u16)> {
    let celsius = |value: &Value<'_>| {
        let text = value.text()?;
        text.trim().strip_suffix(['C', 'c'])?.trim().parse::<u16>().ok().filter(|c| *c <= 150)
    };
    let limits = match value.items().as_slice() {
        [light, heavy] => celsius(light).zip(celsius(heavy)).filter(|(a, b)| a < b),
        _ => None,
    };
    if limits.is_none() {
        value.error("`thermal` is two rising temperatures up to 150C, such as [\"60C\", \"70C\"]");
    }
    limits
}

fn read_placement(value: &Value<'_>) -> Option<Placement> {
    value.text()?.parse().map_err(|error: String| value.error(error)).ok()
}

fn read_figure(value: &Value<'_>) -> Option<Figure> {
    let word = value.text()?;
    let found = Figure::from_word(&word);
    if found.is_none() {
        let known = ["iops", "bandwidth", "mean", "max", "p99", "p99.9", "p99.99", "p99.999"];
        value.error(unknown("figure", &word, known.into_iter()));
    }
    found
}

fn read_rule(fields: &mut Table<'_>) -> SteadyRule {
    let default = SteadyRule::default();
    let percent = |v: Option<Value<'_>>, other| v.and_then(|v| v.percent(1000.0)).unwrap_or(other);
    SteadyRule {
        window: fields
            .take("window")
            .and_then(|v| v.count(3, 1000))
            .map_or(default.window, |n| n as u32),
        range_percent: percent(fields.take("range"), default.range_percent),
        slope_percent: percent(fields.take("slope"), default.slope_percent),
    }
}

/// `{ mix = 0, block = "4k" }`.
fn read_place(value: &Value<'_>) -> Vec<Coordinate> {
    let Some(table) = value.table("coordinates") else {
        return Vec::new();
    };
    let place =
        |(axis, _, value): (String, _, Value<'_>)| Coordinate { axis, value: value.as_written() };
    table.in_order().into_iter().map(place).collect()
}

pub(super) fn read_rounds(table: &mut Table<'_>, level: usize) -> Option<Rounds> {
    let value = table.take("rounds")?;
    let mut fields = value.table("rounds")?;
    let rule = read_rule(&mut fields);
    let most = fields.take("most").and_then(|v| v.count(1, ROUNDS_MAX)).unwrap_or(25) as u32;
    let track = fields.take("track");
    if most < rule.window {
        value.error("`most` rounds must be at least the `window`");
    }
    let Some(track) = track else {
        fields.error("`rounds` needs `track`: what must be steady");
        return None;
    };
    fields.finish();
    let track: Vec<Track> = track.items().iter().filter_map(|item| read_track(item)).collect();
    let Some(children) = table.take("step") else {
        table.error("`rounds` needs child steps: [[step.step]]");
        return None;
    };
    let steps = nested_steps(&children, level + 1);
    for tracked in &track {
        if !has_cell(&steps, &tracked.step, &tracked.at) {
            value.error(format!("`track`: no child step has a cell `{}`", tracked.describe()));
        }
    }
    if track.is_empty() {
        value.error("`track` is empty");
        return None;
    }
    Some(Rounds { most, rule, track, steps })
}

fn read_track(item: &Value<'_>) -> Option<Track> {
    let mut fields = item.table("track")?;
    let step = fields.take("step").and_then(|v| v.text());
    let at = fields.take("at").map(|v| read_place(&v)).unwrap_or_default();
    let figure = fields.take("figure").and_then(|v| read_figure(&v)).unwrap_or(Figure::Iops);
    let way = fields.take("side").and_then(|v| v.word(&WAYS)).unwrap_or(Way::Both);
    if step.is_none() {
        fields.error("a tracked value needs `step`: the name of a child");
    }
    fields.finish();
    Some(Track { step: step?, at, figure, way })
}

/// Whether steps hold a cell of this name and place.
fn has_cell(steps: &[Step], name: &str, at: &[Coordinate]) -> bool {
    use crate::model::Verb;
    let fits = |step: &Step| match &step.verb {
        Verb::Load(_) | Verb::Fill(_) => at.is_empty(),
        Verb::Sweep(sweep) => sweep.cells.iter().any(|cell| cell.coordinates == at),
        _ => false,
    };
    steps.iter().any(|step| step.name == name && fits(step))
}

pub(super) fn read_until(value: &Value<'_>) -> Option<Until> {
    let mut fields = value.table("until")?;
    let rule = read_rule(&mut fields);
    let every = fields.take("every").and_then(|v| v.span());
    let average = fields.take("average").and_then(|v| v.span());
    let figure = fields.take("figure").and_then(|v| read_figure(&v)).unwrap_or(Figure::Iops);
    let way = fields.take("side").and_then(|v| v.word(&WAYS)).unwrap_or(Way::Both);
    let Some(every) = every.filter(|every| every.0 > 0) else {
        fields.error("`until` needs `every`: the time from one value to the next");
        return None;
    };
    fields.finish();
    let average = average.unwrap_or(every);
    if average > every || average == Nanos(0) {
        value.error("`average` must be above zero and at most `every`");
    }
    Some(Until { rule, every, average, figure, way })
}

pub(super) fn read_points(table: &mut Table<'_>, level: usize) -> Option<Points> {
    let value = table.take("points")?;
    let mut fields = value.table("points")?;
    let from = fields.take("from").and_then(|v| v.text());
    let below = fields.take("below").and_then(|v| read_below(&v));
    let picks = fields.take("pick").map(|v| read_picks(&v)).unwrap_or_default();
    let take = fields.take("take").map(|v| v.items()).unwrap_or_default();
    let take = take.iter().filter_map(|v| v.word(&TAKES)).collect();
    let Some(from) = from else {
        fields.error("`points` needs `from`: the path of a sweep, such as \"demand/cells\"");
        return None;
    };
    fields.finish();
    if picks.is_empty() {
        value.error(
            "`points` needs `pick`: a list such as [{ name = \"max\", highest = \"iops\" }]",
        );
    }
    let Some(children) = table.take("step") else {
        table.error("`points` needs child steps: [[step.step]]");
        return None;
    };
    let steps = nested_steps(&children, level + 1);
    Some(Points { from, below, picks, take, steps })
}

/// `{ mean = "5ms" }`.
fn read_below(value: &Value<'_>) -> Option<(Figure, f64)> {
    let fields = value.table("below")?.in_order();
    let [(word, _, limit)] = fields.as_slice() else {
        value.error("`below` has one figure with its limit, such as { mean = \"5ms\" }");
        return None;
    };
    let Some(figure) = Figure::from_word(word) else {
        value.error(format!("`{word}` is no figure"));
        return None;
    };
    let limit = match figure {
        Figure::Iops | Figure::Bandwidth => limit.number()?,
        _ => limit.span()?.0 as f64,
    };
    Some((figure, limit))
}

fn read_picks(value: &Value<'_>) -> Vec<Pick> {
    let picks: Vec<Pick> = value.items().iter().filter_map(read_pick).collect();
    for pick in &picks {
        if let PickRule::Between(_, a, b) = &pick.rule {
            let known = |name: &String| {
                let found = |other: &Pick| other.name == *name && !is_between(other);
                picks.iter().any(found)
            };
            if !known(a) || !known(b) {
                value.error("`between` names two other points that are not between others");
            }
        }
    }
    picks
}

fn is_between(pick: &Pick) -> bool {
    matches!(pick.rule, PickRule::Between(..))
}

fn read_pick(item: &Value<'_>) -> Option<Pick> {
    let mut fields = item.table("pick")?;
    let name = fields.take("name").and_then(|v| read_name(&v));
    let highest = fields.take("highest").and_then(|v| read_figure(&v));
    let at = fields.take("at").map(|v| read_place(&v));
    let between = fields.take("between").map(|v| v.items());
    let figure = fields.take("figure").and_then(|v| read_figure(&v)).unwrap_or(Figure::Iops);
    fields.finish();
    let between = between.map(|items| items.iter().filter_map(Value::text).collect::<Vec<_>>());
    let rule = match (highest, at, between.as_deref()) {
        (Some(figure), None, None) => PickRule::Highest(figure),
        (None, Some(place), None) => PickRule::At(place),
        (None, None, Some([a, b])) => PickRule::Between(figure, a.clone(), b.clone()),
        _ => {
            item.error("a pick has one of `highest`, `at` and `between` (two names)");
            return None;
        }
    };
    if name.is_none() {
        item.error("a pick needs a `name`");
    }
    Some(Pick { name: name?, rule })
}

/// The steps of a built-in plan, with parameters set and steps left out; what it claims goes to the
/// outer plan.
pub(super) fn read_plan_step(table: &mut Table<'_>, level: usize) -> Option<(Vec<Step>, Claim)> {
    let value = table.take("plan")?;
    let name = value.text()?;
    let with = table.take("with").map(|v| read_place(&v)).unwrap_or_default();
    let skip: Vec<String> = table
        .take("skip")
        .map(|v| v.items().iter().filter_map(Value::text).filter(|t| !t.is_empty()).collect())
        .unwrap_or_default();
    if level > 2 {
        value.error("plans within plans are nested too deep");
        return None;
    }
    let Some(found) = find_builtin(&name) else {
        let known = crate::builtin::BUILTIN.iter().map(|plan| plan.name);
        value.error(unknown("plan", &name, known));
        return None;
    };
    let settings: Vec<(String, String)> = with.into_iter().map(|c| (c.axis, c.value)).collect();
    let plan = match super::parse_nested(&name, found.text, &settings, level + 1) {
        Ok(plan) => plan,
        Err(errors) => {
            value.error(errors.to_string());
            return None;
        }
    };
    let mut claim = plan.claim.unwrap_or_default();
    let mut steps = plan.steps;
    for left_out in &skip {
        match drop_step(&mut steps, left_out) {
            0 => value.error(format!("`skip`: plan `{name}` has no step `{left_out}`")),
            _ => claim.deviations.push(format!("step {left_out} of {name} is left out")),
        }
    }
    Some((steps, claim))
}

/// Leaves the steps of a name out, wherever they stand; gives how many there were.
fn drop_step(steps: &mut Vec<Step>, name: &str) -> usize {
    let before = steps.len();
    steps.retain(|step| step.name != name);
    let mut dropped = before - steps.len();
    for children in steps.iter_mut().filter_map(|step| step.verb.children_mut()) {
        dropped += drop_step(children, name);
    }
    dropped
}
