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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// I/Os submitted while counting.
    pub ios: u64,
    /// User-space instructions while counting.
    pub instructions: u64,
    /// System calls while counting.
    pub calls: u64,
}

impl Count {
    /// Instructions per I/O.
    pub fn per_io(&self) -> f64 {
        self.instructions as f64 / self.ios.max(1) as f64
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
    let mut count = Count { ios: 0, instructions: 0, calls: 0 };
    let mut seen = 0;
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
                seen += 1;
                if seen > entries {
                    return Ok(count);
                }
                // Counting starts at the first entry, so that whole rounds are counted.
                count.ios += ios;
            }
            count.calls += u64::from(seen > 0);
        }
        count.instructions += u64::from(seen > 0);
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
