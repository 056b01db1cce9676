//! Reading single values from /sys and /proc. What is not there is none.

use std::fs;
use std::path::{Path, PathBuf};

/// The trimmed text of a file; none when missing or empty.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number in a file.
pub(crate) fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// Names in a folder, sorted.
pub(crate) fn names(path: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The folder of a block device in /sys, by kernel name; partitions included.
pub(crate) fn block_folder(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// The kernel name of a block device by its numbers.
pub(crate) fn name_of(major: u32, minor: u32) -> Option<String> {
    let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    link.file_name()?.to_str().map(str::to_owned)
}
