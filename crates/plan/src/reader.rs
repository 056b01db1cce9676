//! Reading a TOML tree with positions: typed fields, parameters in place of values, and a message
//! with file, line and column for everything that does not fit.

use crate::params::Param;
use crate::suggest::closest;
use base::units::{Bytes, Nanos, parse_bytes, parse_span};
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One mistake in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Name of the plan file as given.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// All mistakes found in a plan; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanErrors(pub Vec<PlanError>);

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(PlanError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for PlanErrors {}

/// What a reader needs everywhere: the text, the parameters, and where mistakes are gathered.
pub(crate) struct Context<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) params: Vec<Param>,
    pub(crate) errors: RefCell<Vec<PlanError>>,
}

impl Context<'_> {
    /// Notes a mistake at a place in the text.
    pub(crate) fn error(&self, at: Range<usize>, message: impl Into<String>) {
        let start = at.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let error = PlanError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        };
        let mut errors = self.errors.borrow_mut();
        // A value used by several cells of a sweep is wrong once, not once a cell.
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
}

/// A value with its place; a `$name` string stands for the parameter's value.
#[derive(Clone)]
pub(crate) struct Value<'a> {
    pub(crate) ctx: &'a Context<'a>,
    pub(crate) span: Range<usize>,
    pub(crate) raw: Raw<'a>,
}

/// The kinds of value the language uses.
#[derive(Clone)]
pub(crate) enum Raw<'a> {
    Text(String),
    Number(f64),
    Bool(bool),
    List(Vec<Value<'a>>),
    Table(&'a DeTable<'a>),
    Other(&'static str),
}

impl<'a> Value<'a> {
    pub(crate) fn new(ctx: &'a Context<'a>, value: &'a Spanned<DeValue<'a>>) -> Value<'a> {
        let span = value.span();
        let raw = match value.get_ref() {
            DeValue::String(text) => match text.strip_prefix('$') {
                Some(name) => Raw::parameter(ctx, span.clone(), name),
                None => Raw::Text(text.to_string()),
            },
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                i64::from_str_radix(&digits, number.radix())
                    .map_or(Raw::Other("integer out of range"), |n| Raw::Number(n as f64))
            }
            DeValue::Float(number) => number
                .as_str()
                .replace('_', "")
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite())
                .map_or(Raw::Other("number that is not finite"), Raw::Number),
            DeValue::Boolean(value) => Raw::Bool(*value),
            DeValue::Array(items) => {
                Raw::List(items.iter().map(|item| Value::new(ctx, item)).collect())
            }
            DeValue::Table(table) => Raw::Table(table),
            DeValue::Datetime(_) => Raw::Other("date"),
        };
        Value { ctx, span, raw }
    }

    /// Notes a mistake at this value.
    pub(crate) fn error(&self, message: impl Into<String>) {
        self.ctx.error(self.span.clone(), message);
    }

    /// The value as people wrote it, for labels.
    pub(crate) fn as_written(&self) -> String {
        match &self.raw {
            Raw::Text(text) => text.clone(),
            Raw::Number(number) => format!("{number}"),
            Raw::Bool(value) => value.to_string(),
            Raw::List(items) => items.iter().map(Value::as_written).collect::<Vec<_>>().join(","),
            Raw::Table(_) | Raw::Other(_) => "?".into(),
        }
    }

    /// The items of a list; a text is split at commas, another single value is a list of one.
    pub(crate) fn items(&self) -> Vec<Value<'a>> {
        match &self.raw {
            Raw::List(items) => items.clone(),
            Raw::Text(text) if text.contains(',') => {
                let item =
                    |part: &str| Value { raw: Raw::Text(part.trim().into()), ..self.clone() };
                text.split(',').map(item).collect()
            }
            _ => vec![self.clone()],
        }
    }

    /// A number, also written as text (`--set depth=32`).
    pub(crate) fn number(&self) -> Option<f64> {
        let number = match &self.raw {
            Raw::Number(number) => Some(*number),
            Raw::Text(text) => text.trim().trim_end_matches('%').parse().ok(),
            _ => None,
        };
        number.filter(|n| n.is_finite()).or_else(|| self.mismatch("a number"))
    }

    /// A whole number within limits, both included.
    pub(crate) fn count(&self, min: u64, max: u64) -> Option<u64> {
        let number = self.number()?;
        if number.fract() != 0.0 || number < min as f64 || number > max as f64 {
            self.error(format!("{number} must be a whole number from {min} to {max}"));
            return None;
        }
        Some(number as u64)
    }

    /// A number of percent within 0..=`max`, written `70` or `"70%"`.
    pub(crate) fn percent(&self, max: f64) -> Option<f64> {
        let number = self.number()?;
        if !(0.0..=max).contains(&number) {
            self.error(format!("{number} must be from 0 to {max} percent"));
            return None;
        }
        Some(number)
    }

    /// A size.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match &self.raw {
            Raw::Number(n) if *n >= 0.0 && n.fract() == 0.0 => Some(Bytes(*n as u64)),
            Raw::Text(text) => parse_bytes(text).map_err(|e| self.error(e.to_string())).ok(),
            _ => self.mismatch("a size such as \"4k\" or \"1GiB\""),
        }
    }

    /// A time.
    pub(crate) fn span(&self) -> Option<Nanos> {
        match &self.raw {
            Raw::Number(n) if *n >= 0.0 => Some(Nanos::from_secs_f64(*n)),
            Raw::Text(text) => parse_span(text).map_err(|e| self.error(e.to_string())).ok(),
            _ => self.mismatch("a time such as \"60s\" or \"1h30m\""),
        }
    }

    /// A text.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.raw {
            Raw::Text(text) => Some(text.clone()),
            _ => self.mismatch("a text in quotes"),
        }
    }

    /// True or false, also written as text (`--set x=true`).
    pub(crate) fn flag(&self) -> Option<bool> {
        match &self.raw {
            Raw::Bool(value) => Some(*value),
            Raw::Text(text) if text == "true" => Some(true),
            Raw::Text(text) if text == "false" => Some(false),
            _ => self.mismatch("true or false"),
        }
    }

    /// One of several words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known = words.iter().map(|(word, _)| *word);
        self.error(unknown("word", &text, known));
        None
    }

    /// A table of named fields.
    pub(crate) fn table(&self, what: &'static str) -> Option<Table<'a>> {
        match self.raw {
            Raw::Table(table) => Some(Table::new(self.ctx, what, table, self.span.clone())),
            _ => self.mismatch(&format!("a table of {what} fields")),
        }
    }

    fn mismatch<T>(&self, expected: &str) -> Option<T> {
        let found = match &self.raw {
            Raw::Text(text) => format!("the text `{text}`"),
            Raw::Number(number) => format!("the number {number}"),
            Raw::Bool(value) => format!("`{value}`"),
            Raw::List(_) => "a list".into(),
            Raw::Table(_) => "a table".into(),
            Raw::Other(kind) => format!("a {kind}"),
        };
        self.error(format!("expected {expected}, found {found}"));
        None
    }
}

impl<'a> Raw<'a> {
    fn parameter(ctx: &'a Context<'a>, span: Range<usize>, name: &str) -> Raw<'a> {
        match ctx.params.iter().find(|param| param.name == name) {
            Some(param) => match param.value.parse::<f64>() {
                Ok(number) if number.is_finite() => Raw::Number(number),
                _ => Raw::Text(param.value.clone()),
            },
            None => {
                let known = ctx.params.iter().map(|param| param.name.as_str());
                ctx.error(span, unknown("parameter", name, known));
                Raw::Other("unknown parameter")
            }
        }
    }
}

/// "unknown key `x` ..., did you mean `y`?", or the list of what is known.
pub(crate) fn unknown<'k>(
    what: &str,
    found: &str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> String {
    match closest(found, known.clone()) {
        Some(word) => format!("unknown {what} `{found}`, did you mean `{word}`?"),
        None => {
            let list = known.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let list = if list.is_empty() { "none is declared".into() } else { list };
            format!("unknown {what} `{found}`; known: {list}")
        }
    }
}

/// A table whose fields are taken one by one; what is left over at the end is a mistake.
pub(crate) struct Table<'a> {
    pub(crate) ctx: &'a Context<'a>,
    pub(crate) span: Range<usize>,
    what: &'static str,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
    overrides: Vec<(String, Value<'a>)>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        ctx: &'a Context<'a>,
        what: &'static str,
        table: &'a DeTable<'a>,
        span: Range<usize>,
    ) -> Table<'a> {
        Table { ctx, span, what, table, known: Vec::new(), overrides: Vec::new() }
    }

    /// Puts a value in the place of a field: a point on a sweep's axis.
    pub(crate) fn set(&mut self, name: &str, value: Value<'a>) {
        self.overrides.push((name.to_owned(), value));
    }

    /// Takes a field, if it is there.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Value<'a>> {
        self.known.push(name);
        if let Some((_, value)) = self.overrides.iter().find(|(key, _)| key == name) {
            return Some(value.clone());
        }
        self.table.get(name).map(|value| Value::new(self.ctx, value))
    }

    /// Whether a field is there, without taking it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name) || self.overrides.iter().any(|(key, _)| key == name)
    }

    /// All fields in the order they are written.
    pub(crate) fn in_order(&self) -> Vec<(String, Range<usize>, Value<'a>)> {
        let mut fields: Vec<_> = self
            .table
            .iter()
            .map(|(key, value)| {
                (key.get_ref().to_string(), key.span(), Value::new(self.ctx, value))
            })
            .collect();
        fields.sort_by_key(|(_, span, _)| span.start);
        fields
    }

    /// Notes a mistake at the table as a whole.
    pub(crate) fn error(&self, message: impl Into<String>) {
        self.ctx.error(self.span.clone(), message);
    }

    /// Ends the reading: every field that was not taken is a mistake.
    pub(crate) fn finish(self) {
        for (key, _) in self.table.iter() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let message = unknown("key", name, self.known.iter().copied());
                self.ctx.error(key.span(), format!("{message} (in a {})", self.what));
            }
        }
        for (axis, value) in &self.overrides {
            if !self.known.iter().any(|known| known == axis) {
                value.error(unknown("axis", axis, self.known.iter().copied()));
            }
        }
    }
}
