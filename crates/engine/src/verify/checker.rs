//! The worker's part of verification: stamps what it writes, judges what it reads.

use crate::verify::Verified;
use crate::verify::judge::{Expected, Verdict, find_torn_writes, judge};
use crate::verify::stamp::{Filling, SECTOR, Stamp, Text, sum_is_right};
use crate::verify::tracker::{State, Tracker};
use base::units::Nanos;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One for each worker.
pub(crate) struct Checker {
    tracker: Arc<Tracker>,
    text: Text,
    /// What the payloads of each flow hold.
    fillings: Vec<Filling>,
    /// Whether the reads of each flow are checked.
    checks: Vec<bool>,
    slots: Vec<Slot>,
    verdicts: Vec<Verdict>,
    pub(crate) found: Verified,
    /// Wrong places in the run after which it stops; 0: never.
    stop_after: u64,
    /// Where nothing else is known: the target that the first whole stamp of a run named.
    targets: HashMap<u64, u32>,
    wrote: bool,
}

/// What is in flight in a slot.
#[derive(Clone, Default)]
struct Slot {
    offset: u64,
    len: u32,
    /// States of the granules before a read; empty for what is not checked.
    before: Vec<State>,
    write: bool,
}

impl Checker {
    pub(crate) fn new(
        tracker: Arc<Tracker>,
        flows: Vec<(Filling, bool)>,
        depth: u32,
        stop_after: u64,
    ) -> Checker {
        let (fillings, checks) = flows.into_iter().unzip();
        Checker {
            found: Verified { target: tracker.target, ..Verified::default() },
            tracker,
            text: Text::default(),
            fillings,
            checks,
            slots: vec![Slot::default(); depth as usize],
            verdicts: Vec::new(),
            stop_after,
            targets: HashMap::new(),
            wrote: false,
        }
    }

    fn granules(&self, offset: u64, len: u32) -> std::ops::Range<u64> {
        let granule = self.tracker.granule;
        offset / granule..(offset + u64::from(len)).div_ceil(granule)
    }

    /// A write is about to be issued: fills its buffer.
    pub(crate) fn begin_write(
        &mut self,
        slot: usize,
        flow: u32,
        offset: u64,
        buffer: &mut [u8],
        now: u64,
    ) {
        let len = buffer.len() as u32;
        let granule = self.tracker.granule;
        let filling = &self.fillings[flow as usize];
        let mut stamp = Stamp {
            run: self.tracker.run,
            target: self.tracker.target,
            time: now,
            first: offset,
            len,
            ..Stamp::default()
        };
        let mut of = u64::MAX;
        for (index, sector) in buffer.chunks_exact_mut(SECTOR).enumerate() {
            stamp.address = offset + (index * SECTOR) as u64;
            stamp.words = filling.words(stamp.address);
            if stamp.address / granule != of {
                of = stamp.address / granule;
                let end = offset + u64::from(len);
                if !self.tracker.is_whole(of, offset, end) {
                    self.tracker.begin_part(of);
                }
                stamp.generation = self.tracker.begin_write(of).max(1);
            }
            stamp.write(&self.text, sector);
        }
        let slot = &mut self.slots[slot];
        (slot.offset, slot.len, slot.write) = (offset, len, true);
        slot.before.clear();
    }

    /// A read is about to be issued.
    pub(crate) fn begin_read(&mut self, slot: usize, flow: u32, offset: u64, len: u32) {
        let granules = self.granules(offset, len);
        let slot = &mut self.slots[slot];
        (slot.offset, slot.len, slot.write) = (offset, len, false);
        slot.before.clear();
        if self.checks[flow as usize] {
            slot.before.extend(granules.map(|granule| self.tracker.state(granule)));
        }
    }

    /// An I/O was acknowledged. False when enough was wrong to stop.
    pub(crate) fn end(&mut self, slot: usize, buffer: &[u8], now: u64) -> bool {
        let Slot { offset, len, write, .. } = self.slots[slot];
        if write {
            for granule in self.granules(offset, len) {
                self.tracker.end_write(granule);
            }
            self.found.acknowledged += 1;
            self.wrote = true;
            return true;
        }
        if self.slots[slot].before.is_empty() {
            return true;
        }
        let before = self.found.places();
        self.check(slot, buffer, now);
        let new = self.found.places() - before;
        let wrong = self.tracker.wrong_places.fetch_add(new, Ordering::Relaxed) + new;
        self.stop_after == 0 || wrong < self.stop_after
    }

    /// Judges each sector of a read.
    fn check(&mut self, slot: usize, buffer: &[u8], now: u64) {
        let Slot { offset, .. } = self.slots[slot];
        let tracker = self.tracker.clone();
        let granule = tracker.granule;
        let first = offset / granule;
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        let mut clean = true;
        let mut at = (u64::MAX, State::default(), State::default());
        for (index, sector) in buffer.chunks_exact(SECTOR).enumerate() {
            let address = offset + (index * SECTOR) as u64;
            if address / granule != at.0 {
                let before = self.slots[slot].before[(address / granule - first) as usize];
                at = (address / granule, before, tracker.state(address / granule));
            }
            let verdict = self.judge(sector, address, at.1, at.2);
            clean &= !matches!(verdict, Verdict::Wrong(..));
            verdicts.push(verdict);
        }
        if !clean || tracker.alone {
            find_torn_writes(offset, &mut verdicts, tracker.alone);
        }
        if clean && !tracker.alone {
            self.note_seen(first, &verdicts, offset);
        }
        if clean && !tracker.alone {
            self.found.count_clean(&verdicts);
        } else {
            let before = &self.slots[slot].before;
            let wanted = |address: u64| {
                let before = before[(address / granule - first) as usize];
                expected(&tracker, address, before, tracker.state(address / granule))
            };
            self.found.add(offset, &verdicts, buffer, Nanos(now), wanted, &self.text);
        }
        self.verdicts = verdicts;
    }

    fn judge(&mut self, sector: &[u8], address: u64, before: State, after: State) -> Verdict {
        if self.tracker.alone {
            let run =
                Stamp::read(sector).filter(|_| sum_is_right(sector)).map(|s| (s.run, s.target));
            let target = run.map(|(run, target)| *self.targets.entry(run).or_insert(target));
            return judge(sector, &Expected::alone(address, target), &self.text);
        }
        if before.lost_track || after.lost_track {
            return Verdict::Unknown;
        }
        judge(sector, &expected(&self.tracker, address, before, after), &self.text)
    }

    /// Remembers that settled writes were read back, once each.
    fn note_seen(&self, first: u64, verdicts: &[Verdict], offset: u64) {
        let granule = self.tracker.granule;
        let last = (offset + (verdicts.len() * SECTOR) as u64).div_ceil(granule);
        for granule in first..last {
            let state = self.tracker.state(granule);
            if state.settled > 0 && !state.seen && state.in_flight == 0 {
                self.tracker.note_seen(granule, state.settled);
            }
        }
    }

    /// After a batch: what was acknowledged goes to the journal before more is issued.
    pub(crate) fn end_batch(&mut self) -> std::io::Result<()> {
        match std::mem::take(&mut self.wrote) {
            true => self.tracker.flush(),
            false => Ok(()),
        }
    }
}

fn expected(tracker: &Tracker, address: u64, before: State, after: State) -> Expected {
    match tracker.alone {
        true => Expected::alone(address, None),
        false => Expected::between(address, tracker.run, tracker.target, before, after),
    }
}
