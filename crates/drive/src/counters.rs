//! What a device itself counted, and how much of a file is there.

use crate::sysfs::{block_folder, number, text};
use crate::target::{Kind, Subject};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// Bytes a device counted since it appeared: (read, written). None where it keeps no statistics.
pub fn device_bytes(name: &str) -> Option<(u64, u64)> {
    if number::<u8>(block_folder(name).join("queue/iostats")) == Some(0) {
        return None;
    }
    let line = text(block_folder(name).join("stat"))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some((fields.get(2)? * 512, fields.get(6)? * 512))
}

/// I/Os a device did since it appeared, reads, writes, discards and flushes.
pub fn device_ios(name: &str) -> Option<u64> {
    let line = text(block_folder(name).join("stat"))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some([0, 4, 11, 15].iter().filter_map(|&at| fields.get(at)).sum())
}

/// Share of a file target that is holes, 0..1; zero for devices.
pub fn holes(subject: &Subject) -> f64 {
    let path = match &subject.kind {
        Kind::Device(_) => return 0.0,
        _ => subject.open_path(),
    };
    let Ok(meta) = std::fs::metadata(path) else {
        return 0.0;
    };
    if meta.len() == 0 {
        return 0.0;
    }
    (1.0 - meta.blocks() as f64 * 512.0 / meta.len() as f64).clamp(0.0, 1.0)
}

/// What tells later whether somebody wrote to a target in between.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct WriteState {
    /// The boot the counter belongs to.
    pub boot: String,
    /// Bytes the device counted as written since it appeared; none for files.
    pub written_bytes: Option<u64>,
    /// Device and inode number of a file, and when it was made in ms since the Unix epoch (0 where the
    /// file system does not say); none for devices.
    pub file: Option<(u64, u64, i64)>,
    /// Last change of a file's content, in ms since the Unix epoch; none for devices.
    pub modified_unix_ms: Option<i64>,
}

/// The state of a target now.
pub fn write_state(subject: &Subject) -> WriteState {
    let boot = text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut state = WriteState { boot, ..WriteState::default() };
    match &subject.kind {
        Kind::Device(device) => {
            // Commands to the generic device are not counted by the block layer.
            if device.generic.is_none() {
                state.written_bytes = device_bytes(&device.name).map(|(_, written)| written);
            }
        }
        _ => {
            if let Ok(meta) = std::fs::metadata(subject.open_path()) {
                let made = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                let made_ms = made.map_or(0, |since| since.as_millis() as i64);
                state.file = Some((meta.dev(), meta.ino(), made_ms));
                state.modified_unix_ms = Some(meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000);
            }
        }
    }
    state
}

/// Whether the volatile write cache of a device is on; none where the kernel does not say.
pub fn write_cache(name: &str) -> Option<bool> {
    Some(text(block_folder(name).join("queue/write_cache"))?.trim() == "write back")
}
