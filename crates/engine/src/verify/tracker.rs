//! What each place of a target must hold: one entry for each granule, shared by all workers of the
//! target, without a lock.
//!
//! While writes of a granule are in flight together, any of them may be the last one on the medium, so
//! an entry knows two generations: `settled`, the oldest that may be there, and `issued`, the newest.
//! A write that was alone settles its own generation when it is acknowledged; writes that overlapped
//! settle the first of them when the last is acknowledged.

use crate::sys::memory::WordMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most writes of one granule that are told apart.
const ISSUED_MAX: u64 = (1 << 28) - 1;
const BACK_MAX: u64 = (1 << 14) - 1;
const FLIGHT_MAX: u64 = (1 << 11) - 1;
const GROUP_MAX: u64 = (1 << 10) - 1;
/// In a journal: what the granule holds is not followed.
const UNKNOWN: u32 = u32::MAX;
/// Generations beyond the last acknowledged one that writes in flight at a cut may have left.
const AFTER_CUT: u32 = 8192;

/// What a granule may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Newest generation that was issued; 0: none.
    pub issued: u32,
    /// Oldest generation that may be on the medium; 0: also what was there before the run.
    pub settled: u32,
    /// Writes in flight.
    pub in_flight: u32,
    /// The settled generation was read back.
    pub seen: bool,
    /// Written so often, or by so many at a time, that it is followed no more.
    pub lost_track: bool,
    /// First generation of those in flight together.
    group: u32,
}

impl State {
    fn unpack(word: u64) -> State {
        let issued = word & ISSUED_MAX;
        let back = word >> 28 & BACK_MAX;
        let group_back = word >> 53 & GROUP_MAX;
        State {
            issued: issued as u32,
            settled: issued.saturating_sub(back) as u32,
            in_flight: (word >> 42 & FLIGHT_MAX) as u32,
            group: issued.saturating_sub(group_back) as u32,
            seen: word >> 63 == 1,
            lost_track: word == u64::MAX,
        }
    }

    /// None where a field has no room.
    fn pack(self) -> Option<u64> {
        let issued = u64::from(self.issued);
        let back = issued - u64::from(self.settled);
        let group = issued - u64::from(self.group);
        let flight = u64::from(self.in_flight);
        let fits =
            issued < ISSUED_MAX && back < BACK_MAX && flight < FLIGHT_MAX && group < GROUP_MAX;
        fits.then_some(
            issued | back << 28 | flight << 42 | group << 53 | u64::from(self.seen) << 63,
        )
    }
}

/// The entries of a target.
pub struct Tracker {
    /// The run, as stamps name it.
    pub run: u64,
    /// Number of the target in the run.
    pub target: u32,
    /// Bytes that one entry stands for.
    pub granule: u64,
    /// Nothing is known but what the stamps say: they are checked against themselves.
    pub alone: bool,
    /// Wrong places found in the run.
    pub(crate) wrong_places: AtomicU64,
    size: u64,
    entries: WordMap<AtomicU64>,
    journal: Option<Journal>,
}

/// Settled generations on another device, for after a cut.
pub struct Journal {
    /// One word for each granule.
    pub map: WordMap<AtomicU32>,
    /// Acknowledged writes are on its medium before the next ones are issued.
    pub flush: bool,
}

impl Tracker {
    /// Entries for a target of `size` bytes, none written.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn new(run: u64, target: u32, size: u64, granule: u64) -> std::io::Result<Tracker> {
        let entries = WordMap::anonymous(size.div_ceil(granule) as usize)?;
        Ok(Tracker { size, granule, entries, ..Tracker::alone(target)? }.of_run(run))
    }

    /// For a target of which nothing is known but what its stamps say.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn alone(target: u32) -> std::io::Result<Tracker> {
        Ok(Tracker {
            run: 0,
            target,
            granule: 1 << 20,
            alone: true,
            wrong_places: AtomicU64::new(0),
            size: 0,
            entries: WordMap::anonymous(0)?,
            journal: None,
        })
    }

    fn of_run(self, run: u64) -> Tracker {
        Tracker { run, alone: false, ..self }
    }

    /// Bytes of memory for a target of `size` bytes.
    pub fn memory(size: u64, granule: u64) -> u64 {
        size.div_ceil(granule) * 8
    }

    /// Goes on from what a journal says, and keeps it from now on.
    pub fn set_journal(&mut self, journal: Journal) {
        for (entry, settled) in self.entries.words().iter().zip(journal.map.words()) {
            let settled = settled.load(Ordering::Relaxed);
            if settled == UNKNOWN {
                entry.store(u64::MAX, Ordering::Relaxed);
            } else if settled > 0 {
                let issued = settled + AFTER_CUT;
                let state = State { issued, settled, group: issued, ..State::default() };
                entry.store(state.pack().unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        }
        self.journal = Some(journal);
    }

    /// What a granule may hold now.
    pub fn state(&self, granule: u64) -> State {
        self.entry(granule)
            .map_or_else(State::default, |entry| State::unpack(entry.load(Ordering::Acquire)))
    }

    fn entry(&self, granule: u64) -> Option<&AtomicU64> {
        self.entries.words().get(granule as usize)
    }

    /// A write of this granule is about to be issued; gives its generation.
    pub fn begin_write(&self, granule: u64) -> u32 {
        let mut given = 0;
        self.change(granule, |state| {
            let issued = state.issued + 1;
            given = issued;
            let group = if state.in_flight == 0 { issued } else { state.group };
            State { issued, group, in_flight: state.in_flight + 1, ..state }
        });
        given
    }

    /// A write of a part of this granule is about to be issued: what the rest holds is followed no more.
    pub fn begin_part(&self, granule: u64) {
        if let Some(entry) = self.entry(granule) {
            entry.store(u64::MAX, Ordering::Release);
        }
        let word = self.journal.as_ref().and_then(|j| j.map.words().get(granule as usize));
        if let Some(word) = word {
            word.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// Whether bytes `from..to` are all that the granule has on the target.
    pub fn is_whole(&self, granule: u64, from: u64, to: u64) -> bool {
        let (start, end) = (granule * self.granule, (granule + 1) * self.granule);
        from <= start && (to >= end || to >= self.size)
    }

    /// A write of this granule was acknowledged.
    pub fn end_write(&self, granule: u64) {
        let after = self.change(granule, |state| {
            let in_flight = state.in_flight.saturating_sub(1);
            let (settled, seen) =
                if in_flight == 0 { (state.group, false) } else { (state.settled, state.seen) };
            State { in_flight, settled, seen, ..state }
        });
        if let (Some(journal), Some(state)) = (&self.journal, after)
            && let Some(word) = journal.map.words().get(granule as usize)
        {
            word.fetch_max(state.settled, Ordering::Relaxed);
        }
    }

    /// A settled generation was read back; nothing where another one is by now.
    pub fn note_seen(&self, granule: u64, settled: u32) {
        self.change(granule, |state| State {
            seen: state.seen || state.settled == settled,
            ..state
        });
    }

    /// Changes an entry; none where it is followed no more.
    fn change(&self, granule: u64, mut to: impl FnMut(State) -> State) -> Option<State> {
        let entry = self.entry(granule)?;
        let mut word = entry.load(Ordering::Acquire);
        loop {
            if word == u64::MAX {
                return None;
            }
            let state = to(State::unpack(word));
            let packed = state.pack().unwrap_or(u64::MAX);
            match entry.compare_exchange_weak(word, packed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (packed != u64::MAX).then_some(state),
                Err(now) => word = now,
            }
        }
    }

    /// Puts acknowledged writes onto the journal's medium.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn flush(&self) -> std::io::Result<()> {
        match &self.journal {
            Some(journal) if journal.flush => journal.map.flush(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tracker() -> Tracker {
        Tracker::new(1, 0, 1 << 20, 4096).unwrap()
    }

    #[test]
    fn a_write_alone_settles_itself() {
        let tracker = tracker();
        assert_eq!(tracker.begin_write(3), 1);
        assert_eq!((tracker.state(3).settled, tracker.state(3).in_flight), (0, 1));
        tracker.end_write(3);
        tracker.note_seen(3, 1);
        let state = tracker.state(3);
        assert_eq!((state.issued, state.settled, state.in_flight, state.seen), (1, 1, 0, true));
        assert_eq!(tracker.begin_write(3), 2);
        tracker.end_write(3);
        let state = tracker.state(3);
        assert_eq!((state.issued, state.settled, state.seen), (2, 2, false));
        assert_eq!(tracker.state(4), State::default());
    }

    #[test]
    fn overlapping_writes_settle_the_first_of_them() {
        let tracker = tracker();
        tracker.begin_write(0);
        tracker.end_write(0);
        assert_eq!((tracker.begin_write(0), tracker.begin_write(0)), (2, 3));
        tracker.end_write(0);
        assert_eq!(tracker.state(0).settled, 1, "one is still in flight");
        tracker.end_write(0);
        assert_eq!((tracker.state(0).settled, tracker.state(0).issued), (2, 3));
    }

    #[test]
    fn a_part_of_a_granule_is_not_followed_but_at_the_end() {
        let tracker = Tracker::new(1, 0, 4096 * 3 + 512, 4096).unwrap();
        assert!(tracker.is_whole(0, 0, 4096) && !tracker.is_whole(0, 0, 512));
        assert!(!tracker.is_whole(0, 512, 8192));
        assert!(tracker.is_whole(3, 4096 * 3, 4096 * 3 + 512));
        tracker.begin_part(0);
        assert!(tracker.state(0).lost_track);
    }

    #[test]
    fn what_has_no_room_is_followed_no_more() {
        let tracker = tracker();
        (0..=FLIGHT_MAX).for_each(|_| {
            tracker.begin_write(9);
        });
        assert!(tracker.state(9).lost_track);
        tracker.end_write(9);
        assert!(tracker.state(9).lost_track);
    }

    proptest! {
        /// Whatever order writes begin and end in: the last one to reach the medium, which may be any
        /// that no other write followed entirely, lies within what the entry accepts.
        #[test]
        fn what_may_be_there_is_accepted(steps in prop::collection::vec(any::<bool>(), 1..400)) {
            let tracker = tracker();
            let mut flying: Vec<u32> = Vec::new();
            // Generations that may be on the medium once nothing is in flight.
            let mut group: Vec<u32> = Vec::new();
            for begin in steps {
                if begin {
                    if flying.is_empty() {
                        group.clear();
                    }
                    let generation = tracker.begin_write(1);
                    flying.push(generation);
                    group.push(generation);
                } else if !flying.is_empty() {
                    flying.remove(0);
                    tracker.end_write(1);
                }
                let state = tracker.state(1);
                prop_assert_eq!(state.in_flight as usize, flying.len());
                if flying.is_empty() && !group.is_empty() {
                    prop_assert_eq!(state.settled, group[0]);
                    prop_assert_eq!(state.issued, *group.last().unwrap());
                }
            }
        }
    }
}
