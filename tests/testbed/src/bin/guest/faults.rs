//! Drives that fail while they are measured (emulated PCIe drives, faults by QEMU).

use crate::compare::{device, node_of};
use crate::kit::{Guest, Seen, events, fathom, plan, sh, start, verdict};
use std::time::Duration;

fn read_plan(name: &str, range: &str, seconds: u32) -> String {
    plan(
        name,
        &format!(
            "[[step]]\nload={{pattern=\"sequential\", block=\"64k\", depth=2, range={range}, \
             time=\"{seconds}s\"}}\n"
        ),
    )
}

const FIRST: &str = "[\"0MiB\", \"2MiB\"]";
const SECOND: &str = "[\"2MiB\", \"6MiB\"]";

pub(crate) fn run(guest: &mut Guest) {
    guest.check("a bad sector is named, and what was measured is kept", |_| {
        let node = node_of("SN-BAD", 1)?;
        let going = start("bad", &[&read_plan("bad", FIRST, 20), &node], 0)?;
        let (ran, run) = going.end()?;
        ran.expect(1)?;
        let text = events(&run, "failed").join(" ");
        for part in ["medium error", "at byte 1048576"] {
            if !text.contains(part) {
                return Err(format!("`{part}` is not in: {text}"));
            }
        }
        fathom(&["show", "/tmp/bad.fathom"]).expect(0)?;
        Ok(text)
    });
    guest.check("the same sector by commands has its NVMe status", |_| {
        let node = node_of("SN-BAD", 1)?.replace("nvme", "ng");
        let (ran, run) = start("badng", &[&read_plan("badng", FIRST, 20), &node], 0)?.end()?;
        ran.expect(1)?;
        let text = events(&run, "failed").join(" ");
        if !text.contains("NVMe status type 2 code 81h (unrecovered read error") {
            return Err(text);
        }
        Ok(text)
    });
    guest.check(
        "an error that the kernel tries again is seen by commands, not by the block layer",
        once,
    );
    guest.check("a temperature beyond its threshold", temperature);
    guest.check("a drive whose media goes read-only", read_only);
    guest.check("a drive that is unplugged in mid-run", unplugged);
}

fn once(_: &mut Guest) -> Seen {
    let node = node_of("SN-ONCE", 1)?;
    let (ran, run) = start("once", &[&read_plan("once", FIRST, 2), &node], 0)?.end()?;
    ran.expect(0)?;
    let errors: u64 = run.cells[0].totals.iter().map(|s| s.reads.errors + s.writes.errors).sum();
    if errors > 0 {
        return Err("the block layer did not try again".into());
    }
    let node = node.replace("nvme", "ng");
    let (ran, run) = start("onceng", &[&read_plan("onceng", SECOND, 10), &node], 0)?.end()?;
    ran.expect(1)?;
    let text = events(&run, "failed").join(" ");
    match text.contains("nothing tried it again") && text.contains("at byte 4194304") {
        true => Ok(text),
        false => Err(text),
    }
}

fn temperature(_: &mut Guest) -> Seen {
    let node = node_of("SN-HOT", 1)?;
    let going = start("hot", &[&read_plan("hot", FIRST, 8), &node], 3)?;
    // The emulated drive always has 323 K: its threshold comes down instead.
    let controller = device(&node)?["controller"].as_str().unwrap_or_default().to_owned();
    let controller = format!("/dev/{controller}");
    sh("nvme", &["set-feature", &controller, "-f", "4", "-v", "300"]).expect(0)?;
    let (ran, run) = going.end()?;
    sh("nvme", &["set-feature", &controller, "-f", "4", "-v", "343"]).expect(0)?;
    ran.expect(4)?;
    let text = events(&run, "health").join(" ");
    if !text.contains("temperature is beyond a threshold (50 C)") {
        return Err(format!("health events: {text}"));
    }
    let shown = fathom(&["show", "/tmp/hot.fathom"]);
    let verdict = verdict(&run, "health", "fail")?;
    if !shown.out.contains("temperature is beyond") {
        return Err(format!("not shown: {}", shown.out));
    }
    let all = run.telemetry().map_err(|error| error.to_string())?;
    let told = all.iter().filter(|t| t.name == "temperature_c").count();
    Ok(format!("{verdict}; {told} temperatures on the run's clock"))
}

fn read_only(guest: &mut Guest) -> Seen {
    let node = node_of("SN-HOT", 1)?;
    let going = start("ro", &[&read_plan("ro", FIRST, 8), &node], 3)?;
    guest.ready("read-only");
    let (ran, run) = going.end()?;
    ran.expect(4)?;
    verdict(&run, "health", "fail").and_then(|text| match text.contains("media is read-only") {
        true => Ok(text),
        false => Err(text),
    })
}

fn unplugged(guest: &mut Guest) -> Seen {
    let node = node_of("SN-GONE", 1)?;
    let going = start("gone", &[&read_plan("gone", FIRST, 60), &node], 2)?;
    guest.ready("unplug");
    let (ran, run) = going.end()?;
    ran.expect(1)?;
    let text = events(&run, "failed").join(" ");
    if !text.contains("is not there any more") {
        return Err(format!("failed: {text}; {}", ran.err));
    }
    // Its other name is a device that is not there any more.
    std::thread::sleep(Duration::from_secs(1));
    let again = fathom(&["run", "/tmp/gone.toml", &node, "-q"]);
    again.expect(2)?.says("no such device")?;
    let ios: u64 = run.cells[0].totals.iter().map(|stream| stream.ios()).sum();
    fathom(&["show", "/tmp/gone.fathom"]).expect(0)?;
    Ok(format!("{text}; {ios} I/Os kept"))
}
