//! A ring of NVMe commands for a namespace's generic character device: entries of 128 bytes that carry
//! the command itself, completions of 32 bytes. No block layer stands between: nothing is split, merged,
//! or tried again in silence.

use super::memory::Arena;
use super::ring::{Cqe, Queue, Request, Ring, RingFacts, SETUP_CQE32, SETUP_SQE128, Sqe, op};
use std::io;

/// Bytes between two entries of the submission ring, and of the completion ring.
const SQE_STRIDE: usize = 128;
const CQE_STRIDE: usize = 32;

const OP_URING_CMD: u8 = 46;
/// `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const NVME_URING_CMD_IO: u32 = 0xC048_4E80;
/// The buffer is a registered one (6.1).
const CMD_FIXED: u32 = 1;

const NVME_WRITE: u8 = 1;
const NVME_READ: u8 = 2;

/// Below every error number of the system: a completion's result that is an NVMe status.
const STATUS_BASE: i32 = -0x1_0000;

/// The NVMe status in a result, when it is one.
pub(crate) fn status_of(res: i32) -> Option<u16> {
    u16::try_from(STATUS_BASE.checked_sub(res)?).ok().filter(|_| res < STATUS_BASE)
}

/// An entry as the kernel lays it out: `struct io_uring_sqe` with 80 bytes of command.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CommandSqe {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    cmd_op: u32,
    pad1: u32,
    addr: u64,
    len: u32,
    cmd_flags: u32,
    user_data: u64,
    buf_index: u16,
    personality: u16,
    splice_fd: i32,
    command: Command,
    rest: u64,
}

/// `struct nvme_uring_cmd`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: [u32; 6],
    timeout_ms: u32,
    reserved2: u32,
}

const _: () = assert!(size_of::<CommandSqe>() == SQE_STRIDE && size_of::<Command>() == 72);

/// A ring of commands, used by the thread that made it.
pub(crate) struct CommandRing {
    ring: Ring,
    nsid: u32,
    /// Logical block as a power of two.
    block_log2: u32,
    /// The arena is registered, and the kernel takes it for commands.
    pub(crate) fixed_buffer: bool,
    /// Bytes of the command in each slot: the kernel answers with a status, not a length.
    lens: Box<[u32]>,
}

impl CommandRing {
    /// A ring for up to `slots` outstanding commands and a timer.
    pub(crate) fn new(
        slots: u32,
        poll: bool,
        nsid: u32,
        block_log2: u32,
    ) -> io::Result<CommandRing> {
        let ring = Ring::with_entries(slots + 1, poll, SETUP_SQE128 | SETUP_CQE32)?;
        let lens = vec![0; slots as usize].into();
        Ok(CommandRing { ring, nsid, block_log2, fixed_buffer: false, lens })
    }

    pub(crate) fn facts(&self) -> RingFacts {
        self.ring.facts()
    }

    pub(crate) fn register_buffer(&self, arena: &Arena) -> io::Result<()> {
        self.ring.register_buffer(arena)
    }

    pub(crate) fn register_file(&self, fd: i32) -> io::Result<()> {
        self.ring.register_file(fd)
    }

    fn translated(&self, sqe: &Sqe) -> CommandSqe {
        let plain = CommandSqe {
            opcode: sqe.opcode,
            flags: sqe.flags,
            fd: sqe.fd,
            addr: sqe.addr,
            len: sqe.len,
            cmd_flags: sqe.op_flags,
            user_data: sqe.user_data,
            ..CommandSqe::default()
        };
        let opcode = match sqe.opcode {
            op::READ | op::READ_FIXED => NVME_READ,
            op::WRITE | op::WRITE_FIXED => NVME_WRITE,
            // The timer.
            _ => return plain,
        };
        let lba = sqe.off >> self.block_log2;
        let blocks = (sqe.len >> self.block_log2).max(1) - 1;
        CommandSqe {
            opcode: OP_URING_CMD,
            cmd_op: NVME_URING_CMD_IO,
            cmd_flags: if self.fixed_buffer { CMD_FIXED } else { 0 },
            addr: 0,
            len: 0,
            command: Command {
                opcode,
                nsid: self.nsid,
                addr: sqe.addr,
                data_len: sqe.len,
                cdw10: [lba as u32, (lba >> 32) as u32, blocks & 0xffff, 0, 0, 0],
                ..Command::default()
            },
            ..plain
        }
    }

    fn result(&self, completion: Cqe) -> Cqe {
        let Some(&len) = self.lens.get(completion.user_data as usize) else {
            return completion;
        };
        let res = match completion.res {
            0 => len as i32,
            status if status > 0 => STATUS_BASE - status,
            error => error,
        };
        Cqe::new(completion.user_data, res)
    }
}

impl Queue for CommandRing {
    fn push(&mut self, sqe: &Sqe) {
        if let Some(len) = self.lens.get_mut(sqe.user_data as usize) {
            *len = sqe.len;
        }
        let entry = self.translated(sqe);
        let place = self.ring.next_entry(SQE_STRIDE);
        // SAFETY: an entry of `SQE_STRIDE` bytes inside the ring; the kernel reads it after `enter`.
        unsafe { place.cast::<CommandSqe>().write(entry) };
    }

    fn push_all(&mut self, slots: &[u32], requests: &mut [Request], start: u64) {
        for &slot in slots {
            if let Some(request) = requests.get_mut(slot as usize) {
                request.start = start;
                let sqe = request.sqe;
                self.push(&sqe);
            }
        }
    }

    fn drain(&mut self, n: u32, list: &mut [u32], mut keep: impl FnMut(u64, i32) -> bool) -> usize {
        let mut listed = 0;
        for index in 0..n {
            let Cqe { user_data, res, .. } = self.completion(index);
            if keep(user_data, res) {
                list[listed] = user_data as u32;
                listed += 1;
            }
        }
        self.advance(n);
        listed
    }

    fn enter(&mut self, submit: u32, wait: u32) -> i64 {
        self.ring.enter(submit, wait)
    }

    fn wait_for(&mut self, timeout_ns: u64) -> i64 {
        self.ring.wait_for(timeout_ns)
    }

    fn ready(&self) -> u32 {
        self.ring.ready()
    }

    fn completion(&self, index: u32) -> Cqe {
        let place = self.ring.completion_entry(index, CQE_STRIDE);
        // SAFETY: an entry inside the ring that the kernel wrote before it moved the tail.
        self.result(unsafe { place.cast::<Cqe>().read() })
    }

    fn advance(&mut self, n: u32) {
        self.ring.advance(n);
    }

    fn needs_enter(&self) -> bool {
        self.ring.needs_enter()
    }

    fn can_wait_timed(&self) -> bool {
        self.ring.can_wait_timed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_op_goes_through_the_wide_ring() {
        let Ok(mut ring) = CommandRing::new(4, false, 1, 9) else {
            // Kernels before 5.19 have no wide entries; the engine says so itself.
            return;
        };
        for round in 0..20 {
            ring.push(&Sqe { opcode: op::NOP, user_data: 99, ..Sqe::default() });
            assert_eq!(ring.enter(1, 1), 1);
            assert_eq!((ring.ready(), ring.completion(0).user_data), (1, 99), "{round}");
            ring.advance(1);
        }
    }

    #[test]
    fn commands_have_blocks_and_results_have_bytes() {
        let Ok(mut ring) = CommandRing::new(2, false, 7, 12) else { return };
        let sqe = Sqe {
            opcode: op::WRITE,
            off: (1u64 << 45) + 4096,
            len: 16384,
            user_data: 1,
            ..Sqe::default()
        };
        let entry = ring.translated(&sqe);
        assert_eq!((entry.command.opcode, entry.command.nsid), (NVME_WRITE, 7));
        assert_eq!(entry.command.cdw10[..3], [1, 2, 3]);
        ring.lens[1] = 16384;
        assert_eq!(ring.result(Cqe::new(1, 0)).res, 16384);
        let failed = ring.result(Cqe::new(1, 0x281)).res;
        assert_eq!(status_of(failed), Some(0x281));
        assert_eq!((status_of(-5), status_of(16384)), (None, None));
        assert_eq!(ring.result(Cqe::new(2, -62)).res, -62, "the timer");
    }
}
