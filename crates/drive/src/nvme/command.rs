//! Admin commands as numbers (NVM Express base specification 2.0, sections 5 and 8).

/// All namespaces.
pub(super) const ALL: u32 = 0xffff_ffff;

/// One admin command, without its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) opcode: u8,
    pub(super) nsid: u32,
    pub(super) cdw10: [u32; 6],
    /// 0 leaves it to the kernel: a minute.
    pub(super) timeout_ms: u32,
    /// For messages.
    pub(super) name: &'static str,
}

/// Formatting a large drive may take as long as overwriting it.
const FORMAT_TIMEOUT_MS: u32 = 3_600_000;

impl Command {
    fn new(name: &'static str, opcode: u8, nsid: u32, cdw10: [u32; 6]) -> Command {
        Command { opcode, nsid, cdw10, timeout_ms: 0, name }
    }

    /// Identify: what `cns` selects.
    pub(super) fn identify(cns: u8, nsid: u32) -> Command {
        Command::new("Identify", 0x06, nsid, [u32::from(cns), 0, 0, 0, 0, 0])
    }

    /// Get Log Page, keeping asynchronous events (RAE): reading must not clear what others wait for.
    pub(super) fn log(page: u8, bytes: usize) -> Command {
        const RETAIN: u32 = 1 << 15;
        let dwords = (bytes / 4 - 1) as u32;
        let cdw10 = u32::from(page) | RETAIN | (dwords & 0xffff) << 16;
        Command::new("Get Log Page", 0x02, ALL, [cdw10, dwords >> 16, 0, 0, 0, 0])
    }

    /// Get Features: the current value.
    pub(super) fn feature(id: u8, cdw11: u32) -> Command {
        Command::new("Get Features", 0x0A, 0, [u32::from(id), cdw11, 0, 0, 0, 0])
    }

    /// Set Features, not saved: it is gone at the next power cycle at the latest.
    pub(super) fn set_feature(id: u8, value: u32) -> Command {
        Command::new("Set Features", 0x09, 0, [u32::from(id), value, 0, 0, 0, 0])
    }

    /// Format NVM, with the LBA format and secure erase setting.
    pub(super) fn format(nsid: u32, lba_format: u8, erase: u8) -> Command {
        let low = u32::from(lba_format & 0xf);
        let high = u32::from(lba_format >> 4 & 0x3) << 12;
        let cdw10 = low | high | u32::from(erase & 7) << 9;
        let command = Command::new("Format NVM", 0x80, nsid, [cdw10, 0, 0, 0, 0, 0]);
        Command { timeout_ms: FORMAT_TIMEOUT_MS, ..command }
    }

    /// Sanitize: 1 leave failure mode, 2 block erase, 3 overwrite once with zeros, 4 crypto erase.
    pub(super) fn sanitize(action: u8) -> Command {
        let passes = if action == 3 { 1 << 4 } else { 0 };
        Command::new("Sanitize", 0x84, 0, [u32::from(action) | passes, 0, 0, 0, 0, 0])
    }

    /// Namespace Management: create; the data says what.
    pub(super) fn create_namespace() -> Command {
        Command::new("Namespace Management (create)", 0x0D, 0, [0; 6])
    }

    /// Namespace Management: delete.
    pub(super) fn delete_namespace(nsid: u32) -> Command {
        Command::new("Namespace Management (delete)", 0x0D, nsid, [1, 0, 0, 0, 0, 0])
    }

    /// Namespace Attachment, to the controllers that the data lists.
    pub(super) fn attach_namespace(nsid: u32, attach: bool) -> Command {
        let name = "Namespace Attachment";
        Command::new(name, 0x15, nsid, [u32::from(!attach), 0, 0, 0, 0, 0])
    }
}

/// What an NVMe status means, for people; empty when it is none of the known ones. `status` has the code
/// in bits 7:0, its type in bits 10:8.
pub fn status_name(status: u16) -> &'static str {
    let (kind, code) = (status >> 8 & 7, status & 0xff);
    match (kind, code) {
        (0, 0x01) => "invalid opcode: the drive does not have this command",
        (0, 0x02) => "invalid field in command",
        (0, 0x04) => "data transfer error",
        (0, 0x06) => "internal error",
        (0, 0x07) => "abort requested",
        (0, 0x0b) => "invalid namespace or format",
        (0, 0x0c) => "command sequence error",
        (0, 0x0e) => "sanitize failed",
        (0, 0x1d) => "sanitize in progress",
        (0, 0x20) => "namespace is write protected",
        (0, 0x80) => "LBA out of range",
        (0, 0x81) => "capacity exceeded",
        (0, 0x82) => "namespace not ready",
        (0, 0x84) => "format in progress",
        (1, 0x09) => "invalid log page",
        (1, 0x0a) => "invalid format",
        (1, 0x0d) => "feature cannot be saved",
        (1, 0x0e) => "feature not changeable",
        (1, 0x0f) => "feature not namespace specific",
        (1, 0x15) => "namespace insufficient capacity",
        (1, 0x16) => "namespace identifier unavailable",
        (1, 0x18) => "namespace already attached",
        (1, 0x1a) => "namespace not attached",
        (2, 0x80) => "write fault",
        (2, 0x81) => "unrecovered read error: a medium error",
        (2, 0x82..=0x84) => "end-to-end protection check failed",
        (2, 0x86) => "access denied",
        (2, 0x87) => "deallocated or unwritten block",
        (3, _) => "the path to the drive failed",
        _ => "",
    }
}

/// A status with its numbers and what it means.
pub(super) fn status_text(status: u16) -> String {
    let (kind, code) = (status >> 8 & 7, status & 0xff);
    let dnr = if status & 0x4000 != 0 { ", do not retry" } else { "" };
    match status_name(status) {
        "" => format!("status type {kind} code {code:02x}h{dnr}"),
        text => format!("{text} (status type {kind} code {code:02x}h{dnr})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_specification() {
        // SMART / health, 512 bytes: 127 dwords above the first one, events retained.
        assert_eq!(Command::log(2, 512).cdw10[0], 0x007f_8002);
        assert_eq!(Command::log(0xC0, 1 << 19).cdw10[..2], [0xffff_80c0, 1]);
        assert_eq!(Command::format(1, 0x12, 1).cdw10[0], 0x1202);
        assert_eq!(Command::sanitize(2).cdw10[0], 2);
        assert_eq!(Command::sanitize(3).cdw10[0], 0x13);
        assert_eq!(Command::attach_namespace(3, false).cdw10[0], 1);
    }

    #[test]
    fn statuses_are_named() {
        assert!(
            status_text(0x4002).contains("invalid field") && status_text(0x4002).contains("retry")
        );
        assert!(status_text(0x281).contains("unrecovered read"));
        assert!(status_text(0x7c5).contains("code c5h"));
    }
}
