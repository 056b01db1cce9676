//! I/O buffers: page-aligned anonymous memory, one slot per outstanding I/O.

use std::io;
use std::ptr::NonNull;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Equal buffers in one mapping.
pub(crate) struct Arena {
    start: NonNull<u8>,
    slot_bytes: usize,
    total_bytes: usize,
}

// SAFETY: the arena owns its mapping; it moves between threads as a whole.
unsafe impl Send for Arena {}

impl Arena {
    /// `slots` buffers of at least `slot_bytes` each, zeroed.
    pub(crate) fn new(slots: usize, slot_bytes: usize) -> io::Result<Arena> {
        let slot_bytes = slot_bytes.next_multiple_of(PAGE);
        let total_bytes = (slots * slot_bytes).max(PAGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping, no address asked for.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), total_bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if total_bytes >= HUGE_PAGE {
            // SAFETY: advice about our own mapping; failure changes nothing.
            unsafe { libc::madvise(start, total_bytes, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Arena { start, slot_bytes, total_bytes })
    }

    /// Address of a slot, for the kernel.
    pub(crate) fn address(&self, slot: usize) -> u64 {
        self.start.as_ptr() as u64 + (slot * self.slot_bytes) as u64
    }

    /// The whole arena as the kernel's vector.
    pub(crate) fn as_iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.total_bytes }
    }

    /// The first `len` bytes of a slot. The slot must not be in flight.
    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        let offset = slot * self.slot_bytes;
        assert!(len <= self.slot_bytes && offset + len <= self.total_bytes);
        // SAFETY: inside the mapping by the assertion, and borrowed mutably from its owner.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), len) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no slice outlives the arena.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.total_bytes) };
    }
}
