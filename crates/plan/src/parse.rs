//! From TOML to a checked [`Plan`]. Every mistake is gathered, none stops the reading.

mod load;
mod method;
mod step;
#[cfg(test)]
mod tests;

use crate::model::{Claim, Plan, Step, Verb};
use crate::params::{apply_settings, read_params};
use crate::reader::{Context, PlanError, PlanErrors, Table, Value};
use base::units::{Bytes, Nanos};
use std::cell::RefCell;
use toml::de::DeTable;

const NAME_MAX: usize = 64;
const INTERVAL: Nanos = Nanos::SECOND;
const SCRATCH: Bytes = Bytes(1 << 30);

/// Reads and checks a plan. `file` is the name used in messages; `settings` are the `--set` pairs.
///
/// # Errors
/// All mistakes found, each with its place.
pub fn parse(file: &str, text: &str, settings: &[(String, String)]) -> Result<Plan, PlanErrors> {
    parse_nested(file, text, settings, 0)
}

/// As [`parse`], for a plan within plans.
fn parse_nested(
    file: &str,
    text: &str,
    settings: &[(String, String)],
    level: usize,
) -> Result<Plan, PlanErrors> {
    let (tree, syntax) = DeTable::parse_recoverable(text);
    let head = |params| Context { file, text, params, errors: RefCell::new(Vec::new()) };
    let first = head(Vec::new());
    for error in syntax {
        let message = format!("not valid TOML: {}", error.message());
        first.error(error.span().unwrap_or(0..0), message);
    }
    if !first.errors.borrow().is_empty() {
        return Err(PlanErrors(first.errors.into_inner()));
    }
    // Parameters come first: they stand for values everywhere else.
    let params = tree.get_ref().get("params").map(|value| Value::new(&first, value));
    let mut params = params.map(|value| read_params(&first, &value)).unwrap_or_default();
    let mistakes = apply_settings(&mut params, settings);
    let errors = first.errors.into_inner();
    let ctx = Context { errors: RefCell::new(errors), ..head(params) };
    for message in mistakes {
        ctx.errors.borrow_mut().push(PlanError { file: file.into(), line: 1, column: 1, message });
    }
    let plan = read_plan(&ctx, tree.get_ref(), text, level);
    let errors = ctx.errors.take();
    if errors.is_empty() { Ok(plan) } else { Err(PlanErrors(errors)) }
}

fn read_plan<'a>(ctx: &'a Context<'a>, tree: &'a DeTable<'a>, text: &str, level: usize) -> Plan {
    let mut table = Table::new(ctx, "plan", tree, 0..0);
    table.take("params");
    let name = table.take("name").and_then(|v| read_name(&v));
    let title = table.take("title").and_then(|v| v.text()).unwrap_or_default();
    let seed = table.take("seed").and_then(|v| v.count(0, 1 << 53)).unwrap_or(1);
    let interval = table.take("interval").and_then(|v| v.span()).unwrap_or(INTERVAL);
    let scratch = table.take("scratch").and_then(|v| v.bytes()).unwrap_or(SCRATCH);
    let claim = table.take("claim").map(|v| read_claim(&v));
    let steps = table.take("step");
    if name.is_none() {
        table.error("a plan needs a `name`, such as name = \"my-test\"");
    }
    if steps.is_none() {
        table.error("a plan needs at least one [[step]]");
    }
    if !(Nanos(10_000_000)..=Nanos(3_600_000_000_000)).contains(&interval) {
        table.error("`interval` must be from 10ms to 1h");
    }
    if scratch.0 < 1 << 20 {
        table.error("`scratch` must be at least 1MiB");
    }
    table.finish();
    let mut nested = Vec::new();
    let steps = steps.map(|value| step::read_steps(&value, level, &mut nested)).unwrap_or_default();
    let claim = whole_claim(claim, nested, &ctx.params);
    if let Some(late) = steps
        .get(1..)
        .and_then(resizes)
        .or_else(|| steps.first().and_then(|first| resizes(first.verb.children())))
    {
        ctx.error(
            0..0,
            format!("step {late}: `over_provision` makes the drive anew: set it in the first step"),
        );
    }
    Plan {
        name: name.unwrap_or_default(),
        title,
        params: ctx.params.clone(),
        seed,
        interval,
        scratch,
        claim,
        steps,
        source: text.to_owned(),
    }
}

/// The first step that makes the drive anew.
fn resizes(steps: &[Step]) -> Option<&str> {
    steps.iter().find_map(|step| match &step.verb {
        Verb::Set(setting) if setting.over_provision.is_some() => Some(step.name.as_str()),
        verb => resizes(verb.children()),
    })
}

/// `claim = { method = "PTS", standard = "...", unverified = [...] }`.
fn read_claim(value: &Value<'_>) -> Claim {
    let Some(mut fields) = value.table("claim") else {
        return Claim::default();
    };
    let method = fields.take("method").and_then(|v| v.text()).unwrap_or_default();
    let standard = fields.take("standard").and_then(|v| v.text()).unwrap_or_default();
    let unverified = fields.take("unverified").map(|v| v.items()).unwrap_or_default();
    if method.is_empty() || standard.is_empty() {
        fields.error("a claim needs `method` and `standard`");
    }
    fields.finish();
    let unverified = unverified.iter().filter_map(Value::text).collect();
    Claim { method, standard, unverified, deviations: Vec::new() }
}

/// What a plan claims, with the claims of plans in it and the parameters that are not the method's.
fn whole_claim(
    own: Option<Claim>,
    nested: Vec<Claim>,
    params: &[crate::params::Param],
) -> Option<Claim> {
    let mut claim = own?;
    for inner in nested {
        for point in inner.unverified {
            if !claim.unverified.contains(&point) {
                claim.unverified.push(point);
            }
        }
        for deviation in inner.deviations {
            if !claim.deviations.contains(&deviation) {
                claim.deviations.push(deviation);
            }
        }
    }
    for param in params.iter().filter(|param| param.method && param.value != param.default) {
        claim
            .deviations
            .push(format!("{}={} instead of {}", param.name, param.value, param.default));
    }
    Some(claim)
}

/// A name that may stand in a file name and in a path of steps.
fn read_name(value: &Value<'_>) -> Option<String> {
    let name = value.text()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+%".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
        value.error(format!("`{name}` is no name: use letters, digits and - _ . + %, at most 64"));
        return None;
    }
    Some(name)
}
