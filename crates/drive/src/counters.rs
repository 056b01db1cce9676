//! What a device itself counted, and how much of a file is there.

use crate::sysfs::{block_folder, number, text};
use crate::target::{Kind, Subject};
use std::os::unix::fs::MetadataExt;

/// Bytes a device counted since it appeared: (read, written). None where it keeps no statistics.
pub fn device_bytes(name: &str) -> Option<(u64, u64)> {
    if number::<u8>(block_folder(name).join("queue/iostats")) == Some(0) {
        return None;
    }
    let line = text(block_folder(name).join("stat"))?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some((fields.get(2)? * 512, fields.get(6)? * 512))
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
