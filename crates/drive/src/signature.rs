//! What is on a device: partition tables, file systems, members of volume managers.
//!
//! Offsets and magic numbers are those of the formats' own headers, as the kernel defines them.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Something recognisable on a device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Name of the format.
    pub name: &'static str,
    /// What it means for writing.
    pub kind: FoundKind,
    /// Its label, when it has one.
    pub label: Option<String>,
}

/// What a signature means for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// Data: may be overwritten by the one who names the device.
    Data,
    /// Part of something bigger, which other devices need: never overwritten.
    Member {
        /// How to take it out.
        way_out: &'static str,
    },
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{} \"{label}\"", self.name),
            None => f.write_str(self.name),
        }
    }
}

struct Magic {
    name: &'static str,
    kind: FoundKind,
    /// From the start when positive, from the end when negative.
    offset: i64,
    bytes: &'static [u8],
    label: Option<(u64, usize)>,
}

const fn data(name: &'static str, offset: i64, bytes: &'static [u8]) -> Magic {
    Magic { name, kind: FoundKind::Data, offset, bytes, label: None }
}

const fn labelled(magic: Magic, at: u64, len: usize) -> Magic {
    Magic { label: Some((at, len)), ..magic }
}

const fn member(
    name: &'static str,
    way_out: &'static str,
    offset: i64,
    bytes: &'static [u8],
) -> Magic {
    Magic { name, kind: FoundKind::Member { way_out }, offset, bytes, label: None }
}

const PV: &str = "remove it from LVM (vgreduce, then pvremove)";
const MD: &str = "remove it from its array (mdadm --fail --remove, then mdadm --zero-superblock)";
const BCACHE: &str = "detach it and wipe it (wipefs -a)";
const CEPH: &str = "remove the OSD (ceph-volume lvm zap)";

const MAGICS: &[Magic] = &[
    data("GPT partition table", 512, b"EFI PART"),
    data("GPT partition table", 4096, b"EFI PART"),
    labelled(data("ext2/3/4 file system", 1080, &[0x53, 0xef]), 1144, 16),
    labelled(data("XFS file system", 0, b"XFSB"), 108, 12),
    labelled(data("btrfs file system", 65600, b"_BHRfS_M"), 65835, 256),
    labelled(data("swap area", 4086, b"SWAPSPACE2"), 1052, 16),
    data("swap area", 4086, b"SWAP-SPACE"),
    data("swap area", 65526, b"SWAPSPACE2"),
    data("LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    data("F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    data("NTFS file system", 3, b"NTFS    "),
    data("exFAT file system", 3, b"EXFAT   "),
    data("FAT file system", 54, b"FAT12   "),
    data("FAT file system", 54, b"FAT16   "),
    labelled(data("FAT file system", 82, b"FAT32   "), 71, 11),
    labelled(data("ISO 9660 file system", 32769, b"CD001"), 32808, 32),
    data("squashfs file system", 0, b"hsqs"),
    data("EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    data("JFS file system", 32768, b"JFS1"),
    data("ReiserFS file system", 65588, b"ReIsEr"),
    data(
        "bcachefs file system",
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d,
            0xf7, 0xef,
        ],
    ),
    data("VMFS volume", 1_048_576, &[0x0d, 0xd0, 0x01, 0xc0]),
    data("dm-integrity volume", 0, b"integrt\0"),
    data("dm-verity volume", 0, b"verity\0\0"),
    data("qcow2 disk image", 0, b"QFI\xfb"),
    member("LVM physical volume", PV, 24, b"LVM2 001"),
    member("LVM physical volume", PV, 536, b"LVM2 001"),
    member("LVM physical volume", PV, 1048, b"LVM2 001"),
    member("LVM physical volume", PV, 1560, b"LVM2 001"),
    labelled(member("MD RAID member", MD, 0, &[0xfc, 0x4e, 0x2b, 0xa9]), 32, 32),
    labelled(member("MD RAID member", MD, 4096, &[0xfc, 0x4e, 0x2b, 0xa9]), 4128, 32),
    member(
        "bcache member",
        BCACHE,
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
    ),
    member("VDO member", "remove the volume (vdo remove or lvremove)", 0, b"dmvdo001"),
    member("Oracle ASM disk", "drop it from its disk group", 32, b"ORCLDISK"),
    member("Ceph BlueStore", CEPH, 0, b"bluestore block device"),
    data("GPT backup table", -512, b"EFI PART"),
    data("GPT backup table", -4096, b"EFI PART"),
];

const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const ZFS: Found = Found {
    name: "ZFS member",
    kind: FoundKind::Member { way_out: "remove it from its pool (zpool labelclear)" },
    label: None,
};
const MD_AT_END: Found =
    Found { name: "MD RAID member", kind: FoundKind::Member { way_out: MD }, label: None };

/// Everything recognisable in a file or device of `size` bytes. Unreadable places count as empty.
pub fn scan(file: &File, size: u64) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut add = |new: Found| {
        if !found.iter().any(|old| old.name == new.name) {
            found.push(new);
        }
    };
    for magic in MAGICS {
        let offset = if magic.offset < 0 {
            size.checked_sub(magic.offset.unsigned_abs())
        } else {
            Some(magic.offset as u64)
        };
        let Some(offset) = offset else { continue };
        if read(file, offset, magic.bytes.len()).as_deref() == Some(magic.bytes) {
            let label = magic.label.and_then(|(at, len)| read(file, at, len)).and_then(clean);
            add(Found { name: magic.name, kind: magic.kind, label });
        }
    }
    if let Some(table) = partition_table(file) {
        add(table);
    }
    // MD superblocks 1.0 and 0.90 lie at the end.
    let ends = [size.checked_sub(8192).map(|at| at & !4095), (size & !65535).checked_sub(65536)];
    if ends.into_iter().flatten().any(|at| read(file, at, 4).as_deref() == Some(&MD_MAGIC)) {
        add(MD_AT_END);
    }
    if has_uberblock(file) {
        add(ZFS);
    }
    found
}

/// An MBR with at least one used entry; a protective one belongs to a GPT.
fn partition_table(file: &File) -> Option<Found> {
    let sector = read(file, 0, 512)?;
    let entries = || sector[446..510].chunks(16);
    let used = entries().any(|entry| entry[4] != 0);
    let sane = entries().all(|entry| entry[0] & 0x7f == 0);
    let protective = entries().any(|entry| entry[4] == 0xee);
    let table = sector[510..] == [0x55, 0xaa] && used && sane && !protective;
    table.then_some(Found { name: "MBR partition table", kind: FoundKind::Data, label: None })
}

/// Uberblocks of the first ZFS label: an array from 128 KiB on.
fn has_uberblock(file: &File) -> bool {
    let Some(array) = read(file, 128 << 10, 128 << 10) else {
        return false;
    };
    let magic = 0x00ba_b10c_u64;
    array.chunks_exact(1024).any(|block| {
        block.starts_with(&magic.to_le_bytes()) || block.starts_with(&magic.to_be_bytes())
    })
}

fn read(file: &File, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// A label up to its first zero, printable characters only.
fn clean(bytes: Vec<u8>) -> Option<String> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    (!text.is_empty() && text != "NO NAME").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(size: u64, parts: &[(u64, &[u8])]) -> Vec<Found> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        scan(&file, size)
    }

    #[test]
    fn every_magic_is_found_at_its_place_with_its_label() {
        for magic in MAGICS {
            let size = 4 << 20;
            let at = if magic.offset < 0 {
                size - magic.offset.unsigned_abs()
            } else {
                magic.offset as u64
            };
            let mut parts = vec![(at, magic.bytes)];
            if let Some((label, _)) = magic.label {
                parts.push((label, b"backup".as_slice()));
            }
            let found = image(size, &parts);
            let hit = found.iter().find(|found| found.name == magic.name);
            let hit = hit.unwrap_or_else(|| panic!("{} not found", magic.name));
            assert_eq!(hit.kind, magic.kind);
            if magic.label.is_some() {
                assert_eq!(hit.label.as_deref(), Some("backup"), "{}", magic.name);
            }
        }
    }

    #[test]
    fn superblocks_at_the_end_and_uberblocks_are_found() {
        let size = (4 << 20) + 512;
        assert_eq!(image(size, &[((size - 8192) & !4095, &MD_MAGIC)]), vec![MD_AT_END]);
        assert_eq!(image(size, &[((size & !65535) - 65536, &MD_MAGIC)]), vec![MD_AT_END]);
        let uberblock = 0x00ba_b10c_u64.to_le_bytes();
        assert_eq!(image(size, &[((128 << 10) + 4096, &uberblock)]), vec![ZFS]);
    }

    #[test]
    fn a_partition_table_needs_an_entry() {
        assert_eq!(image(1 << 20, &[(510, &[0x55, 0xaa])]), vec![]);
        let found = image(1 << 20, &[(450, &[0x83]), (510, &[0x55, 0xaa])]);
        assert_eq!(found[0].name, "MBR partition table");
    }

    #[test]
    fn zeros_and_tiny_files_hold_nothing() {
        for size in [0, 1, 511, 4096, 1 << 20] {
            assert_eq!(image(size, &[]), vec![], "{size}");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(bytes: Vec<u8>, at in 0u64..5000) {
            image(8192, &[(at, &bytes)]);
        }
    }
}
