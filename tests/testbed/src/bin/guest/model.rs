//! The model drive: a user-space NVMe/TCP controller under the kernel's own driver, for what emulated
//! drives lack.

use crate::compare::{all, device, is, node_of, seen};
use crate::kit::{Guest, Seen, events, fathom, plan, sh, start, verdict};
use serde_json::Value;
use std::time::Duration;
use store::RunFile;
use target::{Model, ModelDrive, serve};

const NAME: &str = "nqn.2026-01.example:model";
const SERIAL: &str = "MODEL-1";

pub(crate) fn run(guest: &mut Guest) {
    let drive = ModelDrive::new(Model { io_ns: 10_000_000, ..Model::default() });
    guest.check("the kernel connects to it", |_| {
        serve(&drive, NAME, "127.0.0.1:4420").map_err(|error| error.to_string())?;
        sh("modprobe", &["nvme-tcp"]).expect(0)?;
        let to = ["connect", "-t", "tcp", "-a", "127.0.0.1", "-s", "4420", "-n", NAME];
        let mut args = to.to_vec();
        args.extend(["--nr-io-queues=2", "--ctrl-loss-tmo=10", "--reconnect-delay=1"]);
        sh("nvme", &args).expect(0)?;
        for _ in 0..50 {
            if node_of(SERIAL, 1).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let ours = device(&node_of(SERIAL, 1)?)?;
        is(&ours, "/model", "Fathom model drive")?;
        is(&ours, "/transport", "nvme-tcp")?;
        is(&ours, "/size_bytes", 64 << 20)?;
        is(&ours, "/numa_node", Value::Null)?;
        if !ours["address"].to_string().contains("traddr=127.0.0.1") {
            return Err(format!("address {}", ours["address"]));
        }
        seen(&ours, &["/path", "/transport", "/address"])
    });
    all(guest, SERIAL, 1);
    guest.check("thermal management and features, as nvme-cli sets and reads them", |_| features());
    guest.check("OCP health, as nvme-cli reads it", |_| ocp());
    guest.check("power states slow I/O down, and are put back", |_| power(&drive));
    guest.check("a temperature that moves past a limit", |_| temperature(&drive));
    guest.check("sanitize, with its progress", |_| sanitize());
    guest.check("over-provisioning by namespace, and back", |_| over_provision());
    all(guest, SERIAL, 1);
    guest.check("errors tried again in silence are found by the drive's counters", |_| {
        silent(&drive)
    });
    guest.check("a namespace that goes read-only in mid-run", |_| protected(&drive));
}

fn features() -> Seen {
    let node = node_of(SERIAL, 1)?;
    let controller = device(&node)?["controller"].as_str().unwrap_or_default().to_owned();
    let controller = format!("/dev/{controller}");
    let value = (333 << 16 | 343).to_string();
    sh("nvme", &["set-feature", &controller, "-f", "0x10", "-v", &value]).expect(0)?;
    let ours = device(&node)?;
    is(&ours, "/health/features/thermal_management", 333 << 16 | 343)?;
    is(&ours, "/health/controller/thermal_management_k/0", 273)?;
    let mut told = Vec::new();
    for (name, id) in [
        ("power_state", "2"),
        ("over_temperature_k", "4"),
        ("write_cache", "6"),
        ("thermal_management", "0x10"),
    ] {
        let out = sh("nvme", &["get-feature", &controller, "-f", id]).out;
        let theirs = out.rsplit(':').next().unwrap_or_default().trim().trim_start_matches("0x");
        let theirs = i64::from_str_radix(theirs, 16).map_err(|_| out.clone())?;
        is(&ours, &format!("/health/features/{name}"), theirs)?;
        told.push(format!("{name} {theirs}"));
    }
    Ok(told.join(", "))
}

fn ocp() -> Seen {
    let node = node_of(SERIAL, 1)?;
    let theirs = sh("nvme", &["ocp", "smart-add-log", &node, "-o", "json"]).json()?;
    let ours = device(&node)?["health"]["ocp"].clone();
    let low =
        |value: &Value| value["lo"].as_u64().or_else(|| value.as_u64()).map(|n| n.to_string());
    let mut n = 0;
    for (our, their) in [
        ("media_written_bytes", "Physical media units written"),
        ("uncorrectable_reads", "Uncorrectable read error count"),
        ("free_blocks_percent", "Percent free blocks"),
        ("capacitor_percent", "Capacitor health"),
        ("version", "Log page version"),
        ("throttle_events", "Number of Thermal throttling events"),
    ] {
        let Some(theirs) = low(&theirs[their]) else { continue };
        let text = ours[our].as_str().map_or_else(|| ours[our].to_string(), str::to_owned);
        if text != theirs {
            return Err(format!("{our}: {text} here, {theirs} there"));
        }
        n += 1;
    }
    match n {
        0 => Err(format!("nvme-cli has other names: {theirs}")),
        n => Ok(format!("{n} fields equal of {ours}")),
    }
}

fn iops(run: &RunFile) -> f64 {
    let ios: u64 = run.cells[0].totals.iter().map(|stream| stream.ios()).sum();
    ios as f64 / run.cells[0].len.as_secs_f64()
}

fn power(drive: &ModelDrive) -> Seen {
    let node = node_of(SERIAL, 1)?;
    let load = "[[step]]\nload={block=\"4k\", depth=1, time=\"2s\"}\n";
    let at = |name: &str, set: &str| {
        let path = plan(name, &format!("{set}{load}"));
        let (ran, run) = start(name, &[&path, &node], 0)?.end()?;
        ran.expect(0)?;
        Ok::<_, String>(run)
    };
    let full = iops(&at("full", "")?);
    let capped = at("capped", "[[step]]\nset={power=\"12W\"}\n")?;
    let (set, back) = (events(&capped, "set").join(" "), events(&capped, "restore").join(" "));
    if !set.contains("power state 2, 10 W at most (was 0)") || !back.contains("power_state is 0") {
        return Err(format!("{set}; {back}"));
    }
    if drive.power_state() != 0 {
        return Err("the power state was not put back".into());
    }
    let ratio = full / iops(&capped);
    let wrong = plan("wrong", &format!("[[step]]\nset={{power_state=9}}\n{load}"));
    fathom(&["run", &wrong, &node, "-q"]).expect(1)?.says("has no power state 9, only 0 to 2")?;
    // The state's factor is 4; the emulated processor adds the same to both.
    match ratio > 1.5 {
        true => Ok(format!("{set}; {back}; {ratio:.2} times the IOPS at full power")),
        false => Err(format!("only {ratio:.2} times the IOPS at full power")),
    }
}

fn temperature(drive: &ModelDrive) -> Seen {
    let node = node_of(SERIAL, 1)?;
    let controller = device(&node)?["controller"].as_str().unwrap_or_default().to_owned();
    let limits = || sh("nvme", &["get-feature", &format!("/dev/{controller}"), "-f", "0x10"]).out;
    let before = limits();
    let path = plan(
        "warm",
        "[[step]]\nset={thermal=[\"55C\", \"90C\"]}\n[[step]]\nload={block=\"4k\", time=\"8s\"}\n",
    );
    let going = start("warm", &[&path, &node], 2)?;
    for kelvin in [320, 335, 345] {
        drive.set_temperature(kelvin);
        std::thread::sleep(Duration::from_millis(1300));
    }
    let (ran, run) = going.end()?;
    drive.set_temperature(313);
    ran.expect(4)?;
    let (set, after) = (events(&run, "set").join(" "), limits());
    if !set.contains("throttles lightly from 55 C, heavily from 90 C") || before != after {
        return Err(format!("{set}; limits before {before}, after {after}"));
    }
    let health = events(&run, "health").join(" ");
    let throttled = verdict(&run, "light_throttles", "fail")?;
    if !health.contains("temperature is beyond a threshold (72 C)") {
        return Err(format!("health events: {health}"));
    }
    let told = run.telemetry().map_err(|error| error.to_string())?;
    let mut seen: Vec<f64> =
        told.iter().filter(|t| t.name == "temperature_c").map(|t| t.value).collect();
    seen.dedup();
    if seen.len() < 3 {
        return Err(format!("temperatures {seen:?}"));
    }
    Ok(format!("{health}; {throttled}; temperatures {seen:?}"))
}

fn sanitize() -> Seen {
    let node = node_of(SERIAL, 1)?;
    sh("dd", &["if=/dev/urandom", &format!("of={node}"), "bs=1M", "count=1"]).expect(0)?;
    let path = plan("sanitize", "[[step]]\npurge=\"sanitize\"\n");
    let file = "/tmp/sanitize.fathom";
    let ran = fathom(&["run", &path, &node, "--destroy", SERIAL, "-o", file]);
    ran.expect(0)?.says("% done")?;
    let run = RunFile::open(std::path::Path::new(file)).map_err(|error| error.to_string())?;
    let left = sh("sh", &["-c", &format!("head -c 1048576 {node} | tr -d '\\000' | wc -c")]);
    let theirs = sh("nvme", &["sanitize-log", &node, "-o", "json"]).out;
    let ours = device(&node)?["health"]["sanitize"].clone();
    is(&ours, "/state", "done")?;
    match left.out.trim() {
        "0" => Ok(format!("{}; {ours}; {theirs}", events(&run, "purge").join(" "))),
        left => Err(format!("{left} bytes are left")),
    }
}

fn over_provision() -> Seen {
    let node = node_of(SERIAL, 1)?;
    let at = |share: &str| {
        let path = plan(
            "op",
            &format!(
                "[[step]]\nset={{over_provision=\"{share}\"}}\n[[step]]\nload={{read=0, time=\"1s\"}}\n"
            ),
        );
        let refused = fathom(&["run", &path, &node, "-q"]);
        refused.expect(3)?.says("--destroy MODEL-1")?;
        let args = [path.as_str(), node.as_str(), "--destroy", SERIAL];
        let (ran, run) = start("op", &args, 0)?.end()?;
        ran.expect(0)?;
        let ours = device(&node_of(SERIAL, 1)?)?;
        let sizes = (ours["size_bytes"].as_u64(), run.targets[0]["size_bytes"].as_u64());
        let spare = ours["health"]["controller"]["unallocated_capacity_bytes"].clone();
        Ok::<_, String>((sizes, spare, events(&run, "set").join(" ")))
    };
    let (half, spare, text) = at("50%")?;
    if half != (Some(32 << 20), Some(32 << 20)) || spare != "33554432" {
        return Err(format!("{half:?} {spare} {text}"));
    }
    let (whole, spare, _) = at("100%")?;
    match whole.0 == Some(64 << 20) && spare == "0" {
        true => Ok(text),
        false => Err(format!("back: {whole:?} {spare}")),
    }
}

fn silent(drive: &ModelDrive) -> Seen {
    let node = node_of(SERIAL, 1)?;
    drive.fail(2048, Some(2));
    let text = "[[step]]\nload={pattern=\"sequential\", block=\"64k\", range=[\"0MiB\", \"2MiB\"], \
                time=\"3s\"}\n";
    let path = plan("silent", text);
    let (ran, run) = start("silent", &[&path, &node], 0)?.end()?;
    ran.expect(4)?;
    let errors: u64 = run.cells[0].totals.iter().map(|s| s.reads.errors).sum();
    let found = verdict(&run, "media_errors", "fail")?;
    let entries = verdict(&run, "error_entries", "warning")?;
    if errors > 0 || !found.contains("2 errors of the media") {
        return Err(format!("{errors} errors seen; {found}"));
    }
    drive.fail(2048, Some(1));
    let generic = node.replace("nvme", "ng");
    let (ran, run) = start("loud", &[&path, &generic], 0)?.end()?;
    ran.expect(1)?;
    let direct = events(&run, "failed").join(" ");
    match direct.contains("unrecovered read error") {
        true => Ok(format!("{found}; {entries}; by commands: {direct}")),
        false => Err(direct),
    }
}

fn protected(drive: &ModelDrive) -> Seen {
    let node = node_of(SERIAL, 1)?;
    let path = plan("protected", "[[step]]\nload={read=0, block=\"4k\", time=\"20s\"}\n");
    let going = start("protected", &[&path, &node, "--destroy", SERIAL], 2)?;
    drive.protect(true);
    let (ran, run) = going.end()?;
    ran.expect(1)?;
    let (failed, health) = (events(&run, "failed").join(" "), events(&run, "health").join(" "));
    let shown = fathom(&["devices", &node]).out;
    drive.protect(false);
    match failed.contains("write of 4096 bytes") && shown.contains("the media is read-only") {
        true => Ok(format!("{failed}; {health}")),
        false => Err(format!("{failed}; {health}; {shown}")),
    }
}
