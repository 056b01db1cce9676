//! A run definition: its loops, its rate, its times; each combination is a step.

use super::load::{Settings, loads};
use super::objects::{Object, Objects, is_time};
use super::syntax::Item;
use super::value::{number, numbers, select};
use crate::import::told::Told;
use crate::import::word;
use std::fmt::Write as _;

/// Steps of a run at most.
const STEPS_MAX: usize = 500;
/// Points of a curve when none are given.
const CURVE: [f64; 6] = [10.0, 50.0, 70.0, 80.0, 90.0, 100.0];

/// The rate of a run.
enum Rate {
    Max,
    Iops(Vec<f64>),
    Curve(Vec<f64>),
}

/// Writes the steps of a run.
pub(super) fn steps(
    out: &mut String,
    run: &Object,
    objects: &Objects,
    (targets, names): (&[String], &mut Vec<String>),
    told: &mut Told,
) {
    refuse(run, told);
    let Some(chosen) = workloads(run, objects, told) else { return };
    let rate = rate(run, told);
    let loops = loops(run, told);
    let arrival = arrival(run, told);
    for settings in combinations(&loops) {
        if names.len() >= STEPS_MAX {
            return told.refuse(run, format!("more than {STEPS_MAX} steps"));
        }
        let rates: Vec<Option<f64>> = match &rate {
            Rate::Iops(all) => all.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for wanted in &rates {
            let suffix: Vec<String> = settings
                .iter()
                .filter(|(key, _)| loops.iter().any(|(name, all)| name == key && all.len() > 1))
                .map(|(key, value)| format!("{}{}", key.trim_start_matches("for"), value))
                .chain(wanted.filter(|_| rates.len() > 1).map(|rate| format!("iorate{rate}")))
                .collect();
            let name = unique(&run.name, &suffix, names);
            let all = Settings { run, values: &settings, iorate: *wanted, arrival };
            let Some(loads) = loads(&chosen, objects, &all, targets, told) else { return };
            write(out, run, &name, (&rate, &loads, arrival), told);
            names.push(name);
        }
    }
}

fn unique(run: &str, suffix: &[String], names: &[String]) -> String {
    let parts: Vec<&str> = std::iter::once(run).chain(suffix.iter().map(String::as_str)).collect();
    let name = word(&parts.join("-"), 80);
    if name.is_empty() || names.contains(&name) {
        return format!("{name}-{}", names.len() + 1);
    }
    name
}

fn write(
    out: &mut String,
    run: &Object,
    name: &str,
    (rate, loads, arrival): (&Rate, &[String], &str),
    told: &mut Told,
) {
    if let Some(pause) = run.number("pause").filter(|s| *s > 0.0) {
        let _ = write!(out, "\n[[step]]\nname = \"{name}-pause\"\nidle = \"{pause}s\"\n");
    }
    let elapsed = run.number("elapsed").unwrap_or(30.0);
    let interval = run.number("interval").filter(|s| *s > 0.0).unwrap_or(1.0);
    // Without a warm-up VDBench leaves the first interval out.
    let ramp = run.number("warmup").unwrap_or(interval);
    let _ = write!(out, "\n[[step]]\nname = \"{name}\"\n");
    let head = match rate {
        Rate::Curve(points) => {
            told.note(
                run,
                "the points of a curve arrive at their rate whatever the drive does, and response time \
                 counts from the arrival; VDBench does not count the wait before a thread is free",
            );
            let points: Vec<String> = points.iter().map(f64::to_string).collect();
            let _ = write!(
                out,
                "[step.curve]\npercents = [{}]\nrates = \"vdbench\"\narrival = \"{arrival}\"\n",
                points.join(", ")
            );
            if let Some(stop) = run.number("stopcurve").filter(|stop| *stop > 0.0) {
                let _ = writeln!(out, "stop = \"{stop}ms\"");
            }
            "step.curve.load"
        }
        _ => "step.load",
    };
    let _ = write!(out, "time = \"{elapsed}s\"\nramp = \"{ramp}s\"\n");
    for load in loads {
        let _ = write!(out, "\n[[{head}]]\n{load}\n");
    }
}

/// What would not be the same without it, and what is left out.
fn refuse(run: &Object, told: &mut Told) {
    for item in &run.options {
        match item.key.as_str() {
            "fsd" | "fwd" | "fwdrate" | "operations" | "format" | "mount" => {
                told.refuse(item, format!("{}: file-system workloads are not measured", item.key));
            }
            "replay" => told.refuse(
                item,
                "replay: Swat recordings cannot be read; others replay with fathom run FILE",
            ),
            "startcmd" | "endcmd" => told.note(item, format!("{}: commands are not run", item.key)),
            "stopcurve" => {
                told.note(item, "stopcurve: it ends the curve; in VDBench the whole execution")
            }
            "maxdata" | "maxdataread" | "maxdatawritten" => {
                told.note(item, format!("{}: the run goes on for its whole time", item.key));
            }
            "interval" => told.free(item, "interval: every second is in the run file"),
            _ => {}
        }
    }
}

fn rate(run: &Object, told: &mut Told) -> Rate {
    let curve = run.option("curve").and_then(|item| numbers(&item.values, false));
    let Some(item) = run.option("iorate") else {
        // A run without a rate runs as fast as it can.
        return curve.map_or(Rate::Max, Rate::Curve);
    };
    match item.values.first().map(|value| value.to_ascii_lowercase()).as_deref() {
        Some("max") => Rate::Max,
        Some("curve") => Rate::Curve(curve.unwrap_or_else(|| CURVE.to_vec())),
        _ => match numbers(&item.values, false).filter(|all| all.iter().all(|rate| *rate > 0.0)) {
            Some(all) => Rate::Iops(all),
            None => {
                told.refuse(item, "iorate: expected a number, a list, max or curve");
                Rate::Max
            }
        },
    }
}

fn arrival(run: &Object, told: &mut Told) -> &'static str {
    let Some(item) = run.option("distribution") else { return "poisson" };
    let words: Vec<&str> = item.values.iter().map(String::as_str).collect();
    if words.len() > 1 {
        told.refuse(item, "distribution: variable rates and spikes are not there");
    }
    match words.first().copied().unwrap_or_default() {
        word if word.starts_with('u') => "uniform",
        word if word.starts_with('d') => "deterministic",
        _ => "poisson",
    }
}

/// The loops of a run in the order in which they stand, the first outermost.
type Loops = Vec<(String, Vec<String>)>;

fn loops(run: &Object, told: &mut Told) -> Loops {
    let mut all: Loops = Vec::new();
    for item in run.options.iter().filter(|item| item.key.starts_with("for")) {
        let values = match numbers(&item.values, is_time(&item.key)) {
            // A distribution of sizes is one value.
            _ if item.key == "forxfersize" && is_mix(item) => vec![item.values.join(",")],
            Some(values) => values.iter().map(f64::to_string).collect(),
            None => item.values.clone(),
        };
        told.note_override(item);
        all.retain(|(key, _)| *key != item.key);
        all.push((item.key.clone(), values));
    }
    all
}

/// Whether a list of sizes is one distribution: sizes with shares that add up to a hundred.
fn is_mix(item: &Item) -> bool {
    let shares: f64 = item.values.iter().skip(1).step_by(2).filter_map(|v| number(v, false)).sum();
    item.values.len() > 2 && item.values.len().is_multiple_of(2) && (shares - 100.0).abs() < 1.0
}

impl Told {
    fn note_override(&mut self, item: &Item) {
        if item.key == "forrdpct" {
            self.note(
                item,
                "rdpct of a run holds for every workload in it, as in VDBench: workloads that were meant \
                 as reads and writes apart become the same mix",
            );
        }
    }
}

fn combinations(loops: &Loops) -> Vec<Vec<(String, String)>> {
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (key, values) in loops {
        all = all
            .into_iter()
            .flat_map(|outer| {
                values.iter().map(move |value| {
                    let mut inner = outer.clone();
                    inner.push((key.clone(), value.clone()));
                    inner
                })
            })
            .take(STEPS_MAX + 1)
            .collect();
    }
    all
}

/// A workload with the storage it runs on.
pub(super) struct Chosen<'o> {
    pub(super) workload: Object,
    pub(super) storage: Vec<&'o Object>,
}

fn workloads<'o>(run: &Object, objects: &'o Objects, told: &mut Told) -> Option<Vec<Chosen<'o>>> {
    let names: Vec<&str> = objects.workloads.iter().map(|w| w.name.as_str()).collect();
    let found: Vec<Object> = match run.option("wd") {
        Some(item) if item.values == ["default"] => vec![default_workload(run, objects)],
        Some(item) => match select(&item.values, &names) {
            Some(found) => objects
                .workloads
                .iter()
                .filter(|workload| found.contains(&workload.name.as_str()))
                .cloned()
                .collect(),
            None => {
                told.refuse(
                    item,
                    format!("wd={}: there is no such workload", item.values.join(",")),
                );
                return None;
            }
        },
        None => vec![default_workload(run, objects)],
    };
    let stores: Vec<&str> = objects.storage.iter().map(|s| s.name.as_str()).collect();
    let mut chosen = Vec::new();
    for workload in found {
        let Some(item) = run.option("sd").or(workload.option("sd")).cloned() else {
            told.refuse(&workload, format!("{}: it says on no sd", workload.name));
            return None;
        };
        let Some(found) = select(&item.values, &stores) else {
            told.refuse(&item, format!("sd={}: there is no such sd", item.values.join(",")));
            return None;
        };
        let storage = objects.storage.iter().filter(|s| found.contains(&s.name.as_str())).collect();
        chosen.push(Chosen { workload, storage });
    }
    Some(chosen)
}

fn default_workload(run: &Object, objects: &Objects) -> Object {
    Object {
        name: "default".into(),
        file: run.file.clone(),
        line: run.line,
        options: objects.workload_default.clone(),
    }
}
