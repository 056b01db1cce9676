//! The kernel's pass-through for NVMe commands (`linux/nvme_ioctl.h`).
#![allow(unsafe_code)]

use super::command::Command;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const ADMIN_CMD: u64 = 0xC048_4E41;
const RESCAN: u64 = 0x4E46;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct Passthru {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Passthru>() == 72);

/// Sends an admin command and waits for its end. Gives the NVMe status (0 is success) and the first
/// double word of the completion.
pub(super) fn admin(
    fd: BorrowedFd<'_>,
    command: &Command,
    data: &mut [u8],
) -> io::Result<(u16, u32)> {
    let mut raw = Passthru {
        opcode: command.opcode,
        nsid: command.nsid,
        addr: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
        data_len: u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        cdw10: command.cdw10,
        timeout_ms: command.timeout_ms,
        ..Passthru::default()
    };
    // SAFETY: `raw` has the layout of the kernel's structure and lives through the call; `addr` and
    // `data_len` describe `data`, which is borrowed exclusively, and the kernel moves `data_len` bytes
    // at most.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), ADMIN_CMD, &raw mut raw) };
    match u16::try_from(status) {
        Ok(status) => Ok((status, raw.result)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Asks the kernel to look for namespaces anew.
pub(super) fn rescan(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this call takes no argument.
    match unsafe { libc::ioctl(fd.as_raw_fd(), RESCAN) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
