//! fio's JSON (`json+`), for the programs that read it: every key of fio 3.33, with its type.
//!
//! What fio cannot say stands under one key of our own, `fathom`. `clat_ns` holds the service time
//! (ours starts before the submitting call), `slat_ns` the submission time; both are shown side by
//! side and do not add up to `lat_ns`, which in open loop is the response time.

use crate::output::OutputError;
use base::hist::{Hist, Kind, bucket_mid};
use base::sample::{IntervalSample, Side};
use serde_json::{Map, Value, json};
use store::{CellRecord, RunFile};

/// fio's default percentile list and the ones its consumers look up.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The run as fio would have told it: one job for each counted cell.
///
/// # Errors
/// When the run file is damaged.
pub fn fio_json(run: &RunFile) -> Result<Value, OutputError> {
    let started_ms = run.meta("started_unix_ms").parse::<u64>().unwrap_or(0);
    let at = jiff::Timestamp::from_millisecond(started_ms as i64).unwrap_or_default();
    let mut jobs = Vec::new();
    for (group, cell) in run.cells.iter().filter(|cell| cell.counted).enumerate() {
        let samples: Vec<IntervalSample> =
            run.intervals(cell.id)?.into_iter().filter(|sample| !sample.ramp).collect();
        jobs.push(job(run, cell, group, started_ms, &samples));
    }
    Ok(json!({
        "fio version": "fio-3.33",
        "timestamp": started_ms / 1000,
        "timestamp_ms": started_ms,
        "time": at.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        "jobs": jobs,
        "disk_util": [],
        "fathom": {
            "steady_state": crate::steady::as_json(run),
            "version": run.meta("fathom_version"),
            "state": run.state.word(),
            "valid": run.state == store::State::Done,
            "plan": run.meta("plan_name"),
            "instrument": run.meta_json("instrument"),
        },
    }))
}

fn job(
    run: &RunFile,
    cell: &CellRecord,
    group: usize,
    started_ms: u64,
    samples: &[IntervalSample],
) -> Value {
    let counts = cell.merged();
    let runtime_ms = cell.len.0 / 1_000_000;
    let cpu = |ns: u64| ns as f64 / cell.len.0.max(1) as f64 * 100.0;
    let open = cell.streams.iter().any(|stream| stream.rate_iops.is_some());
    let side = |of: fn(&base::sample::StreamSample) -> &Side| {
        let per_interval: Vec<(f64, f64)> = samples
            .iter()
            .filter(|sample| sample.len.0 > 0)
            .map(|sample| {
                let ios: u64 = sample.streams.iter().map(|s| of(s).ios()).sum();
                let bytes: u64 = sample.streams.iter().map(|s| of(s).bytes).sum();
                let seconds = sample.len.as_secs_f64();
                (ios as f64 / seconds, bytes as f64 / seconds / 1024.0)
            })
            .collect();
        direction(of(&counts), runtime_ms, cell.len.as_secs_f64(), &per_interval, open)
    };
    let name = if cell.label.is_empty() {
        cell.path.clone()
    } else {
        format!("{} {}", cell.path, cell.label)
    };
    let empty = Side::default();
    let error = i64::from(cell.status == "failed") * 5;
    let depth = cell.spec["loads"][0]["depth"].as_u64().unwrap_or(1);
    let total = counts.reads.ios() + counts.writes.ios();
    json!({
        "jobname": name,
        "groupid": group,
        "job_start": started_ms,
        "error": error,
        "eta": 0,
        "elapsed": cell.len.0.div_ceil(1_000_000_000),
        "job options": options(run, cell),
        "read": side(|stream| &stream.reads),
        "write": side(|stream| &stream.writes),
        "trim": direction(&empty, 0, 0.0, &[], false),
        "sync": {
            "total_ios": 0,
            "lat_ns": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0},
        },
        "job_runtime": runtime_ms,
        "usr_cpu": cpu(cell.cpu.user_ns),
        "sys_cpu": cpu(cell.cpu.system_ns),
        "ctx": cell.facts["preempted"].as_u64().unwrap_or(0),
        "majf": 0,
        "minf": 0,
        "iodepth_level": depth_levels(
            &["1", "2", "4", "8", "16", "32", ">=64"], (!open).then_some(depth), total,
        ),
        "iodepth_submit": depth_levels(&BATCHES, None, total),
        "iodepth_complete": depth_levels(&BATCHES, None, total),
        "latency_ns": buckets(&counts, 1, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
        "latency_us": buckets(&counts, 1000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
        "latency_ms": buckets(
            &counts, 1_000_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000, u64::MAX],
        ),
        "latency_depth": depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    })
}

/// The options fio would have needed, as strings.
fn options(run: &RunFile, cell: &CellRecord) -> Value {
    let load = &cell.spec["loads"][0];
    let read = load["read_percent"].as_f64().unwrap_or(100.0);
    let random = load["random"].as_bool().unwrap_or(true);
    let rw = match (random, read) {
        (false, 100.0) => "read",
        (false, 0.0) => "write",
        (false, _) => "rw",
        (true, 100.0) => "randread",
        (true, 0.0) => "randwrite",
        (true, _) => "randrw",
    };
    let block = &load[if read > 0.0 { "read_blocks" } else { "write_blocks" }][0][0];
    let target = cell.streams.first().map_or(0, |stream| stream.target);
    let mut options = Map::new();
    let mut put = |key: &str, value: String| options.insert(key.into(), value.into());
    put("name", cell.path.clone());
    put("filename", run.targets.get(target).and_then(|t| t["name"].as_str()).unwrap_or("").into());
    put("ioengine", "io_uring".into());
    put("direct", "1".into());
    put("rw", rw.into());
    put("bs", block.as_u64().unwrap_or(0).to_string());
    put("iodepth", load["depth"].as_u64().unwrap_or(1).to_string());
    put("numjobs", load["workers"].as_u64().unwrap_or(1).to_string());
    put("runtime", format!("{:.0}", cell.len.as_secs_f64()));
    put("time_based", "1".into());
    put("group_reporting", String::new());
    if rw.ends_with("rw") {
        put("rwmixread", format!("{read:.0}"));
    }
    Value::Object(options)
}

fn direction(
    side: &Side,
    runtime_ms: u64,
    seconds: f64,
    per_interval: &[(f64, f64)],
    open: bool,
) -> Value {
    let rate = |n: u64| {
        if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
    };
    let iops: Vec<f64> = per_interval.iter().map(|(iops, _)| *iops).collect();
    let bw: Vec<f64> = per_interval.iter().map(|(_, bw)| *bw).collect();
    let (bw, iops) = (spread(&bw), spread(&iops));
    let used = side.ios() > 0;
    let mut map = json!({
        "io_bytes": side.bytes,
        "io_kbytes": side.bytes / 1024,
        "bw_bytes": rate(side.bytes) as u64,
        "bw": (rate(side.bytes) / 1024.0) as u64,
        "iops": rate(side.ios()),
        "runtime": if used { runtime_ms } else { 0 },
        "total_ios": side.ios(),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": times(&side.submission, false),
        "clat_ns": times(&side.service, true),
        "lat_ns": if open { times(&side.response, true) } else { times(&side.service, true) },
    });
    if let Value::Object(map) = &mut map {
        let mut put = |key: &str, value: Value| map.insert(key.into(), value);
        put("bw_min", (bw.min as u64).into());
        put("bw_max", (bw.max as u64).into());
        put("bw_agg", (if used { 100.0 } else { 0.0 }).into());
        put("bw_mean", bw.mean.into());
        put("bw_dev", bw.deviation.into());
        put("bw_samples", bw.samples.into());
        put("iops_min", (iops.min as u64).into());
        put("iops_max", (iops.max as u64).into());
        put("iops_mean", iops.mean.into());
        put("iops_stddev", iops.deviation.into());
        put("iops_samples", iops.samples.into());
    }
    map
}

#[derive(Default)]
struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
    samples: usize,
}

fn spread(values: &[f64]) -> Spread {
    if values.is_empty() || values.iter().all(|value| *value == 0.0) {
        return Spread::default();
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Spread {
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(0.0, f64::max),
        mean,
        deviation: (squares / (n - 1.0).max(1.0)).sqrt(),
        samples: values.len(),
    }
}

fn times<K: Kind>(hist: &Hist<K>, full: bool) -> Value {
    let mut map = json!({
        "min": hist.min_ns().unwrap_or(0),
        "max": hist.max_ns().unwrap_or(0),
        "mean": hist.mean_ns().unwrap_or(0.0),
        "stddev": hist.stddev_ns().unwrap_or(0.0),
        "N": hist.count(),
    });
    if full && let (Value::Object(map), false) = (&mut map, hist.is_empty()) {
        // fio prints a percentile whatever lies beyond it, and its readers look the keys up.
        let percentile = |percent: &f64| {
            (format!("{percent:.6}"), hist.quantile_ns(*percent).unwrap_or(0).into())
        };
        let percentiles: Map<String, Value> = PERCENTILES.iter().map(percentile).collect();
        let bins: Map<String, Value> =
            hist.buckets().map(|(bucket, n)| (bucket_mid(bucket).to_string(), n.into())).collect();
        map.insert("percentile".into(), Value::Object(percentiles));
        map.insert("bins".into(), Value::Object(bins));
    }
    map
}

/// Classes of batch sizes, which are not counted here: all zero, as fio prints what it did not see.
const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// Share of the I/Os in each class of depth. In closed loop the depth is constant by construction;
/// without one (open loop, batches) nothing is claimed.
fn depth_levels(names: &[&str], depth: Option<u64>, total: u64) -> Value {
    let class = |name: &&str| name.trim_start_matches(">=").parse::<u64>().unwrap_or(0);
    let hit = depth.and_then(|depth| names.iter().rposition(|name| class(name) <= depth));
    let share = |index: usize| {
        if hit == Some(index) && total > 0 { 100.0 } else { 0.0 }
    };
    let level = |(index, name): (usize, &&str)| ((*name).to_owned(), Value::from(share(index)));
    Value::Object(names.iter().enumerate().map(level).collect())
}

/// fio's fixed classes: percent of the I/Os below each limit and not below the one before.
fn buckets(counts: &base::sample::StreamSample, unit: u64, limits: &[u64]) -> Value {
    let total = counts.ios().max(1) as f64;
    let mut map = Map::new();
    // The first class of a unit begins where the unit before it ends.
    let mut low = if unit == 1 { 0 } else { unit };
    for &limit in limits {
        let high = limit.saturating_mul(unit);
        let inside: u64 = [&counts.reads.service, &counts.writes.service]
            .iter()
            .flat_map(|hist| hist.buckets())
            .filter(|(bucket, _)| (low..high).contains(&bucket_mid(*bucket)))
            .map(|(_, n)| n)
            .sum();
        let name = if limit == u64::MAX { ">=2000".into() } else { limit.to_string() };
        map.insert(name, (inside as f64 / total * 100.0).into());
        low = high;
    }
    Value::Object(map)
}
