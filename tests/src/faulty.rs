//! A disk that fails on command: a file in a small FUSE file system, with a loop device over it.
//!
//! Faults lie below the kernel's block layer, as a real device's would. Reads give zeros.

use crate::loopdev::LoopDevice;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(3600);
const FILE: INodeNo = INodeNo(2);

/// What goes wrong, changed while it runs.
#[derive(Default)]
pub struct Faults {
    /// Milliseconds the next I/O sleeps, and with it everything behind it; then zero again.
    pub stall_ms: AtomicU64,
    /// Microseconds every I/O takes, one after the other; zero: none.
    pub delay_us: AtomicU64,
    /// Every this many I/Os one takes [`Faults::TAIL_MS`] more; zero: none.
    pub tail_every: AtomicU64,
    /// From this byte on every read and write fails with an I/O error; zero: never.
    pub bad_from: AtomicU64,
    /// Everything fails.
    pub gone: AtomicBool,
    /// I/Os served.
    pub served: AtomicU64,
    /// When each of them was served: the device's own truth.
    pub ends: Mutex<Vec<Instant>>,
    /// Address, length and whether it is a write, of each I/O served.
    pub asked: Mutex<Vec<(u64, u32, bool)>>,
}

impl Faults {
    /// What an I/O of the tail takes on top, in milliseconds: far above what a busy host adds.
    pub const TAIL_MS: u64 = 40;

    /// Latencies in ns, sorted, that a closed loop of `depth` I/Os has met since the last call: each waits
    /// for those before it, so it takes from the end of the one `depth` places before it to its own.
    /// Idle times between two runs are left out.
    pub fn latencies(&self, depth: usize) -> Vec<f64> {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap());
        let idle = Duration::from_millis(4 * Faults::TAIL_MS);
        let busy = ends.windows(depth + 1).filter(|w| w.is_sorted_by(|a, b| *b - *a < idle));
        let mut list: Vec<f64> = busy.map(|w| (w[depth] - w[0]).as_nanos() as f64).collect();
        list.sort_by(f64::total_cmp);
        list
    }
}

/// The faulty disk. Dropped in order: device, file system.
pub struct FaultyDisk {
    /// The block device.
    pub device: LoopDevice,
    /// What goes wrong.
    pub faults: Arc<Faults>,
    _session: BackgroundSession,
}

impl FaultyDisk {
    /// A disk of `bytes`, its file system mounted in `folder`; an error where FUSE is missing.
    ///
    /// # Errors
    /// When the file system cannot be mounted.
    pub fn new(folder: &Path, bytes: u64) -> std::io::Result<FaultyDisk> {
        let at = folder.join("faulty");
        std::fs::create_dir_all(&at)?;
        let faults = Arc::<Faults>::default();
        let system = Faulty { size: bytes, faults: faults.clone() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faulty".into())];
        let session = fuser::spawn_mount(system, &at, &config)?;
        let device = LoopDevice::over(&at.join("disk"), &["--direct-io=on"]);
        Ok(FaultyDisk { device, faults, _session: session })
    }
}

struct Faulty {
    size: u64,
    faults: Arc<Faults>,
}

impl Faulty {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let file = ino == FILE;
        FileAttr {
            ino,
            size: if file { self.size } else { 0 },
            blocks: if file { self.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o755 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }

    /// Stalls or fails as told.
    fn pass(&self, offset: u64, len: u64, write: bool) -> Result<(), Errno> {
        self.faults.asked.lock().unwrap().push((offset, len as u32, write));
        let served = self.faults.served.fetch_add(1, Ordering::Relaxed);
        let every = self.faults.tail_every.load(Ordering::Relaxed);
        if every > 0 && served.is_multiple_of(every) {
            std::thread::sleep(Duration::from_millis(Faults::TAIL_MS));
        }
        let stall = self.faults.stall_ms.swap(0, Ordering::Relaxed);
        if stall > 0 {
            std::thread::sleep(Duration::from_millis(stall));
        }
        let delay = self.faults.delay_us.load(Ordering::Relaxed);
        if delay > 0 {
            std::thread::sleep(Duration::from_micros(delay));
        }
        self.faults.ends.lock().unwrap().push(Instant::now());
        let bad = self.faults.bad_from.load(Ordering::Relaxed);
        let gone = self.faults.gone.load(Ordering::Relaxed);
        if gone || (bad > 0 && offset + len > bad) { Err(Errno::EIO) } else { Ok(()) }
    }
}

impl Filesystem for Faulty {
    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.pass(offset, u64::from(size), false) {
            Ok(()) => {
                let len = u64::from(size).min(self.size.saturating_sub(offset));
                reply.data(&vec![0; len as usize]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.pass(offset, data.len() as u64, true) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}
