//! I/O buffers: page-aligned anonymous memory, one slot per outstanding I/O; and arrays of atomic words,
//! in memory that is only taken when it is touched, or in a file.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

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

/// A word that may be shared with other threads and, through a file, with other processes.
pub trait Word: sealed::Sealed + Sync {}

mod sealed {
    /// Any bytes are a value, zero is the initial one, and changes go through a shared reference.
    pub trait Sealed {}
}

impl sealed::Sealed for AtomicU32 {}
impl sealed::Sealed for AtomicU64 {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

/// An array of words: zero at first, or those of a file.
pub struct WordMap<T: Word> {
    start: NonNull<T>,
    len: usize,
    file: bool,
    of: PhantomData<T>,
}

// SAFETY: the map owns its mapping, and its words are atomic.
unsafe impl<T: Word> Send for WordMap<T> {}
// SAFETY: as above.
unsafe impl<T: Word> Sync for WordMap<T> {}

impl<T: Word> WordMap<T> {
    /// `len` words of zero. The system gives the memory when it is touched.
    ///
    /// # Errors
    /// When there is no room for the mapping.
    pub fn anonymous(len: usize) -> io::Result<WordMap<T>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        WordMap::map(len, flags, -1, 0)
    }

    /// `len` words of a file from byte `offset` on, a multiple of the page; changes go to the file. The
    /// file must be that long, and stay so.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn of_file(file: &File, offset: u64, len: usize) -> io::Result<WordMap<T>> {
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        WordMap::map(len, libc::MAP_SHARED, file.as_raw_fd(), offset)
    }

    /// As [`WordMap::of_file`], but changes stay in memory, and the file may be open for reading only.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn copy_of_file(file: &File, offset: u64, len: usize) -> io::Result<WordMap<T>> {
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut map = WordMap::map(len, libc::MAP_PRIVATE, file.as_raw_fd(), offset)?;
        map.file = false;
        Ok(map)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<WordMap<T>> {
        let bytes = (len * size_of::<T>()).max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, no address asked for.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(WordMap { start, len, file: fd >= 0, of: PhantomData })
    }

    /// The words.
    pub fn words(&self) -> &[T] {
        // SAFETY: the mapping has `len` words, is aligned to a page, and lives as long as `self`; any
        // bytes are a word.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Puts changed words onto the medium of the file.
    ///
    /// # Errors
    /// When that fails.
    pub fn flush(&self) -> io::Result<()> {
        if !self.file {
            return Ok(());
        }
        let bytes = (self.len * size_of::<T>()).max(1);
        // SAFETY: exactly the mapping of `map`.
        match unsafe { libc::msync(self.start.as_ptr().cast(), bytes, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl<T: Word> Drop for WordMap<T> {
    fn drop(&mut self) {
        let bytes = (self.len * size_of::<T>()).max(1);
        // SAFETY: unmaps exactly what `map` mapped; no slice outlives the map.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}
