//! What a reader needs to repeat a run or to doubt it: method, platform, drive, set-up, and what
//! happened. The fields are those of the PTS' report header.

use super::summary::{file_name, moment};
use super::{Block, Field, Section, Sheet};
use base::units::{Bytes, format_bytes_decimal, format_span};
use serde_json::Value;
use store::RunFile;

/// Events that are listed at most.
const EVENTS_MAX: usize = 300;

pub(super) fn sections(run: &RunFile) -> Vec<Section> {
    vec![method(run), platform(run), drives(run), events(run), plan(run)]
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "n/a".into(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Array(list) => list.iter().map(word).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn facts(list: &[(&str, String)]) -> Block {
    Block::Facts(list.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().map(|all| all.iter().map(word).collect()).unwrap_or_default()
}

fn method(run: &RunFile) -> Section {
    let mut section = Section::new("Method and set-up", 2);
    let claim = run.meta_json("claim");
    let settings = run.meta_json("settings");
    let deviations = list(&claim["deviations"]);
    let standard = match claim["standard"].as_str() {
        None => "the plan claims no standard".into(),
        Some(standard) if deviations.is_empty() => standard.to_owned(),
        Some(standard) => format!("NOT {} ({standard})", word(&claim["method"])),
    };
    let all: Vec<String> = settings
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name} = {}", word(value)))
        .collect();
    let purges: Vec<&str> = told(run, "purge");
    let sets: Vec<&str> = told(run, "set");
    section.add(facts(&[
        ("Report", "Summary report of a storage performance test".into()),
        ("Method", standard),
        ("Deviations", if deviations.is_empty() { "none".into() } else { deviations.join("; ") }),
        ("Not verified against its text", list(&claim["unverified"]).join("; ")),
        ("Plan", format!("{}: {}", run.meta("plan_name"), run.meta("plan_title"))),
        ("Parameters", all.join(", ")),
        ("Started", moment(run.meta("started_unix_ms"))),
        ("Ended", moment(run.meta("ended_unix_ms"))),
        ("Purge", unique(&purges)),
        ("Write cache and settings", unique(&sets)),
        ("Seed", run.meta("seed").to_owned()),
        ("Stored interval", span(run.meta("interval_ns"))),
        ("Read only", run.meta("read_only").to_owned()),
        ("Run file", file_name(run)),
        ("Tested by", "not stated".into()),
        ("Auditor", "none".into()),
    ]));
    section.add(Block::Text(
        "Response time counts from the intended start of an I/O, where a rate is set; service time from its \
         issue. Percentiles come from merged histograms (error at most 0.4 %), are never averaged, and are \
         left out where fewer than 10 I/Os lie beyond. MB/s are of 10^6 bytes, MiB/s of 2^20."
            .into(),
    ));
    let loads = loads(run);
    if !loads.rows.is_empty() {
        section.add(Block::Table(loads));
    }
    section
}

fn span(ns: &str) -> String {
    ns.parse().map_or_else(|_| "n/a".into(), |ns| format_span(base::units::Nanos(ns)))
}

fn told<'r>(run: &'r RunFile, kind: &str) -> Vec<&'r str> {
    run.events.iter().filter(|event| event.kind == kind).map(|event| event.text.as_str()).collect()
}

fn unique(all: &[&str]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for text in all {
        if !seen.contains(text) {
            seen.push(text);
        }
    }
    if seen.is_empty() { "none".into() } else { seen.join("; ") }
}

/// Every step with its load, as set up.
fn loads(run: &RunFile) -> Sheet {
    let mut seen: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for cell in &run.cells {
        let path = analysis::step_path(&cell.path);
        if seen.contains(&path) {
            continue;
        }
        seen.push(path.clone());
        let load = &cell.spec["loads"][0];
        let data = &load["data"];
        let time = cell.spec["time_ns"].as_u64();
        rows.push(vec![
            Field::text(path),
            Field::text(&cell.verb),
            Field::text(crate::figures::describe(cell)),
            Field::text(word(&load["pattern"])),
            Field::text(format!("{} x {}", word(&load["workers"]), word(&load["depth"]))),
            Field::text(word(&load["demand"])),
            Field::text(format!(
                "compress {}, dedup {}",
                word(&data["compress_ratio"]),
                word(&data["dedup_ratio"])
            )),
            Field::text(time.map_or_else(
                || word(&cell.spec["amount"]),
                |ns| format_span(base::units::Nanos(ns)),
            )),
        ]);
    }
    Sheet {
        title: "Set-up of each step (of a sweep: its first cell)".into(),
        head: [
            "step",
            "verb",
            "load",
            "pattern",
            "threads x depth",
            "demand",
            "data",
            "time or amount",
        ]
        .map(String::from)
        .to_vec(),
        rows,
    }
}

fn platform(run: &RunFile) -> Section {
    let mut section = Section::new("Test platform", 2);
    let host = run.meta_json("host");
    let memory = Bytes(host["memory_bytes"].as_u64().unwrap_or(0));
    section.add(facts(&[
        ("Reference platform", "no".into()),
        ("Host", word(&host["name"])),
        ("CPU", format!("{}, {} CPUs", word(&host["cpu_model"]), word(&host["cpus"]))),
        ("NUMA nodes", word(&host["numa_nodes"])),
        ("Memory", format_bytes_decimal(memory)),
        ("Operating system", format!("{}, Linux {}", word(&host["os"]), word(&host["kernel"]))),
        ("Virtual machine", word(&host["virtual_machine"])),
        ("CPU governor", word(&host["governor"])),
        ("Mitigations", word(&host["mitigations"])),
        (
            "Test software",
            format!("fathom {}, engine {}", run.meta("fathom_version"), run.meta("engine")),
        ),
        ("Placement of threads", run.meta("placement").to_owned()),
    ]));
    let costs = run.meta_json("instrument")["own_cost"].as_array().cloned().unwrap_or_default();
    if !costs.is_empty() {
        let row = |cost: &Value| {
            let ns = cost["own_ns"].as_f64().unwrap_or(f64::NAN);
            vec![Field::text(word(&cost["depth"])), Field::Number(ns, format!("{ns:.1}"))]
        };
        section.add(Block::Table(Sheet {
            title: "The instrument's own cost on this host".into(),
            head: vec!["queue depth".into(), "ns per I/O".into()],
            rows: costs.iter().map(row).collect(),
        }));
    }
    section
}

fn drives(run: &RunFile) -> Section {
    let mut section = Section::new("Device under test", 2);
    for target in &run.targets {
        let size = Bytes(target["size_bytes"].as_u64().unwrap_or(0));
        let facts_ = &target["facts"];
        let mut all = vec![
            ("Target".to_owned(), word(&target["name"])),
            ("Kind".to_owned(), word(&target["kind"])),
            ("User capacity".to_owned(), format!("{} ({} B)", format_bytes_decimal(size), size.0)),
            ("Block".to_owned(), format!("{} B", word(&target["block_bytes"]))),
        ];
        for (key, value) in facts_.as_object().into_iter().flatten() {
            if !value.is_object() && !value.is_array() && !value.is_null() {
                all.push((key.replace('_', " "), word(value)));
            }
        }
        section.add(Block::Facts(all));
        if let Some(published) = facts_["published"].as_array().filter(|list| !list.is_empty()) {
            let row = |item: &Value| {
                let number = |key: &str| {
                    let value = item[key].as_f64().unwrap_or(f64::NAN);
                    Field::Number(value, format!("{value}"))
                };
                vec![
                    Field::text(word(&item["what"])),
                    number("value"),
                    Field::text(word(&item["unit"])),
                    Field::text(word(&item["status"])),
                    number("residual_percent"),
                ]
            };
            section.add(Block::Table(Sheet {
                title: "A virtual drive: what its model was fitted to, and what it predicts".into(),
                head: ["figure", "published", "unit", "used as", "model differs, %"]
                    .map(String::from)
                    .to_vec(),
                rows: published.iter().map(row).collect(),
            }));
        }
    }
    section.add_counters(run);
    section
}

impl Section {
    /// What the drives' own counters and health said before and after.
    fn add_counters(&mut self, run: &RunFile) {
        let (before, after) = (run.meta_json("drives_before"), run.meta_json("drives_after"));
        let (Some(before), Some(after)) = (before.as_array(), after.as_array()) else { return };
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            let names = before["counters"].as_object().into_iter().flatten().map(|(name, _)| name);
            let rows: Vec<Vec<Field>> = names
                .filter_map(|name| {
                    let (a, b) =
                        (before["counters"][name].as_f64()?, after["counters"][name].as_f64()?);
                    let number = |v: f64| Field::Number(v, format!("{v}"));
                    Some(vec![
                        Field::text(name.replace('_', " ")),
                        number(a),
                        number(b),
                        number(b - a),
                    ])
                })
                .collect();
            if !rows.is_empty() {
                let name = run.targets.get(index).map_or("?".into(), |t| word(&t["name"]));
                self.add(Block::Table(Sheet {
                    title: format!("Counters of {name} before and after the run"),
                    head: ["counter", "before", "after", "difference"].map(String::from).to_vec(),
                    rows,
                }));
            }
        }
    }
}

fn events(run: &RunFile) -> Section {
    let mut section = Section::new("What happened", 2);
    let told: Vec<_> = run.events.iter().filter(|event| event.kind != "done").collect();
    let first = run.cells.first().map_or(0, |cell| cell.start.0);
    let row = |event: &&store::Event| {
        let at = event.at.0 as f64 / 1e9 - first as f64 / 1e9;
        vec![
            Field::Number(at, format!("{at:.1}")),
            Field::text(&event.kind),
            Field::text(&event.text),
        ]
    };
    if told.is_empty() {
        section.add(Block::Text("No event.".into()));
        return section;
    }
    if told.len() > EVENTS_MAX {
        section.add(Block::Text(format!("The first {EVENTS_MAX} of {} events.", told.len())));
    }
    section.add(Block::Table(Sheet {
        title: "Events, seconds from the start of the first cell".into(),
        head: ["s", "kind", "event"].map(String::from).to_vec(),
        rows: told.iter().take(EVENTS_MAX).map(row).collect(),
    }));
    section
}

fn plan(run: &RunFile) -> Section {
    let mut section = Section::new("The plan as run", 2);
    section.add(Block::Text(run.meta("plan_source").to_owned()));
    section
}
