//! Block devices as the kernel describes them.

use crate::link::Link;
use crate::nvme::controller_of;
use crate::queue::{Interrupt, hardware_queues, interrupts, settings};
use crate::sysfs::{block_folder, name_of, names, number, text};
use base::units::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A block device. Fields the kernel does not report are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Device {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Node, such as `/dev/nvme0n1`.
    pub path: PathBuf,
    /// `nvme`, `ata`, `scsi`, `virtio`, `loop`, `zram` or what the kernel calls it.
    pub transport: String,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name: `eui.`, `nvme.`, `naa.` ...
    pub wwid: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Smallest unit of I/O in bytes.
    pub logical_block_bytes: u64,
    /// Physical block in bytes.
    pub physical_block_bytes: u64,
    /// Spinning or not.
    pub rotational: Option<bool>,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// Whether it has poll queues.
    pub poll: bool,
    /// I/O scheduler in use.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// NUMA node; none when there is one node only.
    pub numa_node: Option<u32>,
    /// CPUs near it.
    pub local_cpus: Option<String>,
    /// PCIe link.
    pub link: Option<Link>,
    /// Controller of an NVMe namespace, such as `nvme0`.
    pub controller: Option<String>,
    /// Number of an NVMe namespace.
    pub nsid: Option<u32>,
    /// The generic character device that the user named instead of the block device: I/O goes to it as
    /// commands.
    pub generic: Option<PathBuf>,
    /// Globally unique identifier of an NVMe namespace.
    pub nguid: Option<String>,
    /// Address of an NVMe controller over a fabric.
    pub address: Option<String>,
    /// CPUs of each hardware queue.
    pub queues: Vec<String>,
    /// Its interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Settings of the block layer, by the kernel's names.
    pub settings: BTreeMap<&'static str, String>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// The file or device that a loop device stands for.
    pub backing: Option<PathBuf>,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// The whole disk, when this is a partition.
    pub parent: Option<String>,
}

impl Device {
    /// The word that names this device in `--destroy`: its serial number or world-wide name; for a
    /// loop device its backing file; for devices without identity the kernel name.
    pub fn identity(&self) -> String {
        let backing = self.backing.as_ref().map(|path| path.display().to_string());
        self.serial
            .clone()
            .or_else(|| self.wwid.clone())
            .or(backing)
            .unwrap_or_else(|| self.name.clone())
    }

    /// Whether a word of `--destroy` means this device.
    pub fn is_named_by(&self, word: &str) -> bool {
        let known = [self.serial.as_deref(), self.wwid.as_deref()];
        known.contains(&Some(word)) || word == self.identity()
    }

    /// Capacity.
    pub fn size(&self) -> Bytes {
        Bytes(self.size_bytes)
    }
}

/// All block devices that have a capacity; partitions are inside their disks.
pub fn discover() -> Vec<Device> {
    let all = names("/sys/block");
    all.iter().map(|name| read(name)).filter(|device| device.size_bytes > 0).collect()
}

/// The device behind a node, by its numbers: links and other names lead to the same device.
pub fn find(node: &Path) -> Option<Device> {
    let rdev = std::fs::metadata(node).ok()?.rdev();
    let name = name_of(rustix::fs::major(rdev), rustix::fs::minor(rdev))?;
    let device = read(&name);
    Some(Device { path: node.to_owned(), ..device })
}

/// The device behind the generic character device of an NVMe namespace, such as `/dev/ng0n1`.
pub(crate) fn find_generic(node: &Path) -> Option<Device> {
    let rdev = std::fs::metadata(node).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let link = std::fs::canonicalize(format!("/sys/dev/char/{major}:{minor}")).ok()?;
    let rest = link.file_name()?.to_str()?.strip_prefix("ng")?;
    let name = format!("nvme{rest}");
    let device = read(&name);
    let there = device.size_bytes > 0 && device.nsid.is_some();
    there.then(|| Device { generic: Some(node.to_owned()), ..device })
}

/// Reads a device or partition by kernel name.
fn read(name: &str) -> Device {
    let folder = block_folder(name);
    let real = std::fs::canonicalize(&folder).unwrap_or_else(|_| folder.clone());
    let is_partition = folder.join("partition").exists();
    let parent = real.parent().and_then(Path::file_name).and_then(|n| n.to_str());
    let parent = parent.filter(|_| is_partition).map(str::to_owned);
    let disk = parent.as_deref().map_or_else(|| folder.clone(), block_folder);
    let disk_name = parent.as_deref().unwrap_or(name);
    let controller = controller_of(disk_name);
    // Several paths to an NVMe namespace have a head in front: what belongs to a path is below it.
    let (disk_path, device) = match &controller {
        Some(name) => {
            let folder = Path::new("/sys/class/nvme").join(name);
            (path_of(&folder, disk_name).unwrap_or_else(|| disk.clone()), folder)
        }
        None => (disk.clone(), disk.join("device")),
    };
    let queue = disk.join("queue");
    let path_queue = disk_path.join("queue");
    let of_disk = |key: &str| text(device.join(key));
    let is_part = |part: &String| folder.join(part).join("partition").exists();
    Device {
        name: name.to_owned(),
        path: Path::new("/dev").join(name.replace('!', "/")),
        transport: transport(disk_name, &device),
        model: of_disk("model"),
        serial: serial(&disk, &device),
        wwid: text(disk.join("wwid")).or_else(|| of_disk("wwid")),
        firmware: of_disk("firmware_rev").or_else(|| of_disk("rev")),
        size_bytes: number::<u64>(folder.join("size")).unwrap_or(0) * 512,
        logical_block_bytes: number(queue.join("logical_block_size")).unwrap_or(512),
        physical_block_bytes: number(queue.join("physical_block_size")).unwrap_or(512),
        rotational: number::<u8>(queue.join("rotational")).map(|n| n == 1),
        read_only: number::<u8>(folder.join("ro")) == Some(1),
        poll: number::<u8>(queue.join("io_poll")) == Some(1),
        scheduler: text(path_queue.join("scheduler")).map(|all| chosen(&all)),
        write_cache: text(queue.join("write_cache")),
        numa_node: numa_node(&device),
        local_cpus: up(&device, "local_cpulist"),
        link: Link::read(&device),
        controller,
        generic: None,
        nsid: number(disk.join("nsid")),
        nguid: text(disk.join("nguid")).filter(|id| id.bytes().any(|b| !b"0-".contains(&b))),
        address: of_disk("address").filter(|address| address.contains("traddr")),
        queues: hardware_queues(&disk_path),
        interrupts: interrupts(&device),
        settings: settings(&path_queue),
        temperature_c: temperature(&device),
        backing: text(disk.join("loop/backing_file")).map(PathBuf::from),
        partitions: names(&folder).into_iter().filter(is_part).collect(),
        parent,
    }
}

/// The name in brackets of a list such as `[none] mq-deadline`.
fn chosen(list: &str) -> String {
    let bracketed = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or_else(|| list.to_owned(), |(name, _)| name.to_owned())
}

fn transport(name: &str, device: &Path) -> String {
    for (prefix, transport) in [
        ("nvme", "nvme"),
        ("loop", "loop"),
        ("zram", "zram"),
        ("vd", "virtio"),
        ("dm-", "dm"),
        ("md", "md"),
    ] {
        if name.starts_with(prefix) {
            let detail =
                text(device.join("transport")).or_else(|| text(device.join("../transport")));
            return match detail {
                Some(detail) if transport == "nvme" => format!("nvme-{detail}"),
                _ => transport.to_owned(),
            };
        }
    }
    let real = std::fs::canonicalize(device).unwrap_or_default();
    let path = real.to_string_lossy();
    let known = [
        ("/ata", "ata"),
        ("/usb", "usb"),
        ("sas", "sas"),
        ("/host", "scsi"),
        ("/virtio", "virtio"),
    ];
    let found = known.iter().find(|(part, _)| path.contains(part));
    found.map_or_else(|| "block".into(), |(_, name)| (*name).to_owned())
}

/// Serial number: from sysfs, else from the vital product data page 0x80 of SCSI and ATA.
fn serial(disk: &Path, device: &Path) -> Option<String> {
    text(disk.join("serial"))
        .or_else(|| text(device.join("serial")))
        .or_else(|| text(device.join("../serial")))
        .or_else(|| {
            let page = std::fs::read(device.join("vpd_pg80")).ok()?;
            let serial = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
            (!serial.is_empty()).then_some(serial)
        })
}

fn numa_node(device: &Path) -> Option<u32> {
    u32::try_from(up(device, "numa_node")?.parse::<i32>().ok()?).ok()
}

/// A value of the device or of what it hangs on.
fn up(device: &Path, key: &str) -> Option<String> {
    let up = ["", "device", "..", "../.."];
    up.iter().find_map(|path| text(device.join(path).join(key)))
}

/// The folder of one path to a namespace with several, such as `nvme0c0n1` of `nvme0n1`.
fn path_of(controller: &Path, disk: &str) -> Option<PathBuf> {
    let (subsystem, namespace) = disk.strip_prefix("nvme")?.split_once('n')?;
    let is_path = |name: &&String| {
        let rest = name.strip_prefix("nvme").and_then(|rest| rest.split_once('c'));
        rest.is_some_and(|(before, after)| {
            before == subsystem && after.split_once('n').is_some_and(|(_, n)| n == namespace)
        })
    };
    Some(controller.join(names(controller).iter().find(is_path)?))
}

pub(crate) fn temperature(device: &Path) -> Option<f64> {
    for folder in [device.to_owned(), device.join("device")] {
        for hwmon in names(&folder).iter().filter(|name| name.starts_with("hwmon")) {
            let input = folder.join(hwmon).join("temp1_input");
            if let Some(milli) = number::<f64>(input) {
                return Some(milli / 1000.0);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_is_in_brackets() {
        assert_eq!(chosen("[none] mq-deadline"), "none");
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn identity_is_the_strongest_name_known() {
        let mut device = Device { name: "loop3".into(), ..Device::default() };
        assert_eq!(device.identity(), "loop3");
        device.backing = Some("/srv/a.img".into());
        assert!(device.is_named_by("/srv/a.img") && !device.is_named_by("loop3"));
        device.wwid = Some("eui.0025".into());
        device.serial = Some("S1".into());
        assert!(device.is_named_by("S1") && device.is_named_by("eui.0025"));
        assert!(!device.is_named_by("S") && !device.is_named_by(""));
    }

    #[test]
    fn a_missing_device_is_none_and_a_bare_one_is_listed() {
        assert_eq!(find(Path::new("/dev/null")), None);
        assert_eq!(find(Path::new("/dev/does-not-exist")), None);
        let device = read("no-such-device");
        assert_eq!((device.size_bytes, device.serial), (0, None));
    }
}
