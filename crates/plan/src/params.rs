//! What `--set` may change: declared at the head of a plan, with a default and limits.

use crate::reader::{Context, Table, Value, unknown};
use base::units::{parse_bytes, parse_span};

/// A parameter with the value in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name for `--set name=value`.
    pub name: String,
    /// Value in force, as text.
    pub value: String,
    /// Value when nobody sets it.
    pub default: String,
    /// Kind of its values.
    pub kind: ParamKind,
    /// Least and greatest value, as written; empty when there is no limit.
    pub limits: (String, String),
    /// One line for people.
    pub about: String,
    /// Part of the method that the plan claims to follow: another value is a deviation.
    pub method: bool,
    /// Values that set others: name of the value, then parameter and value.
    pub choices: Vec<(String, Vec<(String, String)>)>,
}

/// Kind of a parameter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A time such as `60s`.
    Time,
    /// A size such as `4k`.
    Size,
    /// A number.
    Number,
    /// A text or a list; has no limits.
    Text,
}

const KINDS: [(&str, ParamKind); 4] = [
    ("time", ParamKind::Time),
    ("size", ParamKind::Size),
    ("number", ParamKind::Number),
    ("text", ParamKind::Text),
];

impl ParamKind {
    /// The kind that a default value suggests.
    fn of(default: &str) -> ParamKind {
        if default.parse::<f64>().is_ok() {
            ParamKind::Number
        } else if parse_span(default).is_ok() {
            ParamKind::Time
        } else if parse_bytes(default).is_ok() {
            ParamKind::Size
        } else {
            ParamKind::Text
        }
    }

    /// A number to compare values of this kind by.
    fn measure(self, text: &str) -> Result<f64, String> {
        match self {
            ParamKind::Time => parse_span(text).map(|t| t.0 as f64).map_err(|e| e.to_string()),
            ParamKind::Size => parse_bytes(text).map(|b| b.0 as f64).map_err(|e| e.to_string()),
            ParamKind::Number => {
                let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
                number.ok_or_else(|| format!("`{text}` is not a number"))
            }
            ParamKind::Text => Ok(0.0),
        }
    }
}

impl Param {
    /// Checks a value against kind and limits.
    fn check(&self, value: &str) -> Result<(), String> {
        if !self.choices.is_empty() && !self.choices.iter().any(|(name, _)| name == value) {
            let known = self.choices.iter().map(|(name, _)| name.as_str());
            return Err(unknown("choice", value, known));
        }
        let measured = self.kind.measure(value)?;
        let (min, max) = &self.limits;
        if !min.is_empty() && measured < self.kind.measure(min)? {
            return Err(format!("{}={value} is below its least value {min}", self.name));
        }
        if !max.is_empty() && measured > self.kind.measure(max)? {
            return Err(format!("{}={value} is above its greatest value {max}", self.name));
        }
        Ok(())
    }
}

/// Reads the `params` table.
pub(crate) fn read_params<'a>(ctx: &'a Context<'a>, value: &Value<'a>) -> Vec<Param> {
    let Some(table) = value.table("params") else {
        return Vec::new();
    };
    let mut params = Vec::new();
    for (name, span, value) in table.in_order() {
        let Some(fields) = value.table("parameter") else {
            continue;
        };
        match read_param(&name, fields) {
            Some(param) => {
                if let Err(message) = param.check(&param.value) {
                    ctx.error(span, message);
                }
                params.push(param);
            }
            None => ctx.error(span, format!("parameter `{name}` needs a `default`")),
        }
    }
    params
}

fn read_param(name: &str, mut fields: Table<'_>) -> Option<Param> {
    let default = fields.take("default").map(|v| v.as_written());
    let kind = fields.take("kind").and_then(|v| v.word(&KINDS));
    let min = fields.take("min").map(|v| v.as_written()).unwrap_or_default();
    let max = fields.take("max").map(|v| v.as_written()).unwrap_or_default();
    let method = fields.take("method").and_then(|v| v.flag()).unwrap_or(false);
    let choices = fields.take("choice").map(|v| read_choices(&v)).unwrap_or_default();
    let about = fields.take("about").and_then(|v| v.text()).unwrap_or_default();
    fields.finish();
    let default = default?;
    let kind = kind.unwrap_or_else(|| ParamKind::of(&default));
    Some(Param {
        name: name.to_owned(),
        value: default.clone(),
        default,
        kind,
        limits: (min, max),
        about,
        method,
        choices,
    })
}

/// `choice.NAME = { parameter = value, ... }`.
fn read_choices(value: &Value<'_>) -> Vec<(String, Vec<(String, String)>)> {
    let Some(table) = value.table("choice") else {
        return Vec::new();
    };
    let sets = |(name, _, value): (String, _, Value<'_>)| {
        let fields = value.table("values").map(|fields| fields.in_order()).unwrap_or_default();
        (name, fields.into_iter().map(|(key, _, value)| (key, value.as_written())).collect())
    };
    table.in_order().into_iter().map(sets).collect()
}

/// The chosen values become the defaults of the parameters they set.
fn apply_choices(params: &mut [Param], settings: &[(String, String)]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let chosen: Vec<(String, String)> = params
        .iter()
        .filter_map(|p| p.choices.iter().find(|(name, _)| *name == p.value))
        .flat_map(|(_, sets)| sets.clone())
        .collect();
    for (name, value) in chosen {
        match params.iter_mut().find(|param| param.name == name) {
            Some(param) => {
                param.default.clone_from(&value);
                if !settings.iter().any(|(set, _)| *set == name) {
                    param.value = value;
                }
            }
            None => mistakes.push(format!("a choice sets the unknown parameter `{name}`")),
        }
    }
    mistakes
}

/// Puts the values of `--set` in force.
pub(crate) fn apply_settings(params: &mut [Param], settings: &[(String, String)]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for (name, value) in settings {
        let known: Vec<String> = params.iter().map(|param| param.name.clone()).collect();
        match params.iter_mut().find(|param| param.name == *name) {
            Some(param) => match param.check(value) {
                Ok(()) => param.value.clone_from(value),
                Err(message) => mistakes.push(format!("--set: {message}")),
            },
            None => {
                let known = known.iter().map(String::as_str);
                mistakes.push(format!("--set: {}", unknown("parameter", name, known)));
            }
        }
    }
    mistakes.extend(apply_choices(params, settings));
    mistakes
}
