//! What the live page costs a run: I/Os while two viewers are served against I/Os while the server stands
//! still, in pairs of random order within one run, with the interval of their ratio; and the CPU time that
//! the server takes, which is the most that it can take from workers that leave no CPU idle.
//!
//! `cargo run --release -p bench --bin viewers [PAIRS [WORKERS [TARGET [VIEWERS]]]]`; a pair takes two
//! seconds.
//! Without a target a sparse file is read (no drive). Needs the release build of `fathom`: `FATHOM_BIN`, or
//! beside this program.

use analysis::Ratio;
use base::clock::Clock;
use base::rng::Rng;
use base::sample::StreamSample;
use bench::step::fathom_program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::RunFile;

const SLOT: Duration = Duration::from_secs(1);
/// Share of the pairs left out at either end of the trimmed mean: a stolen CPU makes the tails long.
const TRIM: f64 = 0.2;
const RUN: &str = "watched.fathom";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let pairs: u32 = args.first().and_then(|n| n.parse().ok()).unwrap_or(100);
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let here = folder.path();
    let viewers: u32 = args.get(3).and_then(|n| n.parse().ok()).unwrap_or(2);
    let target = args.get(2).filter(|path| !path.is_empty()).cloned().unwrap_or_else(|| {
        let path = here.join("holes");
        std::fs::File::create(&path).and_then(|file| file.set_len(1 << 32)).expect("a sparse file");
        path.display().to_string()
    });
    let cpus = engine::allowed_cpus().len();
    let workers = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(cpus);
    println!("{pairs} pairs of {SLOT:?}, {workers} workers at depth 32, {viewers} viewers");
    let seconds = u64::from(pairs) * 2 * SLOT.as_secs() + 30;
    let plan = format!(
        "name = \"watched\"\ninterval = \"100ms\"\n[[step]]\nname = \"reads\"\nload = {{ block = \"4k\", pattern = \"random\", \
         read = 100, depth = 32, workers = {workers}, ramp = \"1s\", time = \"{seconds}s\" }}\n"
    );
    std::fs::write(here.join("plan.toml"), plan).expect("a plan");
    let mut run = program(here, &["run", "plan.toml", &target, "-q", "-o", RUN]);
    let (mut server, at) = serve(here);
    while RunFile::open_head(&here.join(RUN)).is_err() {
        std::thread::sleep(Duration::from_millis(200));
    }
    let seen = Arc::new(AtomicU64::new(0));
    (0..viewers).for_each(|_| watch(&at, seen.clone()));
    std::thread::sleep(Duration::from_secs(3));
    let before = cpu_seconds(&server);
    let slots = alternate(&server, pairs);
    let used = cpu_seconds(&server) - before;
    let served: f64 = slots.iter().filter(|s| s.2).map(|s| (s.1 - s.0) as f64 / 1e9).sum();
    signal(&server, "-CONT");
    signal(&run, "-INT");
    run.wait().expect("the run ends");
    let _ = server.kill();
    let _ = server.wait();
    let logs = log_ratios(&here.join(RUN), &slots);
    tell_ratio(logs, viewers, seen.load(Ordering::Relaxed));
    println!(
        "the server takes {:.2} ms of CPU a second: {:.3} % of the host's {cpus} CPUs",
        used / served * 1e3,
        used / served / cpus as f64 * 100.0
    );
}

fn tell_ratio(logs: Vec<f64>, viewers: u32, changes: u64) {
    let ratio = Ratio::of(&logs, 0.95, 1).expect("three pairs");
    println!(
        "I/Os with {viewers} viewers to without: {:.4}, 95 % interval {:.4} .. {:.4}, {} pairs; the viewers \
         got {changes} changes",
        ratio.ratio, ratio.low, ratio.high, ratio.n,
    );
    let (middle, half) = trimmed(logs);
    println!(
        "mean without the outer {:.0} % at either end: {:.4}, 95 % interval {:.4} .. {:.4}",
        TRIM * 100.0,
        middle.exp(),
        (middle - half).exp(),
        (middle + half).exp()
    );
}

/// Trimmed mean and half of its 95 % interval (Yuen 1974: the winsorized variance over (1 - 2 x trim)^2 n).
fn trimmed(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let cut = (n as f64 * TRIM) as usize;
    let kept = &values[cut..n - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let (low, high) = (kept[0], kept[kept.len() - 1]);
    let winsorized: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
    let centre = winsorized.iter().sum::<f64>() / n as f64;
    let variance =
        winsorized.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (n - 1) as f64;
    (mean, 1.96 * (variance / n as f64).sqrt() / (1.0 - 2.0 * TRIM))
}

fn program(here: &Path, args: &[&str]) -> Child {
    let program = fathom_program().and_then(std::fs::canonicalize).expect("fathom");
    let mut command = Command::new(program);
    command.args(args).current_dir(here).env("XDG_STATE_HOME", here.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("fathom starts")
}

fn serve(here: &Path) -> (Child, String) {
    let mut server = program(here, &["serve", ".", "--listen", "0"]);
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("an address");
    let at = line.split("/?").next().unwrap_or_default().trim_start_matches("http://").to_owned();
    (server, at)
}

/// A viewer: takes every change and does nothing with it, as the browser is on another machine.
fn watch(at: &str, seen: Arc<AtomicU64>) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let request = format!("GET /api/v1/runs/{RUN}/live HTTP/1.1\r\nhost: {at}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it listens");
    std::thread::spawn(move || {
        let mut bytes = [0; 1 << 16];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            let changes = bytes[..n].windows(6).filter(|part| *part == b"data: ").count();
            seen.fetch_add(changes as u64, Ordering::Relaxed);
        }
    });
}

/// CPU time of a process and its threads, as the scheduler counts it: the ticks of `stat` hit whoever wakes
/// with the timer too often.
fn cpu_seconds(child: &Child) -> f64 {
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it lives").flatten();
    let nanos = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.map(nanos).sum::<f64>() / 1e9
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
}

/// Start and end of each slot on the run's clock, and whether the viewers were served.
type Slot = (u64, u64, bool);

fn alternate(server: &Child, pairs: u32) -> Vec<Slot> {
    let clock = Clock::host();
    let mut rng = Rng::new(1);
    let mut slots = Vec::new();
    for _ in 0..pairs {
        let first = rng.below(2) == 0;
        for served in [first, !first] {
            signal(server, if served { "-CONT" } else { "-STOP" });
            let start = clock.now().0;
            std::thread::sleep(SLOT);
            slots.push((start, clock.now().0, served));
        }
    }
    slots
}

/// Logarithm of I/Os a second while served to those while not, pair by pair, over the intervals that lie
/// wholly in a slot.
fn log_ratios(file: &Path, slots: &[Slot]) -> Vec<f64> {
    let run = RunFile::open(file).expect("the run file");
    let cell = run.cells.first().expect("a load").id;
    let mut rates: Vec<(u64, u64, f64)> = Vec::new();
    run.each_interval(cell, 0, |interval| {
        let mut sum = StreamSample::default();
        interval.streams.iter().for_each(|stream| sum.merge(stream));
        let (start, len) = (interval.start.0, interval.len.0);
        rates.push((start, start + len, sum.ios() as f64 / len as f64));
    })
    .expect("intervals");
    let mean = |slot: &Slot| {
        let inside = rates.iter().filter(|rate| rate.0 >= slot.0 && rate.1 <= slot.1);
        let inside: Vec<f64> = inside.map(|rate| rate.2).collect();
        inside.iter().sum::<f64>() / inside.len() as f64
    };
    let log = |pair: &[Slot]| {
        let [a, b] = [mean(&pair[0]), mean(&pair[1])];
        if pair[0].2 { (a / b).ln() } else { (b / a).ln() }
    };
    slots.chunks_exact(2).map(log).filter(|log| log.is_finite()).collect()
}
