//! VDBench's tables, for programs that read its output: the flatfile, with its column names, and the
//! totals. Columns are to be picked by name, as with VDBench itself; what a run has no word for is `n/a`.

use crate::output::OutputError;
use base::hist::{Hist, Service};
use base::sample::{CpuUse, IntervalSample, StreamSample};
use std::fmt::Write as _;
use store::{CellRecord, RunFile};

/// Columns of version 5.04.07 for raw devices.
const COLUMNS: [&str; 37] = [
    "tod",
    "timestamp",
    "Run",
    "Interval",
    "reqrate",
    "rate",
    "MB/sec",
    "bytes/io",
    "read%",
    "resp",
    "read_resp",
    "write_resp",
    "resp_max",
    "read_max",
    "write_max",
    "resp_std",
    "read_std",
    "write_std",
    "xfersize",
    "threads",
    "rdpct",
    "rhpct",
    "whpct",
    "seekpct",
    "lunsize",
    "version",
    "compratio",
    "dedupratio",
    "queue_depth",
    "cpu_used",
    "cpu_user",
    "cpu_kernel",
    "cpu_wait",
    "cpu_idle",
    "p50",
    "p99",
    "p99.99",
];

/// A line of the flatfile: an interval, or the mean over all that count.
struct Line<'a> {
    run: &'a RunFile,
    cell: &'a CellRecord,
    label: String,
    at_ms: u64,
    seconds: f64,
    counts: StreamSample,
    cpu: CpuUse,
}

/// The flatfile: a line for each interval, and one for the mean over all that count.
///
/// # Errors
/// When the run file is damaged.
pub fn flatfile(run: &RunFile) -> Result<String, OutputError> {
    let mut out = String::from(
        "* Made by fathom in the form of VDBench's flatfile: pick columns by name, not by position.\n\
         * resp is the service time in milliseconds, as VDBench has it; p50, p99 and p99.99 are columns of\n\
         * our own, and in an open loop of the response time, from when an I/O was due.\n",
    );
    let _ = writeln!(out, "{}", COLUMNS.join(" "));
    for cell in run.cells.iter().filter(|cell| cell.counted) {
        let samples = run.intervals(cell.id)?;
        for sample in &samples {
            let _ = writeln!(out, "{}", line(&interval(run, cell, sample)));
        }
        let first = samples.iter().filter(|sample| sample.ramp).count() + 1;
        let mean =
            Line { label: format!("avg_{first}-{}", samples.len().max(first)), ..whole(run, cell) };
        let _ = writeln!(out, "{}", line(&mean));
    }
    Ok(out)
}

/// The totals: a line for each run, as in totals.html, without markup.
pub fn totals(run: &RunFile) -> String {
    let head = [
        "Run",
        "i/o rate",
        "MB/sec",
        "bytes/io",
        "read %",
        "resp",
        "read resp",
        "write resp",
        "resp max",
        "resp stddev",
        "queue depth",
        "cpu% sys+usr",
        "cpu% sys",
    ];
    let row = |cell: &CellRecord| {
        let line = whole(run, cell);
        let values = values(&line);
        let names = [
            "Run",
            "rate",
            "MB/sec",
            "bytes/io",
            "read%",
            "resp",
            "read_resp",
            "write_resp",
            "resp_max",
            "resp_std",
            "queue_depth",
            "cpu_used",
            "cpu_kernel",
        ];
        let pick = |name: &&str| {
            let at = COLUMNS.iter().position(|column| column == name).unwrap_or(0);
            values[at].clone()
        };
        names.iter().map(pick).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = run.cells.iter().filter(|cell| cell.counted).map(row).collect();
    crate::table_of(&head, &rows)
}

/// CPUs of the host that made the run; this one may be another.
pub(crate) fn host_cpus(run: &RunFile) -> f64 {
    run.meta_json("host")["cpus"].as_u64().unwrap_or(1).max(1) as f64
}

/// The share of I/Os that jump, in percent, where the pattern has one.
fn seek_percent(load: &serde_json::Value) -> String {
    let pattern = load["pattern"].as_str().unwrap_or_default();
    let word = pattern.split('(').next().unwrap_or_default();
    match word {
        "Sequential" => "0".into(),
        "Random" | "RandomOnce" | "Zipf" | "Zones" => "100".into(),
        "Jumps" => pattern.trim_start_matches("Jumps(").trim_end_matches(')').into(),
        _ => "n/a".into(),
    }
}

/// A time of the run's clock as one of day, counted from the run's start to its first cell.
fn wall_ms(run: &RunFile, at_ns: u64) -> u64 {
    let started = run.meta("started_unix_ms").parse::<u64>().unwrap_or(0);
    let first = run.cells.first().map_or(at_ns, |cell| cell.start.0);
    started + at_ns.saturating_sub(first) / 1_000_000
}

fn interval<'a>(run: &'a RunFile, cell: &'a CellRecord, sample: &IntervalSample) -> Line<'a> {
    let mut counts = StreamSample::default();
    sample.streams.iter().for_each(|stream| counts.merge(stream));
    Line {
        run,
        cell,
        label: (sample.seq + 1).to_string(),
        at_ms: wall_ms(run, sample.start.0 + sample.len.0),
        seconds: sample.len.as_secs_f64(),
        counts,
        cpu: sample.cpu,
    }
}

fn whole<'a>(run: &'a RunFile, cell: &'a CellRecord) -> Line<'a> {
    Line {
        run,
        cell,
        label: "avg".into(),
        at_ms: wall_ms(run, cell.start.0 + cell.len.0),
        seconds: cell.len.as_secs_f64(),
        counts: cell.merged(),
        cpu: cell.cpu,
    }
}

fn line(line: &Line<'_>) -> String {
    values(line).join(" ")
}

/// The values in the order of the columns.
fn values(line: &Line<'_>) -> Vec<String> {
    [measured(line), asked(line), host(line)].concat()
}

fn ms(ns: Option<f64>) -> String {
    ns.map_or("0.000".into(), |ns| format!("{:.3}", ns / 1e6))
}

fn whole_ms(ns: Option<u64>) -> String {
    ms(ns.map(|ns| ns as f64))
}

fn both(line: &Line<'_>) -> Hist<Service> {
    let mut both = line.counts.reads.service.clone();
    both.merge(&line.counts.writes.service);
    both
}

/// Up to `write_std`: when, how much, how long.
fn measured(line: &Line<'_>) -> Vec<String> {
    let Line { cell, counts, seconds, .. } = line;
    let (reads, writes, ios, bytes) = (&counts.reads, &counts.writes, counts.ios(), counts.bytes());
    let both = both(line);
    let per_second = |n: u64| n as f64 / seconds.max(1e-9);
    let share = if ios > 0 { reads.ios() as f64 / ios as f64 * 100.0 } else { 0.0 };
    let at = jiff::Timestamp::from_millisecond(line.at_ms as i64).unwrap_or_default();
    let reqrate = cell.streams.iter().filter_map(|stream| stream.rate_iops).reduce(f64::max);
    let name = [cell.path.as_str(), cell.label.as_str()].join("_").replace([' ', '\t'], "_");
    let mut all = vec![
        at.strftime("%H:%M:%S%.3f").to_string(),
        at.strftime("%m/%d/%Y-%H:%M:%S-UTC").to_string(),
        name.trim_end_matches('_').to_owned(),
        line.label.clone(),
        // As VDBench writes an unlimited rate.
        reqrate.map_or("9999988".into(), |rate| format!("{rate:.0}")),
        format!("{:.4}", per_second(ios)),
        format!("{:.4}", per_second(bytes) / f64::from(1 << 20)),
        bytes.checked_div(ios).unwrap_or(0).to_string(),
        format!("{share:.2}"),
    ];
    let sides = [&both, &reads.service, &writes.service];
    all.extend(sides.map(|side| ms(side.mean_ns())));
    all.extend(sides.map(|side| whole_ms(side.max_ns())));
    all.extend(sides.map(|side| ms(side.stddev_ns())));
    all
}

/// From `xfersize` to `dedupratio`: what was asked for.
fn asked(line: &Line<'_>) -> Vec<String> {
    let Line { run, cell, counts, .. } = line;
    let load = &cell.spec["loads"][0];
    let text = |value: &serde_json::Value| value.as_f64().map_or("n/a".into(), |v| format!("{v}"));
    let side = if counts.reads.ios() > 0 { "read_blocks" } else { "write_blocks" };
    let threads = load["depth"].as_u64().unwrap_or(1) * load["workers"].as_u64().unwrap_or(1);
    let size = run.targets.first().and_then(|t| t["size_bytes"].as_u64()).unwrap_or(0);
    vec![
        text(&load[side][0][0]),
        threads.to_string(),
        text(&load["read_percent"]),
        "n/a".into(),
        "n/a".into(),
        seek_percent(load),
        size.to_string(),
        format!("fathom-{}", run.meta("fathom_version")),
        text(&load["data"]["compress_ratio"]),
        text(&load["data"]["dedup_ratio"]),
    ]
}

/// From `queue_depth` on.
fn host(line: &Line<'_>) -> Vec<String> {
    let seconds = line.seconds.max(1e-9);
    // Little's law: what was on its way on average.
    let queue = line.counts.ios() as f64 / seconds * both(line).mean_ns().unwrap_or(0.0) / 1e9;
    let cpus = host_cpus(line.run);
    let cpu = |ns: u64| ns as f64 / 1e9 / seconds / cpus * 100.0;
    let (user, kernel) = (cpu(line.cpu.user_ns), cpu(line.cpu.system_ns));
    let felt = analysis::felt(&line.counts);
    let mut all = vec![
        format!("{queue:.3}"),
        format!("{:.1}", user + kernel),
        format!("{user:.1}"),
        format!("{kernel:.1}"),
        "n/a".into(),
        "n/a".into(),
    ];
    all.extend([50.0, 99.0, 99.99].map(|percent| whole_ms(felt.quantile_ns(percent))));
    all
}
