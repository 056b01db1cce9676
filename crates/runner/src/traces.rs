//! The recordings that a plan replays, read once, before anything is touched.

use crate::error::RunError;
use crate::run::Runner;
use analysis::Status;
use base::sample::StreamSample;
use base::units::{Bytes, Nanos, format_latency, format_span};
use plan::{BlockMix, Cell, Demand, Fit, Load, Pattern, Plan, TraceUse};
use serde_json::json;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use trace::{Options, Trace, read_parts};

/// Buffers of one worker, in bytes: fewer requests are on their way where they are longer.
const BUFFERS_MAX: u64 = 2 << 30;

/// By file and disk.
#[derive(Debug, Default)]
pub(crate) struct Traces(HashMap<(String, Option<String>), Arc<Trace>>);

impl Traces {
    /// Reads every recording that a plan names.
    pub(crate) fn read(plan: &Plan) -> Result<Traces, RunError> {
        let mut wanted = Vec::new();
        plan.each_load(|load| {
            if let Pattern::Trace(TraceUse { file, disk, .. }) = &load.pattern {
                wanted.push((file.clone(), disk.clone()));
            }
        });
        let mut traces = Traces::default();
        for key in wanted {
            if let Entry::Vacant(place) = traces.0.entry(key) {
                let (file, disk) = place.key();
                let options = Options { disk: disk.clone(), time_unit: None };
                let trace = read_recording(file, &options)?;
                place.insert(Arc::new(trace));
            }
        }
        Ok(traces)
    }

    /// The load with the requests it replays, their longest size and their rate.
    pub(crate) fn fill(&self, load: &Load) -> Load {
        let mut load = load.clone();
        let Pattern::Trace(replay) = &mut load.pattern else { return load };
        let Some(trace) = self.0.get(&(replay.file.clone(), replay.disk.clone())) else {
            return load;
        };
        replay.trace = Some(trace.clone());
        let longest =
            |write| Bytes(u64::from(trace.longest(write)).next_multiple_of(4096).max(4096));
        let seconds = (trace.span() as f64 / 1e9).max(1e-9);
        let rate = trace.requests.len() as f64 / seconds * replay.speed.unwrap_or(1.0);
        if let Demand::Open { rate_iops, .. } = &mut load.demand {
            *rate_iops = rate;
        }
        // A request that starts within a block takes one more.
        let one = |write| BlockMix::one(Bytes(longest(write).0 + 4096));
        (load.read_blocks, load.write_blocks) = (one(false), one(true));
        // Every slot has a buffer for the longest request.
        load.depth = load.depth.min((BUFFERS_MAX / load.block_max().0).max(1) as u32);
        load
    }
}

impl Runner<'_> {
    /// Stores how true a replay was.
    pub(crate) fn note_replay(
        &mut self,
        id: i64,
        cell: &Cell,
        counted: &StreamSample,
        len: Nanos,
    ) -> Result<(), RunError> {
        let [load] = cell.loads.as_slice() else { return Ok(()) };
        let filled = self.traces.fill(load);
        let Pattern::Trace(replay) = filled.pattern else { return Ok(()) };
        let Some(trace) = &replay.trace else { return Ok(()) };
        let mine = |r: &&trace::Request| if r.write { load.writes() } else { load.reads() };
        let wanted = trace.requests.iter().filter(mine).count() * self.targets_of(load).max(1);
        let mut text = format!("{} of {wanted} recorded requests made", counted.ios());
        let mut evidence = json!({
            "requests": wanted, "made": counted.ios(), "shed": counted.shed,
            "format": trace.format, "notes": trace.notes,
        });
        match replay.speed {
            None => text += &format!(", as fast as it went: {}", format_span(len)),
            Some(speed) => {
                let at = |percent| counted.lateness.percentile_ns(percent);
                let told =
                    |ns: Option<u64>| ns.map_or("n/a".into(), |ns| format_latency(ns as f64));
                let should = Nanos((trace.span() as f64 / speed) as u64);
                let max = counted.lateness.max_ns();
                text += &format!(
                    "; arrival error p50 {}, p99 {}, at most {}; {} instead of {}",
                    told(at(50.0)),
                    told(at(99.0)),
                    told(max),
                    format_span(len),
                    format_span(should),
                );
                evidence["arrival_error_ns"] =
                    json!({"p50": at(50.0), "p99": at(99.0), "p99.9": at(99.9), "max": max});
                evidence["recorded_ns"] = json!(should.0);
            }
        }
        evidence["replay_ns"] = json!(len.0);
        if counted.shed > 0 {
            text += &format!("; {} were given up, as too many waited", counted.shed);
        }
        let size = self.beds.iter().map(|bed| bed.size.0).min().unwrap_or(0);
        if replay.fit == Fit::Scale || replay.fit == Fit::Auto && trace.end() > size {
            text += "; addresses were scaled to the target";
        }
        if filled.depth < load.depth {
            text += &format!("; at most {} at a time, as buffers have room", filled.depth);
        }
        trace.notes.iter().for_each(|note| text += &format!("; {note}"));
        let word = Status::Info.word();
        Ok(self.writer.verdict(Some(id), "replay", word, &text, &evidence)?)
    }
}

/// Reads a recording from its files, with commas between their names.
///
/// # Errors
/// When a file cannot be read, or is no recording.
pub fn read_recording(files: &str, options: &Options) -> Result<Trace, RunError> {
    let read = |file: &str| {
        std::fs::read(Path::new(file))
            .map_err(|error| RunError::NotHere(format!("{file}: cannot be read: {error}")))
    };
    let parts = files.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    read_parts(&parts, options).map_err(|error| RunError::NotHere(format!("{files}: {error}")))
}
