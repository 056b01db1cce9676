//! The run as one JSON document. Its shape has a version; golden files hold it.

use crate::steady;
use analysis::{
    CellSummary, Latency, SideSummary, SteadyGroup, claim_of, percentile_name, rows, steady_groups,
    summarize,
};
use serde_json::{Map, Value, json};
use store::{CellRecord, RunFile};

/// Version of the shape. Fields are added without a new one, never changed or removed.
pub const JSON_VERSION: u32 = 1;

/// The whole run but its intervals.
pub fn document(run: &RunFile) -> Value {
    let number = |key: &str| run.meta(key).parse::<u64>().ok();
    let groups = steady_groups(run);
    json!({
        "fathom_json": JSON_VERSION,
        "fathom_version": run.meta("fathom_version"),
        "file": run.path().display().to_string(),
        "state": run.state.word(),
        "valid": run.state == store::State::Done,
        "started_unix_ms": number("started_unix_ms"),
        "ended_unix_ms": number("ended_unix_ms"),
        "plan": {
            "name": run.meta("plan_name"),
            "title": run.meta("plan_title"),
            "settings": run.meta_json("settings"),
            "seed": number("seed"),
            "interval_ns": number("interval_ns"),
            "source": run.meta("plan_source"),
        },
        "engine": run.meta("engine"),
        "host": run.meta_json("host"),
        "instrument": run.meta_json("instrument"),
        "targets": run.targets,
        "cells": run.cells.iter().map(|cell| cell_json(run, &groups, cell)).collect::<Vec<_>>(),
        "rows": rows(&run.cells).iter().map(|row| json!({
            "name": row.name,
            "runs": row.times,
            "peak_bandwidth_bytes": row.peak_bandwidth_bytes,
            "mean_bandwidth_bytes": row.mean_bandwidth_bytes,
            "peak_iops": row.peak_iops,
            "mean_iops": row.mean_iops,
            "best_latency_ns": row.best_latency_ns,
            "mean_latency_ns": row.mean_latency_ns,
            "cov_percent": row.cov_percent,
        })).collect::<Vec<_>>(),
        "claim": run.meta_json("claim"),
        "steady_state": steady::as_json(run),
        "repeated_cells": run.repeated.iter().map(|cell| json!({
            "id": cell.id, "path": cell.path, "label": cell.label, "why": cell.message,
        })).collect::<Vec<_>>(),
        "events": run.events.iter().map(|event| json!({
            "at_ns": event.at.0, "cell": event.cell, "kind": event.kind, "text": event.text,
        })).collect::<Vec<_>>(),
        "verdicts": verdicts(run, None),
    })
}

fn verdicts(run: &RunFile, cell: Option<i64>) -> Vec<Value> {
    let about = run.verdicts.iter().filter(|verdict| verdict.cell == cell);
    about
        .map(|verdict| {
            json!({
                "name": verdict.name,
                "status": verdict.status,
                "text": verdict.text,
                "evidence": verdict.evidence,
            })
        })
        .collect()
}

fn cell_json(run: &RunFile, groups: &[SteadyGroup], cell: &CellRecord) -> Value {
    let CellSummary { seconds, iops, bandwidth_bytes, reads, writes, lateness, .. } =
        summarize(cell);
    let summary = summarize(cell);
    let judged = verdicts(run, Some(cell.id));
    let valid = cell.status == "done" && judged.iter().all(|v| v["status"] != "fail");
    json!({
        "id": cell.id,
        "path": cell.path,
        "step": cell.step,
        "label": cell.label,
        "verb": cell.verb,
        "coordinates": cell.coordinates,
        "iteration": cell.iteration,
        "counted": cell.counted,
        "status": cell.status,
        "valid": valid,
        "steady_state": claim_of(run, groups, cell).map(|group| json!({
            "path": group.path, "reached": group.reached,
        })),
        "message": cell.message,
        "start_ns": cell.start.0,
        "seconds": seconds,
        "intervals": cell.intervals,
        "iops": iops,
        "bandwidth_bytes": bandwidth_bytes,
        "read": reads.as_ref().map(side_json),
        "write": writes.as_ref().map(side_json),
        "lateness": lateness.as_ref().map(latency_json),
        "waited": summary.waited,
        "shed": summary.shed,
        "cpu": summary.cpu,
        "cpu_per_io_ns": summary.cpu_per_io_ns,
        "streams": cell.streams.iter().zip(&cell.totals).map(|(stream, counts)| {
            json!({
                "load": stream.load,
                "target": stream.target,
                "describe": stream.describe,
                "rate_iops": stream.rate_iops,
                "read_ios": counts.reads.ios(),
                "read_bytes": counts.reads.bytes,
                "write_ios": counts.writes.ios(),
                "write_bytes": counts.writes.bytes,
                "errors": counts.errors(),
            })
        }).collect::<Vec<_>>(),
        "loads": cell.spec["loads"],
        "facts": cell.facts,
        "verdicts": judged,
    })
}

fn side_json(side: &SideSummary) -> Value {
    json!({
        "ios": side.ios,
        "bytes": side.bytes,
        "errors": side.errors,
        "iops": side.iops,
        "bandwidth_bytes": side.bandwidth_bytes,
        "service": side.service.as_ref().map(latency_json),
        "response": side.response.as_ref().map(latency_json),
        "submission": side.submission.as_ref().map(latency_json),
    })
}

fn latency_json(latency: &Latency) -> Value {
    let percentiles: Map<String, Value> = latency
        .percentiles
        .iter()
        .map(|&(percent, value)| (percentile_name(percent), value.into()))
        .collect();
    json!({
        "count": latency.count,
        "mean_ns": latency.mean_ns,
        "stddev_ns": latency.stddev_ns,
        "min_ns": latency.min_ns,
        "max_ns": latency.max_ns,
        "percentiles_ns": percentiles,
    })
}
