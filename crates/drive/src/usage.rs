//! Who uses a device or a file now: mounts, swap, stacked devices, loop devices, open handles.

use crate::device::Device;
use crate::sysfs::{block_folder, name_of, names, text};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One use of a device, a partition of it, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The node or file that is used.
    pub node: PathBuf,
    /// By what.
    pub reason: UsageReason,
}

/// Ways to be in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageReason {
    /// The root file system lies on this disk.
    Root,
    /// Mounted at a folder.
    Mounted(PathBuf),
    /// Active swap.
    Swap,
    /// A device stacked on it: LVM, MD, dm-crypt, bcache ...
    Holder {
        /// Its kernel name.
        name: String,
        /// What it is, for people.
        kind: String,
    },
    /// Backs a loop device.
    Loop(String),
    /// A process has it open.
    Open {
        /// Process number.
        pid: u32,
        /// Its command.
        command: String,
    },
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.display();
        match &self.reason {
            UsageReason::Root => {
                write!(f, "{node} holds the root file system; pick another drive")
            }
            UsageReason::Mounted(at) => {
                let at = at.display();
                write!(f, "{node} is mounted at {at}; unmount it (umount {at}) or pick another")
            }
            UsageReason::Swap => write!(f, "{node} is active swap; switch it off (swapoff {node})"),
            UsageReason::Holder { name, kind } => {
                write!(f, "{node} is in use by {name} ({kind}); take that apart first")
            }
            UsageReason::Loop(name) => {
                write!(f, "{node} backs /dev/{name}; detach it (losetup -d /dev/{name})")
            }
            UsageReason::Open { pid, command } => {
                write!(f, "{node} is held open by {command} (process {pid}); end that first")
            }
        }
    }
}

/// All uses of a device and of its partitions.
pub fn usage_of_device(device: &Device) -> Vec<Usage> {
    let mut family = vec![device.name.clone()];
    family.extend(device.partitions.iter().cloned());
    let mounts = mounts();
    let mut found = Vec::new();
    for name in &family {
        let node = Path::new("/dev").join(name);
        let mut add = |reason| found.push(Usage { node: node.clone(), reason });
        if root_chain(&mounts).contains(name) {
            add(UsageReason::Root);
        }
        for mount in mounts.iter().filter(|mount| mount.device.as_ref() == Some(name)) {
            add(UsageReason::Mounted(mount.at.clone()));
        }
        if swaps().iter().any(|swap| device_name(swap).as_ref() == Some(name)) {
            add(UsageReason::Swap);
        }
        for holder in names(block_folder(name).join("holders")) {
            let kind = holder_kind(&holder);
            add(UsageReason::Holder { name: holder, kind });
        }
        for (loop_name, backing) in loops() {
            if device_name(&backing).as_ref() == Some(name) {
                add(UsageReason::Loop(loop_name));
            }
        }
    }
    found.extend(open_handles(|path| {
        let name = device_name(path)?;
        family.contains(&name).then(|| path.to_owned())
    }));
    found
}

/// All uses of a regular file by others.
pub fn usage_of_file(file: &Path) -> Vec<Usage> {
    let Ok(meta) = std::fs::metadata(file) else {
        return Vec::new();
    };
    let same = |other: &Path| {
        std::fs::metadata(other)
            .is_ok_and(|o| (o.dev(), o.ino()) == (meta.dev(), meta.ino()) && o.is_file())
    };
    let mut found = Vec::new();
    for (name, backing) in loops() {
        if same(&backing) {
            found.push(Usage { node: file.to_owned(), reason: UsageReason::Loop(name) });
        }
    }
    if swaps().iter().any(|swap| same(swap)) {
        found.push(Usage { node: file.to_owned(), reason: UsageReason::Swap });
    }
    found.extend(open_handles(|path| same(path).then(|| file.to_owned())));
    found
}

struct Mount {
    /// Kernel name of the device, when there is one.
    device: Option<String>,
    at: PathBuf,
}

/// Mounts of this process's and of the first process's namespace.
fn mounts() -> Vec<Mount> {
    let mut mounts = Vec::new();
    for table in ["/proc/self/mountinfo", "/proc/1/mountinfo"] {
        for line in text(table).unwrap_or_default().lines() {
            let Some(mount) = parse_mount(line) else {
                continue;
            };
            if !mounts.iter().any(|m: &Mount| m.device == mount.device && m.at == mount.at) {
                mounts.push(mount);
            }
        }
    }
    mounts
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`; some file systems have numbers
/// of their own (0:n), so the source node counts too.
fn parse_mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(2);
    let (major, minor) = head.next()?.split_once(':')?;
    let at = PathBuf::from(unescape(head.nth(1)?));
    let by_number = name_of(major.parse().ok()?, minor.parse().ok()?);
    let source = unescape(tail.split(' ').nth(1)?);
    let device = by_number.or_else(|| device_name(Path::new(&source)));
    Some(Mount { device, at })
}

/// Octal escapes of the mount table.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Kernel name of the block device behind a node.
fn device_name(node: &Path) -> Option<String> {
    let meta = std::fs::metadata(node).ok()?;
    if !meta.file_type().is_block_device() {
        return None;
    }
    name_of(rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()))
}

/// Every device below the root file system: its own, its disk, and what they are stacked on.
fn root_chain(mounts: &[Mount]) -> BTreeSet<String> {
    let mut chain = BTreeSet::new();
    let mut open: Vec<String> = mounts
        .iter()
        .filter(|mount| mount.at == Path::new("/"))
        .filter_map(|mount| mount.device.clone())
        .collect();
    while let Some(name) = open.pop() {
        let folder = block_folder(&name);
        open.extend(names(folder.join("slaves")));
        if folder.join("partition").exists()
            && let Ok(real) = std::fs::canonicalize(&folder)
            && let Some(disk) = real.parent().and_then(Path::file_name)
        {
            open.push(disk.to_string_lossy().into_owned());
        }
        if !chain.insert(name) && chain.len() > 64 {
            break;
        }
    }
    chain
}

fn swaps() -> Vec<PathBuf> {
    let table = text("/proc/swaps").unwrap_or_default();
    let first =
        |line: &str| line.split_whitespace().next().map(|path| PathBuf::from(unescape(path)));
    table.lines().skip(1).filter_map(first).collect()
}

/// Loop devices and what they stand for.
fn loops() -> Vec<(String, PathBuf)> {
    let backing = |name: String| {
        let path = text(block_folder(&name).join("loop/backing_file"))?;
        Some((name, PathBuf::from(path)))
    };
    names("/sys/block").into_iter().filter(|n| n.starts_with("loop")).filter_map(backing).collect()
}

fn holder_kind(name: &str) -> String {
    if name.starts_with("md") {
        return "MD RAID".into();
    }
    if name.starts_with("bcache") {
        return "bcache".into();
    }
    match text(block_folder(name).join("dm/uuid")) {
        Some(uuid) if uuid.starts_with("LVM") => "LVM".into(),
        Some(uuid) if uuid.starts_with("CRYPT") => "dm-crypt".into(),
        Some(uuid) if uuid.starts_with("mpath") => "multipath".into(),
        _ if name.starts_with("dm-") => "device mapper".into(),
        _ => "a stacked device".into(),
    }
}

/// Processes other than this one with something open that `matches`.
fn open_handles(matches: impl Fn(&Path) -> Option<PathBuf>) -> Vec<Usage> {
    let own = std::process::id();
    let mut found = Vec::new();
    for process in names("/proc") {
        let Ok(pid) = process.parse::<u32>() else {
            continue;
        };
        let folder = Path::new("/proc").join(&process).join("fd");
        if pid == own {
            continue;
        }
        let handle = names(&folder).into_iter().find_map(|fd| {
            let link = std::fs::read_link(folder.join(fd)).ok()?;
            link.is_absolute().then(|| matches(&link)).flatten()
        });
        if let Some(node) = handle {
            let command = text(format!("/proc/{pid}/comm")).unwrap_or_else(|| "a process".into());
            found.push(Usage { node, reason: UsageReason::Open { pid, command } });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines_are_read_with_their_escapes() {
        let line = "36 35 0:99 / /mnt/my\\040disk rw - btrfs /dev/none rw";
        let mount = parse_mount(line).unwrap();
        assert_eq!((mount.device, mount.at), (None, PathBuf::from("/mnt/my disk")));
        assert!(parse_mount("").is_none() && parse_mount("a b c - d").is_none());
    }

    #[test]
    fn an_open_file_is_found_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        std::fs::write(&path, "x").unwrap();
        assert_eq!(usage_of_file(&path), vec![]);
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .stdin(std::fs::File::open(&path).unwrap())
            .spawn()
            .unwrap();
        // The child has its standard input from the start; its name appears with exec.
        let found = usage_of_file(&path);
        child.kill().unwrap();
        child.wait().unwrap();
        let by_child = |usage: &Usage| match &usage.reason {
            UsageReason::Open { pid, .. } => *pid == child.id(),
            _ => false,
        };
        assert!(found.iter().any(by_child), "{found:?}");
    }
}
