//! The synchronous worker: one `pread` or `pwrite` at a time.
//!
//! On some hosts the shortest path at depth 1. A depth above one is made of that many threads.

use crate::arrival::Schedule;
use crate::core::{Core, Draw, IoRecord};
use crate::fault::{Fault, FaultKind};
use crate::spec::Target;
use crate::sys::memory::Arena;
use base::units::{Bytes, Nanos};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Longest sleep between looks at boundaries and a request to stop, in ns.
const TICK_NS: u64 = 100_000_000;
/// Longest time after the end in which waiting arrivals are still served, in ns.
const DRAIN_NS: u64 = 2_000_000_000;

/// One thread with one outstanding I/O.
pub(crate) struct SyncWorker {
    core: Core,
    file: Arc<OwnedFd>,
    arena: Arena,
    last_completion: u64,
}

/// Buffer for one target; the target must have a file.
pub(crate) fn prepare(
    core: Core,
    target: &Target,
    slot_bytes: usize,
) -> std::io::Result<SyncWorker> {
    let file = target.file.clone().ok_or(std::io::ErrorKind::Unsupported)?;
    Ok(SyncWorker { core, file, arena: Arena::new(1, slot_bytes)?, last_completion: 0 })
}

impl SyncWorker {
    /// Runs a closed loop to its end.
    pub(crate) fn run_closed(mut self) -> (Core, u64) {
        self.core.wait_for_start();
        if self.core.record_max > 0 || self.core.checker.is_some() {
            self.closed::<true>()
        } else {
            self.closed::<false>()
        }
        (self.core, self.last_completion)
    }

    fn closed<const RECORD: bool>(&mut self) {
        while self.core.issuing {
            let Some(draw) = self.core.draw() else { break };
            self.fill::<RECORD>(draw);
            let start = self.core.clock.now().0;
            self.issue::<false, RECORD>(draw, start, start);
            self.core.check_stop();
        }
    }

    /// Runs an open loop to its end.
    pub(crate) fn run_open(
        mut self,
        mut schedule: Schedule,
        backlog: u64,
        guard_ns: u64,
    ) -> (Core, u64) {
        self.core.wait_for_start();
        let end = self.core.timeline.end;
        loop {
            let next = schedule.next();
            if next == u64::MAX {
                break; // A recording is at its end.
            }
            let now = self.wait_until(next.min(end), guard_ns);
            let stopped = self.core.stop.load(std::sync::atomic::Ordering::Relaxed);
            if next >= end || stopped || self.core.budget == 0 {
                break;
            }
            if now > end.saturating_add(DRAIN_NS) {
                while schedule.next() < end {
                    schedule.advance(&mut self.core.rng);
                    self.core.book.open.shed += 1;
                }
                break;
            }
            for _ in backlog..schedule.overdue(now) {
                schedule.advance(&mut self.core.rng);
                self.core.book.open.shed += 1;
            }
            let intended = schedule.next();
            self.core.follow(schedule.position());
            schedule.advance(&mut self.core.rng);
            let Some(draw) = self.core.draw() else { break };
            self.fill::<true>(draw);
            let start = self.core.clock.now().0;
            if let Some(lateness) = &mut self.core.book.open.lateness {
                lateness.record(start.saturating_sub(intended));
            }
            self.core.book.open.waited += u64::from(self.last_completion > intended);
            self.issue::<true, true>(draw, start, intended);
        }
        (self.core, self.last_completion)
    }

    /// Sleeps, then spins until `until`; passes boundaries on the way.
    fn wait_until(&mut self, until: u64, guard_ns: u64) -> u64 {
        loop {
            let now = self.core.clock.now().0;
            if now >= self.core.next_event {
                self.core.event(now);
                self.core.issuing = true;
            }
            let stopped = self.core.stop.load(std::sync::atomic::Ordering::Relaxed);
            if now >= until || stopped {
                return now;
            }
            let sleep = (until - now).saturating_sub(guard_ns).min(TICK_NS);
            if sleep > 0 {
                self.core.clock.sleep_until(Nanos(now + sleep));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn fill<const CHECK: bool>(&mut self, draw: Draw) {
        if draw.write || CHECK && self.core.checker.is_some() {
            self.core.prepare(0, draw, self.arena.slot_mut(0, draw.len as usize));
        }
    }

    /// One I/O, timed around its system call.
    #[inline(always)]
    fn issue<const OPEN: bool, const RECORD: bool>(
        &mut self,
        draw: Draw,
        start: u64,
        intended: u64,
    ) {
        let buffer = self.arena.slot_mut(0, draw.len as usize);
        let result = loop {
            let result = if draw.write {
                rustix::io::pwrite(&*self.file, &*buffer, draw.offset)
            } else {
                rustix::io::pread(&*self.file, &mut *buffer, draw.offset)
            };
            if result != Err(rustix::io::Errno::INTR) {
                break result;
            }
        };
        let now = self.core.clock.now().0;
        if now >= self.core.next_event {
            self.core.event(now);
            self.core.issuing |= OPEN;
        }
        self.last_completion = now;
        if result != Ok(draw.len as usize) {
            return self.failed(draw, result, now);
        }
        if let Some(side) = self.core.book.sides.get_mut(draw.side as usize) {
            side.service.record(now - start);
            side.bytes += u64::from(draw.len);
            if OPEN && let Some(response) = &mut side.response {
                response.record(now.saturating_sub(intended));
            }
        }
        if RECORD && self.core.record_max > 0 {
            self.record(draw, start, intended, now);
        }
        if RECORD && self.core.checker.is_some() {
            let buffer = self.arena.slot_mut(0, draw.len as usize);
            self.core.check(0, buffer, now);
            self.core.end_batch();
        }
    }

    #[cold]
    fn record(&mut self, draw: Draw, start: u64, intended: u64, now: u64) {
        let Draw { offset, len, write, .. } = draw;
        self.core.record_io(IoRecord {
            intended_ns: intended,
            start_ns: start,
            end_ns: now,
            offset,
            len,
            write,
        });
    }

    #[cold]
    fn failed(&mut self, draw: Draw, result: rustix::io::Result<usize>, now: u64) {
        let kind = match result {
            Ok(bytes) => FaultKind::Short(bytes as u32),
            Err(error) => FaultKind::Errno(error.raw_os_error()),
        };
        let fault = Fault {
            target: self.core.target_name.clone(),
            write: draw.write,
            offset: Bytes(draw.offset),
            len: Bytes(u64::from(draw.len)),
            kind,
            at: Nanos(now),
        };
        self.core.note_fault(draw.side, fault);
    }
}
