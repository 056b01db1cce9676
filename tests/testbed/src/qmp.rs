//! QEMU's control socket.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection to a machine's monitor.
#[derive(Debug)]
pub(crate) struct Qmp {
    out: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Qmp {
    pub(crate) fn connect(path: &Path) -> std::io::Result<Qmp> {
        const TRIES: u32 = 100;
        let mut tries = 0;
        let out = loop {
            match UnixStream::connect(path) {
                Ok(out) => break out,
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
            tries += 1;
        };
        out.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut qmp = Qmp { lines: BufReader::new(out.try_clone()?), out };
        qmp.line()?; // the greeting
        qmp.send("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    fn line(&mut self) -> std::io::Result<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(std::io::Error::other)
    }

    /// Sends a command and gives what it returns.
    pub(crate) fn send(&mut self, command: &str, arguments: Value) -> std::io::Result<Value> {
        writeln!(self.out, "{}", json!({"execute": command, "arguments": arguments}))?;
        loop {
            let answer = self.line()?;
            if let Some(error) = answer.get("error") {
                return Err(std::io::Error::other(format!("{command}: {error}")));
            }
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
        }
    }
}
