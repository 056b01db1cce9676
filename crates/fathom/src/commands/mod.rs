//! One file a command.

pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod export;
pub(crate) mod fio;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod placement;
pub(crate) mod plans;
pub(crate) mod report;
pub(crate) mod resolution;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod trace;
pub(crate) mod verify;
pub(crate) mod whatif;

use crate::exit::usage;
use plan::{BUILTIN, Plan, closest, find_builtin};

/// Finds, reads and checks a plan by built-in name or file.
pub(crate) fn load_plan(name: &str, settings: &[String]) -> anyhow::Result<Plan> {
    let settings = parse_settings(settings)?;
    if let Some(builtin) = find_builtin(name) {
        return Ok(plan::parse(name, builtin.text, &settings)?);
    }
    let is_file = name.contains(['/', '.']);
    if import::is_meant(name) {
        return import::plan(name, &settings).map(|found| found.0);
    }
    if !is_file {
        let known = BUILTIN.iter().map(|plan| plan.name);
        let hint = match closest(name, known) {
            Some(plan) => format!("did you mean `{plan}`?"),
            None => "`fathom plans` lists them; a plan file ends in .toml".into(),
        };
        return Err(usage(format!("no built-in plan `{name}`; {hint}")));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| usage(format!("{name}: the plan cannot be read: {error}")))?;
    Ok(plan::parse(name, &text, &settings)?)
}

pub(crate) fn parse_settings(settings: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().into(), value.trim().into())),
        _ => Err(usage(format!("--set {text}: write it as --set name=value"))),
    };
    settings.iter().map(pair).collect()
}
