//! What the black-box tests share: the program, devices to run it on, and devices that fail.
//!
//! Tests that need root or a kernel feature say `NOT RUN` with the reason; `make test` counts them.

pub mod daemon;
pub mod faulty;
pub mod loopdev;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// How a command ended.
pub struct Ran {
    /// Exit code; -1 when killed.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}{}", self.out, self.err))
    }

    /// Asserts the exit code, showing everything when it differs.
    ///
    /// # Panics
    /// When it differs.
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Ran {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        // A panic must never reach a user, whatever the exit code.
        assert!(!self.err.contains("internal error"), "{}", self.err);
        self
    }

    /// Asserts that a message is on standard error.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Ran {
        assert!(self.err.contains(text), "expected `{text}` in: {}", self.err);
        self
    }
}

/// The program under test: `FATHOM_BIN`, which `make test` sets to the static binary.
///
/// # Panics
/// When it is not set or not there.
pub fn program() -> PathBuf {
    let path = std::env::var_os("FATHOM_BIN").map(PathBuf::from).unwrap_or_else(|| {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
        target.join("debug/fathom")
    });
    assert!(path.is_file(), "{}: build fathom first, or run `make test`", path.display());
    std::fs::canonicalize(path).unwrap_or_default()
}

/// A command of the program, in a folder.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).current_dir(folder).stdin(Stdio::null());
    // The ledger of this machine is none of a test's business.
    command.env("XDG_STATE_HOME", folder.join("state"));
    command
}

/// Runs the program to its end.
///
/// # Panics
/// When it cannot be started.
pub fn fathom(folder: &Path, args: &[&str]) -> Ran {
    Ran::from(command(folder, args).output().expect("fathom starts"))
}

/// A folder on a real file system (direct I/O works there), removed at the end.
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> tempfile::TempDir {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let root = std::fs::canonicalize(target).expect("the target folder");
    tempfile::tempdir_in(root).expect("a folder")
}

/// Writes a plan file; gives its path as text.
///
/// # Panics
/// When it cannot be written.
pub fn plan(folder: &Path, steps: &str) -> String {
    let path = folder.join("plan.toml");
    std::fs::write(&path, format!("name = \"test\"\n{steps}")).expect("a plan");
    path.display().to_string()
}

/// Says that a test did not run, and why; `make test` shows and counts these lines.
pub fn not_run(why: &str) {
    use std::io::Write;
    println!("NOT RUN: {why}");
    if let Some(path) = std::env::var_os("FATHOM_NOT_RUN") {
        let thread = std::thread::current();
        let line = format!("NOT RUN: {}: {why}\n", thread.name().unwrap_or("a test"));
        let file = std::fs::File::options().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Whether this is root; says so when not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_run("needs root for loop devices and mounts");
    }
    root
}

/// Runs a helper program; gives whether it succeeded and what it printed.
pub fn tool(name: &str, args: &[&str]) -> (bool, String) {
    match Command::new(name).args(args).stdin(Stdio::null()).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            (output.status.success(), text.trim().to_owned())
        }
        Err(error) => (false, format!("{name}: {error}")),
    }
}

/// Runs a helper program that must succeed.
///
/// # Panics
/// When it fails.
#[track_caller]
pub fn must(name: &str, args: &[&str]) -> String {
    let (ok, text) = tool(name, args);
    assert!(ok, "{name} {args:?}: {text}");
    text
}

/// A checksum of a whole file or device.
///
/// # Panics
/// When it cannot be read.
pub fn checksum(path: &Path) -> String {
    let text = must("sha256sum", &[&path.display().to_string()]);
    text.split(' ').next().unwrap_or_default().to_owned()
}
