//! What would spoil a figure, looked for before a run, and what did spoil it, looked for after
//! (DESIGN 3.5). Each finding has its evidence and a remedy.

use crate::verdict::{Status, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is known of the host before a run.
#[derive(Clone, Debug, Default)]
pub struct HostBefore {
    /// Frequency governors that are not `performance`.
    pub governors: Vec<String>,
    /// Time to leave the deepest idle state that may be entered, in us.
    pub idle_exit_us: Option<u32>,
    /// CPUs this process may use.
    pub cpus: usize,
    /// Most workers that run at a time.
    pub workers: usize,
}

/// What is known of a target before a run.
#[derive(Clone, Debug, Default)]
pub struct TargetBefore {
    /// Its name.
    pub name: String,
    /// The scheduler, when it is one of an NVMe drive and not `none`.
    pub scheduler: Option<String>,
    /// Link now and what both ends can, when it runs below that.
    pub downgraded: Option<(String, String)>,
    /// All CPUs of its workers are far from it: its node and theirs.
    pub far: Option<(String, String)>,
    /// I/Os that others did in the moment before the run.
    pub others: u64,
    /// Temperature now and where it warns, in degrees Celsius.
    pub temperature_c: Option<(f64, f64)>,
    /// What the drive warns of.
    pub warnings: Vec<String>,
}

/// What is known of a target after a run.
#[derive(Clone, Debug, Default)]
pub struct TargetAfter {
    /// Its name.
    pub name: String,
    /// Counters that only grow, before and after.
    pub counters: (BTreeMap<String, u128>, BTreeMap<String, u128>),
    /// Link before and after.
    pub link: (Option<String>, Option<String>),
    /// What the drive warned of while the run went on, with when.
    pub health: Vec<String>,
    /// Errors of the link that could be corrected, and that could not.
    pub link_errors: (u64, u64),
}

fn finding(name: &'static str, status: Status, text: String, evidence: Value) -> Verdict {
    Verdict { name, status, text, evidence }
}

/// Degrees below the warning temperature from which a drive is hot.
const NEAR_WARNING_C: f64 = 5.0;
/// Time to leave an idle state that shows in latencies, in us.
const IDLE_EXIT_US: u32 = 50;
/// I/Os of others that are let pass: a probe of the system reads a few blocks.
const OTHERS_MAX: u64 = 16;

/// What would spoil the figures.
pub fn before_run(host: &HostBefore, targets: &[TargetBefore]) -> Vec<Verdict> {
    let mut all = Vec::new();
    if !host.governors.is_empty() {
        let text = format!(
            "the CPUs' frequency is governed by {}: latencies include its changes; set performance \
             (cpupower frequency-set -g performance)",
            host.governors.join(", ")
        );
        let evidence = json!({"governors": host.governors});
        all.push(finding("governor", Status::Warning, text, evidence));
    }
    if let Some(us) = host.idle_exit_us.filter(|us| *us > IDLE_EXIT_US) {
        let text = format!(
            "idle CPUs need up to {us} us to wake: latencies at low depth include it; keep them awake \
             (cpupower idle-set -D {IDLE_EXIT_US})"
        );
        all.push(finding("idle-states", Status::Info, text, json!({"exit_us": us})));
    }
    if host.workers > host.cpus {
        let (workers, cpus) = (host.workers, host.cpus);
        let text = format!(
            "{workers} workers share {cpus} CPUs: they wait for each other, and latencies include it; use \
             {cpus} workers or fewer"
        );
        all.push(finding(
            "spare-cores",
            Status::Warning,
            text,
            json!({"workers": workers, "cpus": cpus}),
        ));
    }
    targets.iter().for_each(|target| before_target(target, &mut all));
    all
}

fn before_target(target: &TargetBefore, all: &mut Vec<Verdict>) {
    let name = &target.name;
    let mut add = |what, status, text: String, evidence: Value| {
        all.push(finding(what, status, format!("{name}: {text}"), evidence));
    };
    if let Some(scheduler) = &target.scheduler {
        let text = format!(
            "I/Os pass the scheduler {scheduler}, which costs time and reorders them; set none (echo none \
             > /sys/block/.../queue/scheduler)"
        );
        add("scheduler", Status::Warning, text, json!({"scheduler": scheduler}));
    }
    if let Some((now, most)) = &target.downgraded {
        let text = format!(
            "the PCIe link runs at {now}, both ends can {most}: reseat the drive, check riser, cable and \
             BIOS"
        );
        add("link", Status::Warning, text, json!({"now": now, "most": most}));
    }
    if let Some((near, used)) = &target.far {
        let text = format!(
            "the workers' CPUs {used} are far from it (near: {near}); use --placement local where the \
             near ones are free"
        );
        add("far-node", Status::Warning, text, json!({"near": near, "used": used}));
    }
    if target.others > OTHERS_MAX {
        let others = target.others;
        let text = format!(
            "others did {others} I/Os on it in the moment before the run: find them (iotop, fuser), or \
             the figures hold their work too"
        );
        add("busy", Status::Warning, text, json!({"ios": others}));
    }
    if let Some((now, warns)) = target.temperature_c
        && now >= warns - NEAR_WARNING_C
    {
        let text = format!(
            "it has {now:.0} C and warns from {warns:.0} C: it may throttle; let it cool down, or cool it \
             better"
        );
        add("hot", Status::Warning, text, json!({"temperature_c": now, "warning_c": warns}));
    }
    if !target.warnings.is_empty() {
        let text = format!("the drive warns: {}", target.warnings.join("; "));
        add("health", Status::Warning, text, json!({"warnings": target.warnings}));
    }
}

/// Counters whose growth in a run says that its figures are not those of a drive in order: name, what
/// it means, how bad it is.
const SPOILS: [(&str, &str, Status); 9] = [
    ("media_errors", "errors of the media that could not be mended", Status::Fail),
    ("error_entries", "new entries in the error log", Status::Warning),
    ("light_throttles", "times throttled lightly for heat", Status::Fail),
    ("heavy_throttles", "times throttled heavily for heat", Status::Fail),
    ("ocp_throttle_events", "throttle events", Status::Fail),
    ("ocp_uncorrectable_reads", "reads that could not be mended", Status::Fail),
    ("ocp_link_retrains", "times the link was trained anew", Status::Warning),
    ("warning_minutes", "minutes above the warning temperature", Status::Warning),
    ("critical_minutes", "minutes above the critical temperature", Status::Fail),
];

/// What did spoil the figures.
pub fn after_run(targets: &[TargetAfter]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for target in targets {
        let name = &target.name;
        let mut add = |what, status, text: String, evidence: Value| {
            all.push(finding(what, status, format!("{name}: {text}"), evidence));
        };
        let (before, after) = &target.counters;
        for (counter, means, status) in SPOILS {
            let (Some(from), Some(to)) = (before.get(counter), after.get(counter)) else {
                continue;
            };
            if to > from {
                let grown = to - from;
                let retried = match counter {
                    "media_errors" | "error_entries" => {
                        "; an I/O that the kernel tried again in silence shows as latency only"
                    }
                    _ => "",
                };
                let text =
                    format!("{grown} {means} during the run, by the drive's own counter{retried}");
                let evidence = json!({"counter": counter, "before": from.to_string(), "after": to.to_string()});
                add(counter, status, text, evidence);
            }
        }
        if let (Some(from), Some(to)) = (before.get("power_cycles"), after.get("power_cycles"))
            && to > from
        {
            let text = "it lost its power during the run".to_owned();
            add("power-cycle", Status::Fail, text, json!({"before": from.to_string()}));
        }
        if let (Some(from), to) = &target.link
            && to.as_ref() != Some(from)
        {
            let to = to.clone().unwrap_or_else(|| "none".into());
            let text = format!("the PCIe link was {from} before the run and is {to} after it");
            add("link-changed", Status::Fail, text, json!({"before": from, "after": to}));
        }
        match target.link_errors {
            (0, 0) => {}
            (soft, hard) => {
                let status = if hard > 0 { Status::Fail } else { Status::Warning };
                let text = format!(
                    "the link had {soft} correctable and {hard} other errors during the run: check \
                     riser, cable and slot"
                );
                add("link-errors", status, text, json!({"correctable": soft, "other": hard}));
            }
        }
        for text in &target.health {
            add("health", Status::Fail, text.clone(), Value::Null);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(verdicts: &[Verdict]) -> Vec<(&'static str, Status)> {
        verdicts.iter().map(|verdict| (verdict.name, verdict.status)).collect()
    }

    #[test]
    fn a_host_and_drive_in_order_give_no_finding() {
        let host =
            HostBefore { cpus: 8, workers: 8, idle_exit_us: Some(50), ..HostBefore::default() };
        let target = TargetBefore {
            temperature_c: Some((44.0, 70.0)),
            others: OTHERS_MAX,
            ..TargetBefore::default()
        };
        assert!(before_run(&host, &[target]).is_empty());
        let counters: BTreeMap<String, u128> = [("media_errors".into(), 7)].into();
        let link = (Some("16.0 GT/s x4".to_owned()), Some("16.0 GT/s x4".to_owned()));
        let after =
            TargetAfter { counters: (counters.clone(), counters), link, ..TargetAfter::default() };
        assert!(after_run(&[after]).is_empty());
    }

    #[test]
    fn each_spoiler_is_found_and_no_other() {
        let host = HostBefore { cpus: 8, workers: 1, ..HostBefore::default() };
        let target = TargetBefore::default;
        let found = |target: TargetBefore| names(&before_run(&host, &[target]));
        let warn = |name| vec![(name, Status::Warning)];
        let pair = || Some(("a".to_owned(), "b".to_owned()));
        assert_eq!(
            found(TargetBefore { scheduler: Some("bfq".into()), ..target() }),
            warn("scheduler")
        );
        assert_eq!(found(TargetBefore { downgraded: pair(), ..target() }), warn("link"));
        assert_eq!(found(TargetBefore { far: pair(), ..target() }), warn("far-node"));
        assert_eq!(found(TargetBefore { others: 17, ..target() }), warn("busy"));
        assert_eq!(
            found(TargetBefore { temperature_c: Some((65.0, 70.0)), ..target() }),
            warn("hot")
        );
        assert_eq!(found(TargetBefore { warnings: vec!["x".into()], ..target() }), warn("health"));
        let crowded = HostBefore { cpus: 2, workers: 3, ..HostBefore::default() };
        assert_eq!(names(&before_run(&crowded, &[])), warn("spare-cores"));
        let slow = HostBefore { governors: vec!["powersave".into()], ..host.clone() };
        assert_eq!(names(&before_run(&slow, &[])), warn("governor"));
        let sleepy = HostBefore { idle_exit_us: Some(133), ..host.clone() };
        assert_eq!(names(&before_run(&sleepy, &[])), [("idle-states", Status::Info)]);
    }

    #[test]
    fn each_change_during_a_run_is_found_and_no_other() {
        for (counter, _, status) in SPOILS {
            let counters = |n| BTreeMap::from([(counter.to_owned(), n), ("units_read".into(), n)]);
            let after =
                TargetAfter { counters: (counters(3), counters(4)), ..TargetAfter::default() };
            assert_eq!(names(&after_run(&[after])), [(counter, status)]);
        }
        let link = (Some("16.0 GT/s x4".to_owned()), Some("16.0 GT/s x2".to_owned()));
        let changed = TargetAfter { link, ..TargetAfter::default() };
        assert_eq!(names(&after_run(&[changed])), [("link-changed", Status::Fail)]);
        for (errors, status) in [((1, 0), Status::Warning), ((0, 1), Status::Fail)] {
            let after = TargetAfter { link_errors: errors, ..TargetAfter::default() };
            assert_eq!(names(&after_run(&[after])), [("link-errors", status)]);
        }
        let hot = TargetAfter { health: vec!["hot".into()], ..TargetAfter::default() };
        assert_eq!(names(&after_run(&[hot])), [("health", Status::Fail)]);
    }
}
