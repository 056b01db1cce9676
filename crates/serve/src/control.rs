//! Starts, stops and resumes runs, and makes reports: always by the program itself, as a process of its
//! own, so that the guard is the same as in a terminal and a run outlives the server.

use crate::library::{Library, hold};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use store::{RunFile, State};

/// Looks for a run that was started, 50 ms apart: calibration comes before the run file.
const LOOKS: u32 = 2400;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is not done, with the exit code of the program that refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) exit: Option<i32>,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(message: impl Into<String>) -> Refused {
        Refused { exit: None, message: message.into() }
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::new(error.to_string())
    }
}

/// A run that is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    plan: String,
    targets: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    destroy: Vec<String>,
    #[serde(default)]
    read_only: bool,
}

/// How a run that was cut is to go on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoOn {
    #[serde(default)]
    destroy: Vec<String>,
    #[serde(default)]
    read_only: bool,
}

/// Starts the program.
pub(crate) struct Control {
    program: PathBuf,
    /// Reports are made one after the other: what a run needs is not taken from it.
    one_at_a_time: Mutex<()>,
}

impl Control {
    pub(crate) fn new(program: PathBuf) -> Control {
        Control { program, one_at_a_time: Mutex::default() }
    }

    /// Starts a run; gives the name of its file once it goes on.
    pub(crate) fn start(
        &self,
        library: &Library,
        start: &Start,
        unix_ms: u64,
    ) -> Result<String, Refused> {
        if start.targets.is_empty() {
            return Err(Refused::new("name a target"));
        }
        let plan = plan_name(library, &start.plan)?;
        let short = |text: &str| -> String {
            let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect()
        };
        let stem = short(start.plan.trim_end_matches(".toml"));
        let target =
            if start.targets.len() == 1 { short(&start.targets[0]) } else { "targets".into() };
        let file = runner::default_file_name(&stem, &target, unix_ms);
        let name = file.display().to_string();
        if library.folder().join(&file).exists() {
            return Err(Refused::new("the same was started this second; start it again"));
        }
        let mut command = self.detached(library, "run", &name)?;
        command.args(["--quiet", "--output"]).arg(library.folder().join(&file));
        start.settings.iter().for_each(|(name, value)| {
            command.arg(format!("--set={name}={value}"));
        });
        words(&mut command, &start.destroy, start.read_only);
        // What follows is no option, whatever it begins with.
        command.arg("--").arg(plan).args(&start.targets);
        self.until_it_runs(library, command, &name)?;
        Ok(name)
    }

    /// Goes on with a run that was cut.
    pub(crate) fn resume(&self, library: &Library, name: &str, how: &GoOn) -> Result<(), Refused> {
        let path = library.path(name).ok_or_else(|| Refused::new("no such run"))?;
        // Asked before its last words are begun anew.
        if is_running(library, name, &path) {
            let message = "the run is running: there is nothing to resume".into();
            return Err(Refused { exit: Some(2), message });
        }
        let mut command = self.detached(library, "resume", name)?;
        command.arg("--quiet");
        words(&mut command, &how.destroy, how.read_only);
        command.arg("--").arg(path);
        self.until_it_runs(library, command, name)
    }

    /// Asks the program that writes a run to end it: as Ctrl-C in its terminal would.
    pub(crate) fn stop(&self, library: &Library, name: &str) -> Result<(), Refused> {
        let path = library.path(name).ok_or_else(|| Refused::new("no such run"))?;
        let locks = std::fs::read_to_string("/proc/locks")?;
        let pid = writer_of(&locks, &path)?.and_then(Pid::from_raw).ok_or_else(|| {
            Refused::new("no program of this machine writes to this run: it is not running here")
        })?;
        kill_process(pid, Signal::INT).map_err(|error| {
            Refused::new(format!("process {} cannot be stopped: {error}", pid.as_raw_nonzero()))
        })
    }

    /// Runs the program to its end, at the lowest priority.
    pub(crate) fn output(
        &self,
        folder: &Path,
        args: &[&std::ffi::OsStr],
    ) -> Result<Output, Refused> {
        let _alone = hold(&self.one_at_a_time);
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(folder).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pid = Pid::from_raw(child.id() as i32);
        let _ = setpriority_process(pid, 19);
        Ok(child.wait_with_output()?)
    }

    /// The program in a process group of its own, with its last words in a file beside the run.
    fn detached(&self, library: &Library, verb: &str, name: &str) -> Result<Command, Refused> {
        let log = log_of(library, name);
        // Never through a link that somebody put there.
        match std::fs::remove_file(&log) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let words = File::options().write(true).create_new(true).open(&log)?;
        let mut command = Command::new(&self.program);
        command.arg(verb).current_dir(library.folder()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
        Ok(command)
    }

    fn until_it_runs(
        &self,
        library: &Library,
        mut command: Command,
        name: &str,
    ) -> Result<(), Refused> {
        let mut child = command.spawn()?;
        let path = library.folder().join(name);
        for _ in 0..LOOKS {
            std::thread::sleep(LOOK_EVERY);
            if let Some(status) = child.try_wait()? {
                return ended(library, name, status, path.exists());
            }
            if path.exists() && is_running(library, name, &path) {
                follow(child, log_of(library, name));
                return Ok(());
            }
        }
        follow(child, log_of(library, name));
        Err(Refused::new("it was started, but makes no run file; look at the library again"))
    }
}

fn is_running(library: &Library, name: &str, path: &Path) -> bool {
    let lock = library.lock_of(name);
    let _one_reader = hold(&lock);
    RunFile::open_head(path).is_ok_and(|run| run.state == State::Running)
}

/// A run that ended at once: a short one that is done, or one that was refused.
fn ended(library: &Library, name: &str, status: ExitStatus, made: bool) -> Result<(), Refused> {
    let log = log_of(library, name);
    let words = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    // Finished, also when what it found is not valid.
    if made && matches!(status.code(), Some(0 | 4)) {
        return Ok(());
    }
    let message = words.trim().trim_start_matches("fathom: ").to_owned();
    Err(Refused { exit: status.code(), message })
}

/// Takes the end of a run that goes on in, and its last words away unless it failed with some.
fn follow(mut child: Child, log: PathBuf) {
    std::thread::spawn(move || {
        let status = child.wait();
        // Done, not valid, interrupted: the run file says so itself.
        let told = status.is_ok_and(|status| matches!(status.code(), Some(0 | 4 | 130)));
        if told || std::fs::metadata(&log).is_ok_and(|meta| meta.len() == 0) {
            let _ = std::fs::remove_file(&log);
        }
    });
}

/// Takes away the empty last words of runs that ended while no server was there to do it.
pub(crate) fn remove_empty_words(library: &Library) {
    for name in library.names().unwrap_or_default() {
        let log = log_of(library, &name);
        let empty = std::fs::metadata(&log).is_ok_and(|meta| meta.len() == 0);
        if empty && !is_running(library, &name, &library.folder().join(&name)) {
            let _ = std::fs::remove_file(&log);
        }
    }
}

fn log_of(library: &Library, name: &str) -> PathBuf {
    library.folder().join(format!("{name}.log"))
}

fn words(command: &mut Command, destroy: &[String], read_only: bool) {
    for serial in destroy.iter().filter(|serial| !serial.is_empty()) {
        command.arg(format!("--destroy={serial}"));
    }
    if read_only {
        command.arg("--read-only");
    }
}

/// A built-in plan, or a plan file of the folder.
fn plan_name(library: &Library, plan: &str) -> Result<PathBuf, Refused> {
    if plan::find_builtin(plan).is_some() {
        return Ok(plan.into());
    }
    if plan_files(library).iter().any(|file| file == plan) {
        return Ok(library.folder().join(plan));
    }
    Err(Refused {
        exit: Some(2),
        message: format!("no plan `{plan}` is built in or in the folder"),
    })
}

/// The plan files of the folder.
pub(crate) fn plan_files(library: &Library) -> Vec<String> {
    let entries = std::fs::read_dir(library.folder()).into_iter().flatten().flatten();
    let mut files: Vec<String> = entries
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml") && !name.starts_with('.'))
        .collect();
    files.sort();
    files
}

/// The process that holds a run file, by the kernel's list of locks:
/// `3: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`.
fn writer_of(locks: &str, path: &Path) -> std::io::Result<Option<i32>> {
    let meta = std::fs::metadata(path)?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [_, "FLOCK", "ADVISORY", "WRITE", pid, at, ..] if *at == place => pid.parse().ok(),
            _ => None,
        }
    };
    Ok(locks.lines().find_map(holder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let locks = || std::fs::read_to_string("/proc/locks").unwrap();
        assert_eq!(writer_of(&locks(), file.path()).unwrap(), None);
        file.as_file().lock().unwrap();
        let found = writer_of(&locks(), file.path()).unwrap();
        assert_eq!(found, Some(std::process::id() as i32));
        assert_eq!(writer_of("", file.path()).unwrap(), None);
        assert_eq!(writer_of("1: FLOCK", file.path()).unwrap(), None);
    }
}
