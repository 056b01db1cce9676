//! From what the user wrote to what is measured: a device, a file, or a scratch file in a folder.

use crate::device::{Device, find, find_generic};
use base::units::Bytes;
use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, fsetxattr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Extended attribute of files that Fathom made.
const MARK: &str = "user.fathom.created";
/// Space that stays free beside a scratch file.
const SPACE_MARGIN: u64 = 64 << 20;

/// What is measured.
#[derive(Debug)]
pub struct Subject {
    /// As the user wrote it.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// Kinds of target.
#[derive(Debug)]
pub enum Kind {
    /// A block device.
    Device(Box<Device>),
    /// A regular file; `ours` when Fathom made it.
    File {
        /// Size in bytes.
        size: Bytes,
        /// Whether Fathom made it.
        ours: bool,
    },
    /// A file of this run, removed at its end.
    Scratch(Scratch),
}

/// A scratch file without a name where the file system can, else removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    file: OwnedFd,
    size: Bytes,
    named: Option<PathBuf>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.named {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why something cannot be a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing of this name.
    #[error("{0}: no such device, file or folder; `fathom devices` lists the devices")]
    Missing(PathBuf),
    /// A character device, a socket ...
    #[error("{0}: is neither a block device nor an NVMe generic device nor a file nor a folder")]
    WrongKind(PathBuf),
    /// No capacity.
    #[error("{0}: has no capacity; is a medium or backing file attached?")]
    Empty(PathBuf),
    /// Too little space.
    #[error(
        "{folder}: {free} free, but the scratch file needs {wanted} and {margin} to spare; \
         use a smaller one (--set size=...) or another folder",
        margin = Bytes(SPACE_MARGIN)
    )]
    NoSpace {
        /// Where.
        folder: PathBuf,
        /// Free now.
        free: Bytes,
        /// Size of the scratch file.
        wanted: Bytes,
    },
    /// The system refused.
    #[error("{path}: {error}{advice}", advice = advice(error))]
    System {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; raw devices need root (sudo)",
        io::ErrorKind::ReadOnlyFilesystem => "; choose a folder that can be written",
        io::ErrorKind::ResourceBusy => "; another program has claimed it",
        _ => "",
    }
}

/// Finds out what `path` is. A folder gets a scratch file of `scratch` bytes.
///
/// # Errors
/// When it is nothing that can be measured.
pub fn resolve(path: &Path, scratch: Bytes) -> Result<Subject, TargetError> {
    let system = |error| TargetError::System { path: path.to_owned(), error };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TargetError::Missing(path.to_owned()));
        }
        Err(error) => return Err(system(error)),
    };
    let kind = if meta.is_dir() {
        Kind::Scratch(make_scratch(path, scratch)?)
    } else if meta.is_file() {
        let ours = File::open(path).is_ok_and(|file| is_marked(&file));
        Kind::File { size: Bytes(meta.len()), ours }
    } else if meta.file_type().is_block_device() {
        let device = find(path).ok_or_else(|| TargetError::Missing(path.to_owned()))?;
        Kind::Device(Box::new(device))
    } else if let Some(device) = find_generic(path) {
        Kind::Device(Box::new(device))
    } else {
        return Err(TargetError::WrongKind(path.to_owned()));
    };
    let subject = Subject { path: path.to_owned(), kind };
    if subject.size().0 == 0 { Err(TargetError::Empty(path.to_owned())) } else { Ok(subject) }
}

impl Subject {
    /// Usable size.
    pub fn size(&self) -> Bytes {
        match &self.kind {
            Kind::Device(device) => device.size(),
            Kind::File { size, .. } => *size,
            Kind::Scratch(scratch) => scratch.size,
        }
    }

    /// The word that names it in `--destroy`.
    pub fn identity(&self) -> String {
        match &self.kind {
            Kind::Device(device) => device.identity(),
            Kind::File { .. } => absolute(&self.path).display().to_string(),
            Kind::Scratch(_) => "scratch".into(),
        }
    }

    /// Whether a word of `--destroy` means it.
    pub fn is_named_by(&self, word: &str) -> bool {
        match &self.kind {
            Kind::Device(device) => device.is_named_by(word),
            Kind::File { .. } => absolute(Path::new(word)) == absolute(&self.path),
            Kind::Scratch(_) => false,
        }
    }

    /// Name for messages and the run file.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Scratch(_) => format!("scratch file in {}", self.path.display()),
            _ => self.path.display().to_string(),
        }
    }

    /// Short name for file names: the model of a drive, `scratch`, or the file's name.
    pub fn short_name(&self) -> String {
        let name = match &self.kind {
            Kind::Device(device) => match (&device.model, &device.serial) {
                (Some(model), Some(serial)) => format!("{model}-{serial}"),
                (Some(model), None) => format!("{model}-{}", device.name),
                _ => device.name.clone(),
            },
            Kind::File { .. } => {
                self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
            }
            Kind::Scratch(_) => "scratch".into(),
        };
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }
        };
        name.trim().chars().map(plain).take(80).collect()
    }

    /// The device behind it, where it is one.
    pub fn device(&self) -> Option<&Device> {
        match &self.kind {
            Kind::Device(device) => Some(device),
            _ => None,
        }
    }

    /// Where other programs can open it: a scratch file has no name of its own.
    pub fn open_path(&self) -> PathBuf {
        match &self.kind {
            Kind::Scratch(scratch) => scratch.proc_path(),
            _ => self.path.clone(),
        }
    }
}

impl Scratch {
    fn proc_path(&self) -> PathBuf {
        let fd = self.file.as_fd().as_raw_fd();
        PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
    }
}

/// The path without links; as written when it does not exist.
fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn is_marked(file: &File) -> bool {
    let mut buffer = [0u8; 16];
    fgetxattr(file, MARK, &mut buffer).is_ok()
}

fn make_scratch(folder: &Path, size: Bytes) -> Result<Scratch, TargetError> {
    let system = |error: rustix::io::Errno| TargetError::System {
        path: folder.to_owned(),
        error: error.into(),
    };
    let space = rustix::fs::statvfs(folder).map_err(system)?;
    let free = space.f_bavail * space.f_frsize;
    if free < size.0 + SPACE_MARGIN {
        let folder = folder.to_owned();
        return Err(TargetError::NoSpace { folder, free: Bytes(free), wanted: size });
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let (file, named) = match rustix::fs::open(folder, nameless, mode) {
        Ok(file) => (file, None),
        Err(_) => {
            let path = folder.join(format!("fathom-scratch-{}", std::process::id()));
            let fresh = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            (rustix::fs::open(&path, fresh, mode).map_err(system)?, Some(path))
        }
    };
    rustix::fs::ftruncate(&file, size.0).map_err(system)?;
    // Not every file system has attributes; a scratch file does not need one.
    let _ = fsetxattr(&file, MARK, b"1", XattrFlags::empty());
    Ok(Scratch { file, size, named })
}
