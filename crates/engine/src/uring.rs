//! The io_uring worker: batched submit and reap, two clock readings a batch, one ring a worker.
//!
//! Service time runs from just before the submitting system call to the moment its completion is
//! seen, so an I/O that completes inside the call is not lost. A wait is a call of its own and made
//! only when nothing is complete, which keeps submission time exact.

use crate::arrival::Schedule;
use crate::core::{Core, Draw, IoRecord};
use crate::fault::{Fault, FaultKind};
use crate::spec::{Polling, Target};
use crate::sys::memory::Arena;
use crate::sys::ring::{Cqe, Queue, Ring, SQE_FIXED_FILE, Sqe, TIMEOUT_ABS, Timespec, op};
use base::units::{Bytes, Nanos};
use std::os::fd::AsRawFd;

/// A worker wakes at least this often to see boundaries and a request to stop, in ns.
const TICK_NS: u64 = 100_000_000;
/// Longest time after the end in which waiting arrivals are still served, in ns.
const DRAIN_NS: u64 = 2_000_000_000;
/// Result no I/O can have: marks the slot of the timer.
const TIMER_LEN: i32 = i32::MIN;

/// An outstanding I/O.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    start: u64,
    intended: u64,
    offset: u64,
    len: i32,
    side: u32,
    write: bool,
}

/// How a worker's requests look.
#[derive(Clone, Copy)]
struct Codes {
    read: u8,
    write: u8,
}

pub(crate) struct UringWorker<Q> {
    core: Core,
    ring: Q,
    arena: Arena,
    slots: Vec<Slot>,
    sqes: Vec<Sqe>,
    /// Slots queued since the last submit, in order.
    queued: Vec<u32>,
    /// I/Os of each side among them.
    queued_sides: Vec<u32>,
    free: Vec<u32>,
    codes: Codes,
    in_flight: u32,
    timer: Timespec,
    timer_wanted: bool,
    timer_queued: bool,
    last_completion: u64,
    null: bool,
}

/// Ring, buffers and request templates for one target.
pub(crate) fn prepare(
    core: Core,
    target: &Target,
    depth: u32,
    slot_bytes: usize,
) -> std::io::Result<UringWorker<Ring>> {
    let polled = target.polling == Polling::On;
    let ring = Ring::new(depth + 1, polled)?;
    let arena = Arena::new(depth as usize, slot_bytes)?;
    let mut worker = UringWorker::new(core, ring, arena, depth, target.file.is_none(), !polled);
    let Some(file) = &target.file else { return Ok(worker) };
    let mut notes = worker.ring.facts().names();
    let fixed_buffer = worker.ring.register_buffer(&worker.arena).is_ok();
    let fixed_file = worker.ring.register_file(file.as_raw_fd()).is_ok();
    worker.codes = if fixed_buffer {
        notes.push("registered-buffers");
        Codes { read: op::READ_FIXED, write: op::WRITE_FIXED }
    } else {
        Codes { read: op::READ, write: op::WRITE }
    };
    if fixed_file {
        notes.push("registered-files");
    }
    for sqe in &mut worker.sqes {
        sqe.opcode = worker.codes.read;
        (sqe.fd, sqe.flags) = if fixed_file { (0, SQE_FIXED_FILE) } else { (file.as_raw_fd(), 0) };
    }
    worker.core.last.notes = notes;
    Ok(worker)
}

impl<Q: Queue> UringWorker<Q> {
    pub(crate) fn new(
        core: Core,
        ring: Q,
        arena: Arena,
        depth: u32,
        null: bool,
        timer_wanted: bool,
    ) -> UringWorker<Q> {
        let sides = core.places.len();
        let template = |slot: u32| Sqe {
            opcode: op::NOP,
            addr: arena.address(slot as usize),
            user_data: u64::from(slot),
            op_flags: if null { crate::sys::ring::NOP_INJECT_RESULT } else { 0 },
            ..Sqe::default()
        };
        let mut slots = vec![
            Slot { start: 0, intended: 0, offset: 0, len: 0, side: 0, write: false };
            depth as usize + 1
        ];
        slots[depth as usize].len = TIMER_LEN;
        UringWorker {
            core,
            ring,
            sqes: (0..depth).map(template).collect(),
            arena,
            slots,
            queued: Vec::with_capacity(depth as usize + 1),
            queued_sides: vec![0; sides],
            free: (0..depth).rev().collect(),
            codes: Codes { read: op::NOP, write: op::NOP },
            in_flight: 0,
            timer: Timespec::default(),
            timer_wanted,
            timer_queued: false,
            last_completion: 0,
            null,
        }
    }

    /// Runs a closed loop to its end.
    pub(crate) fn run_closed(mut self) -> (Core, u64) {
        self.core.wait_for_start();
        self.arm_timer();
        if self.core.is_plain() { self.closed::<true>() } else { self.closed::<false>() }
        (self.core, self.last_completion)
    }

    /// Runs an open loop to its end. `guard_ns` before an arrival the worker stops sleeping.
    pub(crate) fn run_open(
        mut self,
        mut schedule: Schedule,
        backlog: u64,
        guard_ns: u64,
    ) -> (Core, u64) {
        self.core.wait_for_start();
        self.arm_timer();
        self.open(&mut schedule, backlog, guard_ns);
        (self.core, self.last_completion)
    }

    fn closed<const PLAIN: bool>(&mut self) {
        while let Some(slot) = self.free.pop() {
            if !self.queue_next::<PLAIN>(slot) {
                break;
            }
        }
        while !self.queued.is_empty() || self.in_flight > 0 {
            let now = self.submit_and_reap::<PLAIN, false>();
            self.core.check_stop();
            let ready = self.ring.ready();
            if now >= self.core.next_event {
                self.core.event(now);
            }
            for index in 0..ready {
                let completion = self.ring.completion(index);
                if let Some(slot) = self.complete::<PLAIN, false>(completion, now)
                    && self.core.issuing
                {
                    self.queue_next::<PLAIN>(slot);
                }
            }
            self.ring.advance(ready);
        }
    }

    /// Draws the next I/O and queues it in `slot`.
    #[inline(always)]
    fn queue_next<const PLAIN: bool>(&mut self, slot: u32) -> bool {
        let Some(draw) = self.core.draw::<PLAIN>() else {
            self.core.issuing = false;
            return false;
        };
        let Draw { offset, len, side, write, .. } = draw;
        let at = slot as usize;
        if write {
            self.fill_slot(at, draw);
        }
        let sqe = &mut self.sqes[at];
        sqe.off = offset;
        sqe.len = len;
        sqe.opcode = if write { self.codes.write } else { self.codes.read };
        self.ring.push(sqe);
        let entry = &mut self.slots[at];
        (entry.offset, entry.len, entry.side, entry.write) = (offset, len as i32, side, write);
        self.queued_sides[side as usize] += 1;
        self.queued.push(slot);
        true
    }

    #[inline]
    fn fill_slot(&mut self, slot: usize, draw: Draw) {
        let core = &mut self.core;
        if let Some(flow) = core.flows.get_mut(draw.flow as usize)
            && let Some(filler) = &mut flow.filler
        {
            filler.fill(self.arena.slot_mut(slot, draw.len as usize), &mut core.rng);
        }
    }

    /// Submits what is queued, waits when nothing is complete, and gives the time at which the
    /// completions that are now ready were seen.
    #[inline(always)]
    fn submit_and_reap<const PLAIN: bool, const OPEN: bool>(&mut self) -> u64 {
        let n = self.queued.len() as u32;
        let timer = u32::from(std::mem::take(&mut self.timer_queued));
        let start = self.core.clock.now().0;
        for &slot in &self.queued {
            let entry = &mut self.slots[slot as usize];
            entry.start = start;
            if !OPEN {
                entry.intended = start;
            }
        }
        let taken = self.ring.enter(n + timer, 0);
        if taken != i64::from(n + timer) {
            self.submit_rest(taken, n + timer);
        }
        self.in_flight += n;
        self.queued.clear();
        let ready = self.ring.ready();
        let now = self.core.clock.now().0;
        for (side, count) in self.queued_sides.iter_mut().enumerate() {
            if *count > 0 {
                let book = &mut self.core.book.sides[side];
                book.submission.record_n(now - start, std::mem::take(count));
            }
        }
        if ready > 0 || OPEN {
            return now;
        }
        self.wait()
    }

    /// Blocks until at least one completion is there.
    #[inline(never)]
    fn wait(&mut self) -> u64 {
        while self.ring.ready() == 0 {
            let result = self.ring.enter(0, 1);
            if result < 0 && result != -i64::from(libc::EINTR) {
                self.note_ring_failure(result);
                break;
            }
        }
        self.core.clock.now().0
    }

    /// The kernel took fewer requests than offered: offers the rest until it has them.
    #[cold]
    fn submit_rest(&mut self, mut taken: i64, offered: u32) {
        let mut left = offered;
        self.core.last.short_submits += 1;
        let mut tries = 0;
        loop {
            match taken {
                n if n >= 0 => left -= (n as u32).min(left),
                n if [libc::EINTR, libc::EAGAIN, libc::EBUSY].map(|e| -i64::from(e)).contains(&n) => {}
                n => return self.note_ring_failure(n),
            }
            if left == 0 {
                return;
            }
            tries += 1;
            if tries > 1_000_000 {
                return self.note_ring_failure(-i64::from(libc::EAGAIN));
            }
            taken = self.ring.enter(left, 0);
        }
    }

    /// The ring itself failed: nothing in flight can be waited for any more.
    #[cold]
    fn note_ring_failure(&mut self, result: i64) {
        let error = std::io::Error::from_raw_os_error(-result as i32);
        self.core.last.failure = Some(format!("io_uring_enter failed: {error}"));
        self.core.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.core.issuing = false;
        self.in_flight = 0;
    }

    /// Counts a completion; gives its slot when it is free again.
    #[inline(always)]
    fn complete<const PLAIN: bool, const OPEN: bool>(
        &mut self,
        completion: Cqe,
        now: u64,
    ) -> Option<u32> {
        let at = completion.user_data as usize;
        let slot = *self.slots.get(at)?;
        if completion.res != slot.len && !self.odd_completion(completion, &slot, now) {
            return None;
        }
        let side = self.core.book.sides.get_mut(slot.side as usize)?;
        side.service.record(now - slot.start);
        side.bytes += slot.len as u64;
        if OPEN && let Some(response) = &mut side.response {
            response.record(now.saturating_sub(slot.intended));
        }
        if !PLAIN {
            self.core.record_io(IoRecord {
                intended_ns: slot.intended,
                start_ns: slot.start,
                end_ns: now,
                offset: slot.offset,
                len: slot.len as u32,
                write: slot.write,
            });
        }
        self.in_flight -= 1;
        self.last_completion = now;
        Some(completion.user_data as u32)
    }

    /// The timer, an error or a short transfer. True when it counts as completed after all.
    #[cold]
    #[inline(never)]
    fn odd_completion(&mut self, completion: Cqe, slot: &Slot, now: u64) -> bool {
        if slot.len == TIMER_LEN {
            self.arm_timer();
            return false;
        }
        if self.null && completion.res == 0 {
            return true; // A kernel whose no-op cannot answer with a length.
        }
        self.in_flight -= 1;
        self.last_completion = now;
        let kind = match completion.res {
            res if res < 0 => FaultKind::Errno(-res),
            res => FaultKind::Short(res as u32),
        };
        let fault = Fault {
            target: self.core.target_name.clone(),
            write: slot.write,
            offset: Bytes(slot.offset),
            len: Bytes(slot.len as u64),
            kind,
            at: Nanos(now),
        };
        self.core.note_fault(slot.side, fault);
        false
    }

    /// Queues the timer that wakes a waiting worker at the next boundary or tick.
    #[cold]
    fn arm_timer(&mut self) {
        if !self.timer_wanted || (!self.core.issuing && self.in_flight == 0) {
            return;
        }
        let now = self.core.clock.now().0;
        self.timer = Timespec::from_ns((now + TICK_NS).min(self.core.next_event));
        let sqe = Sqe {
            opcode: op::TIMEOUT,
            addr: std::ptr::from_ref(&self.timer) as u64,
            len: 1,
            op_flags: TIMEOUT_ABS,
            user_data: self.sqes.len() as u64,
            ..Sqe::default()
        };
        self.ring.push(&sqe);
        self.timer_queued = true;
    }

    fn open(&mut self, schedule: &mut Schedule, backlog: u64, guard_ns: u64) {
        let last_arrival = self.core.timeline.end;
        let give_up = last_arrival.saturating_add(DRAIN_NS);
        let mut now = self.core.clock.now().0;
        loop {
            self.core.check_stop();
            let due = self.queue_due(schedule, now, last_arrival, backlog);
            let finished = !due && (schedule.next() >= last_arrival || self.stopped());
            if (finished || now >= give_up) && self.queued.is_empty() && self.in_flight == 0 {
                break;
            }
            if now >= give_up {
                self.shed_rest(schedule, now, last_arrival);
            }
            if !self.queued.is_empty() || self.timer_queued || self.ring.needs_enter() {
                self.count_lateness();
                self.submit_and_reap::<false, true>();
            }
            let mut ready = self.ring.ready();
            if ready == 0 {
                self.rest(schedule.next().min(self.core.next_event), guard_ns, finished);
                ready = self.ring.ready();
            }
            now = self.core.clock.now().0;
            if now >= self.core.next_event {
                self.open_event(now);
            }
            for index in 0..ready {
                let completion = self.ring.completion(index);
                if let Some(slot) = self.complete::<false, true>(completion, now) {
                    self.free.push(slot);
                }
            }
            self.ring.advance(ready);
        }
    }

    fn stopped(&self) -> bool {
        self.core.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Boundaries, without the end of issuing: arrivals before the end are served after it.
    fn open_event(&mut self, now: u64) {
        let stopped = self.stopped();
        self.core.event(now);
        self.core.issuing = !stopped && self.core.budget > 0;
    }

    /// Queues every arrival that is due and has a slot. True when arrivals had to stay behind.
    fn queue_due(&mut self, schedule: &mut Schedule, now: u64, end: u64, backlog: u64) -> bool {
        loop {
            let next = schedule.next();
            if next > now || next >= end || !self.core.issuing {
                return false;
            }
            let Some(slot) = self.free.pop() else {
                let overdue = schedule.overdue(now);
                for _ in backlog..overdue {
                    schedule.advance(&mut self.core.rng);
                    self.core.book.open.shed += 1;
                }
                return true;
            };
            self.slots[slot as usize].intended = next;
            schedule.advance(&mut self.core.rng);
            if !self.queue_next::<false>(slot) {
                self.free.push(slot);
                return false;
            }
        }
    }

    /// After the end and its drain: what is still waiting was never served.
    fn shed_rest(&mut self, schedule: &mut Schedule, now: u64, end: u64) {
        while schedule.next() < end.min(now) {
            schedule.advance(&mut self.core.rng);
            self.core.book.open.shed += 1;
        }
        self.core.issuing = false;
    }

    /// Lateness of each queued I/O, at the last moment before it is submitted.
    fn count_lateness(&mut self) {
        let now = self.core.clock.now().0;
        let full = self.free.is_empty();
        let open = &mut self.core.book.open;
        for &slot in &self.queued {
            let late = now.saturating_sub(self.slots[slot as usize].intended);
            if let Some(lateness) = &mut open.lateness {
                lateness.record(late);
            }
        }
        if full {
            open.waited += self.queued.len() as u64;
        }
    }

    /// Sleeps until shortly before `until`, then spins; wakes at a completion.
    fn rest(&mut self, until: u64, guard_ns: u64, finished: bool) {
        let now = self.core.clock.now().0;
        let until = if finished || self.free.is_empty() { now + TICK_NS } else { until };
        let sleep = until.saturating_sub(now).saturating_sub(guard_ns).min(TICK_NS);
        if sleep > 0 && self.ring.can_wait_timed() && self.timer_wanted {
            self.ring.wait_for(sleep);
        } else {
            std::hint::spin_loop();
        }
    }
}
