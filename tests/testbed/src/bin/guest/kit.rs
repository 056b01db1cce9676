//! What scenarios share.

use serde_json::{Value, json};
use std::io::BufRead;
use std::process::{Command, Stdio};

/// The guest so far.
pub(crate) struct Guest {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

/// How a check went: what was seen, or what is wrong.
pub(crate) type Seen = Result<String, String>;

/// How a program ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Result<Value, String> {
        let wrong =
            |error| format!("no JSON ({error}), exit {}: {}{}", self.code, self.out, self.err);
        serde_json::from_str(&self.out).map_err(wrong)
    }

    /// The exit code must be this.
    pub(crate) fn expect(&self, code: i32) -> Result<&Ran, String> {
        match self.code == code {
            true => Ok(self),
            false => Err(format!("exit {} not {code}: {}{}", self.code, self.out, self.err)),
        }
    }

    /// A text must be on standard error.
    pub(crate) fn says(&self, text: &str) -> Result<&Ran, String> {
        match self.err.contains(text) {
            true => Ok(self),
            false => Err(format!("`{text}` is not in: {}", self.err)),
        }
    }
}

/// Runs a program to its end.
pub(crate) fn sh(program: &str, args: &[&str]) -> Ran {
    match Command::new(program).args(args).stdin(Stdio::null()).output() {
        Ok(output) => Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) => Ran { code: -1, out: String::new(), err: format!("{program}: {error}") },
    }
}

/// Runs the program under test in /tmp.
pub(crate) fn fathom(args: &[&str]) -> Ran {
    let _ = std::env::set_current_dir("/tmp");
    sh("/bin/fathom", args)
}

/// Writes a plan; gives its path.
pub(crate) fn plan(name: &str, steps: &str) -> String {
    let path = format!("/tmp/{name}.toml");
    let _ = std::fs::write(&path, format!("name = \"{name}\"\n{steps}"));
    path
}

/// The two must be equal.
pub(crate) fn same(what: &str, ours: &Value, theirs: &Value) -> Result<(), String> {
    let plain = |value: &Value| match value {
        Value::String(text) => text.replace(',', "").trim().to_owned(),
        other => other.to_string(),
    };
    match plain(ours) == plain(theirs) {
        true => Ok(()),
        false => Err(format!("{what}: {ours} here, {theirs} there")),
    }
}

impl Guest {
    pub(crate) fn new() -> Guest {
        Guest { passed: 0, failed: 0 }
    }

    /// Does a check and reports it on a line of its own.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce(&mut Guest) -> Seen) {
        let began = std::time::Instant::now();
        let seen = check(self);
        let ms = began.elapsed().as_millis();
        let ok = seen.is_ok();
        let text = seen.unwrap_or_else(|error| error);
        println!("\nCHECK {}", json!({"ms": ms, "name": name, "ok": ok, "text": text}));
        if ok {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!(
                "{}",
                sh("dmesg", &[]).out.lines().rev().take(15).collect::<Vec<_>>().join("\n")
            );
        }
    }

    /// Tells the host that the guest is ready for something, and waits until it has been done.
    pub(crate) fn ready(&self, what: &str) {
        println!("\nREADY {what}");
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
    }
}

/// A run in the background.
pub(crate) struct Going {
    child: std::process::Child,
    file: String,
}

/// Starts a run. With `seconds` it is waited until its first cell has gone on for so long.
pub(crate) fn start(name: &str, args: &[&str], seconds: u64) -> Result<Going, String> {
    let file = format!("/tmp/{name}.fathom");
    let _ = std::fs::remove_file(&file);
    let child = Command::new("/bin/fathom")
        .current_dir("/tmp")
        .arg("run")
        .args(args)
        .args(["-q", "-o", &file])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.map_err(|error| error.to_string())?;
    let measures = || {
        let run = store::RunFile::open(std::path::Path::new(&file));
        run.is_ok_and(|run| !run.cells.is_empty())
    };
    for _ in 0..600 {
        if seconds == 0 || measures() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    Ok(Going { child, file })
}

impl Going {
    /// Waits for its end; gives how it ended and what it stored.
    pub(crate) fn end(self) -> Result<(Ran, store::RunFile), String> {
        let output = self.child.wait_with_output().map_err(|error| error.to_string())?;
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        let file = store::RunFile::open(std::path::Path::new(&self.file));
        let file = file.map_err(|error| format!("{error}; {}", ran.err))?;
        Ok((ran, file))
    }
}

/// The texts of a run's events of a kind.
pub(crate) fn events(run: &store::RunFile, kind: &str) -> Vec<String> {
    run.events.iter().filter(|event| event.kind == kind).map(|event| event.text.clone()).collect()
}

/// A verdict on the whole run, or on a cell of it, must be there; gives its text.
pub(crate) fn verdict(run: &store::RunFile, name: &str, status: &str) -> Result<String, String> {
    let found = run.verdicts.iter().find(|v| v.name == name && v.status == status);
    let all =
        || run.verdicts.iter().map(|v| format!("{} {}", v.name, v.status)).collect::<Vec<_>>();
    found
        .map(|v| v.text.clone())
        .ok_or_else(|| format!("no verdict {name} {status} in {:?}", all()))
}
