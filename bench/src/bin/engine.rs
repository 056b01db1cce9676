//! Fathom against fio on the same target, CPU, depth, buffers and files, interleaved.
//!
//! Prints I/Os per CPU-second (median and best), the median of the ratios paired by round, both
//! tools' latencies, the ring's no-op ceiling, Fathom's own share, and user instructions per I/O.
//! Targets: holes of a sparse file (complete inline: no device), and a zram disk where root allows.
//!
//! Usage: engine [--rounds N] [--seconds S] [--folder DIR] [--skip-reads] [--skip-zram] [--skip-writes]

use bench::median;
use bench::peer::{Burst, Job, fathom, fio};
use bench::step::{Entry, busiest_thread, count, fathom_program, find_thread, write_plan};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const FIXED: [&str; 2] = ["--fixedbufs=1", "--registerfiles=1"];
const BEST: [&str; 5] = [
    "--fixedbufs=1",
    "--registerfiles=1",
    "--norandommap=1",
    "--iodepth_batch_submit=32",
    "--iodepth_batch_complete_max=32",
];

#[derive(Clone, Copy)]
enum Tool {
    Fathom { engine: &'static str },
    Fio { engine: &'static str, options: &'static [&'static str] },
}

/// One line of a table.
struct Row {
    name: &'static str,
    tool: Tool,
    depth: u32,
    /// Name of the Fathom row it is compared with; empty for Fathom itself.
    against: &'static str,
    bursts: Vec<Burst>,
}

fn row(name: &'static str, tool: Tool, depth: u32, against: &'static str) -> Row {
    Row { name, tool, depth, against, bursts: Vec::new() }
}

/// The rows of a table over depths.
fn rows(sync: bool) -> Vec<Row> {
    let uring = Tool::Fathom { engine: "uring" };
    let default = Tool::Fio { engine: "io_uring", options: &FIXED };
    let mut rows =
        vec![row("fathom uring", uring, 1, ""), row("fio io_uring", default, 1, "fathom uring")];
    if sync {
        rows.push(row("fathom sync", Tool::Fathom { engine: "sync" }, 1, ""));
        rows.push(row("fio psync", Tool::Fio { engine: "psync", options: &[] }, 1, "fathom sync"));
    }
    for depth in [32, 128] {
        let best = Tool::Fio { engine: "io_uring", options: &BEST };
        rows.push(row("fathom uring", uring, depth, ""));
        rows.push(row("fio io_uring, default batching", default, depth, "fathom uring"));
        rows.push(row("fio io_uring at its best", best, depth, "fathom uring"));
    }
    rows
}

struct Options {
    rounds: usize,
    seconds: f64,
    folder: PathBuf,
    zram: bool,
    writes: bool,
    reads: bool,
}

fn options() -> Options {
    let mut options = Options {
        rounds: 5,
        seconds: 2.0,
        folder: PathBuf::from("."),
        zram: true,
        writes: true,
        reads: true,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word.as_str() {
            "--rounds" => options.rounds = value().parse().unwrap_or(5),
            "--seconds" => options.seconds = value().parse().unwrap_or(2.0),
            "--folder" => options.folder = value().into(),
            "--skip-reads" => options.reads = false,
            "--skip-zram" => options.zram = false,
            "--skip-writes" => options.writes = false,
            other => {
                eprintln!(
                    "engine: unknown option {other}; see the head of bench/src/bin/engine.rs"
                );
                std::process::exit(2);
            }
        }
    }
    options
}

fn main() -> io::Result<()> {
    let options = options();
    let program = fathom_program()?;
    let cpus = std::thread::available_parallelism()?.get() as u32;
    let cpu = Some(cpus - 1);
    println!(
        "Fathom against fio, pinned to CPU {}, {} rounds of {} s, interleaved.",
        cpus - 1,
        options.rounds,
        options.seconds
    );
    let folder = tempfile::tempdir_in(&options.folder)?;
    let holes = folder.path().join("holes");
    std::fs::File::create(&holes)?.set_len(4 << 30)?;
    let job =
        |target, read| Job { target, depth: 1, read, workers: 1, seconds: options.seconds, cpu };
    table(
        "Sparse file, 4 KiB random reads of holes (no device)",
        &program,
        job(&holes, 100),
        &[],
        wanted(rows(true), &options),
        &options,
    )?;
    if options.zram {
        match Zram::new() {
            Ok(zram) => {
                let device = zram.path();
                let word = zram.0.clone();
                let destroy = ["--destroy", word.as_str()];
                table(
                    "zram, 4 KiB random reads, unwritten (all punted to kernel threads)",
                    &program,
                    job(&device, 100),
                    &[],
                    wanted(rows(true), &options),
                    &options,
                )?;
                if options.writes {
                    table(
                        "zram, 4 KiB random writes, incompressible",
                        &program,
                        job(&device, 0),
                        &destroy,
                        rows(false),
                        &options,
                    )?;
                    table(
                        "zram, 4 KiB random 70/30, incompressible",
                        &program,
                        job(&device, 70),
                        &destroy,
                        rows(false),
                        &options,
                    )?;
                }
            }
            Err(error) => println!("\nzram: NOT RUN: {error} (needs root and the zram module)"),
        }
    }
    throttled(&program, &holes, &options)?;
    own(&program)?;
    instructions(&program, &holes)
}

/// Both tools on a loop device that a control group holds to 2,000 reads a second: the target is the
/// bottleneck, so the distributions must agree.
fn throttled(program: &Path, backing: &Path, options: &Options) -> io::Result<()> {
    let limit = match Throttle::new(backing, 2000) {
        Ok(limit) => limit,
        Err(error) => {
            println!(
                "\nthrottled loop device: NOT RUN: {error} (needs root and the io controller)"
            );
            return Ok(());
        }
    };
    let device = limit.device.clone();
    let job = Job {
        target: &device,
        depth: 4,
        read: 100,
        workers: 1,
        seconds: options.seconds.max(4.0),
        cpu: None,
    };
    let default = Tool::Fio { engine: "io_uring", options: &FIXED };
    let rows = vec![
        row("fathom uring", Tool::Fathom { engine: "uring" }, 4, ""),
        row("fio io_uring", default, 4, "fathom uring"),
    ];
    table(
        "Loop device held to 2,000 IOPS by a control group, depth 4",
        program,
        job,
        &[],
        rows,
        options,
    )
}

/// A loop device with a limit on its reads; this process and its children are under it until the end.
struct Throttle {
    device: PathBuf,
    group: PathBuf,
}

impl Throttle {
    fn new(backing: &Path, iops: u32) -> io::Result<Throttle> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(backing).output()?;
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let throttle =
            |group: &str| Throttle { device: device.clone(), group: PathBuf::from(group) };
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbers = std::fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        let numbers = numbers.trim();
        let (limit, line) = if Path::new("/sys/fs/cgroup/blkio").is_dir() {
            ("blkio.throttle.read_iops_device", format!("{numbers} {iops}"))
        } else {
            ("io.max", format!("{numbers} riops={iops}"))
        };
        let root = if limit == "io.max" { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/blkio" };
        let throttle = throttle(&format!("{root}/fathom-bench"));
        std::fs::create_dir_all(&throttle.group)?;
        std::fs::write(throttle.group.join(limit), line)?;
        std::fs::write(throttle.group.join("cgroup.procs"), std::process::id().to_string())?;
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Some(root) = self.group.parent() {
            let _ = std::fs::write(root.join("cgroup.procs"), std::process::id().to_string());
        }
        let _ = std::fs::remove_dir(&self.group);
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// A zram disk of 1 GiB, removed at the end.
struct Zram(String);

impl Zram {
    fn new() -> io::Result<Zram> {
        let output = Command::new("zramctl").args(["--find", "--size", "1G"]).output()?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match path.strip_prefix("/dev/") {
            Some(name) if output.status.success() => Ok(Zram(name.to_owned())),
            _ => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.0)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = Command::new("zramctl").arg("--reset").arg(self.path()).status();
    }
}

/// Removes what a table of reads would measure, when reads are to be left out.
fn wanted(rows: Vec<Row>, options: &Options) -> Vec<Row> {
    if options.reads { rows } else { Vec::new() }
}

fn table(
    title: &str,
    program: &Path,
    job: Job<'_>,
    extra: &[&str],
    mut rows: Vec<Row>,
    options: &Options,
) -> io::Result<()> {
    for round in 0..options.rounds {
        // Forward and backward in turn, so that drift of the host hits both alike.
        let order: Vec<usize> = if round % 2 == 0 {
            (0..rows.len()).collect()
        } else {
            (0..rows.len()).rev().collect()
        };
        for index in order {
            let job = Job { depth: rows[index].depth, ..job };
            let burst = match rows[index].tool {
                Tool::Fathom { engine } => fathom(program, &job, engine, extra)?,
                Tool::Fio { engine, options } => {
                    let data: &[&str] = if job.read < 100 { &["--refill_buffers=1"] } else { &[] };
                    fio(&job, engine, &[options, data].concat())?
                }
            };
            rows[index].bursts.push(burst);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    println!("\n{title}");
    println!(
        "{:<32} {:>5} {:>12} {:>8} {:>10} {:>9} {:>9} {:>9}",
        "", "depth", "kIO/CPU-s", "best", "fathom/it", "p50 us", "p99 us", "p99.99 us"
    );
    for row in &rows {
        let per: Vec<f64> = row.bursts.iter().map(|burst| burst.per_cpu_second / 1e3).collect();
        let best = per.iter().copied().fold(0.0, f64::max);
        let latency = |at: usize| {
            let values: Vec<f64> = row.bursts.iter().map(|b| b.latency_ns[at] / 1e3).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        println!(
            "{:<32} {:>5} {:>12.0} {:>8.0} {:>10} {:>9.2} {:>9.2} {:>9.2}",
            row.name,
            row.depth,
            median(&per).unwrap_or(f64::NAN),
            best,
            ratio(row, &rows),
            latency(0),
            latency(1),
            latency(2),
        );
    }
    Ok(())
}

/// Median of Fathom's rate over this row's, paired by round.
fn ratio(row: &Row, rows: &[Row]) -> String {
    let base = rows.iter().find(|other| {
        other.name == row.against && other.depth == row.depth && other.against.is_empty()
    });
    let Some(base) = base else {
        return String::new();
    };
    let ratios: Vec<f64> = base
        .bursts
        .iter()
        .zip(&row.bursts)
        .map(|(ours, theirs)| ours.per_cpu_second / theirs.per_cpu_second)
        .collect();
    median(&ratios).map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
}

/// The ring's no-op ceiling and Fathom's own share, as the instrument measures them.
fn own(program: &Path) -> io::Result<()> {
    let output = Command::new(program).args(["calibrate", "--time", "500ms"]).output()?;
    println!("\n{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Exact counts by single-stepping, both tools on the sparse file.
fn instructions(program: &Path, target: &Path) -> io::Result<()> {
    println!("User-space instructions per I/O, single-stepped on the sparse file:");
    let folder = tempfile::tempdir()?;
    for (engine, depth, entry, entries) in [
        ("uring", 1, Entry::Ring, 300),
        ("uring", 32, Entry::Ring, 40),
        ("sync", 1, Entry::Sync, 300),
    ] {
        let load = format!("pattern=\"random\", block=\"4k\", read=100, depth={depth}");
        let plan = write_plan(folder.path(), &load, 60.0, "1h")?;
        let run = folder.path().join(format!("{engine}-{depth}.fathom"));
        let mut child = Command::new(program)
            .arg("run")
            .arg(plan)
            .arg(target)
            .args(["--quiet", "--engine", engine, "-o"])
            .arg(run)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(1500));
        let found = find_thread(child.id(), "fathom-w0").and_then(|tid| count(tid, entry, entries));
        say(&format!("fathom {engine}"), depth, found.map(|count| count.per_io()));
        child.kill()?;
        child.wait()?;
    }
    for (name, depth, options, entries) in [
        ("fio io_uring", 1, &FIXED[..], 60),
        ("fio io_uring", 32, &FIXED[..], 60),
        ("fio io_uring at its best", 32, &BEST[..], 6),
    ] {
        let mut child = Command::new("fio")
            .args(["--name=step", "--rw=randread", "--bs=4k", "--direct=1", "--thread=1"])
            .args(["--ioengine=io_uring", "--time_based=1", "--runtime=60"])
            .arg(format!("--filename={}", target.display()))
            .arg(format!("--iodepth={depth}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(1500));
        let found = busiest_thread(child.id()).and_then(|tid| count(tid, Entry::Ring, entries));
        say(name, depth, found.map(|count| count.per_io()));
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

fn say(name: &str, depth: u32, found: io::Result<f64>) {
    match found {
        Ok(count) => println!("{name:<32} {depth:>5} {count:>12.1}"),
        Err(error) => println!("{name:<32} {depth:>5}      NOT RUN: {error}"),
    }
}
