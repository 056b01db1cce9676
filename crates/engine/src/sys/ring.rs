//! One io_uring: set-up by probe, memory rings, submission and reaping.
//!
//! The caller keeps at most `entries` requests unsubmitted and at most twice that unreaped; both are
//! asserted when the ring is made, so that no queue can overflow in the loop.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 8;
const ENTER_REGISTERED_RING: u32 = 16;

const SETUP_IOPOLL: u32 = 1;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
const SETUP_TASKRUN_FLAG: u32 = 1 << 9;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
/// Entries of 128 bytes.
pub(super) const SETUP_SQE128: u32 = 1 << 10;
/// Completions of 32 bytes.
pub(super) const SETUP_CQE32: u32 = 1 << 11;

const FEAT_EXT_ARG: u32 = 1 << 8;
const SQ_TASKRUN: u32 = 4;

const OFF_SQ_RING: i64 = 0;
const OFF_SQES: i64 = 0x1000_0000;

const REGISTER_BUFFERS: u32 = 0;
const REGISTER_FILES: u32 = 2;
const UNREGISTER_FILES: u32 = 3;
const REGISTER_RING_FDS: u32 = 20;

/// Operation codes used here.
pub(crate) mod op {
    pub(crate) const NOP: u8 = 0;
    pub(crate) const READ_FIXED: u8 = 4;
    pub(crate) const WRITE_FIXED: u8 = 5;
    pub(crate) const TIMEOUT: u8 = 11;
    pub(crate) const READ: u8 = 22;
    pub(crate) const WRITE: u8 = 23;
}

/// The file is an index into the registered files.
pub(crate) const SQE_FIXED_FILE: u8 = 1;
/// A timeout given as a point in time.
pub(crate) const TIMEOUT_ABS: u32 = 1;
/// A no-op whose result is `len` (newer kernels; older ones answer 0).
pub(crate) const NOP_INJECT_RESULT: u32 = 1;

/// Submission entry, as the kernel lays it out, without its last 16 bytes, which stay zero here.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Sqe {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) ioprio: u16,
    pub(crate) fd: i32,
    pub(crate) off: u64,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) op_flags: u32,
    pub(crate) user_data: u64,
    pub(crate) buf_index: u16,
    pub(crate) personality: u16,
    pub(crate) splice_fd: i32,
}

/// Bytes between two entries of the submission ring.
const SQE_STRIDE: usize = 64;

/// An outstanding I/O: its entry, and what its completion needs. One cache line.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Request {
    pub(crate) sqe: Sqe,
    /// When it was submitted, in ns.
    pub(crate) start: u64,
    /// The result that means success.
    pub(crate) expected: i32,
    /// Where it is counted.
    pub(crate) side: u32,
}

/// Completion entry, as the kernel lays it out.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Cqe {
    pub(crate) user_data: u64,
    pub(crate) res: i32,
    flags: u32,
}

impl Cqe {
    /// A completion that no kernel made.
    pub(crate) fn new(user_data: u64, res: i32) -> Cqe {
        Cqe { user_data, res, flags: 0 }
    }
}

/// The kernel's time in a timeout.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) sec: i64,
    pub(crate) nsec: i64,
}

impl Timespec {
    pub(crate) fn from_ns(ns: u64) -> Timespec {
        Timespec { sec: (ns / 1_000_000_000) as i64, nsec: (ns % 1_000_000_000) as i64 }
    }
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct SqOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    resv1: u32,
    user_addr: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CqOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    resv1: u32,
    user_addr: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    sq_off: SqOffsets,
    cq_off: CqOffsets,
}

#[repr(C)]
struct GeteventsArg {
    sigmask: u64,
    sigmask_sz: u32,
    min_wait_usec: u32,
    ts: u64,
}

/// What the probe settled on, for the run file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingFacts {
    flags: u32,
    features: u32,
    registered: bool,
}

impl RingFacts {
    /// Names of what is in use, for people.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let flags = [
            (SETUP_IOPOLL, "iopoll"),
            (SETUP_COOP_TASKRUN, "coop-taskrun"),
            (SETUP_SINGLE_ISSUER, "single-issuer"),
            (SETUP_DEFER_TASKRUN, "defer-taskrun"),
            (SETUP_NO_SQARRAY, "no-sqarray"),
        ];
        let mut names: Vec<_> =
            flags.iter().filter(|(bit, _)| self.flags & bit != 0).map(|&(_, name)| name).collect();
        if self.registered {
            names.push("registered-ring");
        }
        names
    }
}

struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, len: usize, offset: i64) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: maps the ring's own memory; length and offset are the kernel's.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { start, len })
    }

    fn at<T>(&self, offset: u32) -> NonNull<T> {
        assert!(offset as usize + size_of::<T>() <= self.len, "the kernel's offset is inside");
        // SAFETY: inside the mapping by the assertion.
        unsafe { self.start.add(offset as usize).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A submission and completion ring, used by the thread that made it.
pub(crate) struct Ring {
    sqes: NonNull<u8>,
    cqes: NonNull<Cqe>,
    sq_tail: NonNull<AtomicU32>,
    sq_flags: NonNull<AtomicU32>,
    cq_head: NonNull<AtomicU32>,
    cq_tail: NonNull<AtomicU32>,
    tail: u32,
    head: u32,
    sq_mask: u32,
    cq_mask: u32,
    enter_fd: i32,
    enter_flags: u32,
    facts: RingFacts,
    fd: OwnedFd,
    _rings: Mapping,
    _entries: Mapping,
}

/// Flag sets from best to plainest; the first the kernel takes is used.
fn ladder(poll: bool) -> [u32; 5] {
    let poll = if poll { SETUP_IOPOLL } else { 0 };
    let defer = SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN | SETUP_TASKRUN_FLAG;
    let coop = SETUP_COOP_TASKRUN | SETUP_TASKRUN_FLAG;
    [
        defer | SETUP_NO_SQARRAY | poll,
        defer | poll,
        SETUP_SINGLE_ISSUER | coop | poll,
        coop | poll,
        poll,
    ]
}

impl Ring {
    /// A ring for up to `entries` outstanding requests; `poll` for polled completions.
    pub(crate) fn new(entries: u32, poll: bool) -> io::Result<Ring> {
        Ring::with_entries(entries, poll, 0)
    }

    /// As [`Ring::new`], with wider entries.
    pub(super) fn with_entries(entries: u32, poll: bool, wide: u32) -> io::Result<Ring> {
        let mut last = io::Error::from_raw_os_error(libc::EINVAL);
        for flags in ladder(poll) {
            match Ring::with_flags(entries, flags | wide) {
                Ok(ring) => return Ok(ring),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn with_flags(entries: u32, flags: u32) -> io::Result<Ring> {
        let mut params = Params { flags, ..Params::default() };
        // SAFETY: the kernel reads and fills the plain struct.
        let fd = unsafe {
            libc::syscall(libc::SYS_io_uring_setup, entries, std::ptr::from_mut(&mut params))
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ring::map(fd, &params)
    }

    fn map(fd: OwnedFd, params: &Params) -> io::Result<Ring> {
        let (sq, cq) = (&params.sq_off, &params.cq_off);
        let sq_bytes = sq.array as usize + params.sq_entries as usize * size_of::<u32>();
        let cq_stride = size_of::<Cqe>() << u32::from(params.flags & SETUP_CQE32 != 0);
        let sq_stride = SQE_STRIDE << u32::from(params.flags & SETUP_SQE128 != 0);
        let cq_bytes = cq.cqes as usize + params.cq_entries as usize * cq_stride;
        let entry_bytes = params.sq_entries as usize * sq_stride;
        // Both rings share one mapping since 5.4.
        let rings = Mapping::new(&fd, sq_bytes.max(cq_bytes), OFF_SQ_RING)?;
        let entries = Mapping::new(&fd, entry_bytes, OFF_SQES)?;
        if params.flags & SETUP_NO_SQARRAY == 0 {
            for index in 0..params.sq_entries {
                let slot = rings.at::<u32>(sq.array + index * 4);
                // SAFETY: inside the mapping; nothing reads the array before the first enter.
                unsafe { slot.write(index) };
            }
        }
        let mut ring = Ring {
            sqes: entries.start,
            cqes: rings.at(cq.cqes),
            sq_tail: rings.at(sq.tail),
            sq_flags: rings.at(sq.flags),
            cq_head: rings.at(cq.head),
            cq_tail: rings.at(cq.tail),
            tail: 0,
            head: 0,
            sq_mask: params.sq_entries - 1,
            cq_mask: params.cq_entries - 1,
            enter_fd: fd.as_raw_fd(),
            enter_flags: 0,
            facts: RingFacts { flags: params.flags, features: params.features, registered: false },
            fd,
            _rings: rings,
            _entries: entries,
        };
        ring.register_ring();
        Ok(ring)
    }

    /// Registers the ring's own descriptor (5.18 on); a refusal costs a few ns a call.
    fn register_ring(&mut self) {
        let mut update = [u32::MAX, 0, self.enter_fd as u32, 0];
        // SAFETY: `update` is one `io_uring_rsrc_update`: offset, reserved, data.
        let rc = unsafe { self.register(REGISTER_RING_FDS, update.as_mut_ptr().cast(), 1) };
        if rc.is_ok() {
            self.enter_fd = update[0] as i32;
            self.enter_flags = ENTER_REGISTERED_RING;
            self.facts.registered = true;
        }
    }

    /// # Safety
    /// `argument` must be what the operation expects.
    unsafe fn register(&self, operation: u32, argument: *mut u8, n: u32) -> io::Result<()> {
        // SAFETY: promised by the caller.
        let rc = unsafe {
            libc::syscall(libc::SYS_io_uring_register, self.fd.as_raw_fd(), operation, argument, n)
        };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Registers the buffers of one arena as buffer 0.
    pub(crate) fn register_buffer(&self, arena: &super::memory::Arena) -> io::Result<()> {
        let mut vector = arena.as_iovec();
        // SAFETY: one vector over memory that outlives the ring's use of it.
        unsafe { self.register(REGISTER_BUFFERS, std::ptr::from_mut(&mut vector).cast(), 1) }
    }

    /// Registers one file as file 0.
    pub(crate) fn register_file(&self, fd: i32) -> io::Result<()> {
        let mut files = [fd];
        // SAFETY: an array of one descriptor.
        unsafe { self.register(REGISTER_FILES, files.as_mut_ptr().cast(), 1) }
    }

    pub(crate) fn facts(&self) -> RingFacts {
        self.facts
    }

    /// The next free entry, which counts as queued from here on; `stride` is what the ring was made
    /// with.
    pub(super) fn next_entry(&mut self, stride: usize) -> NonNull<u8> {
        let index = (self.tail & self.sq_mask) as usize;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: masked into the array of entries of that stride.
        unsafe { self.sqes.add(index * stride) }
    }

    /// A completion at a distance from the oldest; `stride` is what the ring was made with.
    pub(super) fn completion_entry(&self, index: u32, stride: usize) -> NonNull<u8> {
        let index = (self.head.wrapping_add(index) & self.cq_mask) as usize;
        // SAFETY: masked into the array of completions of that stride.
        unsafe { self.cqes.cast::<u8>().add(index * stride) }
    }

    fn enter_raw(&self, submit: u32, wait: u32, flags: u32, argument: u64, size: usize) -> i64 {
        let flags = flags | self.enter_flags;
        #[cfg(target_arch = "x86_64")]
        {
            let result: i64;
            // SAFETY: the system call reads our rings and the optional argument, which both live.
            unsafe {
                std::arch::asm!(
                    "syscall",
                    inlateout("rax") libc::SYS_io_uring_enter => result,
                    in("rdi") self.enter_fd as u64,
                    in("rsi") u64::from(submit),
                    in("rdx") u64::from(wait),
                    in("r10") u64::from(flags),
                    in("r8") argument,
                    in("r9") size,
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
            result
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // SAFETY: as above.
            let rc = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_enter,
                    self.enter_fd,
                    submit,
                    wait,
                    flags,
                    argument,
                    size,
                )
            };
            if rc < 0 {
                -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
            } else {
                rc
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel takes a ring apart in its own time; a file it still holds would keep the target
        // claimed after the run.
        // SAFETY: the operation takes no argument; it fails where no file is registered.
        let _ = unsafe { self.register(UNREGISTER_FILES, std::ptr::null_mut(), 0) };
    }
}

/// What the worker's loop needs of a ring; the other implementation is a fake in user space.
pub(crate) trait Queue {
    /// Queues a copy of an entry. The caller keeps within the number of entries.
    fn push(&mut self, sqe: &Sqe);
    /// Queues the requests of some slots and stamps them with their start.
    fn push_all(&mut self, slots: &[u32], requests: &mut [Request], start: u64);
    /// Takes the `n` oldest completions, at most `ready()`, as user data and result, and gives them
    /// back. The user data of those that `keep` says yes to are listed; gives their number.
    fn drain(&mut self, n: u32, list: &mut [u32], keep: impl FnMut(u64, i32) -> bool) -> usize;
    /// Hands over what was queued and takes in what is complete; waits for `wait` completions.
    /// Gives the number taken over, or a negative error number.
    fn enter(&mut self, submit: u32, wait: u32) -> i64;
    /// As `enter` without submitting, waiting at most `timeout_ns` where the kernel can.
    fn wait_for(&mut self, timeout_ns: u64) -> i64;
    /// Completions to be read.
    fn ready(&self) -> u32;
    /// The completion at a distance from the oldest; below `ready()`.
    fn completion(&self, index: u32) -> Cqe;
    /// Gives `n` completions back.
    fn advance(&mut self, n: u32);
    /// Whether the kernel holds back completions until the next enter.
    fn needs_enter(&self) -> bool;
    /// Whether waits can have a limit.
    fn can_wait_timed(&self) -> bool;
}

impl Queue for Ring {
    #[inline(always)]
    fn push(&mut self, sqe: &Sqe) {
        let index = (self.tail & self.sq_mask) as usize;
        // SAFETY: masked into the array of entries; the kernel reads it only after `enter`.
        unsafe { self.sqes.add(index * SQE_STRIDE).cast::<Sqe>().write(*sqe) };
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline(always)]
    fn push_all(&mut self, slots: &[u32], requests: &mut [Request], start: u64) {
        let entries = self.sq_mask as usize + 1;
        let mut left = slots;
        // At most two pieces: up to the end of the ring, and from its start on.
        while !left.is_empty() {
            let index = (self.tail & self.sq_mask) as usize;
            let (piece, rest) = left.split_at(left.len().min(entries - index));
            // SAFETY: `piece` ends inside the array; the kernel reads it only after `enter`.
            let mut place = unsafe { self.sqes.add(index * SQE_STRIDE) };
            for &slot in piece {
                let Some(request) = requests.get_mut(slot as usize) else {
                    continue;
                };
                request.start = start;
                // SAFETY: one entry for each slot of the piece; the last step ends at its end.
                unsafe {
                    place.cast::<Sqe>().write(request.sqe);
                    place = place.add(SQE_STRIDE);
                }
            }
            self.tail = self.tail.wrapping_add(piece.len() as u32);
            left = rest;
        }
    }

    #[inline(always)]
    fn drain(&mut self, n: u32, list: &mut [u32], mut keep: impl FnMut(u64, i32) -> bool) -> usize {
        let entries = self.cq_mask as usize + 1;
        let mut left = n as usize;
        let mut listed = 0;
        assert!(left <= list.len(), "a slot has one completion at a time");
        while left > 0 {
            let index = (self.head & self.cq_mask) as usize;
            let piece = left.min(entries - index);
            // SAFETY: `piece` ends inside the array; the kernel wrote it before it moved the tail and
            // does not touch it before `advance`.
            let done = unsafe { std::slice::from_raw_parts(self.cqes.add(index).as_ptr(), piece) };
            for completion in done {
                if keep(completion.user_data, completion.res) {
                    // SAFETY: at most one for each of `n` completions, and the list holds `n`.
                    unsafe { *list.get_unchecked_mut(listed) = completion.user_data as u32 };
                    listed += 1;
                }
            }
            self.advance(piece as u32);
            left -= piece;
        }
        listed
    }

    #[inline(always)]
    fn enter(&mut self, submit: u32, wait: u32) -> i64 {
        // SAFETY: points into the ring's mapping, which lives as long as `self`.
        unsafe { self.sq_tail.as_ref() }.store(self.tail, Ordering::Release);
        self.enter_raw(submit, wait, ENTER_GETEVENTS, 0, 0)
    }

    fn wait_for(&mut self, timeout_ns: u64) -> i64 {
        if !self.can_wait_timed() {
            return self.enter_raw(0, 0, ENTER_GETEVENTS, 0, 0);
        }
        let limit = Timespec::from_ns(timeout_ns);
        let argument = GeteventsArg {
            sigmask: 0,
            sigmask_sz: 0,
            min_wait_usec: 0,
            ts: std::ptr::from_ref(&limit) as u64,
        };
        let address = std::ptr::from_ref(&argument) as u64;
        let size = size_of::<GeteventsArg>();
        self.enter_raw(0, 1, ENTER_GETEVENTS | ENTER_EXT_ARG, address, size)
    }

    #[inline(always)]
    fn ready(&self) -> u32 {
        // SAFETY: points into the ring's mapping, which lives as long as `self`.
        let tail = unsafe { self.cq_tail.as_ref() }.load(Ordering::Acquire);
        tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    fn completion(&self, index: u32) -> Cqe {
        let index = (self.head.wrapping_add(index) & self.cq_mask) as usize;
        // SAFETY: masked into the array; the kernel wrote it before it moved the tail.
        unsafe { self.cqes.add(index).read() }
    }

    #[inline(always)]
    fn advance(&mut self, n: u32) {
        self.head = self.head.wrapping_add(n);
        // SAFETY: points into the ring's mapping, which lives as long as `self`.
        unsafe { self.cq_head.as_ref() }.store(self.head, Ordering::Release);
    }

    #[inline]
    fn needs_enter(&self) -> bool {
        // SAFETY: points into the ring's mapping, which lives as long as `self`.
        let flags = unsafe { self.sq_flags.as_ref() }.load(Ordering::Relaxed);
        flags & SQ_TASKRUN != 0 || self.facts.flags & SETUP_IOPOLL != 0
    }

    fn can_wait_timed(&self) -> bool {
        self.facts.features & FEAT_EXT_ARG != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_kernels() {
        assert_eq!((size_of::<Sqe>(), size_of::<Cqe>(), size_of::<Params>()), (48, 16, 120));
        assert_eq!(size_of::<Request>(), SQE_STRIDE);
        assert_eq!(std::mem::offset_of!(Sqe, user_data), 32);
        assert_eq!(std::mem::offset_of!(Sqe, buf_index), 40);
    }

    #[test]
    fn every_rung_the_kernel_takes_completes_a_no_op() {
        let mut tried = 0;
        for flags in ladder(false) {
            let Ok(mut ring) = Ring::with_flags(4, flags) else {
                continue;
            };
            tried += 1;
            for round in 0..10 {
                ring.push(&Sqe { opcode: op::NOP, user_data: round, ..Sqe::default() });
                assert_eq!(ring.enter(1, 1), 1, "flags {flags:x}");
                assert_eq!((ring.ready(), ring.completion(0).user_data), (1, round));
                ring.advance(1);
            }
        }
        assert!(tried > 0, "this kernel has no io_uring");
    }
}
