//! One measured burst of Fathom or fio: rates from the tool, CPU time from outside.

use crate::step::write_plan;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is asked of both tools.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// File or device.
    pub target: &'a Path,
    /// Outstanding I/Os.
    pub depth: u32,
    /// Percent of reads.
    pub read: u32,
    /// Workers.
    pub workers: u32,
    /// Measured time in seconds.
    pub seconds: f64,
    /// CPU both tools are pinned to; none lets them run free.
    pub cpu: Option<u32>,
}

/// What a burst gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst {
    /// I/Os per second as the tool reports them.
    pub iops: f64,
    /// I/Os per second of CPU time, kernel helper threads included.
    pub per_cpu_second: f64,
    /// Median, p99 and p99.99 in ns: service time (Fathom) and `lat` (fio).
    pub latency_ns: [f64; 3],
}

fn pinned(program: &Path, cpu: Option<u32>) -> Command {
    match cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string()]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// CPU time in ns of all threads that are alive.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let time = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(time).sum()
}

/// CPU share of a child over the middle of its measured time.
fn cpu_share(child: &Child, settle: Duration, window: Duration) -> f64 {
    std::thread::sleep(settle);
    let (start, before) = (Instant::now(), cpu_ns(child.id()));
    std::thread::sleep(window);
    let used = cpu_ns(child.id()).saturating_sub(before) as f64;
    used / start.elapsed().as_nanos() as f64
}

fn failed(what: &str, output: &std::process::Output) -> io::Error {
    let text = String::from_utf8_lossy(&output.stderr);
    io::Error::other(format!("{what} failed ({}): {text}", output.status))
}

/// Fathom on a job. `extra` are further arguments, such as `--destroy`.
///
/// # Errors
/// When it does not run.
pub fn fathom(program: &Path, job: &Job<'_>, engine: &str, extra: &[&str]) -> io::Result<Burst> {
    let folder = tempfile::tempdir()?;
    let Job { depth, read, workers, .. } = job;
    let load =
        format!("pattern=\"random\", block=\"4k\", read={read}, depth={depth}, workers={workers}");
    let plan = write_plan(folder.path(), &load, job.seconds, "1s")?;
    let child = pinned(program, job.cpu)
        .arg("run")
        .arg(plan)
        .arg(job.target)
        .args(["--json", "--quiet", "--engine", engine, "-o"])
        .arg(folder.path().join("r.fathom"))
        .args(extra)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Calibration and ramp take under a second; the measured time follows.
    let window = Duration::from_secs_f64(job.seconds * 0.5);
    let share = cpu_share(&child, Duration::from_millis(1000), window);
    let output = child.wait_with_output()?;
    let document: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("fathom", &output))?;
    let cell = &document["cells"][0];
    let iops = cell["iops"].as_f64().unwrap_or(0.0);
    let side = if *read > 0 { &cell["read"] } else { &cell["write"] };
    let at = |name: &str| side["service"]["percentiles_ns"][name].as_f64().unwrap_or(f64::NAN);
    Ok(Burst {
        iops,
        per_cpu_second: iops / share.max(1e-9),
        latency_ns: [at("p50"), at("p99"), at("p99.99")],
    })
}

/// fio on the same job, with options in addition to the common ones.
///
/// # Errors
/// When it is not installed or fails.
pub fn fio(job: &Job<'_>, engine: &str, options: &[&str]) -> io::Result<Burst> {
    let Job { depth, read, workers, .. } = job;
    let rw = match read {
        100 => "randread",
        0 => "randwrite",
        _ => "randrw",
    };
    let mut arguments = vec![
        "--name=bench".into(),
        format!("--filename={}", job.target.display()),
        format!("--ioengine={engine}"),
        format!("--rw={rw}"),
        format!("--rwmixread={read}"),
        format!("--iodepth={depth}"),
        format!("--numjobs={workers}"),
        format!("--runtime={:.0}ms", job.seconds * 1e3),
    ];
    let common = [
        "--bs=4k",
        "--direct=1",
        "--thread=1",
        "--time_based=1",
        "--ramp_time=300ms",
        "--group_reporting=1",
        "--output-format=json",
        "--lat_percentiles=1",
        "--percentile_list=50:99:99.99",
        "--invalidate=0",
    ];
    arguments.extend(common.iter().map(|option| (*option).to_owned()));
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    let child = pinned(Path::new("fio"), job.cpu)
        .args(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Its start-up and ramp take about 0.8 s.
    let window = Duration::from_secs_f64(job.seconds * 0.5);
    let share = cpu_share(&child, Duration::from_millis(1000), window);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').ok_or_else(|| failed("fio", &output))?;
    let document: Value =
        serde_json::from_str(&text[start..]).map_err(|_| failed("fio", &output))?;
    let result = &document["jobs"][0];
    let rate = |side: &str| result[side]["iops"].as_f64().unwrap_or(0.0);
    let iops = rate("read") + rate("write");
    let side = if *read > 0 { &result["read"] } else { &result["write"] };
    let at = |name: &str| side["lat_ns"]["percentile"][name].as_f64().unwrap_or(f64::NAN);
    Ok(Burst {
        iops,
        per_cpu_second: iops / share.max(1e-9),
        latency_ns: [at("50.000000"), at("99.000000"), at("99.990000")],
    })
}
