//! The installed fio as an engine: a job file out, JSON in. For cross-checks, and for people who
//! trust nothing else.
//!
//! fio reports once, at its end, so a cell has a single interval. Its histogram has buckets of 1/64;
//! latencies read back are good to 0.8 % only, and its completion latency starts after the submitting
//! call: what is taken as service time here is fio's `lat` (submission + completion).

use crate::backend::{Backend, CellEnd, CellFacts, Outcome, Sink};
use crate::error::EngineError;
use crate::spec::{CellSpec, Stream, Target, extent, streams};
use crate::sys::thread::children_usage;
use base::clock::Clock;
use base::hist::{Hist, Kind};
use base::sample::{CpuUse, IntervalSample, Side, StreamSample};
use base::units::Nanos;
use plan::{Arrival, BlockMix, Demand, Load, Pattern};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs cells through fio.
pub(crate) struct FioBackend {
    targets: Vec<Target>,
    clock: Clock,
}

/// The version of the installed fio, such as `fio-3.33`; none when it does not run.
pub fn fio_version() -> Option<String> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

impl FioBackend {
    pub(crate) fn new(targets: Vec<Target>, clock: Clock) -> FioBackend {
        FioBackend { targets, clock }
    }
}

fn failed(what: impl Into<String>) -> EngineError {
    EngineError::External(what.into())
}

impl Backend for FioBackend {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn run(
        &mut self,
        cell: &CellSpec,
        sink: &mut dyn Sink,
        interrupt: &AtomicBool,
    ) -> Result<CellEnd, EngineError> {
        cell.workers(&self.targets, false)?;
        let streams = streams(&cell.loads, self.targets.len());
        let job = job_file(cell, &streams, &self.targets)?;
        let (start, before) = (self.clock.now(), children_usage());
        let (output, interrupted) = run_fio(&job, interrupt)?;
        let end = self.clock.now();
        let document = parse_output(&output)?;
        let jobs = document["jobs"].as_array().cloned().unwrap_or_default();
        let mut samples = vec![StreamSample::default(); streams.len()];
        let mut error = 0;
        for job in &jobs {
            let name = job["jobname"].as_str().unwrap_or_default();
            let index = name.strip_prefix("stream").and_then(|n| n.parse::<usize>().ok());
            let Some(sample) = index.and_then(|index| samples.get_mut(index)) else {
                continue;
            };
            read_side(&job["read"], &mut sample.reads);
            read_side(&job["write"], &mut sample.writes);
            error = error.max(job["error"].as_i64().unwrap_or(0));
        }
        let after = children_usage();
        let runtime_ms = longest_runtime_ms(&jobs);
        let sample = IntervalSample {
            seq: 0,
            start,
            len: if runtime_ms > 0 {
                Nanos(runtime_ms * 1_000_000)
            } else {
                Nanos(end.0 - start.0)
            },
            ramp: false,
            streams: samples,
            cpu: CpuUse {
                user_ns: after.user_ns.saturating_sub(before.user_ns),
                system_ns: after.system_ns.saturating_sub(before.system_ns),
            },
        };
        let _ = sink.interval(sample);
        let outcome = match (error, interrupted) {
            (0, false) => Outcome::Completed,
            (0, true) => Outcome::Interrupted,
            (number, _) => {
                let error = std::io::Error::from_raw_os_error(number as i32);
                Outcome::Failed(format!("fio ended with an error: {error}"))
            }
        };
        let workers = cell.loads.iter().map(|load| load.workers).sum();
        Ok(CellEnd { outcome, facts: CellFacts { workers, ..CellFacts::default() } })
    }
}

/// Runs fio on a job file given on its standard input; gives its output and whether it was stopped.
fn run_fio(job: &str, interrupt: &AtomicBool) -> Result<(String, bool), EngineError> {
    let mut child = Command::new("fio")
        .args(["--output-format=json+", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            failed(format!("cannot start fio: {error}; install it (apt-get install fio)"))
        })?;
    let mut input = child.stdin.take().ok_or_else(|| failed("fio has no standard input"))?;
    std::io::Write::write_all(&mut input, job.as_bytes())
        .map_err(|error| failed(format!("fio does not read its job: {error}")))?;
    drop(input);
    let mut stdout = child.stdout.take().ok_or_else(|| failed("fio has no output"))?;
    let mut stderr = child.stderr.take().ok_or_else(|| failed("fio has no error output"))?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        text
    });
    let messages = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut interrupted = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| failed(format!("fio is lost: {e}")))? {
            break status;
        }
        if interrupt.load(Ordering::Relaxed) && !interrupted {
            interrupted = true;
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&child),
                rustix::process::Signal::INT,
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = reader.join().unwrap_or_default();
    let messages = messages.join().unwrap_or_default();
    if !status.success() && !output.contains("\"jobs\"") {
        return Err(failed(format!("fio failed ({status}): {}", messages.trim())));
    }
    Ok((output, interrupted))
}

/// fio may print notices before its document.
fn parse_output(output: &str) -> Result<Value, EngineError> {
    let start = output.find('{').ok_or_else(|| failed("fio printed no JSON"))?;
    let mut stream = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
    match stream.next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(error)) => Err(failed(format!("fio's JSON cannot be read: {error}"))),
        None => Err(failed("fio printed no JSON")),
    }
}

fn longest_runtime_ms(jobs: &[Value]) -> u64 {
    let runtime = |job: &Value, side: &str| job[side]["runtime"].as_u64().unwrap_or(0);
    jobs.iter().map(|job| runtime(job, "read").max(runtime(job, "write"))).max().unwrap_or(0)
}

fn read_side(from: &Value, side: &mut Side) {
    side.bytes += from["io_bytes"].as_u64().unwrap_or(0);
    side.errors += from["short_ios"].as_u64().unwrap_or(0);
    read_bins(&from["lat_ns"], &from["clat_ns"], &mut side.service);
    read_bins(&from["slat_ns"], &Value::Null, &mut side.submission);
    // Without bins for `lat`, or with fewer samples than I/Os, the count still has to be right.
    let ios = from["total_ios"].as_u64().unwrap_or(0);
    let missing = ios.saturating_sub(side.service.count());
    let mean = from["lat_ns"]["mean"].as_f64().unwrap_or(0.0);
    side.service.record_n(mean as u64, missing);
}

fn read_bins<K: Kind>(from: &Value, other: &Value, hist: &mut Hist<K>) {
    let bins = from["bins"].as_object().or_else(|| other["bins"].as_object());
    for (key, count) in bins.into_iter().flatten() {
        if let (Ok(value), Some(count)) = (key.parse::<u64>(), count.as_u64()) {
            hist.record_n(value, count);
        }
    }
}

/// The job file of a cell.
fn job_file(
    cell: &CellSpec,
    streams: &[Stream],
    targets: &[Target],
) -> Result<String, EngineError> {
    let mut text = String::from(
        "[global]\nioengine=io_uring\nthread=1\ngroup_reporting=1\nfixedbufs=1\nregisterfiles=1\n\
         norandommap=1\nrefill_buffers=1\nlat_percentiles=1\nclat_percentiles=0\nrandrepeat=1\n",
    );
    let put = |text: &mut String, key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{key}={value}");
    };
    if cell.window.ramp.0 > 0 {
        put(&mut text, "ramp_time", &format!("{}us", cell.window.ramp.0 / 1000));
    }
    if let Some(time) = cell.window.time {
        put(&mut text, "runtime", &format!("{}us", time.0 / 1000));
        if cell.window.amount.is_none() {
            put(&mut text, "time_based", &1);
        }
    }
    for (index, stream) in streams.iter().enumerate() {
        let (load, target) = (&cell.loads[stream.load], &targets[stream.target]);
        let (start, end) = extent(load, target);
        let _ = writeln!(text, "[stream{index}]");
        put(&mut text, "filename", &target.path.display().to_string().replace(':', "\\:"));
        put(&mut text, "direct", &u32::from(target.direct == crate::Direct::Yes));
        put(&mut text, "offset", &start);
        put(&mut text, "size", &(end - start));
        put(&mut text, "randseed", &(cell.seed & 0xffff_ffff));
        put(&mut text, "iodepth", &load.depth);
        put(&mut text, "numjobs", &load.workers);
        if let Some(amount) = cell.window.amount {
            let bytes = amount.on(end - start, target.size);
            put(&mut text, "io_size", &(bytes / u64::from(load.workers)));
        }
        put_load(&mut text, load)?;
    }
    Ok(text)
}

fn put_load(text: &mut String, load: &Load) -> Result<(), EngineError> {
    let (random, extra) = match &load.pattern {
        Pattern::Sequential(_) => (false, String::new()),
        Pattern::Random => (true, String::new()),
        Pattern::Jumps(percent) => (true, format!("percentage_random={percent:.0}\n")),
        Pattern::RandomOnce => (true, "norandommap=0\n".into()),
        Pattern::Zipf(theta) => (true, format!("random_distribution=zipf:{theta}\n")),
        Pattern::Zones(zones) => {
            let zone = |zone: &plan::Zone| format!("{}/{}", zone.access, zone.size);
            let list: Vec<String> = zones.iter().map(zone).collect();
            (true, format!("random_distribution=zoned:{}\n", list.join(":")))
        }
        Pattern::ZoneJumps(..) => {
            return Err(failed("fio has no zones with a share of random; use the uring engine"));
        }
        Pattern::Trace(_) => {
            return Err(failed("--engine fio replays no recordings; use the uring engine"));
        }
    };
    let rw = match (random, load.reads(), load.writes()) {
        (false, true, false) => "read",
        (false, false, true) => "write",
        (false, ..) => "rw",
        (true, true, false) => "randread",
        (true, false, true) => "randwrite",
        (true, ..) => "randrw",
    };
    let _ = write!(text, "rw={rw}\nrwmixread={:.0}\n{extra}", load.read_percent);
    if load.read_blocks.0.len() == 1 && load.write_blocks.0.len() == 1 {
        let _ = writeln!(text, "bs={},{}", load.read_blocks.max().0, load.write_blocks.max().0);
    } else {
        let _ =
            writeln!(text, "bssplit={},{}", split(&load.read_blocks), split(&load.write_blocks));
    }
    if let Some(align) = load.align {
        let _ = writeln!(text, "blockalign={}", align.0);
    }
    if load.data.zero {
        text.push_str("zero_buffers=1\n");
    }
    if load.data.compress_ratio > 1.0 {
        let percent = 100.0 - 100.0 / load.data.compress_ratio;
        let _ = writeln!(
            text,
            "buffer_compress_percentage={percent:.0}\nbuffer_compress_chunk={}",
            load.data.unit.0
        );
    }
    if load.data.dedup_ratio > 1.0 {
        let percent = 100.0 - 100.0 / load.data.dedup_ratio;
        let _ = writeln!(text, "dedupe_percentage={percent:.0}");
    }
    if load.weight.is_some() {
        return Err(failed("--engine fio cannot run loads with `weight`; use the uring engine"));
    }
    if let Demand::Open { rate_iops, arrival, .. } = load.demand {
        let rate = (rate_iops / f64::from(load.workers)).round();
        let read = (rate * load.read_percent / 100.0).round();
        let _ = writeln!(text, "rate_iops={read},{}", rate - read);
        match arrival {
            Arrival::Poisson => text.push_str("rate_process=poisson\n"),
            Arrival::Deterministic | Arrival::Recorded => {}
            Arrival::Uniform => {
                return Err(failed("fio has no uniform arrivals; use the uring engine"));
            }
        }
    }
    Ok(())
}

/// fio wants whole percents that sum to 100.
fn split(mix: &BlockMix) -> String {
    let total: f64 = mix.0.iter().map(|&(_, weight)| weight).sum();
    let part = |&(block, weight): &(base::units::Bytes, f64)| {
        format!("{}/{:.0}", block.0, weight / total * 100.0)
    };
    mix.0.iter().map(part).collect::<Vec<_>>().join(":")
}
