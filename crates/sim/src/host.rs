//! The host of a virtual drive: the workers of a cell, closed loop and open loop, in virtual time.

use crate::device::{Device, Done, Media, Request};
use base::rng::{Rng, derive};
use engine::{Choice, Cursor, CursorPlace, Schedule, Script, Target, choices};
use plan::{Demand, Load, Pattern, Streams, Window};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where sequential streams stand, by range and worker: kept across cells.
pub(crate) type Pointers = HashMap<(u64, u64, u32), Arc<AtomicU64>>;

/// Counts what completes.
pub(crate) trait Count {
    /// One I/O of a stream.
    fn io(&mut self, io: &Counted);
    /// One arrival that found every slot taken.
    fn waited(&mut self, stream: usize);
    /// Arrivals given up.
    fn shed(&mut self, stream: usize, n: u64);
    /// Whether nothing more is to be counted.
    fn over(&self) -> bool {
        false
    }
}

/// A completed I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) stream: usize,
    pub(crate) write: bool,
    pub(crate) len: u32,
    pub(crate) offset: u64,
    pub(crate) service_ns: u64,
    /// Response time and lateness, in open loop.
    pub(crate) open: Option<(u64, u64)>,
    pub(crate) at: u64,
    pub(crate) failed: bool,
}

struct Flow {
    stream: usize,
    below: u64,
    read_below: u64,
    reads: Vec<Choice>,
    writes: Vec<Choice>,
    /// One for all workers, or one for each where they have streams of their own.
    cursors: Vec<Cursor>,
    pointers: Vec<Arc<AtomicU64>>,
    sequential: bool,
}

/// Workers that share loads.
struct Group {
    flows: Vec<Flow>,
    rng: Rng,
    first_slot: u32,
    slots: u32,
    depth: u32,
    open: Option<Open>,
    /// Bytes it may still issue.
    budget: u64,
    /// What is replayed instead of drawn.
    script: Option<Script>,
}

/// When an I/O was to start, and which request of a recording it is.
#[derive(Clone, Copy)]
struct Arrived {
    intended: u64,
    position: Option<usize>,
}

struct Open {
    schedule: Schedule,
    free: Vec<u32>,
    backlog: VecDeque<Arrived>,
    backlog_max: usize,
    stop: bool,
}

#[derive(Clone, Copy, Default)]
struct InFlight {
    group: u32,
    flow: u32,
    start: u64,
    intended: u64,
    write: bool,
    len: u32,
    offset: u64,
    busy: bool,
}

/// The host of one target in one cell.
pub(crate) struct Host {
    groups: Vec<Group>,
    flights: Vec<InFlight>,
    busy: u32,
    stopped: bool,
}

/// What a host needs to know of its target.
pub(crate) struct Bed<'a> {
    /// Loads with the number of their stream.
    pub(crate) loads: Vec<(usize, &'a Load)>,
    pub(crate) target: &'a Target,
    pub(crate) window: Window,
    pub(crate) seed: u64,
    pub(crate) start: u64,
}

impl Host {
    pub(crate) fn new(bed: &Bed<'_>, pointers: &mut Pointers) -> Host {
        let mut host = Host { groups: Vec::new(), flights: Vec::new(), busy: 0, stopped: false };
        let shared: Vec<_> =
            bed.loads.iter().filter(|(_, l)| l.weight.is_some()).copied().collect();
        if !shared.is_empty() {
            host.add(bed, &shared, pointers);
        }
        for alone in bed.loads.iter().filter(|(_, load)| load.weight.is_none()) {
            host.add(bed, &[*alone], pointers);
        }
        host
    }

    fn add(&mut self, bed: &Bed<'_>, loads: &[(usize, &Load)], pointers: &mut Pointers) {
        let (_, first) = loads[0];
        let total: f64 = loads.iter().map(|(_, load)| load.weight.unwrap_or(1.0)).sum();
        let mut sum = 0.0;
        let mut flows: Vec<Flow> = loads
            .iter()
            .map(|(stream, load)| {
                sum += load.weight.unwrap_or(1.0) / total;
                let below = (sum * (1u64 << 32) as f64) as u64;
                flow(bed, *stream, load, below, pointers)
            })
            .collect();
        if let Some(last) = flows.last_mut() {
            last.below = u64::MAX;
        }
        let slots = first.workers * first.depth;
        let first_slot = self.flights.len() as u32;
        let group = self.groups.len() as u32;
        let flight = InFlight { group, ..InFlight::default() };
        self.flights.extend(std::iter::repeat_n(flight, slots as usize));
        let mut rng = Rng::new(derive(bed.seed, u64::from(group) + 1));
        let range = engine::extent(first, bed.target);
        let script = Script::new(first, range, bed.target.block.0, 0, 1);
        let open = match first.demand {
            Demand::Closed => None,
            Demand::Open { rate_iops, arrival, backlog } => Some(Open {
                schedule: match &script {
                    Some(script) => Schedule::recorded(bed.start, script.recorded()),
                    None => Schedule::new(bed.start, rate_iops, arrival, 0.0, &mut rng),
                },
                free: (first_slot..first_slot + slots).rev().collect(),
                backlog: VecDeque::new(),
                backlog_max: backlog as usize,
                stop: false,
            }),
        };
        let budget = budget(bed, first);
        let depth = first.depth;
        self.groups.push(Group { flows, rng, first_slot, slots, depth, open, budget, script });
    }

    /// Slots of all groups.
    pub(crate) fn slots(&self) -> usize {
        self.flights.len()
    }

    /// Whether nothing more will complete.
    pub(crate) fn idle(&self) -> bool {
        // A recording ends by itself.
        let comes = |open: &Open| !open.stop && open.schedule.next() < u64::MAX;
        let waits = |open: &Open| !open.backlog.is_empty() || comes(open);
        let more = |group: &Group| group.budget > 0 && group.open.as_ref().is_some_and(waits);
        self.busy == 0 && (self.stopped || !self.groups.iter().any(more))
    }

    /// Starts all slots of closed-loop groups.
    pub(crate) fn start<M: Media>(&mut self, now: u64, device: &mut Device, media: &M) {
        device.set_slots(self.flights.len());
        for group in 0..self.groups.len() {
            let Group { first_slot, slots, ref open, .. } = self.groups[group];
            if open.is_none() {
                for slot in first_slot..first_slot + slots {
                    self.issue(now, Arrived { intended: now, position: None }, slot, device, media);
                }
            }
        }
    }

    /// Goes on until `until`, or until nothing is left to do; gives the time of the last completion.
    pub(crate) fn run<M: Media>(
        &mut self,
        until: u64,
        device: &mut Device,
        media: &mut M,
        count: &mut impl Count,
    ) -> u64 {
        let mut last = 0;
        loop {
            let arrival = self.next_arrival();
            match device.next(until.min(arrival), media) {
                Some(done) => {
                    last = done.at;
                    self.complete(done, device, media, count);
                }
                None if arrival <= until => self.arrive(arrival, device, media, count),
                None => return last,
            }
            if self.idle() || count.over() {
                return last;
            }
        }
    }

    /// No arrival and no new I/O from now on.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        for group in &mut self.groups {
            group.budget = 0;
            if let Some(open) = &mut group.open {
                open.stop = true;
            }
        }
    }

    /// Arrivals end; what waits is still served.
    pub(crate) fn stop_arrivals(&mut self) {
        self.groups.iter_mut().filter_map(|group| group.open.as_mut()).for_each(|o| o.stop = true);
    }

    /// Whether arrivals wait, or open-loop I/Os are on their way.
    pub(crate) fn owes(&self) -> bool {
        let open = |group: &Group| {
            group.open.as_ref().is_some_and(|open| {
                !open.backlog.is_empty() || open.free.len() < group.slots as usize
            })
        };
        self.groups.iter().any(open)
    }

    /// Counts what still waits as given up.
    pub(crate) fn shed_rest(&mut self, count: &mut impl Count) {
        for group in &mut self.groups {
            let stream = group.flows[0].stream;
            if let Some(open) = &mut group.open {
                let in_flight = group.slots as u64 - open.free.len() as u64;
                count.shed(stream, open.backlog.len() as u64 + in_flight);
                open.backlog.clear();
            }
        }
    }

    fn next_arrival(&self) -> u64 {
        let next = |group: &Group| match &group.open {
            Some(open) if !open.stop && group.budget > 0 => open.schedule.next(),
            _ => u64::MAX,
        };
        self.groups.iter().map(next).min().unwrap_or(u64::MAX)
    }

    fn arrive<M: Media>(
        &mut self,
        now: u64,
        device: &mut Device,
        media: &M,
        count: &mut impl Count,
    ) {
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            let stream = group.flows[0].stream;
            let Some(open) = group.open.as_mut().filter(|open| !open.stop) else {
                continue;
            };
            if open.schedule.next() > now {
                continue;
            }
            let arrived = Arrived { intended: now, position: open.schedule.position() };
            open.schedule.advance(&mut group.rng);
            match open.free.pop() {
                Some(slot) => self.issue(now, arrived, slot, device, media),
                None => {
                    count.waited(stream);
                    match open.backlog.len() < open.backlog_max {
                        true => open.backlog.push_back(arrived),
                        false => count.shed(stream, 1),
                    }
                }
            }
        }
    }

    fn complete<M: Media>(
        &mut self,
        done: Done,
        device: &mut Device,
        media: &M,
        count: &mut impl Count,
    ) {
        let Done { slot, at, failed } = done;
        let flight = self.flights[slot as usize];
        self.flights[slot as usize].busy = false;
        self.busy -= 1;
        let group = &mut self.groups[flight.group as usize];
        let open = group.open.is_some();
        count.io(&Counted {
            stream: group.flows[flight.flow as usize].stream,
            write: flight.write,
            len: flight.len,
            offset: flight.offset,
            service_ns: at - flight.start,
            open: open.then(|| (at - flight.intended, flight.start - flight.intended)),
            at,
            failed,
        });
        match &mut group.open {
            None => {
                let arrived = Arrived { intended: at, position: None };
                self.issue(at, arrived, slot, device, media);
            }
            Some(open) => match open.backlog.pop_front() {
                Some(arrived) => self.issue(at, arrived, slot, device, media),
                None => open.free.push(slot),
            },
        }
    }

    fn issue<M: Media>(
        &mut self,
        now: u64,
        arrived: Arrived,
        slot: u32,
        device: &mut Device,
        media: &M,
    ) {
        let index = self.flights[slot as usize].group;
        let group = &mut self.groups[index as usize];
        if group.budget == 0 {
            return;
        }
        let Some(io) = group.draw(arrived.position, slot) else {
            return;
        };
        let Drawn { flow, write, offset, len, sequential } = io;
        group.budget = group.budget.saturating_sub(u64::from(len));
        let intended = arrived.intended;
        self.flights[slot as usize] =
            InFlight { group: index, flow, start: now, intended, write, len, offset, busy: true };
        self.busy += 1;
        device.issue(now, slot, Request { write, offset, len, sequential }, media);
    }
}

/// The next I/O of a group.
struct Drawn {
    flow: u32,
    write: bool,
    offset: u64,
    len: u32,
    sequential: bool,
}

impl Group {
    /// What is replayed, or drawn; none when a recording is at its end.
    fn draw(&mut self, position: Option<usize>, slot: u32) -> Option<Drawn> {
        let Some(script) = &mut self.script else {
            return Some(self.draw_random(slot));
        };
        if let Some(position) = position {
            script.seek(position);
        }
        let Some(act) = script.take() else {
            self.budget = 0;
            return None;
        };
        let len = act.len;
        Some(Drawn { flow: 0, write: act.write, offset: act.offset, len, sequential: false })
    }

    fn draw_random(&mut self, slot: u32) -> Drawn {
        let group = self;
        let draw = group.rng.next();
        let (high, low) = (draw >> 32, draw & 0xffff_ffff);
        let flow_index = match group.flows.len() {
            1 => 0,
            _ => group.flows.iter().position(|flow| high < flow.below).unwrap_or(0),
        };
        let worker = ((slot - group.first_slot) / group.depth) as usize;
        let flow = &mut group.flows[flow_index];
        let write = low >= flow.read_below;
        let mix = if write { &flow.writes } else { &flow.reads };
        let choice = match mix.len() {
            1 => &mix[0],
            _ => {
                let draw = group.rng.next() >> 32;
                mix.iter().find(|choice| draw < choice.below).unwrap_or(&mix[0])
            }
        };
        let which = worker.min(flow.cursors.len() - 1);
        let (offset, len) = flow.cursors[which].next(choice, &mut group.rng);
        let len = len.min(group.budget.min(u64::from(u32::MAX)) as u32);
        if let Some(pointer) = flow.cursors[which].pointer() {
            flow.pointers[which].store(pointer, Ordering::Relaxed);
        }
        let sequential = flow.sequential;
        Drawn { flow: flow_index as u32, write, offset, len, sequential }
    }
}

fn flow(bed: &Bed<'_>, stream: usize, load: &Load, below: u64, pointers: &mut Pointers) -> Flow {
    let (start, end) = engine::extent(load, bed.target);
    let span = end - start;
    let align = load.align.map(|align| align.0);
    let per_worker = matches!(load.pattern, Pattern::Sequential(Streams::PerWorker));
    let n = if per_worker { load.workers } else { 1 };
    let kept: Vec<Arc<AtomicU64>> = (0..n)
        .map(|worker| {
            let key = (start, end, if per_worker { worker + 1 } else { 0 });
            pointers.entry(key).or_default().clone()
        })
        .collect();
    let cursor = |index: u32| {
        let pointer = kept[index as usize].clone();
        let load_seed = derive(bed.seed, 1 << 32 | stream as u64);
        Cursor::new(load, &CursorPlace { start, end, index, of: n, load_seed, pointer })
    };
    Flow {
        stream,
        below,
        read_below: (load.read_percent / 100.0 * (1u64 << 32) as f64) as u64,
        reads: choices(&load.read_blocks, align, span),
        writes: choices(&load.write_blocks, align, span),
        cursors: (0..n).map(cursor).collect(),
        pointers: kept.clone(),
        sequential: matches!(load.pattern, Pattern::Sequential(_)),
    }
}

/// Bytes a group may issue in whole blocks.
fn budget(bed: &Bed<'_>, load: &Load) -> u64 {
    let (start, end) = engine::extent(load, bed.target);
    let Some(amount) = bed.window.amount else {
        return u64::MAX;
    };
    let total = amount.on(end - start, bed.target.size);
    match load.pattern {
        Pattern::Sequential(_) => total / bed.target.block.0 * bed.target.block.0,
        _ => total / load.block_max().0.max(1) * load.block_max().0.max(1),
    }
}
