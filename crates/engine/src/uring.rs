//! The io_uring worker: batched submit and reap, two clock readings a batch, one ring a worker.
//!
//! Service time runs from just before the batch is handed to the submitting system call to the moment
//! its completion is seen, so an I/O that completes inside the call is not lost. A wait is a call of
//! its own and made only when nothing is complete, which keeps submission time exact.

use crate::arrival::Schedule;
use crate::core::{Core, Draw, IoRecord};
use crate::fault::{Fault, FaultKind};
use crate::spec::{CommandTarget, Polling, Target};
use crate::sys::command_ring::{CommandRing, status_of};
use crate::sys::memory::Arena;
use crate::sys::ring::{Cqe, Queue, Request, Ring, SQE_FIXED_FILE, Sqe, TIMEOUT_ABS, Timespec, op};
use base::units::{Bytes, Nanos};
use std::os::fd::{AsRawFd, OwnedFd};

/// A worker wakes at least this often to see boundaries and a request to stop, in ns.
const TICK_NS: u64 = 500_000_000;
/// Longest time after the end in which waiting arrivals are still served, in ns.
const DRAIN_NS: u64 = 2_000_000_000;

/// How a worker's requests look.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    pub(crate) read: u8,
    pub(crate) write: u8,
}

pub(crate) struct UringWorker<Q> {
    pub(crate) core: Core,
    pub(crate) ring: Q,
    pub(crate) arena: Arena,
    /// One for each slot.
    pub(crate) requests: Box<[Request]>,
    /// Intended starts of the slots, for open loops and records.
    intended: Box<[u64]>,
    /// Slots queued since the last submit, in order; the first `n_queued` count.
    pub(crate) queued: Box<[u32]>,
    pub(crate) n_queued: usize,
    /// I/Os of each side among them.
    pub(crate) queued_sides: Box<[u32]>,
    free: Vec<u32>,
    /// Completions that are not plain, for after the loop over the others.
    pub(crate) odd: Vec<Cqe>,
    pub(crate) codes: Codes,
    pub(crate) in_flight: u32,
    timer: Timespec,
    timer_wanted: bool,
    timer_queued: bool,
    pub(crate) last_completion: u64,
    null: bool,
}

/// Ring, buffers and request templates for one target.
pub(crate) fn prepare(
    core: Core,
    target: &Target,
    depth: u32,
    slot_bytes: usize,
) -> std::io::Result<UringWorker<Ring>> {
    let polled = target.polling == Polling::On && poll_works(target).unwrap_or(false);
    let ring = Ring::new(depth + 1, polled)?;
    let arena = Arena::new(depth as usize, slot_bytes)?;
    let mut worker = UringWorker::new(core, ring, arena, depth, target.file.is_none(), !polled);
    let Some(file) = &target.file else {
        return Ok(worker);
    };
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
    for Request { sqe, .. } in &mut worker.requests {
        sqe.opcode = worker.codes.read;
        (sqe.fd, sqe.flags) = if fixed_file { (0, SQE_FIXED_FILE) } else { (file.as_raw_fd(), 0) };
    }
    worker.core.last.notes = notes;
    Ok(worker)
}

/// Ring, buffers and request templates for commands to a namespace's generic device.
pub(crate) fn prepare_commands(
    core: Core,
    target: &Target,
    to: CommandTarget,
    depth: u32,
    slot_bytes: usize,
) -> std::io::Result<UringWorker<CommandRing>> {
    let Some(file) = &target.file else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let block_log2 = target.block.0.trailing_zeros();
    let works = |poll, fixed| command_works(target, to, poll, fixed).unwrap_or(false);
    let polled = target.polling == Polling::On && works(true, false);
    let fixed = works(false, true);
    if !fixed && !works(false, false) {
        // Tell why.
        command_works(target, to, false, false)?;
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let mut ring = CommandRing::new(depth, polled, to.nsid, block_log2)?;
    let arena = Arena::new(depth as usize, slot_bytes)?;
    let mut notes = ring.facts().names();
    notes.push("nvme-pass-through");
    ring.fixed_buffer = fixed && ring.register_buffer(&arena).is_ok();
    if ring.fixed_buffer {
        notes.push("registered-buffers");
    }
    let fixed_file = ring.register_file(file.as_raw_fd()).is_ok();
    if fixed_file {
        notes.push("registered-files");
    }
    let mut worker = UringWorker::new(core, ring, arena, depth, false, !polled);
    worker.codes = Codes { read: op::READ, write: op::WRITE };
    for Request { sqe, .. } in &mut worker.requests {
        sqe.opcode = op::READ;
        (sqe.fd, sqe.flags) = if fixed_file { (0, SQE_FIXED_FILE) } else { (file.as_raw_fd(), 0) };
    }
    worker.core.last.notes = notes;
    Ok(worker)
}

/// Whether a command reads the first block, in the way asked for.
fn command_works(
    target: &Target,
    to: CommandTarget,
    poll: bool,
    fixed: bool,
) -> std::io::Result<bool> {
    let Some(file) = &target.file else { return Ok(false) };
    let block = target.block.0;
    let mut ring = CommandRing::new(1, poll, to.nsid, block.trailing_zeros())?;
    let arena = Arena::new(1, block as usize)?;
    if fixed {
        ring.register_buffer(&arena)?;
        ring.fixed_buffer = true;
    }
    let res = read_first(&mut ring, file, &arena, target.block)?;
    match (res == block as i32, status_of(res)) {
        // A medium error of the first block is for the measurement to find.
        (true, _) | (_, Some(_)) => Ok(true),
        _ => Err(std::io::Error::from_raw_os_error(-res)),
    }
}

/// Whether a polled read completes: a device may have poll queues that its driver does not serve.
fn poll_works(target: &Target) -> std::io::Result<bool> {
    let Some(file) = &target.file else { return Ok(false) };
    let mut ring = Ring::new(1, true)?;
    let arena = Arena::new(1, target.block.0 as usize)?;
    let res = read_first(&mut ring, file, &arena, target.block)?;
    Ok(res == target.block.0 as i32)
}

/// Reads the first block; gives the result of the completion.
fn read_first<Q: Queue>(
    ring: &mut Q,
    file: &OwnedFd,
    arena: &Arena,
    block: Bytes,
) -> std::io::Result<i32> {
    ring.push(&Sqe {
        opcode: op::READ,
        fd: file.as_raw_fd(),
        addr: arena.address(0),
        len: block.0 as u32,
        ..Sqe::default()
    });
    let mut submit = 1;
    while ring.ready() == 0 {
        let result = ring.enter(submit, 1);
        if result < 0 && result != -i64::from(libc::EINTR) {
            return Err(std::io::Error::from_raw_os_error(-result as i32));
        }
        submit = 0;
    }
    Ok(ring.completion(0).res)
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
        let template = |slot: u32| Request {
            sqe: Sqe {
                opcode: op::NOP,
                addr: arena.address(slot as usize),
                user_data: u64::from(slot),
                op_flags: if null { crate::sys::ring::NOP_INJECT_RESULT } else { 0 },
                ..Sqe::default()
            },
            ..Request::default()
        };
        UringWorker {
            core,
            ring,
            requests: (0..depth).map(template).collect(),
            arena,
            intended: vec![0; depth as usize].into(),
            // The timer completes too.
            queued: vec![0; depth as usize + 1].into(),
            n_queued: 0,
            queued_sides: vec![0; sides].into(),
            free: (0..depth).rev().collect(),
            odd: Vec::with_capacity(depth as usize + 1),
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
        if !self.closed_plain() {
            self.closed();
        }
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

    /// The loop for weights, mixes, records and the rarer patterns.
    fn closed(&mut self) {
        self.queue_free_slots();
        while self.n_queued > 0 || self.in_flight > 0 {
            let (now, ready) = self.submit_and_reap::<false>();
            self.core.check_stop();
            if now >= self.core.next_event {
                self.core.event(now);
            }
            for index in 0..ready {
                let completion = self.ring.completion(index);
                if let Some(slot) = self.complete::<false>(completion, now)
                    && self.core.issuing
                {
                    self.queue_next(slot);
                }
            }
            self.ring.advance(ready);
            self.core.end_batch();
        }
    }

    /// Fills all free slots at the start.
    pub(crate) fn queue_free_slots(&mut self) {
        while let Some(slot) = self.free.pop() {
            if !self.queue_next(slot) {
                break;
            }
        }
    }

    /// Draws the next I/O and queues it in `slot`.
    fn queue_next(&mut self, slot: u32) -> bool {
        let Some(draw) = self.core.draw() else {
            self.core.issuing = false;
            return false;
        };
        let Draw { offset, len, side, write, .. } = draw;
        let at = slot as usize;
        if write || self.core.checker.is_some() {
            self.core.prepare(at, draw, self.arena.slot_mut(at, len as usize));
        }
        let request = &mut self.requests[at];
        request.sqe.off = offset;
        request.sqe.len = len;
        request.sqe.opcode = if write { self.codes.write } else { self.codes.read };
        (request.expected, request.side) = (len as i32, side);
        self.queued_sides[side as usize] += 1;
        self.queued[self.n_queued] = slot;
        self.n_queued += 1;
        true
    }

    /// Submits what is queued, waits when nothing is complete, and gives the time at which the
    /// completions that are now ready were seen, with their number.
    #[inline(always)]
    pub(crate) fn submit_and_reap<const OPEN: bool>(&mut self) -> (u64, u32) {
        let n = self.n_queued as u32;
        let timer = u32::from(std::mem::take(&mut self.timer_queued));
        let start = self.core.clock.now().0;
        let queued = self.queued.get(..self.n_queued).unwrap_or_default();
        self.ring.push_all(queued, &mut self.requests, start);
        let taken = self.ring.enter(n + timer, 0);
        if taken != i64::from(n + timer) {
            self.submit_rest(taken, n + timer);
        }
        self.in_flight += n;
        self.n_queued = 0;
        let ready = self.ring.ready();
        let now = self.core.clock.now().0;
        match (&mut *self.core.book.sides, &mut *self.queued_sides) {
            // Most loads have one direction.
            ([side], [count]) => {
                if *count > 0 {
                    side.submission.record_n(now - start, *count);
                    *count = 0;
                }
            }
            (sides, counts) => {
                for (side, count) in sides.iter_mut().zip(counts) {
                    if *count > 0 {
                        side.submission.record_n(now - start, *count);
                        *count = 0;
                    }
                }
            }
        }
        if ready > 0 || OPEN {
            return (now, ready);
        }
        (self.wait(), self.ring.ready())
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
                n if [libc::EINTR, libc::EAGAIN, libc::EBUSY]
                    .map(|e| -i64::from(e))
                    .contains(&n) => {}
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
    fn complete<const OPEN: bool>(&mut self, completion: Cqe, now: u64) -> Option<u32> {
        let at = completion.user_data as usize;
        let Some(slot) = self.requests.get(at).copied() else {
            self.odd_completion(completion, now);
            return None;
        };
        if completion.res != slot.expected && !self.odd_completion(completion, now) {
            return None;
        }
        let side = self.core.book.sides.get_mut(slot.side as usize)?;
        side.service.record(now - slot.start);
        side.bytes += slot.expected as u64;
        let intended = if OPEN { self.intended[at] } else { slot.start };
        if OPEN && let Some(response) = &mut side.response {
            response.record(now.saturating_sub(intended));
        }
        if self.core.record_max > 0 {
            let sqe = &slot.sqe;
            self.core.record_io(IoRecord {
                intended_ns: intended,
                start_ns: slot.start,
                end_ns: now,
                offset: sqe.off,
                len: sqe.len,
                write: sqe.opcode == self.codes.write,
            });
        }
        if self.core.checker.is_some() {
            let buffer = self.arena.slot_mut(at, slot.sqe.len as usize);
            self.core.check(at, buffer, now);
        }
        self.in_flight -= 1;
        self.last_completion = now;
        Some(completion.user_data as u32)
    }

    /// The timer, an error or a short transfer. True when it counts as completed after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn odd_completion(&mut self, completion: Cqe, now: u64) -> bool {
        let at = completion.user_data as usize;
        let Some(Request { sqe, side, .. }) = self.requests.get(at).copied() else {
            self.arm_timer();
            return false;
        };
        if self.null && completion.res == 0 {
            return true; // A kernel whose no-op cannot answer with a length.
        }
        let kind = match (completion.res, status_of(completion.res)) {
            (_, Some(status)) => FaultKind::Status(status),
            (res, _) if res < 0 => FaultKind::Errno(-res),
            (res, _) => FaultKind::Short(res as u32),
        };
        let fault = Fault {
            target: self.core.target_name.clone(),
            write: sqe.opcode == self.codes.write,
            offset: Bytes(sqe.off),
            len: Bytes(u64::from(sqe.len)),
            kind,
            at: Nanos(now),
        };
        self.in_flight -= 1;
        self.last_completion = now;
        self.core.note_fault(side, fault);
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
            user_data: self.requests.len() as u64,
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
            let over = schedule.next() >= last_arrival || self.stopped() || self.core.budget == 0;
            let finished = !due && over;
            if (finished || now >= give_up) && self.n_queued == 0 && self.in_flight == 0 {
                break;
            }
            if now >= give_up {
                self.shed_rest(schedule, now, last_arrival);
            }
            if self.n_queued > 0 || self.timer_queued || self.ring.needs_enter() {
                self.count_lateness();
                self.submit_and_reap::<true>();
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
                if let Some(slot) = self.complete::<true>(completion, now) {
                    self.free.push(slot);
                }
            }
            self.ring.advance(ready);
            self.core.end_batch();
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
            self.intended[slot as usize] = next;
            self.core.follow(schedule.position());
            schedule.advance(&mut self.core.rng);
            if !self.queue_next(slot) {
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
        for &slot in &self.queued[..self.n_queued] {
            let late = now.saturating_sub(self.intended[slot as usize]);
            if let Some(lateness) = &mut open.lateness {
                lateness.record(late);
            }
        }
        if full {
            open.waited += self.n_queued as u64;
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
