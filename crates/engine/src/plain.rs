//! The leanest closed loop: one load, one block size, uniform random or one stream of its own.
//!
//! The same counts as the general loop, held to an instruction budget by `bench/tests`. What the loop
//! touches is bound to locals outside of it, so that nothing is looked up twice per I/O.

use crate::address::{Cursor, own};
use crate::core::{ALWAYS, Core, has_tail};
use crate::sys::ring::{Cqe, Queue, Request};
use crate::uring::UringWorker;
use base::rng::Rng;

/// Next addresses, without a choice per I/O.
trait Place: Copy {
    /// Address and length of the next I/O of at most `len` bytes.
    fn next(&mut self, len: u32, rng: &mut Rng) -> (u64, u32);
    /// Whether `n` I/Os of full length follow without a turn-around.
    fn has_room(&self, n: u64, len: u32) -> bool;
    /// The next address; only after `has_room`.
    fn next_full(&mut self, len: u32, rng: &mut Rng) -> u64;
    /// Puts the state back.
    fn store(self, cursor: &mut Cursor);
}

#[derive(Clone, Copy)]
struct RandomPlace {
    start: u64,
    places: u64,
    unit: u64,
}

impl Place for RandomPlace {
    #[inline(always)]
    fn next(&mut self, len: u32, rng: &mut Rng) -> (u64, u32) {
        (self.next_full(len, rng), len)
    }

    #[inline(always)]
    fn has_room(&self, _n: u64, _len: u32) -> bool {
        true
    }

    #[inline(always)]
    fn next_full(&mut self, _len: u32, rng: &mut Rng) -> u64 {
        self.start + rng.below(self.places) * self.unit
    }

    fn store(self, _cursor: &mut Cursor) {}
}

#[derive(Clone, Copy)]
struct StreamPlace {
    next: u64,
    start: u64,
    end: u64,
}

impl Place for StreamPlace {
    #[inline(always)]
    fn next(&mut self, len: u32, _rng: &mut Rng) -> (u64, u32) {
        own(&mut self.next, self.start, self.end, len)
    }

    #[inline(always)]
    fn has_room(&self, n: u64, len: u32) -> bool {
        self.next + n * u64::from(len) < self.end
    }

    #[inline(always)]
    fn next_full(&mut self, len: u32, _rng: &mut Rng) -> u64 {
        let at = self.next;
        self.next += u64::from(len);
        at
    }

    fn store(self, cursor: &mut Cursor) {
        if let Cursor::Own { next, .. } = cursor {
            *next = self.next;
        }
    }
}

/// Keeps a completion for after the loop; the list has room for every slot.
#[cold]
#[inline(never)]
fn keep_odd(odd: &mut Vec<Cqe>, user_data: u64, res: i32) {
    odd.push(Cqe::new(user_data, res));
}

const READS: u8 = 0;
const WRITES: u8 = 1;
const MIXED: u8 = 2;

impl<Q: Queue> UringWorker<Q> {
    /// Runs the loop to its end if this worker fits it; says whether it did.
    pub(crate) fn closed_plain(&mut self) -> bool {
        let [flow] = self.core.flows.as_slice() else {
            return false;
        };
        if self.core.record_max > 0 || self.core.checker.is_some() || flow.script.is_some() {
            return false;
        }
        if flow.reads.len() > 1 || flow.writes.len() > 1 {
            return false;
        }
        let sizes = [flow.reads.first(), flow.writes.first()];
        let Some(choice) = sizes.into_iter().flatten().next() else {
            return false;
        };
        let one_size = sizes.into_iter().flatten().all(|other| {
            (other.len, other.unit, other.places) == (choice.len, choice.unit, choice.places)
        });
        if !one_size {
            return false;
        }
        let mix = match flow.read_below {
            ALWAYS => READS,
            0 => WRITES,
            _ => MIXED,
        };
        let len = choice.len;
        match flow.cursor {
            Cursor::Random { start } => {
                let place = RandomPlace { start, places: choice.places, unit: choice.unit };
                self.plain_of(place, mix, len);
            }
            Cursor::Own { next, start, end } => {
                // The slots are filled through the cursor first; the loop continues from there.
                self.plain_of(StreamPlace { next, start, end }, mix, len);
            }
            _ => return false,
        }
        true
    }

    fn plain_of<P: Place>(&mut self, place: P, mix: u8, len: u32) {
        match mix {
            READS => self.plain::<P, READS>(place, len),
            WRITES => self.plain::<P, WRITES>(place, len),
            _ => self.plain::<P, MIXED>(place, len),
        }
    }

    fn plain<P: Place, const MIX: u8>(&mut self, place: P, len: u32) {
        let mut place = place;
        self.refill::<P, MIX>(&mut place, len);
        while self.n_queued > 0 || self.in_flight > 0 {
            let (now, ready) = self.submit_and_reap::<false>();
            self.core.check_stop();
            if now >= self.core.next_event {
                self.core.event(now);
            }
            self.turn::<P, MIX>(&mut place, len, ready, now);
        }
        if let [flow] = self.core.flows.as_mut_slice() {
            place.store(&mut flow.cursor);
        }
    }

    /// Fills every slot at the start.
    #[inline(never)]
    fn refill<P: Place, const MIX: u8>(&mut self, place: &mut P, len: u32) {
        for slot in 0..self.requests.len() as u32 {
            self.requests[slot as usize].expected = len as i32;
            if !self.core.issuing {
                break;
            }
            self.issue::<P, MIX>(place, len, slot);
        }
    }

    /// Counts `ready` completions and queues as many new I/Os.
    #[inline(always)]
    fn turn<P: Place, const MIX: u8>(&mut self, place: &mut P, len: u32, ready: u32, now: u64) {
        let n = self.reap::<MIX>(len, ready, now);
        self.in_flight -= n as u32;
        if n == 0 {
            return;
        }
        self.last_completion = now;
        if !self.core.issuing {
            return;
        }
        let bytes = n as u64 * u64::from(len);
        if self.core.budget >= bytes && place.has_room(n as u64, len) {
            self.core.budget -= bytes;
            self.issue_full::<P, MIX>(place, len, n);
            return;
        }
        self.issue_rest::<P, MIX>(place, len, n);
    }

    /// Near the end of a stream or of the budget: one by one, from the list that `reap` made.
    #[cold]
    #[inline(never)]
    fn issue_rest<P: Place, const MIX: u8>(&mut self, place: &mut P, len: u32, n: usize) {
        // The list is read ahead of where it is written.
        for index in 0..n {
            if self.core.issuing {
                self.issue::<P, MIX>(place, len, self.queued[index]);
            }
        }
    }

    /// Counts completions; gives how many slots are free again and lists them. A function of its own,
    /// so that its few values have all registers.
    #[inline(never)]
    fn reap<const MIX: u8>(&mut self, len: u32, ready: u32, now: u64) -> usize {
        let mut writes = 0;
        let (requests, odd) = (&*self.requests, &mut self.odd);
        let Some((first, rest)) = self.core.book.sides.split_first_mut() else {
            return 0;
        };
        let (service, mut second) = (&mut *first.service, rest.first_mut());
        let n = self.ring.drain(ready, &mut self.queued, |user_data, res| {
            let at = user_data as usize;
            let Some(slot) = requests.get(at).filter(|_| res == len as i32) else {
                keep_odd(odd, user_data, res);
                return false;
            };
            let write = MIX == MIXED && slot.side == 1;
            match &mut second {
                Some(second) if write => second.service.record(now - slot.start),
                _ => service.record(now - slot.start),
            }
            writes += u64::from(write);
            true
        });
        first.bytes += (n as u64 - writes) * u64::from(len);
        if let Some(second) = second {
            second.bytes += writes * u64::from(len);
        }
        if self.odd.is_empty() { n } else { self.reap_odd(n, len, now) }
    }

    /// The timer, errors, and I/Os that are shorter by design: the tail of a stream.
    #[cold]
    #[inline(never)]
    fn reap_odd(&mut self, mut n: usize, len: u32, now: u64) -> usize {
        while let Some(completion) = self.odd.pop() {
            let at = completion.user_data as usize;
            let slot = self.requests.get(at).copied();
            let counts = slot.is_some_and(|slot| completion.res == slot.expected)
                || self.odd_completion(completion, now);
            let (Some(slot), true) = (slot, counts) else {
                continue;
            };
            if let Some(side) = self.core.book.sides.get_mut(slot.side as usize) {
                side.service.record(now - slot.start);
                side.bytes += slot.expected as u64;
            }
            // After a tail the slot is of full length again.
            let request = &mut self.requests[at];
            (request.expected, request.sqe.len) = (len as i32, len);
            self.queued[n] = at as u32;
            n += 1;
        }
        n
    }

    /// Queues full I/Os in the first `n` listed slots.
    #[inline(never)]
    fn issue_full<P: Place, const MIX: u8>(&mut self, place: &mut P, len: u32, n: usize) {
        let Core { rng, flows, .. } = &mut self.core;
        let Some(flow) = flows.first_mut() else {
            return;
        };
        let (requests, arena, codes) = (&mut *self.requests, &mut self.arena, self.codes);
        let Some(listed) = self.queued.get(..n) else {
            return;
        };
        let mut random = rng.clone();
        let mut at = *place;
        let mut writes = 0;
        for &slot in listed {
            let index = slot as usize;
            let Some(request) = requests.get_mut(index) else {
                continue;
            };
            let write = match MIX {
                READS => false,
                WRITES => true,
                _ => random.next() >> 32 >= flow.read_below,
            };
            request.sqe.off = at.next_full(len, &mut random);
            if MIX != READS {
                if write && let Some(filler) = &mut flow.filler {
                    filler.fill(arena.slot_mut(index, len as usize), &mut random);
                }
                request.sqe.opcode = if write { codes.write } else { codes.read };
            }
            if MIX == MIXED {
                request.side = u32::from(write);
                writes += u32::from(write);
            }
        }
        *rng = random;
        *place = at;
        self.n_queued = n;
        match (MIX, &mut *self.queued_sides) {
            (MIXED, [reads, written]) => {
                *reads = n as u32 - writes;
                *written = writes;
            }
            (_, [only, ..]) => *only = n as u32,
            (_, []) => {}
        }
    }

    /// Queues the next I/O in `slot`.
    fn issue<P: Place, const MIX: u8>(&mut self, place: &mut P, len: u32, slot: u32) {
        let Core { rng, flows, budget, issuing, .. } = &mut self.core;
        let write = match MIX {
            READS => false,
            WRITES => true,
            _ => flows.first().is_some_and(|flow| rng.next() >> 32 >= flow.read_below),
        };
        if *budget < u64::from(len) && !has_tail(*budget) {
            *budget = 0;
            *issuing = false;
            return;
        }
        let (offset, len) = place.next(len, rng);
        let len = (*budget).min(u64::from(len)) as u32;
        *budget -= u64::from(len);
        let at = slot as usize;
        if MIX != READS
            && write
            && let Some(filler) = flows.first_mut().and_then(|flow| flow.filler.as_mut())
        {
            filler.fill(self.arena.slot_mut(at, len as usize), rng);
        }
        let Some(Request { sqe, expected, side: place, .. }) = self.requests.get_mut(at) else {
            return;
        };
        sqe.off = offset;
        sqe.len = len;
        sqe.opcode = if write { self.codes.write } else { self.codes.read };
        *expected = len as i32;
        let side = if MIX == MIXED { usize::from(write) } else { 0 };
        *place = side as u32;
        if let (Some(count), Some(place)) =
            (self.queued_sides.get_mut(side), self.queued.get_mut(self.n_queued))
        {
            *count += 1;
            *place = slot;
            self.n_queued += 1;
        }
    }
}
