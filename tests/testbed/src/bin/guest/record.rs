//! Recording of block events in the kernel: what Fathom does to a drive, recorded by Fathom.

use crate::compare::node_of;
use crate::kit::{Guest, fathom, plan, sh};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) fn run(guest: &mut Guest) {
    guest.check("every request of a run is recorded, and the recording replays", |_| {
        let mounted = sh("mount", &["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]);
        mounted.expect(0)?;
        let node = node_of("SN-A512", 1)?;
        let recorder = Command::new("/bin/fathom")
            .args(["trace", "record", &node, "--time", "60s", "-o", "/tmp/t.csv"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_secs(2));
        let path = plan(
            "rec",
            "[[step]]\nload={block=\"4k\", pattern=\"random-once\", depth=8, amount=\"4MiB\", range=\"4MiB\"}\n",
        );
        let _ = std::fs::remove_file("/tmp/rec.fathom");
        fathom(&["run", &path, &node, "-q", "-o", "/tmp/rec.fathom"]).expect(0)?;
        std::thread::sleep(Duration::from_secs(1));
        sh("kill", &["-INT", &recorder.id().to_string()]).expect(0)?;
        let ended = recorder.wait_with_output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        if !ended.status.success() {
            return Err(said);
        }
        let text = std::fs::read_to_string("/tmp/t.csv").map_err(|error| error.to_string())?;
        let mut places: Vec<u64> = text
            .lines()
            .skip(1)
            .filter(|line| line.ends_with(",4096"))
            .filter_map(|line| line.split(',').nth(2)?.parse().ok())
            .filter(|offset| *offset < 4 << 20)
            .collect();
        places.sort_unstable();
        places.dedup();
        if places.len() != 1024 {
            return Err(format!("{} of 1024 requests in the recording: {said}", places.len()));
        }
        let _ = std::fs::remove_file("/tmp/again.fathom");
        let again =
            fathom(&["run", "/tmp/t.csv", &node, "--set", "read=100", "-q", "-o", "/tmp/again.fathom"]);
        again.expect(0)?;
        let told = fathom(&["show", "/tmp/again.fathom"]).out;
        let line = told.lines().find(|line| line.contains("recorded requests made"));
        line.map(str::to_owned).ok_or(told)
    });
}
