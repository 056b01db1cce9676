//! Data that is checked: every sector written says what it is, every sector read is judged.

mod checker;
mod judge;
mod stamp;
mod tracker;

pub(crate) use checker::Checker;
pub use judge::{Expected, Kind, Verdict, difference, find_torn_writes, flipped_bit, judge};
pub(crate) use stamp::Filling;
pub use stamp::{SECTOR, Stamp, Text, sum_is_right};
pub use tracker::{Journal, State, Tracker};

use base::units::{Bytes, Nanos};
use std::collections::BTreeMap;

/// Most wrong places that are told one by one.
const TOLD_MAX: usize = 10_000;

/// What checking found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of the target in the run.
    pub(crate) target: u32,
    /// Sectors that were right.
    pub clean: u64,
    /// Sectors that nothing is known of: never written by this run, or written while they were read.
    pub unknown: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Wrong sectors of each kind.
    pub wrong: BTreeMap<Kind, u64>,
    /// The first wrong places.
    pub mismatches: Vec<Mismatch>,
    n_places: u64,
}

/// Sectors side by side that are wrong in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the target in the run.
    pub target: u32,
    /// First wrong byte, to the sector.
    pub address: Bytes,
    /// Bytes that are wrong, in whole sectors.
    pub len: Bytes,
    /// What is wrong.
    pub kind: Kind,
    /// Oldest and newest generation that may be there.
    pub wanted: (u32, u32),
    /// What the first sector says of itself.
    pub found: Option<Stamp>,
    /// When it was read, on the run's clock.
    pub at: Nanos,
    /// Its first differing bytes.
    pub difference: String,
}

impl Verified {
    /// Wrong places, sectors side by side counted once.
    pub fn places(&self) -> u64 {
        self.n_places
    }

    /// Wrong sectors of all kinds.
    pub fn sectors_wrong(&self) -> u64 {
        self.wrong.values().sum()
    }

    /// Adds what another worker found.
    pub fn merge(&mut self, other: Verified) {
        self.clean += other.clean;
        self.unknown += other.unknown;
        self.acknowledged += other.acknowledged;
        self.n_places += other.n_places;
        for (kind, n) in other.wrong {
            *self.wrong.entry(kind).or_default() += n;
        }
        let room = TOLD_MAX.saturating_sub(self.mismatches.len());
        self.mismatches.extend(other.mismatches.into_iter().take(room));
    }

    /// Counts sectors none of which is wrong.
    fn count_clean(&mut self, verdicts: &[Verdict]) {
        let clean = verdicts.iter().filter(|v| matches!(v, Verdict::Clean(_))).count() as u64;
        self.clean += clean;
        self.unknown += verdicts.len() as u64 - clean;
    }

    /// Adds the sectors, told one by one where they are wrong, from `offset` on.
    fn add(
        &mut self,
        offset: u64,
        verdicts: &[Verdict],
        buffer: &[u8],
        at: Nanos,
        expected: impl Fn(u64) -> Expected,
        text: &Text,
    ) {
        let mut last: Option<(Kind, usize)> = None;
        for (index, verdict) in verdicts.iter().enumerate() {
            let (kind, found) = match *verdict {
                Verdict::Wrong(kind, found) => (kind, found),
                right => {
                    self.count_clean(&[right]);
                    last = None;
                    continue;
                }
            };
            *self.wrong.entry(kind).or_default() += 1;
            let sector = Bytes(SECTOR as u64);
            match &last {
                Some((before, place)) if *before == kind => {
                    if let Some(mismatch) = self.mismatches.get_mut(*place) {
                        mismatch.len.0 += sector.0;
                    }
                    continue;
                }
                _ => last = Some((kind, self.mismatches.len())),
            }
            self.n_places += 1;
            if self.mismatches.len() >= TOLD_MAX {
                last = Some((kind, usize::MAX));
                continue;
            }
            let address = offset + (index * SECTOR) as u64;
            let wanted = expected(address).or_of(found, kind);
            self.mismatches.push(Mismatch {
                target: self.target,
                address: Bytes(address),
                len: sector,
                kind,
                wanted: (wanted.settled, wanted.issued),
                found,
                at,
                difference: difference(&buffer[index * SECTOR..][..SECTOR], &wanted, found, text),
            });
        }
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { address, len, kind, wanted, found, .. } = self;
        let word = kind.word();
        write!(f, "{word}: {} bytes at byte {}, ", len.0, address.0)?;
        match wanted {
            (0, 0) => write!(f, "of which no write is known")?,
            (a, b) if a == b => write!(f, "where write {a} of this place must be")?,
            (a, b) => write!(f, "where one of the writes {a} to {b} of this place must be")?,
        }
        match (kind, found) {
            (Kind::Misdirected, Some(stamp)) => {
                write!(f, ": holds write {} of byte {}", stamp.generation, stamp.address)
            }
            (Kind::Swapped, Some(stamp)) => write!(
                f,
                ": holds write {} of byte {} of target {}",
                stamp.generation,
                stamp.address,
                stamp.target + 1
            ),
            (Kind::Lost | Kind::Stale, Some(stamp)) => {
                write!(f, ": holds write {}", stamp.generation)
            }
            (Kind::Lost | Kind::Stale, None) => write!(f, ": holds what was there before"),
            _ => Ok(()),
        }
    }
}
