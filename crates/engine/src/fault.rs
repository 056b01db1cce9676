//! What went wrong with an I/O.

use base::units::{Bytes, Nanos};
use std::fmt;

/// The first failed I/O of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the target.
    pub target: String,
    /// Whether it was a write.
    pub write: bool,
    /// Where.
    pub offset: Bytes,
    /// How much was asked for.
    pub len: Bytes,
    /// What happened.
    pub kind: FaultKind,
    /// When, on the run's clock.
    pub at: Nanos,
}

/// Ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The system's error number.
    Errno(i32),
    /// Fewer bytes than asked for, without an error; a removed drive reads 0 bytes with success.
    Short(u32),
    /// The status of an NVMe command: code in bits 7:0, type in bits 10:8.
    Status(u16),
}

impl Fault {
    /// Whether it is surely one of the medium: the drive itself answered so.
    pub fn of_the_medium(&self) -> bool {
        matches!(self.kind, FaultKind::Errno(libc::ENODATA) | FaultKind::Status(_))
    }

    /// Whether the target itself seems to be gone rather than a block of it.
    pub fn target_lost(&self) -> bool {
        let gone = [libc::ENODEV, libc::ENXIO, libc::EBADF, libc::ESHUTDOWN];
        match self.kind {
            FaultKind::Errno(number) => gone.contains(&number),
            FaultKind::Short(bytes) => bytes == 0,
            FaultKind::Status(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { target, offset, len, .. } = self;
        let verb = if self.write { "write" } else { "read" };
        write!(f, "{target}: {verb} of {} bytes at byte {} ", len.0, offset.0)?;
        match self.kind {
            FaultKind::Errno(number) => {
                let error = std::io::Error::from_raw_os_error(number);
                write!(f, "failed: {error}; {}", advice(number))
            }
            FaultKind::Status(status) => write!(
                f,
                "failed with NVMe status type {} code {:02x}h ({}); the command went to the drive \
                 directly, so nothing tried it again",
                status >> 8 & 7,
                status & 0xff,
                drive::status_name(status)
            ),
            FaultKind::Short(0) => write!(
                f,
                "moved no byte: the device was removed, or the file was truncated; check that it \
                 is still there and run again"
            ),
            FaultKind::Short(bytes) => write!(
                f,
                "moved only {bytes} bytes: the target ends here; was the file truncated or the \
                 device resized?"
            ),
        }
    }
}

fn advice(number: i32) -> &'static str {
    match number {
        libc::EIO => "the device reported an error; look at the kernel log and the drive's health",
        libc::ENODATA => "a medium error: the block cannot be read; look at the drive's health",
        libc::ENOSPC => "no space is left behind this target",
        libc::EINVAL => "the target refuses this size or alignment; try a larger block",
        libc::ENODEV | libc::ENXIO => "the device is gone; check its connection",
        libc::EOPNOTSUPP => "the target does not support this kind of I/O",
        libc::EROFS | libc::EPERM | libc::EACCES => "the target cannot be written",
        _ => "look at the kernel log",
    }
}
