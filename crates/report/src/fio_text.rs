//! fio's text summary (`--output-format=normal`), for people and scripts that read it: made from what
//! [`crate::fio_json`] says, with the same caveats.

use serde_json::Value;
use std::fmt::Write as _;

/// The summary of a document of [`crate::fio_json`].
pub fn fio_text(document: &Value) -> String {
    let mut out = String::new();
    let jobs = document["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    for job in jobs {
        write_job(&mut out, job, document["time"].as_str().unwrap_or_default());
    }
    for job in jobs {
        write_group(&mut out, job);
    }
    out
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn write_job(out: &mut String, job: &Value, time: &str) {
    let name = job["jobname"].as_str().unwrap_or("job");
    let group = number(&job["groupid"]);
    let jobs = job["job options"]["numjobs"].as_str().unwrap_or("1");
    let error = number(&job["error"]);
    let _ =
        writeln!(out, "\n{name}: (groupid={group}, jobs={jobs}): err={error:2.0}: pid=0: {time}");
    for (word, key) in [("read", "read"), ("write", "write"), ("trim", "trim")] {
        if number(&job[key]["total_ios"]) > 0.0 {
            write_side(out, word, &job[key]);
        }
    }
    for (unit, key) in [("nsec", "latency_ns"), ("usec", "latency_us"), ("msec", "latency_ms")] {
        write_classes(out, unit, &job[key]);
    }
    let _ = writeln!(
        out,
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}",
        number(&job["usr_cpu"]),
        number(&job["sys_cpu"]),
        job["ctx"],
        job["majf"],
        job["minf"]
    );
    for (title, key) in [
        ("  IO depths    ", "iodepth_level"),
        ("     submit    ", "iodepth_submit"),
        ("     complete  ", "iodepth_complete"),
    ] {
        let levels = job[key].as_object();
        let shares: Vec<String> = levels
            .into_iter()
            .flatten()
            .map(|(depth, share)| format!("{depth}={:.1}%", number(share)))
            .collect();
        let _ = writeln!(out, "{title}: {}", shares.join(", "));
    }
    let total = |key: &str| number(&job[key]["total_ios"]);
    let _ = writeln!(
        out,
        "     issued rwts: total={},{},{},0 short=0,0,0,0 dropped=0,0,0,0",
        total("read"),
        total("write"),
        total("trim")
    );
    let _ = writeln!(
        out,
        "     latency   : target=0, window=0, percentile=100.00%, depth={}",
        job["latency_depth"]
    );
}

/// `481MiB` or `504MB`.
fn bytes(value: f64, base: f64) -> String {
    let binary = base > 1000.5;
    let units: [&str; 5] =
        if binary { ["B", "KiB", "MiB", "GiB", "TiB"] } else { ["B", "kB", "MB", "GB", "TB"] };
    let mut value = value;
    let mut unit = 0;
    // fio goes to the next unit with five digits, and shows three.
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{}{}", three(value), units[unit])
}

/// Three significant digits.
fn three(value: f64) -> String {
    match value {
        v if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn rate(iops: f64) -> String {
    match iops {
        v if v >= 1e6 => format!("{}M", three(v / 1e6)),
        v if v >= 1e4 => format!("{}k", three(v / 1e3)),
        v => format!("{v:.0}"),
    }
}

/// The unit in which a spread of ns is shown, with its size: as fio chooses, by its smallest and largest.
fn unit_of(times: &Value) -> (&'static str, f64) {
    let (min, max) = (number(&times["min"]), number(&times["max"]));
    match () {
        () if min > 2e6 && max > 99_999e3 => ("msec", 1e6),
        () if min > 2e3 && max > 99_999.0 => ("usec", 1e3),
        () => ("nsec", 1.0),
    }
}

fn write_side(out: &mut String, word: &str, side: &Value) {
    let bw = number(&side["bw_bytes"]);
    let _ = writeln!(
        out,
        "  {word}: IOPS={}, BW={}/s ({}/s)({}/{}msec)",
        rate(number(&side["iops"])),
        bytes(bw, 1024.0),
        bytes(bw, 1000.0),
        bytes(number(&side["io_bytes"]), 1024.0),
        side["runtime"]
    );
    for key in ["slat", "clat", "lat"] {
        let times = &side[format!("{key}_ns")];
        if number(&times["N"]) == 0.0 {
            continue;
        }
        let (unit, size) = unit_of(times);
        let of = |key: &str| number(&times[key]) / size;
        let _ = writeln!(
            out,
            "    {key:>4} ({unit}): min={:.0}, max={:.0}, avg={:.2}, stdev={:.2}",
            of("min"),
            of("max"),
            of("mean"),
            of("stddev")
        );
    }
    write_percentiles(out, &side["clat_ns"]);
    let spread = |key: &str| {
        let of = |what: &str| number(&side[format!("{key}_{what}")]);
        (
            of("min"),
            of("max"),
            of("mean"),
            of(if key == "bw" { "dev" } else { "stddev" }),
            of("samples"),
        )
    };
    let (min, max, mean, deviation, samples) = spread("bw");
    let _ = writeln!(
        out,
        "   bw (  KiB/s): min={min:5.0}, max={max:5.0}, per=100.00%, avg={mean:.2}, stdev={deviation:.2}, \
         samples={samples:.0}"
    );
    let (min, max, mean, deviation, samples) = spread("iops");
    let _ = writeln!(
        out,
        "   iops        : min={min:5.0}, max={max:5.0}, avg={mean:.2}, stdev={deviation:.2}, samples={samples:.0}"
    );
}

fn write_percentiles(out: &mut String, times: &Value) {
    let Some(all) = times["percentile"].as_object() else { return };
    let (unit, size) = unit_of(times);
    let _ = writeln!(out, "    clat percentiles ({unit}):");
    let largest = all.values().map(number).fold(0.0, f64::max) / size;
    let width = format!("{largest:.0}").len().max(4);
    let one = |(percent, ns): (&String, &Value)| {
        let percent: f64 = percent.parse().unwrap_or(0.0);
        format!("{percent:5.2}th=[{:width$.0}]", number(ns) / size)
    };
    let parts: Vec<String> = all.iter().map(one).collect();
    let lines: Vec<String> = parts.chunks(4).map(|line| line.join(", ")).collect();
    let _ = writeln!(out, "     | {}", lines.join(",\n     | "));
}

fn write_classes(out: &mut String, unit: &str, classes: &Value) {
    let parts: Vec<String> = classes
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, share)| number(share) >= 0.005)
        .map(|(limit, share)| format!("{limit}={:.2}%", number(share)))
        .collect();
    for line in parts.chunks(7) {
        let _ = writeln!(out, "  lat ({unit})   : {}", line.join(", "));
    }
}

fn write_group(out: &mut String, job: &Value) {
    let group = number(&job["groupid"]);
    let _ = writeln!(out, "\nRun status group {group} (all jobs):");
    for (word, key) in [("   READ", "read"), ("  WRITE", "write")] {
        let side = &job[key];
        if number(&side["total_ios"]) == 0.0 {
            continue;
        }
        let (bw, io) = (number(&side["bw_bytes"]), number(&side["io_bytes"]));
        let (binary, decimal) = (bytes(bw, 1024.0), bytes(bw, 1000.0));
        let _ = writeln!(
            out,
            "{word}: bw={binary}/s ({decimal}/s), {binary}/s-{binary}/s ({decimal}/s-{decimal}/s), io={} ({}), \
             run={}-{}msec",
            bytes(io, 1024.0),
            bytes(io, 1000.0),
            side["runtime"],
            side["runtime"]
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_fios_units() {
        assert_eq!(bytes(50_400_000.0, 1024.0), "48.1MiB");
        assert_eq!(bytes(50_400_000.0, 1000.0), "50.4MB");
        assert_eq!(bytes(512.0, 1024.0), "512B");
        assert_eq!(
            (rate(999.4), rate(12_345.0), rate(3_180_000.0)),
            ("999".into(), "12.3k".into(), "3.18M".into())
        );
    }
}
