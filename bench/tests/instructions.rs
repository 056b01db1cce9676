//! The instruction budget: user-space instructions per I/O of the program itself, counted exactly.
//! A test may be made stricter, never looser. Target: a sparse file, reads complete inline.

use bench::step::{Entry, count, fathom_program, find_thread, write_plan};
use blackbox::not_run;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Counts `fathom run` on 4 KiB random reads of holes.
fn instructions(engine: &str, depth: u32, entry: Entry, entries: u32) -> Option<f64> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = folder.path().join("holes");
    std::fs::File::create(&target).unwrap().set_len(1 << 32).unwrap();
    let load = format!("pattern=\"random\", block=\"4k\", read=100, depth={depth}");
    // One interval for the whole time: what is counted is the loop, not its boundaries.
    let plan = write_plan(folder.path(), &load, 60.0, "1h").unwrap();
    let mut child = Command::new(fathom_program().unwrap())
        .arg("run")
        .arg(plan)
        .arg(&target)
        .args(["--quiet", "--engine", engine, "-o"])
        .arg(folder.path().join("r.fathom"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The calibration runs workers too, and they end: on a slow host another look is needed.
    let mut result = Err(std::io::Error::other("never tried"));
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(1500));
        result = find_thread(child.id(), "fathom-w0").and_then(|tid| count(tid, entry, entries));
        let forbidden =
            result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
        if result.is_ok() || forbidden {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    match result {
        Ok(count) => {
            println!("{engine} depth {depth}: {:.1} with timers and splits", count.per_io());
            let found = count.of_the_loop(u64::from(depth));
            if found.is_none() {
                not_run("stepping is so slow here that every round handles a timer");
            }
            found
        }
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            not_run(&format!("tracing is forbidden here ({error})"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn check(engine: &str, depth: u32, entry: Entry, entries: u32, budget: f64) {
    if cfg!(debug_assertions) {
        return not_run("the budget holds for release builds: cargo test --release -p bench");
    }
    let Some(found) = instructions(engine, depth, entry, entries) else {
        return;
    };
    println!("{engine} depth {depth}: {found:.1} instructions per I/O, budget {budget}");
    assert!(found <= budget, "{engine} depth {depth}: {found:.1} over the budget of {budget}");
    assert!(found > 10.0, "{found} is too few to be true");
}

#[test]
fn uring_at_depth_32_stays_within_its_budget() {
    check("uring", 32, Entry::Ring, 60, 80.0);
}

#[test]
fn uring_at_depth_1_stays_within_its_budget() {
    check("uring", 1, Entry::Ring, 400, 350.0);
}

#[test]
fn sync_stays_within_its_budget() {
    check("sync", 1, Entry::Sync, 400, 210.0);
}
