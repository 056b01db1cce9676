//! User-space instructions per I/O, counted exactly: single-stepping a worker thread of the running
//! program between its entries into the ring. Independent of the machine's noise.

use crate::sys;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// System calls that submit I/O, with how many each submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `io_uring_enter`: the second argument is the number submitted.
    Ring,
    /// `pread64` and `pwrite64`: one each.
    Sync,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// From one submitting system call to the next: I/Os submitted by the first, and user-space
    /// instructions.
    pub rounds: Vec<(u64, u64)>,
    /// System calls while counting.
    pub calls: u64,
}

impl Count {
    /// Instructions per I/O over all rounds. Stepping makes a second of a millisecond, so that timers
    /// fire a thousand times as often as they do: their rounds are in it too.
    pub fn per_io(&self) -> f64 {
        let sum = |part: fn(&(u64, u64)) -> u64| self.rounds.iter().map(part).sum::<u64>();
        sum(|round| round.1) as f64 / sum(|round| round.0).max(1) as f64
    }

    /// Instructions per I/O of the loop itself: the median of the rounds of `depth` I/Os in which no timer
    /// fired. A round that handles one arms the next, which is submitted with the I/Os of the round after
    /// it; a few others pass the end of a ring or widen a histogram. None when there is no such round.
    pub fn of_the_loop(&self, depth: u64) -> Option<f64> {
        let clean = |pair: &&[(u64, u64)]| pair[0].0 == depth && pair[1].0 == depth;
        let mut rounds: Vec<u64> =
            self.rounds.windows(2).filter(clean).map(|pair| pair[0].1).collect();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).map(|median| *median as f64 / depth as f64)
    }
}

const RING_ENTER: u64 = 426;
const PREAD: u64 = 17;
const PWRITE: u64 = 18;

/// Waits for a thread of a process whose name starts with `name`.
///
/// # Errors
/// When it does not appear within ten seconds.
pub fn find_thread(pid: u32, name: &str) -> io::Result<i32> {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if comm.starts_with(name)
                && let Some(tid) = task.file_name().to_str().and_then(|tid| tid.parse().ok())
            {
                return Ok(tid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(io::Error::other(format!("no thread {name} appeared")))
}

/// The busiest thread of a process over a tenth of a second, its main thread left out.
///
/// # Errors
/// When the process is gone.
pub fn busiest_thread(pid: u32) -> io::Result<i32> {
    let read = || -> HashMap<i32, u64> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let time = |task: std::fs::DirEntry| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((tid, text.split(' ').next()?.parse().ok()?))
        };
        tasks.filter_map(time).collect()
    };
    let before = read();
    std::thread::sleep(Duration::from_millis(100));
    let used = |(tid, ns): (i32, u64)| (ns - before.get(&tid).copied().unwrap_or(ns), tid);
    let busiest = read().into_iter().map(used).max();
    busiest.map(|(_, tid)| tid).ok_or_else(|| io::Error::other("the process is gone"))
}

/// Steps a thread through `entries` submitting system calls and counts what lies between them.
///
/// # Errors
/// When the thread cannot be traced (a container may forbid it) or ends.
pub fn count(tid: i32, entry: Entry, entries: u32) -> io::Result<Count> {
    sys::seize(tid)?;
    let result = step_through(tid, entry, entries);
    sys::detach(tid);
    result
}

fn step_through(tid: i32, entry: Entry, entries: u32) -> io::Result<Count> {
    let mut is_call: HashMap<u64, bool> = HashMap::new();
    let mut count = Count::default();
    loop {
        let (at, call, second) = sys::registers(tid)?;
        let system = *is_call.entry(at).or_insert_with(|| sys::peek(tid, at) & 0xffff == 0x050f);
        if system {
            let ios = match (entry, call) {
                (Entry::Ring, RING_ENTER) => second,
                (Entry::Sync, PREAD | PWRITE) => 1,
                _ => 0,
            };
            if ios > 0 {
                if count.rounds.len() == entries as usize {
                    return Ok(count);
                }
                // Counting starts at the first entry, so that whole rounds are counted.
                count.rounds.push((ios, 0));
            }
            count.calls += u64::from(!count.rounds.is_empty());
        }
        if let Some((_, instructions)) = count.rounds.last_mut() {
            *instructions += 1;
        }
        sys::single_step(tid)?;
    }
}

/// The program under test: `FATHOM_BIN`, or the one beside the running benchmark.
///
/// # Errors
/// When there is none.
pub fn fathom_program() -> io::Result<std::path::PathBuf> {
    if let Some(path) = std::env::var_os("FATHOM_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let candidates = own.ancestors().skip(1).take(3).map(|folder| folder.join("fathom"));
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| io::Error::other("build fathom first, or set FATHOM_BIN to it"))
}

/// A plan file with one load that runs `seconds`.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_plan(
    folder: &Path,
    load: &str,
    seconds: f64,
    interval: &str,
) -> io::Result<std::path::PathBuf> {
    let path = folder.join("bench.toml");
    let text = format!(
        "name = \"bench\"\ninterval = \"{interval}\"\n[[step]]\nname = \"load\"\n\
         load = {{ {load}, ramp = \"300ms\", time = \"{seconds}s\" }}\n"
    );
    std::fs::write(&path, text)?;
    Ok(path)
}
