//! The permit to write, and the opening of targets.
//!
//! A permit exists only for a target that was claimed exclusively, is not in use, is not part of
//! anything bigger, and was named by its identity; or for a scratch file of the run itself. A target
//! can be opened for writing with a permit only.

use crate::ata_scsi;
use crate::device::{Device, find};
use crate::nvme::{Controller, Nvme, NvmeError};
use crate::signature::{Found, FoundKind, scan};
use crate::target::{Kind, Subject};
use crate::usage::{Usage, UsageReason, usage_of_device, usage_of_file};
use base::units::Bytes;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, open};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Why nothing is written. Each message has a way out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// In use.
    #[error("{0}")]
    InUse(Usage),
    /// Claimed by the kernel or another program, without a visible user.
    #[error("{0}: is claimed by another program or the kernel; find it with lsblk and fuser")]
    Claimed(PathBuf),
    /// Part of something bigger.
    #[error("{path}: holds a {found}; {way_out} or pick another drive")]
    Member {
        /// What.
        path: PathBuf,
        /// The signature.
        found: Found,
        /// How to take it out.
        way_out: &'static str,
    },
    /// Nobody named it.
    #[error(
        "{path}: this plan writes to it{contents}; if that is meant, name it: --destroy {identity}",
        contents = list(.found)
    )]
    NotNamed {
        /// What.
        path: PathBuf,
        /// The word that names it.
        identity: String,
        /// What is on it.
        found: Vec<Found>,
    },
    /// Somebody named something else.
    #[error(
        "{path}: --destroy names `{given}`, but this is `{identity}`{contents}; check that it is the \
         right drive",
        contents = list(.found)
    )]
    WrongName {
        /// What.
        path: PathBuf,
        /// As given.
        given: String,
        /// The word that names it.
        identity: String,
        /// What is on it.
        found: Vec<Found>,
    },
    /// The name leads to another device than a moment ago.
    #[error(
        "{0}: leads to another device than a moment ago; look at `fathom devices` and run again"
    )]
    Changed(PathBuf),
    /// The kernel refuses writes to it.
    #[error("{0}: is read-only")]
    ReadOnly(PathBuf),
    /// It cannot be opened.
    #[error("{path}: cannot be opened: {error}")]
    System {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn list(found: &[Found]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let names: Vec<String> = found.iter().map(Found::to_string).collect();
    format!(" and destroys what is on it ({})", names.join(", "))
}

/// The permission to write to one target, with the exclusive claim on it.
#[derive(Debug)]
pub struct Permit {
    file: OwnedFd,
    size: Bytes,
    device: Option<Device>,
    /// The word that named the target.
    pub identity: String,
    /// What will be destroyed.
    pub found: Vec<Found>,
}

/// An opened target.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: OwnedFd,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// The right to erase it; only a permit grants it.
    pub eraser: Option<Eraser>,
}

/// The right to erase a target. It exists only for a target that was opened through a
/// [`Permit`], and holds the claim on it as long as it lives.
#[derive(Debug)]
pub struct Eraser {
    file: OwnedFd,
    size: Bytes,
    device: Option<Device>,
}

impl Eraser {
    /// Gives everything up: the blocks hold nothing any more.
    ///
    /// # Errors
    /// When the device or the file system cannot do it.
    pub fn deallocate(&self) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, 0, self.size.0)?)
    }

    /// The admin commands of the drive; none where it is no NVMe drive.
    ///
    /// # Errors
    /// When its controller cannot be opened.
    pub fn nvme(&self) -> Option<Result<Nvme, NvmeError>> {
        // A permit for a partition is none for the namespace around it.
        Nvme::open(self.device.as_ref().filter(|device| device.parent.is_none())?)
    }

    /// Whether [`Eraser::format`] is possible.
    ///
    /// # Errors
    /// Why not.
    pub fn can_format(&self) -> Result<(), String> {
        match self.sata_or_sas() {
            Some(drive) => drive.can_format(),
            None => match self.controller()?.commands.format {
                true => Ok(()),
                false => Err("the drive has no Format NVM command".into()),
            },
        }
    }

    /// Whether [`Eraser::sanitize`] is possible.
    ///
    /// # Errors
    /// Why not.
    pub fn can_sanitize(&self) -> Result<(), String> {
        match self.sata_or_sas() {
            Some(drive) => drive.can_sanitize(),
            None => match self.controller()?.sanitize.any() {
                true => Ok(()),
                false => Err("the drive has no Sanitize command".into()),
            },
        }
    }

    /// Erases the namespace by Format NVM, keeping its block size; a SATA drive by SECURITY ERASE UNIT, a
    /// SAS drive by FORMAT UNIT. Gives what was done.
    ///
    /// # Errors
    /// When the drive cannot, its tool is missing, or other namespaces would be erased too.
    pub fn format(&self) -> Result<String, String> {
        match self.sata_or_sas() {
            Some(drive) => self.same_drive().and_then(|()| drive.format()),
            None => self.checked()?.format().map_err(|error| error.to_string()),
        }
    }

    /// Sanitizes the drive, and waits; `each` gets the percent done and ends the waiting when it says
    /// false. Gives what was done.
    ///
    /// # Errors
    /// As [`Eraser::format`], and when the sanitize fails.
    pub fn sanitize(&self, each: &mut dyn FnMut(f64) -> bool) -> Result<String, String> {
        match self.sata_or_sas() {
            Some(drive) => self.same_drive().and_then(|()| drive.sanitize(each)),
            None => self.checked()?.sanitize(each).map_err(|error| error.to_string()),
        }
    }

    /// Makes the namespace anew with another size, so that the rest of the drive is spare; its block
    /// device goes away and comes again. Gives the number of the new namespace and its size in bytes.
    ///
    /// # Errors
    /// As [`Eraser::format`].
    pub fn resize(self, bytes: u64) -> Result<(u32, u64), String> {
        let nvme = self.checked()?;
        // The claim lasts until the old namespace is gone; then it must end, so that the new one can have
        // the same name.
        nvme.resize(bytes, || drop(self.file)).map_err(|error| error.to_string())
    }

    /// The drive, when it still is the one that was named: another may have come under its name.
    fn checked(&self) -> Result<Nvme, String> {
        let nvme = self.nvme().ok_or("it is no NVMe namespace")?.map_err(|e| e.to_string())?;
        let now = nvme.controller().map_err(|error| error.to_string())?.serial;
        let then =
            self.device.as_ref().and_then(|device| device.serial.clone()).unwrap_or_default();
        match now.trim() == then.trim() {
            true => Ok(nvme),
            false => Err(format!("another drive ({now}) has come in the place of {then}")),
        }
    }

    fn sata_or_sas(&self) -> Option<ata_scsi::Drive> {
        ata_scsi::Drive::of(self.device.as_ref()?)
    }

    /// Whether the drive under the name still is the one that was named.
    fn same_drive(&self) -> Result<(), String> {
        let Some(then) = &self.device else { return Err("it is no drive".into()) };
        match find(&then.path) {
            Some(now) if now.identity() == then.identity() => Ok(()),
            _ => Err(format!("another drive has come in the place of {}", then.identity())),
        }
    }

    fn controller(&self) -> Result<Controller, String> {
        if self.device.as_ref().is_some_and(|device| device.parent.is_some()) {
            return Err("it is a partition, and such a command reaches the whole drive".into());
        }
        let nvme = self.nvme().ok_or("it has no admin commands")?.map_err(|e| e.to_string())?;
        nvme.controller().map_err(|error| error.to_string())
    }
}

impl Permit {
    /// Claims the target and checks everything; `named` are the words of `--destroy`.
    ///
    /// # Errors
    /// Whenever anything speaks against writing.
    pub fn check(subject: &Subject, named: &[String]) -> Result<Permit, Refusal> {
        let path = &subject.path;
        match &subject.kind {
            Kind::Scratch(_) => {
                let file = open_direct(&subject.open_path(), OFlags::RDWR)?;
                let (file, size) = (file.file, subject.size());
                Ok(Permit {
                    file,
                    size,
                    device: None,
                    identity: "scratch".into(),
                    found: Vec::new(),
                })
            }
            Kind::Device(device) => {
                // The claim is on the block device, also where I/O goes to its generic twin.
                let path = &device.path;
                // The reasons that can be seen come before the bare "claimed".
                refuse_use(settled_usage(device))?;
                if device.read_only {
                    return Err(Refusal::ReadOnly(path.clone()));
                }
                let claim = claim(path)?;
                // The name may lead elsewhere by now: what was opened must be what is checked.
                if !is_device(&claim.file, &device.name) {
                    return Err(Refusal::Changed(path.clone()));
                }
                // Nobody can mount or claim it from here on: this second look decides.
                refuse_use(usage_of_device(device))?;
                let mut found = contents(path, device.size_bytes)?;
                for part in &device.partitions {
                    let node = Path::new("/dev").join(part);
                    let size = crate::find(&node).map_or(0, |device| device.size_bytes);
                    match contents(&node, size) {
                        Ok(more) => found.extend(more),
                        Err(refusal @ Refusal::Member { .. }) => return Err(refusal),
                        // A partition without a node cannot be read; its table entry is known.
                        Err(_) => {}
                    }
                }
                named_permit(subject, named, found, claim.file)
            }
            Kind::File { size, ours } => {
                refuse_use(usage_of_file(path))?;
                let claim = open_direct(path, OFlags::RDWR)?;
                flock(&claim.file, FlockOperation::NonBlockingLockExclusive)
                    .map_err(|_| Refusal::Claimed(path.clone()))?;
                if *ours {
                    let identity = subject.identity();
                    let (file, size) = (claim.file, *size);
                    return Ok(Permit { file, size, device: None, identity, found: Vec::new() });
                }
                named_permit(subject, named, contents(path, size.0)?, claim.file)
            }
        }
    }

    /// Opens the target for reading and writing. The claim lasts as long as the file is open.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(self) -> io::Result<Opened> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        let generic = self.device.as_ref().and_then(|device| device.generic.as_deref());
        let commands = generic.map(|node| open_generic(node, OFlags::RDWR)).transpose()?;
        let eraser = Eraser { file: self.file.try_clone()?, size: self.size, device: self.device };
        let direct = flags.contains(OFlags::DIRECT) || commands.is_some();
        Ok(Opened { direct, file: commands.unwrap_or(self.file), eraser: Some(eraser) })
    }
}

/// Whether an open file is the block device of a kernel name.
fn is_device(file: &OwnedFd, name: &str) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    let numbers = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    crate::sysfs::name_of(numbers.0, numbers.1).as_deref() == Some(name)
}

/// Opens a device exclusively. A program that has just ended may hold it for a moment longer: its ring
/// is taken apart by the kernel afterwards.
fn claim(path: &Path) -> Result<Opened, Refusal> {
    const TRIES: usize = 30;
    for _ in 0..TRIES {
        match open_direct(path, OFlags::RDWR | OFlags::EXCL) {
            Err(Refusal::Claimed(_)) => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            other => return other,
        }
    }
    open_direct(path, OFlags::RDWR | OFlags::EXCL)
}

/// The uses of a device, once the system's own probing of a device that just changed is over.
fn settled_usage(device: &crate::Device) -> Vec<Usage> {
    const TRIES: usize = 15;
    let probing = |usage: &Usage| match &usage.reason {
        UsageReason::Open { command, .. } => {
            // losetup looks into all loop devices for a free one.
            command.contains("udev") || command == "blkid" || command == "losetup"
        }
        _ => false,
    };
    for _ in 0..TRIES {
        let usage = usage_of_device(device);
        if usage.is_empty() || !usage.iter().all(probing) {
            return usage;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    usage_of_device(device)
}

/// The first use is the reason; a mounted root is named before everything else.
fn refuse_use(mut usage: Vec<Usage>) -> Result<(), Refusal> {
    usage.sort_by_key(|usage| usage.reason != UsageReason::Root);
    usage.into_iter().next().map_or(Ok(()), |usage| Err(Refusal::InUse(usage)))
}

fn contents(path: &Path, size: u64) -> Result<Vec<Found>, Refusal> {
    let error = |error| Refusal::System { path: path.to_owned(), error };
    let found = scan(&File::open(path).map_err(error)?, size);
    for item in &found {
        if let FoundKind::Member { way_out } = item.kind {
            return Err(Refusal::Member { path: path.to_owned(), found: item.clone(), way_out });
        }
    }
    Ok(found)
}

fn named_permit(
    subject: &Subject,
    named: &[String],
    found: Vec<Found>,
    file: OwnedFd,
) -> Result<Permit, Refusal> {
    let (path, identity) = (subject.path.clone(), subject.identity());
    if named.iter().any(|word| subject.is_named_by(word)) {
        let (size, device) = (subject.size(), subject.device().cloned());
        return Ok(Permit { file, size, device, identity, found });
    }
    match named.first() {
        None => Err(Refusal::NotNamed { path, identity, found }),
        Some(given) => Err(Refusal::WrongName { path, given: given.clone(), identity, found }),
    }
}

/// Opens a generic device: there is no page cache to pass.
fn open_generic(node: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(open(node, flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens past the page cache where the file system can.
fn open_direct(path: &Path, flags: OFlags) -> Result<Opened, Refusal> {
    let flags = flags | OFlags::CLOEXEC;
    let system = |error: Errno| match error {
        Errno::BUSY => Refusal::Claimed(path.to_owned()),
        Errno::ROFS => Refusal::ReadOnly(path.to_owned()),
        error => Refusal::System { path: path.to_owned(), error: error.into() },
    };
    // An instrument leaves no access times; only the owner of a file may ask for that.
    let quiet = flags | OFlags::DIRECT | OFlags::NOATIME;
    let opened = open(path, quiet, Mode::empty()).or_else(|error| match error {
        Errno::PERM => open(path, flags | OFlags::DIRECT, Mode::empty()),
        error => Err(error),
    });
    match opened {
        Ok(file) => Ok(Opened { file, direct: true, eraser: None }),
        Err(Errno::INVAL) => {
            let file = open(path, flags, Mode::empty()).map_err(system)?;
            Ok(Opened { file, direct: false, eraser: None })
        }
        Err(error) => Err(system(error)),
    }
}

/// Opens a target for reading; needs no permit and destroys nothing.
///
/// # Errors
/// When it cannot be opened.
pub fn open_for_reading(subject: &Subject) -> Result<Opened, Refusal> {
    if let Some(node) = subject.device().and_then(|device| device.generic.as_deref()) {
        let error = |error| Refusal::System { path: node.to_owned(), error };
        let file = open_generic(node, OFlags::RDONLY).map_err(error)?;
        return Ok(Opened { file, direct: true, eraser: None });
    }
    open_direct(&subject.open_path(), OFlags::RDONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::resolve;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_scratch_file_needs_no_word_and_leaves_nothing() {
        let folder = folder();
        let subject = resolve(folder.path(), Bytes(1 << 20)).unwrap();
        let opened = Permit::check(&subject, &[]).unwrap().open().unwrap();
        rustix::io::pwrite(&opened.file, &vec![7; 4096], 0).map(|_| ()).unwrap_or(());
        drop((opened, subject));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_permit_can_give_everything_up() {
        let folder = folder();
        let path = folder.path().join("precious");
        std::fs::write(&path, vec![1u8; 8192]).unwrap();
        let subject = resolve(&path, Bytes(0)).unwrap();
        assert!(open_for_reading(&subject).unwrap().eraser.is_none());
        let named = [path.display().to_string()];
        let opened = Permit::check(&subject, &named).unwrap().open().unwrap();
        opened.eraser.unwrap().deallocate().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0u8; 8192]);
    }

    #[test]
    fn a_foreign_file_needs_its_own_path_as_the_word() {
        let folder = folder();
        let path = folder.path().join("precious");
        std::fs::write(&path, vec![1u8; 8192]).unwrap();
        let subject = resolve(&path, Bytes(1 << 20)).unwrap();
        let refused = |named: &[String]| Permit::check(&subject, named).unwrap_err();
        assert!(matches!(refused(&[]), Refusal::NotNamed { .. }));
        assert!(matches!(refused(&["/etc/passwd".into()]), Refusal::WrongName { .. }));
        assert!(matches!(refused(&["precious".into()]), Refusal::WrongName { .. }));
        let word = path.display().to_string();
        assert!(refused(&[]).to_string().contains(&format!("--destroy {word}")));
        let permit = Permit::check(&subject, std::slice::from_ref(&word)).unwrap();
        assert!(matches!(Permit::check(&subject, &[word]).unwrap_err(), Refusal::Claimed(_)));
        drop(permit);
        assert_eq!(std::fs::read(&path).unwrap(), vec![1u8; 8192]);
    }

    #[test]
    fn a_member_is_refused_even_when_named() {
        let folder = folder();
        let path = folder.path().join("pv");
        let mut image = vec![0u8; 1 << 20];
        image[536..544].copy_from_slice(b"LVM2 001");
        std::fs::write(&path, &image).unwrap();
        let subject = resolve(&path, Bytes(1 << 20)).unwrap();
        let refused = Permit::check(&subject, &[path.display().to_string()]).unwrap_err();
        assert!(matches!(refused, Refusal::Member { .. }));
        assert!(refused.to_string().contains("pvremove"), "{refused}");
    }

    #[test]
    fn what_cannot_be_a_target_says_why() {
        let folder = folder();
        let say = |path: &Path, size| resolve(path, Bytes(size)).unwrap_err().to_string();
        assert!(say(Path::new("/dev/null"), 1).contains("neither a block device"));
        assert!(say(&folder.path().join("nothing"), 1).contains("fathom devices"));
        assert!(say(folder.path(), 1 << 60).contains("--set size="));
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(say(&empty, 1).contains("no capacity"));
    }
}
