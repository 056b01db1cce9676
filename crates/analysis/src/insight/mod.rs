//! What a run found out: what limited a load, and what disturbed it, each with its evidence.
//!
//! Looked for in each load that has a course in time. The tests of a finding are chosen so that chance
//! alone makes one in a thousand loads or fewer; `tests/tests/findings.rs` counts hits and false alarms on
//! virtual drives with planted causes.

mod cause;
mod shape;

use crate::claims::steady_groups;
use crate::course::{Moment, moments};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;
use store::{CellRecord, RunFile, StoreError, Telemetry};

/// Counted intervals from which a load has a course.
const COURSE_MIN: u32 = 20;
/// Loads of a run that are looked at.
const CELLS_MAX: usize = 40;

/// Something that was found.
#[derive(Clone, Debug)]
pub struct Insight {
    /// What kind of thing.
    pub kind: InsightKind,
    /// In a few words.
    pub title: String,
    /// With evidence, and what to do.
    pub text: String,
    /// The load's step; none for the whole run.
    pub place: Option<String>,
    /// The figures it rests on.
    pub evidence: Value,
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InsightKind {
    /// The drive slowed itself down: heat or power.
    Throttle,
    /// The CPUs that issue I/O were the limit.
    Host,
    /// The link to the drive was full.
    Link,
    /// None of these was full: the drive was the limit.
    Drive,
    /// The rate fell once for good: the drive ran out of clean blocks or of cache.
    Cliff,
    /// The rate dips in a fixed rhythm.
    Periodic,
    /// The rate moved steadily in one direction.
    Drift,
    /// A single time stands far out of all others.
    Outlier,
    /// A plateau in a place where it may not be the last.
    FalsePlateau,
}

impl InsightKind {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            InsightKind::Throttle => "throttle",
            InsightKind::Host => "host",
            InsightKind::Link => "link",
            InsightKind::Drive => "drive",
            InsightKind::Cliff => "cliff",
            InsightKind::Periodic => "periodic",
            InsightKind::Drift => "drift",
            InsightKind::Outlier => "outlier",
            InsightKind::FalsePlateau => "false-plateau",
        }
    }

    /// How the title of the figure that shows it begins.
    pub fn figure(self) -> &'static str {
        match self {
            InsightKind::Throttle | InsightKind::Host => "CPU and temperature over time",
            InsightKind::Outlier => "Latency over time, each I/O counted",
            InsightKind::FalsePlateau => "IOPS over drive fills",
            _ => "IOPS and bandwidth over time",
        }
    }

    /// Whether it spoils or changes figures; otherwise it only says what limits.
    pub fn is_trouble(self) -> bool {
        !matches!(self, InsightKind::Link | InsightKind::Drive)
    }
}

/// A load and everything that was recorded while it ran.
pub(crate) struct Course<'r> {
    pub(crate) run: &'r RunFile,
    pub(crate) cell: &'r CellRecord,
    /// Counted intervals.
    pub(crate) moments: Vec<Moment>,
    /// Values of each series while it ran, and the last before it, by source and name.
    pub(crate) telemetry: Series,
}

impl Course<'_> {
    pub(crate) fn iops(&self) -> Vec<f64> {
        self.moments.iter().map(|moment| moment.iops).collect()
    }

    /// Seconds from the first counted interval.
    pub(crate) fn since_start(&self, moment: &Moment) -> f64 {
        moment.at_s - self.moments[0].at_s
    }

    /// Step and short form of the load.
    pub(crate) fn name(&self) -> String {
        let describe = self.cell.streams.first().map_or("", |stream| stream.describe.as_str());
        format!("{} ({describe})", self.cell.path)
    }

    /// The value of a series nearest to a time.
    pub(crate) fn near(&self, name: &str, at_s: f64) -> Option<f64> {
        let all = self.telemetry.iter().filter(|((_, n), _)| n == name).flat_map(|(_, list)| list);
        let nearest = all.min_by(|a, b| (a.0 - at_s).abs().total_cmp(&(b.0 - at_s).abs()))?;
        Some(nearest.1)
    }
}

/// Gives the course of a cell.
pub type Reader<'r> = &'r mut dyn FnMut(&CellRecord) -> Result<Rc<Vec<Moment>>, StoreError>;

/// Everything that was found in a run.
///
/// # Errors
/// When its intervals or its telemetry cannot be read.
pub fn findings(run: &RunFile) -> Result<Vec<Insight>, StoreError> {
    findings_with(run, &run.telemetry()?, &mut |cell| Ok(Rc::new(moments(run, cell, |_, _| {})?)))
}

/// As [`findings`], for one who has read telemetry and courses already.
///
/// # Errors
/// Those of `course`.
pub fn findings_with(
    run: &RunFile,
    telemetry: &[Telemetry],
    course: Reader<'_>,
) -> Result<Vec<Insight>, StoreError> {
    let mut all = Vec::new();
    let mut by_drive = Vec::new();
    let series = by_series(telemetry);
    let worth = |cell: &&CellRecord| {
        cell.intervals >= COURSE_MIN && cell.verb != "fill" && cell.status == "done"
    };
    for cell in run.cells.iter().filter(worth).take(CELLS_MAX) {
        let moments: Vec<Moment> =
            course(cell)?.iter().filter(|moment| !moment.ramp).cloned().collect();
        if moments.is_empty() {
            continue;
        }
        let course = Course { run, cell, telemetry: during(&series, &moments), moments };
        let found = of_course(&course);
        let cause = |i: &Insight| {
            matches!(i.kind, InsightKind::Throttle | InsightKind::Host | InsightKind::Link)
        };
        if !found.iter().any(cause) {
            by_drive.extend(cause::drive(&course));
        }
        all.extend(found);
    }
    all.extend(cause::drive_limited(&by_drive));
    all.extend(false_plateaus(run));
    Ok(all)
}

/// All samples of a run by source and name.
type Series = BTreeMap<(String, String), Vec<(f64, f64)>>;

fn by_series(telemetry: &[Telemetry]) -> Series {
    let mut all = Series::new();
    for sample in telemetry {
        let key = (sample.source.clone(), sample.name.clone());
        all.entry(key).or_default().push((sample.at.as_secs_f64(), sample.value));
    }
    all
}

/// Samples while a load ran, with the last one before it: many series are stored when they change, and
/// hold until then.
fn during(series: &Series, moments: &[Moment]) -> Series {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return Series::new() };
    let (from, to) = (first.at_s - first.seconds, last.at_s + last.seconds);
    let part = |list: &Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        let start = list.partition_point(|(at, _)| *at < from).saturating_sub(1);
        let end = list.partition_point(|(at, _)| *at <= to);
        list.get(start..end).unwrap_or_default().to_vec()
    };
    let parts = series.iter().map(|(key, list)| (key.clone(), part(list)));
    parts.filter(|(_, list)| !list.is_empty()).collect()
}

/// Causes first: what a cause explains is not told again as a shape.
fn of_course(course: &Course<'_>) -> Vec<Insight> {
    let mut all = Vec::new();
    all.extend(cause::throttle(course));
    all.extend(cause::host(course));
    all.extend(cause::link(course));
    let throttled = all.iter().any(|insight| insight.kind == InsightKind::Throttle);
    if !throttled {
        let periodic = shape::periodic(course);
        let cliff = shape::cliff(course);
        if cliff.is_none() && periodic.is_none() {
            all.extend(shape::drift(course));
        }
        all.extend(periodic);
        all.extend(cliff);
    }
    all.extend(shape::outlier(course));
    all
}

/// Steady states that were claimed after too few drive fills.
fn false_plateaus(run: &RunFile) -> Vec<Insight> {
    let groups = steady_groups(run);
    let warned = run.verdicts.iter().filter(|v| v.name == "drive-fills" && v.status == "warning");
    warned
        .map(|verdict| {
            let group = verdict.evidence["group"].as_str().unwrap_or_default().to_owned();
            let text = groups.iter().find(|g| g.path == group).map_or("", |g| g.text.as_str());
            Insight {
                kind: InsightKind::FalsePlateau,
                title: "The plateau may be a false one".into(),
                text: format!("{} ({text})", verdict.text),
                place: Some(group.clone()),
                evidence: json!({"group": group}),
            }
        })
        .collect()
}
