//! The guard: nothing is written to what is in use, recognisable or not named. On loop devices.

use blackbox::loopdev::{LoopDevice, Mounted};
use blackbox::{checksum, fathom, folder, is_root, must, not_run, plan, tool};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const WRITES: &str = "[[step]]\nname=\"w\"\nload={read=0, depth=4, time=\"200ms\"}";
const SIZE: u64 = 64 << 20;

/// Runs a plan that writes; nothing may change when it is refused.
fn refused(here: &Path, device: &str, watch: &Path, named: Option<&str>, reason: &str) {
    let path = plan(here, WRITES);
    let before = checksum(watch);
    let mut args = vec!["run", path.as_str(), device, "-q", "-o", "r.fathom"];
    if let Some(word) = named {
        args.extend(["--destroy", word]);
    }
    fathom(here, &args).expect(3).says("refused").says(reason);
    assert!(!here.join("r.fathom").exists(), "no run began");
    assert_eq!(checksum(watch), before, "{device} was changed");
}

fn allowed(here: &Path, device: &str, word: &str) {
    let path = plan(here, WRITES);
    let file = here.join("ok.fathom");
    let _ = std::fs::remove_file(&file);
    let file = file.display().to_string();
    fathom(here, &["run", &path, device, "-q", "-o", &file, "--destroy", word]).expect(0);
    let shown = fathom(here, &["show", &file, "--json"]).expect(0).json();
    let events = shown["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "permit"), "{events:?}");
}

#[test]
fn an_empty_device_needs_its_name_and_reading_needs_none() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", SIZE);
    let word = format!("--destroy {}", disk.identity);
    refused(here.path(), &disk.text(), &disk.node, None, &word);
    refused(here.path(), &disk.text(), &disk.node, Some("WRONG-SERIAL"), "but this is");
    let reads = plan(here.path(), "[[step]]\nname=\"r\"\nload={depth=4, time=\"200ms\"}");
    fathom(here.path(), &["run", &reads, &disk.text(), "-q", "-o", "read.fathom"]).expect(0);
    // Again and again: a run that ended does not keep its claim.
    for _ in 0..5 {
        allowed(here.path(), &disk.text(), &disk.identity);
    }
}

#[test]
fn a_file_system_is_named_and_overwritten_only_by_its_name() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", SIZE);
    must("mkfs.ext4", &["-q", "-L", "precious", &disk.text()]);
    refused(here.path(), &disk.text(), &disk.node, None, "ext2/3/4 file system \"precious\"");
    allowed(here.path(), &disk.text(), &disk.identity);
}

#[test]
fn a_mounted_file_system_is_refused_even_when_named() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", SIZE);
    must("mkfs.ext4", &["-q", &disk.text()]);
    let mount = Mounted::new(&["-o", "ro", &disk.text()], &here.path().join("mnt"));
    let reason = format!("is mounted at {}", mount.at().display());
    refused(here.path(), &disk.text(), &disk.node, None, &reason);
    refused(here.path(), &disk.text(), &disk.node, Some(&disk.identity), "umount");
    // A link to the node leads to the same device: paths do not matter.
    let link = here.path().join("innocent");
    std::os::unix::fs::symlink(&disk.node, &link).unwrap();
    refused(here.path(), &link.display().to_string(), &disk.node, Some(&disk.identity), &reason);
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused() {
    if !is_root() {
        return;
    }
    let here = folder();
    let backing = here.path().join("disk");
    std::fs::File::create(&backing).unwrap().set_len(SIZE).unwrap();
    // One Linux partition from sector 2048 to the end.
    let mut table = vec![0u8; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&((SIZE / 512 - 2048) as u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::OpenOptions::new().write(true).open(&backing).unwrap().write_all(&table).unwrap();
    let disk = LoopDevice::over(&backing, &["--partscan"]);
    let part = format!("{}p1", disk.text());
    if !Path::new(&part).exists() {
        // A kernel without a reader for this table still takes partitions from user space.
        let sectors = (SIZE / 512 - 2048).to_string();
        if !tool("addpart", &[&disk.text(), "1", "2048", &sectors]).0 {
            return not_run("this kernel has no partitions on loop devices");
        }
        let name = disk.name();
        let numbers = std::fs::read_to_string(format!("/sys/block/{name}/{name}p1/dev")).unwrap();
        let (major, minor) = numbers.trim().split_once(':').unwrap();
        if !Path::new(&part).exists() {
            must("mknod", &[&part, "b", major, minor]);
        }
    }
    refused(here.path(), &disk.text(), &disk.node, None, "MBR partition table");
    must("mkfs.ext4", &["-q", &part]);
    let mount = Mounted::new(&["-o", "ro", &part], &here.path().join("mnt"));
    let reason = format!("is mounted at {}", mount.at().display());
    refused(here.path(), &disk.text(), &disk.node, Some(&disk.identity), &reason);
    drop(mount);
    // On a partition alone, its own content counts.
    refused(here.path(), &part, &disk.node, None, "ext2/3/4");
}

#[test]
fn active_swap_is_refused() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", SIZE);
    must("mkswap", &[&disk.text()]);
    refused(here.path(), &disk.text(), &disk.node, None, "swap area");
    let (on, why) = tool("swapon", &[&disk.text()]);
    if !on {
        return not_run(&format!("swap cannot be switched on here: {why}"));
    }
    let path = plan(here.path(), WRITES);
    let ran = fathom(here.path(), &["run", &path, &disk.text(), "--destroy", &disk.identity]);
    must("swapoff", &[&disk.text()]);
    ran.expect(3).says("is active swap").says("swapoff");
}

#[test]
fn members_of_lvm_and_md_are_refused_even_when_named() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "pv", SIZE);
    if !tool("pvcreate", &["-ff", "-y", &disk.text()]).0 {
        // Without the tool (or device mapper): the label as the format defines it.
        write_at(&disk.node, 512, b"LABELONE");
        write_at(&disk.node, 536, b"LVM2 001");
    }
    refused(here.path(), &disk.text(), &disk.node, Some(&disk.identity), "LVM physical volume");
    for (name, at) in [("md-1.2", 4096u64), ("md-1.0", (SIZE - 8192) & !4095)] {
        let disk = LoopDevice::new(here.path(), name, SIZE);
        write_at(&disk.node, at, &[0xfc, 0x4e, 0x2b, 0xa9]);
        refused(here.path(), &disk.text(), &disk.node, Some(&disk.identity), "MD RAID member");
    }
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_device_held_open_is_refused() {
    if !is_root() {
        return;
    }
    let here = folder();
    let disk = LoopDevice::new(here.path(), "disk", SIZE);
    let file = std::fs::File::open(&disk.node).unwrap();
    let mut holder = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    let reason = format!("process {}", holder.id());
    refused(here.path(), &disk.text(), &disk.node, Some(&disk.identity), &reason);
    holder.kill().unwrap();
    holder.wait().unwrap();
    allowed(here.path(), &disk.text(), &disk.identity);
}

#[test]
fn what_backs_a_loop_device_is_refused() {
    if !is_root() {
        return;
    }
    let here = folder();
    let lower = LoopDevice::new(here.path(), "disk", SIZE);
    let upper = LoopDevice::over(&lower.node, &[]);
    let reason = format!("backs /dev/{}", upper.name());
    refused(here.path(), &lower.text(), &lower.node, Some(&lower.identity), &reason);
    // And the file under the lower one.
    let file = here.path().join("disk");
    let text = file.display().to_string();
    refused(here.path(), &text, &file, Some(&text), &format!("backs /dev/{}", lower.name()));
}

#[test]
fn the_root_disk_is_refused() {
    let here = folder();
    let (ok, source) = tool("findmnt", &["-n", "-o", "SOURCE", "/"]);
    if !ok || !source.starts_with("/dev/") {
        return not_run(&format!("the root file system is on no visible device ({source})"));
    }
    let path = plan(here.path(), WRITES);
    let ran = fathom(here.path(), &["run", &path, &source, "--destroy", "anything"]);
    ran.expect(3).says("holds the root file system");
}

#[test]
fn a_foreign_file_needs_its_path_and_keeps_its_content() {
    let here = folder();
    let file = here.path().join("thesis.txt");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let text = std::fs::canonicalize(&file).unwrap().display().to_string();
    refused(here.path(), "thesis.txt", &file, None, &format!("--destroy {text}"));
    refused(here.path(), "thesis.txt", &file, Some("other.txt"), "but this is");
    allowed(here.path(), "thesis.txt", &text);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 1 << 20);
}
