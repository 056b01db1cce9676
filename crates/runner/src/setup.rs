//! What comes before the first step: permits, opened targets, the instrument's facts, the file name.

use crate::error::RunError;
use base::clock::{Clock, ClockFacts};
use base::units::{Bytes, Nanos};
use drive::{Device, Eraser, Kind, Nvme, Opened, Permit, Subject, open_for_reading};
use engine::{CommandTarget, Direct, OwnCost, Polling, Target, measure_own_cost};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use store::TargetHead;

/// What the instrument is on this host.
#[derive(Clone, Debug)]
pub struct Instrument {
    /// Its clock.
    pub clock: ClockFacts,
    /// Its cost per I/O at some depths.
    pub costs: Vec<OwnCost>,
}

/// Time spent on each depth when a run measures its own cost.
const QUICK: Nanos = Nanos(40_000_000);

/// Measures clock and own cost at depths 1, 32 and 128, `time` for each and path (none: a short one).
///
/// # Errors
/// When the host has no io_uring.
pub fn measure_instrument(clock: &Clock, time: Option<Nanos>) -> Result<Instrument, RunError> {
    let cost = |depth| measure_own_cost(clock, depth, time.unwrap_or(QUICK));
    let costs = [1, 32, 128].into_iter().map(cost).collect::<Result<_, _>>();
    Ok(Instrument { clock: clock.measure(), costs: costs.map_err(RunError::Instrument)? })
}

impl Instrument {
    /// Own cost per I/O at the measured depth nearest to `depth`, in ns.
    pub fn own_ns(&self, depth: u32) -> f64 {
        let off = |cost: &&OwnCost| cost.depth.abs_diff(depth);
        self.costs.iter().min_by_key(off).map_or(0.0, |cost| cost.own_ns)
    }

    /// For the run file.
    pub fn as_json(&self) -> Value {
        let cost = |cost: &OwnCost| json!({"depth": cost.depth, "own_ns": round(cost.own_ns), "noop_ns": round(cost.noop_ns)});
        json!({
            "clock": {
                "source": self.clock.source,
                "frequency_hz": self.clock.frequency_hz.round(),
                "cost_ns": round(self.clock.cost_ns),
                "resolution_ns": self.clock.resolution_ns,
            },
            "own_cost": self.costs.iter().map(cost).collect::<Vec<_>>(),
        })
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// An opened target with what the run file says of it.
pub(crate) struct Ready {
    pub(crate) target: Target,
    pub(crate) head: TargetHead,
    /// The right to give everything up, with a permit.
    pub(crate) eraser: Option<Eraser>,
    /// What the permit allowed to destroy, for the event; none when nothing is written.
    pub(crate) permit: Option<String>,
}

/// Opens a target: with a permit when `writes`, else for reading.
pub(crate) fn open(subject: &Subject, writes: bool, destroy: &[String]) -> Result<Ready, RunError> {
    let (opened, permit) = if writes {
        let permit = Permit::check(subject, destroy)?;
        let found: Vec<String> = permit.found.iter().map(ToString::to_string).collect();
        let on_it = if found.is_empty() { "nothing known".into() } else { found.join(", ") };
        let text = format!(
            "{}: may be written (named {}); on it: {on_it}",
            subject.name(),
            permit.identity
        );
        let error = |error| drive::Refusal::System { path: subject.path.clone(), error };
        (permit.open().map_err(error)?, Some(text))
    } else {
        (open_for_reading(subject)?, None)
    };
    let Opened { file, direct, eraser } = opened;
    let device = subject.device();
    let block = device.map_or(512, |device| device.logical_block_bytes);
    let target = Target {
        name: subject.name(),
        path: subject.open_path(),
        file: Some(Arc::new(file)),
        size: subject.size(),
        block: Bytes(block),
        direct: if direct { Direct::Yes } else { Direct::No },
        polling: if device.is_some_and(|device| device.poll) { Polling::On } else { Polling::Off },
        command: device.map(command_target).transpose()?.flatten(),
    };
    let kind = match &subject.kind {
        Kind::Device(_) => "device",
        Kind::File { .. } => "file",
        Kind::Scratch(_) => "scratch",
    };
    let facts = match device {
        Some(device) => serde_json::to_value(device).unwrap_or(Value::Null),
        None => json!({"path": subject.path.display().to_string()}),
    };
    let head = TargetHead {
        name: subject.name(),
        identity: subject.identity(),
        kind,
        size_bytes: subject.size().0,
        block_bytes: block,
        facts,
    };
    Ok(Ready { target, head, eraser, permit })
}

/// How commands reach a namespace, when the target is its generic device.
fn command_target(device: &Device) -> Result<Option<CommandTarget>, RunError> {
    let Some(node) = &device.generic else { return Ok(None) };
    let wrong = |what: String| RunError::NotHere(format!("{}: {what}", node.display()));
    let nvme = Nvme::open(device).ok_or_else(|| wrong("is no NVMe namespace".into()))?;
    let nvme = nvme.map_err(|error| wrong(error.to_string()))?;
    let namespace = nvme.namespace().map_err(|error| wrong(error.to_string()))?;
    if namespace.format_in_use().metadata_bytes > 0 {
        return Err(wrong(format!(
            "its blocks carry metadata, which commands would have to bring: use {} or format it without",
            device.path.display()
        )));
    }
    let kib = |name: &str| device.settings.get(name).and_then(|value| value.parse::<u64>().ok());
    let len_max = Bytes(kib("max_hw_sectors_kb").unwrap_or(128) * 1024);
    Ok(Some(CommandTarget { nsid: nvme.nsid(), len_max }))
}

/// `2026-11-21T20-15-03-quick-scratch.fathom` in local time.
pub fn default_file_name(plan: &str, target: &str, unix_ms: u64) -> PathBuf {
    let at = jiff::Timestamp::from_millisecond(unix_ms as i64).unwrap_or_default();
    let local = at.to_zoned(jiff::tz::TimeZone::system());
    PathBuf::from(format!("{}-{plan}-{target}.fathom", local.strftime("%Y-%m-%dT%H-%M-%S")))
}
