//! SATA and SAS drives, by smartctl where it is installed: their ways are many, and it knows them.

use crate::device::Device;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a device is of the kind that smartctl is asked about.
pub(crate) fn is_for(device: &Device) -> bool {
    matches!(device.transport.as_str(), "ata" | "sas" | "usb" | "block" | "scsi")
}

/// Asks smartctl; none where it is missing, or does not know the drive.
fn ask(node: &Path, args: &[&str]) -> Option<Value> {
    // A sleeping disk is not woken up.
    let mut command = Command::new("smartctl");
    command.args(["--json", "--nocheck=standby"]).args(args).arg(node).stdin(Stdio::null());
    // Its exit status is a set of bits, of which the first two mean that there is no answer.
    let output = command.output().ok()?;
    let value: Value = serde_json::from_slice(&output.stdout).ok()?;
    let status = value["smartctl"]["exit_status"].as_u64()?;
    (status & 3 == 0).then_some(value)
}

/// Everything it knows of a drive, its write cache too.
pub(crate) fn all(node: &Path) -> Option<Value> {
    ask(node, &["--all", "--get=wcache"])
}

/// Whether the write cache is on.
pub(crate) fn write_cache(node: &Path) -> Option<bool> {
    ask(node, &["--get=wcache"])?["write_cache"]["enabled"].as_bool()
}

/// Switches the write cache, and reads it back.
pub(crate) fn set_write_cache(node: &Path, on: bool) -> Result<(), String> {
    let word = if on { "on" } else { "off" };
    ask(node, &[&format!("--set=wcache,{word}")]);
    match write_cache(node) {
        Some(now) if now == on => Ok(()),
        Some(_) => Err("the drive did not take the setting".into()),
        None => Err("smartctl cannot read the setting back".into()),
    }
}
