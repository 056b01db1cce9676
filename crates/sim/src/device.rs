//! The timing layer: a closed queueing network of controller, power, link, buffer and dies, event by
//! event in whole nanoseconds. Equal times are served in the order they were scheduled in, so one
//! seed gives one history.

use crate::die::{Die, Due, Op};
use crate::timing::Timing;
use base::rng::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a write does to the flash.
pub(crate) trait Media {
    /// A unit at `offset` goes into the buffer.
    fn written(&mut self, offset: u64) -> Written;
    /// Programs for each unit written, now.
    fn amplification(&self) -> f64;
}

/// What becomes of a unit that goes into the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Moves to be paid for it.
    pub(crate) moves: f64,
    /// It goes to the cache of single-bit flash.
    pub(crate) cached: bool,
}

/// One request to the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) write: bool,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Part of a stream.
    pub(crate) sequential: bool,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) slot: u32,
    pub(crate) at: u64,
    /// It ended with an error.
    pub(crate) failed: bool,
}

/// A request in a slot; what is left of one that was given up has an old generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    slot: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ReadArrives(Id),
    WriteArrives(Id),
    PartRead(Id),
    OpDue(u32),
    HostDone(Id),
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    request: Request,
    /// Read operations still to end.
    parts: u32,
    /// Units not yet in the buffer.
    units: u32,
}

const EMPTY: Slot = Slot {
    request: Request { write: false, offset: 0, len: 0, sequential: false },
    parts: 0,
    units: 0,
};

/// State of the timing layer.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) timing: Timing,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    dies: Vec<Die>,
    slots: Vec<Slot>,
    /// Of the requests that are not given up.
    generation: u32,
    rng: Rng,
    controller_free: u64,
    power_free: u64,
    read_link_free: u64,
    write_link_free: u64,
    buffer_free: u32,
    /// Writes that wait for room in the buffer.
    queue: VecDeque<Id>,
    /// Units gathered for the next program; a sequential or cached one among them decides its time.
    stripe: u32,
    /// Moves owed, in units.
    owed: f64,
    next_die: u32,
    /// Energy above idle, in uJ.
    pub(crate) energy_uj: f64,
    /// No command ends in this time; each such time once.
    pub(crate) stall: Option<crate::target::Stall>,
    /// Reads and writes that end from then on fail.
    pub(crate) fails_from: [u64; 2],
    /// Bytes of the reads and writes that ended well: the drive's own counters.
    pub(crate) moved: [u64; 2],
}

impl Device {
    pub(crate) fn new(timing: Timing, seed: u64) -> Device {
        Device {
            events: BinaryHeap::new(),
            scheduled: 0,
            dies: vec![Die::default(); timing.dies as usize],
            slots: Vec::new(),
            generation: 0,
            rng: Rng::new(seed),
            controller_free: 0,
            power_free: 0,
            read_link_free: 0,
            write_link_free: 0,
            buffer_free: timing.buffer_units,
            queue: VecDeque::new(),
            stripe: 0,
            owed: 0.0,
            next_die: 0,
            energy_uj: 0.0,
            stall: None,
            fails_from: [u64::MAX; 2],
            moved: [0; 2],
            timing,
        }
    }

    /// Makes room for requests numbered below `slots`; what is on its way in others is given up.
    pub(crate) fn set_slots(&mut self, slots: usize) {
        self.generation += 1;
        self.slots.resize(slots.max(self.slots.len()), EMPTY);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// Sends a request from a free slot.
    pub(crate) fn issue<M: Media>(&mut self, now: u64, slot: u32, request: Request, media: &M) {
        let id = Id { slot, generation: self.generation };
        let units = self.timing.units(request.len);
        self.slots[slot as usize] = Slot { request, units, parts: 0 };
        let powered = self.draw_power(now, request.write, units, media);
        let start = powered.max(self.controller_free);
        self.controller_free = start + self.timing.command_ns;
        let arrives = self.controller_free;
        if request.write {
            let from = arrives.max(self.write_link_free);
            self.write_link_free = from + u64::from(request.len) * self.timing.write_link_ps / 1000;
            self.at(self.write_link_free, Event::WriteArrives(id));
        } else {
            self.at(arrives, Event::ReadArrives(id));
        }
    }

    /// When the energy of a request is there.
    fn draw_power<M: Media>(&mut self, now: u64, write: bool, units: u32, media: &M) -> u64 {
        let energy = self.timing.power;
        let uj = match write {
            true => energy.write_uj(f64::from(units), media.amplification()),
            false => energy.read_uj * f64::from(units),
        };
        self.energy_uj += uj;
        let Some(budget_w) = energy.budget_w else {
            return now;
        };
        let start = now.max(self.power_free);
        self.power_free = start + (uj * 1000.0 / budget_w) as u64;
        start
    }

    /// The next completion not after `until`; none when there is none.
    pub(crate) fn next<M: Media>(&mut self, until: u64, media: &mut M) -> Option<Done> {
        while let Some(&Reverse((time, ..))) = self.events.peek() {
            if time > until {
                return None;
            }
            let Reverse((now, _, event)) = self.events.pop()?;
            match event {
                Event::OpDue(die) => self.op_due(now, die, media),
                Event::ReadArrives(id) if self.lives(id) => self.read_arrives(now, id),
                Event::PartRead(id) if self.lives(id) => self.part_read(now, id, media),
                Event::WriteArrives(id) if self.lives(id) => self.write_arrives(now, id, media),
                Event::HostDone(id) if self.lives(id) => return Some(self.done(now, id)),
                _ => {}
            }
        }
        None
    }

    /// When the next event is due.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    fn done(&mut self, at: u64, id: Id) -> Done {
        let Request { write, len, .. } = self.slots[id.slot as usize].request;
        let failed = at >= self.fails_from[usize::from(write)];
        if !failed {
            self.moved[usize::from(write)] += u64::from(len);
        }
        Done { slot: id.slot, at, failed }
    }

    fn lives(&self, id: Id) -> bool {
        id.generation == self.generation
    }

    fn read_arrives(&mut self, now: u64, id: Id) {
        let Slot { request, .. } = self.slots[id.slot as usize];
        let len = if request.write { self.timing.unit as u32 } else { request.len };
        let parts = u64::from(len).div_ceil(self.timing.page).max(1) as u32;
        self.slots[id.slot as usize].parts = parts;
        let n = u64::from(self.timing.dies);
        let first = self.rng.below(n);
        for part in 0..parts {
            let die = ((first + u64::from(part)) % n) as u32;
            let ns = self.read_time();
            let (end, due) = self.dies[die as usize].read(now, ns, id, &self.timing, &mut self.rng);
            if let Some(end) = end {
                self.at(end, Event::PartRead(id));
            }
            if let Some(due) = due {
                self.at(due, Event::OpDue(die));
            }
        }
    }

    fn read_time(&mut self) -> u64 {
        let draw = self.rng.next();
        let kind = ((draw & 0xffff_ffff) * self.timing.read_ns.len() as u64) >> 32;
        let retried = (draw >> 32) < self.timing.retry_below;
        self.timing.read_ns[kind as usize] + if retried { self.timing.retry_ns } else { 0 }
    }

    fn part_read<M: Media>(&mut self, now: u64, id: Id, media: &mut M) {
        let state = &mut self.slots[id.slot as usize];
        state.parts -= 1;
        let Slot { request, parts, .. } = *state;
        if request.write {
            // The old content of a unit that is written in part is here.
            self.queue.push_back(id);
            return self.admit(now, media);
        }
        let pages = u64::from(request.len).div_ceil(self.timing.page).max(1);
        let share = u64::from(request.len) / pages;
        let from = now.max(self.read_link_free);
        self.read_link_free = from + share * self.timing.read_link_ps / 1000;
        if parts == 0 {
            let at = self.through_stalls(self.read_link_free + self.timing.read_fixed_ns);
            self.at(at, Event::HostDone(id));
        }
    }

    fn write_arrives<M: Media>(&mut self, now: u64, id: Id, media: &mut M) {
        if u64::from(self.slots[id.slot as usize].request.len) < self.timing.unit {
            return self.read_arrives(now, id);
        }
        self.queue.push_back(id);
        self.admit(now, media);
    }

    /// Lets waiting writes into the buffer, unit by unit, in order.
    fn admit<M: Media>(&mut self, now: u64, media: &mut M) {
        while self.buffer_free > 0 {
            let Some(&id) = self.queue.front() else {
                return;
            };
            if !self.lives(id) {
                self.queue.pop_front();
                continue;
            }
            let Slot { request, units, .. } = self.slots[id.slot as usize];
            let done = self.timing.units(request.len) - units;
            let offset = request.offset + u64::from(done) * self.timing.unit;
            self.slots[id.slot as usize].units -= 1;
            self.buffer_free -= 1;
            let Written { moves, cached } = media.written(offset);
            self.owed += moves;
            self.gather(now, request.sequential, cached);
            if units == 1 {
                self.queue.pop_front();
                let mut at = now + self.timing.write_fixed_ns;
                if self.timing.write_through {
                    at += self.program_time(request.sequential, cached);
                }
                let at = self.through_stalls(at);
                self.at(at, Event::HostDone(id));
            }
        }
    }

    fn program_time(&self, sequential: bool, cached: bool) -> u64 {
        match (cached, sequential) {
            (true, _) => self.timing.cache_program_ns,
            (false, true) => self.timing.sequential_program_ns,
            (false, false) => self.timing.program_ns,
        }
    }

    /// A unit joins the stripe; full stripes and full debts of moves become operations.
    fn gather(&mut self, now: u64, sequential: bool, cached: bool) {
        let full = self.timing.program_units;
        self.stripe += 1;
        if self.stripe == full {
            self.stripe = 0;
            let ns = self.varied(self.program_time(sequential, cached));
            self.program(now, Op { ns, frees: full, reads: None });
        }
        while self.owed >= f64::from(full) {
            self.owed -= f64::from(full);
            if self.timing.cleaning_read_ns > 0 {
                let die = self.rng.below(u64::from(self.timing.dies)) as u32;
                let ns = self.timing.cleaning_read_ns;
                self.background(now, die, Op { ns, frees: 0, reads: None });
            }
            let ns = self.varied(self.timing.program_ns);
            self.program(now, Op { ns, frees: 0, reads: None });
        }
    }

    /// The time of one operation: uniform around its mean, so that dies do not march in step.
    fn varied(&mut self, mean_ns: u64) -> u64 {
        let spread = mean_ns * self.timing.program_spread / 65536;
        mean_ns - spread + self.rng.below(2 * spread + 1)
    }

    /// Programs go round the dies; where the next one is busier than another, that one is taken.
    fn program(&mut self, now: u64, op: Op) {
        let die = self.next_die;
        self.next_die = (die + 1) % self.timing.dies;
        let other = self.rng.below(u64::from(self.timing.dies)) as u32;
        let waits = |die: u32| self.dies[die as usize].waits();
        let die = if waits(other) < waits(die) { other } else { die };
        self.background(now, die, op);
    }

    fn background(&mut self, now: u64, die: u32, op: Op) {
        if let Some(due) = self.dies[die as usize].add(now, op) {
            self.at(due, Event::OpDue(die));
        }
    }

    fn op_due<M: Media>(&mut self, now: u64, die: u32, media: &mut M) {
        match self.dies[die as usize].due(now) {
            Due::Later(at) => self.at(at, Event::OpDue(die)),
            Due::Ended(op, next) => {
                if let Some(at) = next {
                    self.at(at, Event::OpDue(die));
                }
                if let Some(id) = op.reads.filter(|id| self.lives(*id)) {
                    self.part_read(now, id, media);
                }
                self.buffer_free += op.frees;
                self.admit(now, media);
            }
        }
    }

    fn through_stalls(&self, at: u64) -> u64 {
        let stall = self.stall.and_then(|stall| stall.within(at, at + 1).next());
        stall.map_or(at, |(_, over)| over)
    }
}
