//! What is wrong with a sector: lost, stale, torn, misdirected, of another device, or corrupt.
//!
//! | kind | what the sector holds |
//! |---|---|
//! | lost | what was there before its last acknowledged write |
//! | stale | an older write than that, or an older one than was read back since |
//! | torn | one part of its last write, the rest of an earlier one |
//! | misdirected | a whole write of this run that was meant for another address |
//! | swapped | a whole write of this run that was meant for another target |
//! | corrupt | none of these: bits or bytes that nobody wrote there |

use crate::verify::stamp::{MAGIC, SECTOR, Stamp, Text, WORDS, sum_is_right, words_of};
use crate::verify::tracker::State;

/// Ways in which a sector may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The last acknowledged write never arrived.
    Lost,
    /// Back to an older write.
    Stale,
    /// Part of the last write only.
    Torn,
    /// A write that was meant for another address.
    Misdirected,
    /// A write that was meant for another target.
    Swapped,
    /// What nobody wrote.
    Corrupt,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::Lost, Kind::Stale, Kind::Torn, Kind::Misdirected, Kind::Swapped, Kind::Corrupt];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Stale => "stale",
            Kind::Torn => "torn",
            Kind::Misdirected => "misdirected",
            Kind::Swapped => "swapped",
            Kind::Corrupt => "corrupt",
        }
    }
}

/// What is known of a sector.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Its address.
    pub address: u64,
    /// The run; none accepts any.
    pub run: Option<u64>,
    /// Number of the target; none accepts any.
    pub target: Option<u32>,
    /// Oldest generation it may hold; 0: also what was there before the run.
    pub settled: u32,
    /// Newest generation it may hold.
    pub issued: u32,
    /// The oldest one was read back before.
    pub seen: bool,
    /// Writes of it were in flight while it was read.
    pub racing: bool,
}

impl Expected {
    /// Where nothing is known but what the stamps say themselves, and the target that others of the same
    /// run named.
    pub fn alone(address: u64, target: Option<u32>) -> Expected {
        Expected { address, run: None, target, settled: 0, issued: 0, seen: false, racing: false }
    }

    /// Where nothing else is known: what a broken sector says of itself.
    pub(crate) fn or_of(self, found: Option<Stamp>, kind: Kind) -> Expected {
        match (self.run, found) {
            (None, Some(stamp)) if matches!(kind, Kind::Torn | Kind::Corrupt) => Expected {
                run: Some(stamp.run),
                target: Some(stamp.target),
                settled: stamp.generation,
                issued: stamp.generation,
                ..self
            },
            _ => self,
        }
    }

    /// By the state of its granule before and after a read.
    pub fn between(address: u64, run: u64, target: u32, before: State, after: State) -> Expected {
        Expected {
            address,
            run: Some(run),
            target: Some(target),
            settled: before.settled,
            issued: after.issued,
            seen: before.seen,
            racing: before.in_flight > 0 || after.issued != before.issued,
        }
    }
}

/// What a look at a sector gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Right.
    Clean(Stamp),
    /// Nothing is known of what it should hold.
    Unknown,
    /// Wrong, with the stamp it carries when it carries one.
    Wrong(Kind, Option<Stamp>),
}

/// Judges one sector.
pub fn judge(sector: &[u8], expected: &Expected, text: &Text) -> Verdict {
    let stamp = Stamp::read(sector);
    if sum_is_right(sector)
        && let Some(stamp) = stamp
    {
        return judge_whole(stamp, expected);
    }
    if expected.run.is_none() {
        return judge_alone(sector, stamp, expected, text);
    }
    if expected.settled == 0 || expected.racing {
        return Verdict::Unknown;
    }
    Verdict::Wrong(judge_broken(sector, stamp, expected, text), stamp)
}

/// A broken sector of which nothing is known: wrong when it was once a stamped one.
fn judge_alone(sector: &[u8], stamp: Option<Stamp>, expected: &Expected, text: &Text) -> Verdict {
    let Some(stamp) = stamp else {
        let mut mended = sector.to_vec();
        let bit = if almost_stamped(sector) { flipped_bit(sector) } else { None };
        return match bit {
            Some(bit) => {
                mended[bit / 8] ^= 1 << (bit % 8);
                Verdict::Wrong(Kind::Corrupt, Stamp::read(&mended))
            }
            None => Verdict::Unknown,
        };
    };
    let of_itself = Expected {
        run: Some(stamp.run),
        target: expected.target.or(Some(stamp.target)),
        settled: stamp.generation,
        issued: stamp.generation.saturating_add(1),
        ..*expected
    };
    Verdict::Wrong(judge_broken(sector, Some(stamp), &of_itself, text), Some(stamp))
}

/// Seven of the first eight bytes are those of a stamp.
fn almost_stamped(sector: &[u8]) -> bool {
    sector.iter().zip(&MAGIC).filter(|(a, b)| a == b).count() + 1 >= MAGIC.len()
}

/// A sector whose checksum is right.
fn judge_whole(stamp: Stamp, expected: &Expected) -> Verdict {
    let ours = expected.run.is_none_or(|run| run == stamp.run);
    let wrong = |kind| Verdict::Wrong(kind, Some(stamp));
    if !ours {
        return match (expected.settled, expected.racing) {
            (0, _) => Verdict::Unknown,
            (1, _) if !expected.seen => wrong(Kind::Lost),
            _ => wrong(Kind::Stale),
        };
    }
    if expected.target.is_some_and(|target| target != stamp.target) {
        return wrong(Kind::Swapped);
    }
    if stamp.address != expected.address {
        return wrong(Kind::Misdirected);
    }
    let generation = stamp.generation;
    if expected.issued == 0 || (expected.settled..=expected.issued).contains(&generation) {
        return Verdict::Clean(stamp);
    }
    match expected.settled.checked_sub(generation) {
        Some(1) if !expected.seen => wrong(Kind::Lost),
        _ => wrong(Kind::Stale),
    }
}

/// A sector whose checksum is wrong, where one write at least must be there.
fn judge_broken(sector: &[u8], stamp: Option<Stamp>, expected: &Expected, text: &Text) -> Kind {
    if flipped_bit(sector).is_some() {
        return Kind::Corrupt;
    }
    let right =
        stamp.filter(|s| s.address == expected.address && Some(s.target) == expected.target);
    let words = right.map_or(WORDS as u16, |stamp| stamp.words);
    let stamp_of = |generation| Stamp {
        address: expected.address,
        run: expected.run.or(stamp.map(|s| s.run)).unwrap_or_default(),
        target: expected.target.unwrap_or_default(),
        generation,
        words,
        ..Stamp::default()
    };
    // The newest that may be there first, then those before: a tear joins two of them.
    let newest = expected.issued.min(expected.settled.saturating_add(2));
    let first_old = expected.settled.saturating_sub(3).max(1);
    let known: Vec<Stamp> = (first_old..=newest).rev().map(stamp_of).collect();
    let owner = |(index, word): (usize, u64)| {
        if word == 0 && index >= usize::from(words) {
            return Owner::Any;
        }
        match known.iter().find(|stamp| stamp.word(text, index) == word) {
            Some(stamp) => Owner::Generation(stamp.generation),
            None if word == 0 => Owner::Nothing,
            None => Owner::Unknown,
        }
    };
    let owners: Vec<Owner> = words_of(sector).enumerate().map(owner).collect();
    if is_torn(right.map(|stamp| stamp.generation), &owners) {
        return Kind::Torn;
    }
    let any_known = owners.iter().any(|owner| matches!(owner, Owner::Generation(_)));
    if !any_known && stamp.is_none() && expected.settled == 1 && !expected.seen {
        // Nothing of the run: what was there before it.
        return Kind::Lost;
    }
    Kind::Corrupt
}

/// The bit, counted from the sector's first, that makes its checksum right when it is turned.
pub fn flipped_bit(sector: &[u8]) -> Option<usize> {
    let mut bytes: [u8; SECTOR] = sector.try_into().ok()?;
    (0..SECTOR * 8).find(|bit| {
        let mask = 1 << (bit % 8);
        bytes[bit / 8] ^= mask;
        let right = sum_is_right(&bytes);
        bytes[bit / 8] ^= mask;
        right
    })
}

/// Whose a word of a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Generation(u32),
    /// Zero where every generation has zero.
    Any,
    /// Zero where none has: a place that was never written.
    Nothing,
    Unknown,
}

/// One switch from one known owner to another, from front to back.
fn is_torn(head: Option<u32>, owners: &[Owner]) -> bool {
    let head = head.map(Owner::Generation);
    let known = head.into_iter().chain(owners.iter().copied()).filter(|owner| *owner != Owner::Any);
    let mut parts: Vec<(Owner, usize)> = Vec::new();
    for owner in known {
        match parts.last_mut() {
            Some((last, n)) if *last == owner => *n += 1,
            _ => parts.push((owner, 1)),
        }
    }
    match parts.as_slice() {
        // A part of zeros of a single word is as likely a wiped word.
        [(a, n), (b, m)] => {
            *a != Owner::Unknown
                && *b != Owner::Unknown
                && (*a != Owner::Nothing || *n > 1)
                && (*b != Owner::Nothing || *m > 1)
        }
        _ => false,
    }
}

/// Writes that started further apart than this were not in flight together, in ns.
const APART_NS: u64 = 10_000_000_000;

/// Marks sectors as torn that look lost or stale, where a neighbour in the same buffer holds a later
/// write that should have reached them too. `verdicts` are those of the sectors from `address` on. With
/// `alone` sectors that look right are compared too, where the later write began so much later that both
/// were not in flight together.
pub fn find_torn_writes(address: u64, verdicts: &mut [Verdict], alone: bool) {
    let mut whole: Vec<Stamp> = verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::Clean(stamp) | Verdict::Wrong(Kind::Torn, Some(stamp)) => Some(*stamp),
            _ => None,
        })
        .collect();
    // One for each write.
    whole.dedup_by_key(|stamp| (stamp.first, stamp.len, stamp.time));
    for (index, verdict) in verdicts.iter_mut().enumerate() {
        let at = address + (index * SECTOR) as u64;
        if let (true, Verdict::Clean(stamp)) = (alone, *verdict) {
            let after =
                |other: &Stamp| other.run == stamp.run && other.time > stamp.time + APART_NS;
            if whole.iter().any(|other| after(other) && other.covers(at)) {
                *verdict = Verdict::Wrong(Kind::Torn, Some(stamp));
            }
        }
        if let Verdict::Wrong(Kind::Lost | Kind::Stale, stamp) = *verdict {
            let newer =
                |other: &&Stamp| stamp.is_none_or(|s| s.run != other.run || other.time > s.time);
            if whole.iter().filter(newer).any(|other| other.covers(at)) {
                *verdict = Verdict::Wrong(Kind::Torn, stamp);
            }
        }
    }
}

/// The first bytes of a sector that differ from what its last write put there, as `hexdump -C` would
/// show both; none where nothing is known to compare with. The time of the write is not known.
pub fn difference(sector: &[u8], expected: &Expected, found: Option<Stamp>, text: &Text) -> String {
    let mut right = vec![0; SECTOR];
    let base = found.unwrap_or_default();
    let stamp = Stamp {
        address: expected.address,
        run: expected.run.unwrap_or(base.run),
        target: expected.target.unwrap_or(base.target),
        generation: match base.generation {
            found if (expected.settled..=expected.issued).contains(&found) => found,
            _ => expected.settled.max(1),
        },
        words: if found.is_some() { base.words } else { WORDS as u16 },
        ..base
    };
    stamp.write(text, &mut right);
    let differs = |line: &usize| sector[line * 16..][..16] != right[line * 16..][..16];
    let lines: Vec<usize> = (0..SECTOR / 16).filter(differs).collect();
    let hex =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for line in lines.iter().take(2) {
        let at = expected.address + (line * 16) as u64;
        let part = |bytes: &[u8]| hex(&bytes[line * 16..][..16]);
        out += &format!("{at:#x}: read {}  wanted {}\n", part(sector), part(&right));
    }
    if lines.len() > 2 {
        out += &format!("and {} more lines of 16 bytes", lines.len() - 2);
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;
    use proptest::prelude::*;

    const AT: u64 = 40_960;

    fn expected(settled: u32, issued: u32) -> Expected {
        Expected {
            address: AT,
            run: Some(7),
            target: Some(0),
            settled,
            issued,
            seen: false,
            racing: false,
        }
    }

    fn sector(generation: u32) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR];
        written(generation).write(&Text::default(), &mut bytes);
        bytes
    }

    fn written(generation: u32) -> Stamp {
        Stamp {
            address: AT,
            run: 7,
            generation,
            time: u64::from(generation) * 1000,
            first: AT,
            len: 4096,
            words: WORDS as u16,
            ..Stamp::default()
        }
    }

    fn kind(bytes: &[u8], expected: &Expected) -> Option<Kind> {
        match judge(bytes, expected, &Text::default()) {
            Verdict::Wrong(kind, _) => Some(kind),
            _ => None,
        }
    }

    #[test]
    fn whole_sectors_are_told_by_generation_and_place() {
        assert_eq!(kind(&sector(3), &expected(3, 3)), None);
        assert_eq!(kind(&sector(4), &expected(3, 5)), None);
        assert_eq!(kind(&sector(2), &expected(3, 3)), Some(Kind::Lost));
        assert_eq!(kind(&sector(1), &expected(3, 3)), Some(Kind::Stale));
        assert_eq!(kind(&sector(2), &Expected { seen: true, ..expected(3, 3) }), Some(Kind::Stale));
        assert_eq!(kind(&sector(9), &expected(3, 3)), Some(Kind::Stale), "from nowhere");
        let elsewhere = Expected { address: 0, ..expected(3, 3) };
        assert_eq!(kind(&sector(3), &elsewhere), Some(Kind::Misdirected));
        let never_written = Expected { address: 0, ..expected(0, 0) };
        assert_eq!(kind(&sector(3), &never_written), Some(Kind::Misdirected));
        assert_eq!(
            kind(&sector(3), &Expected { target: Some(1), ..expected(3, 3) }),
            Some(Kind::Swapped)
        );
        let other_run = Expected { run: Some(8), ..expected(1, 1) };
        assert_eq!(kind(&sector(3), &other_run), Some(Kind::Lost));
        assert_eq!(kind(&sector(3), &Expected { settled: 0, ..other_run }), None);
    }

    #[test]
    fn what_was_there_before_the_first_write_is_a_lost_write() {
        assert_eq!(kind(&[0; SECTOR], &expected(1, 1)), Some(Kind::Lost));
        let mut noise = vec![0; SECTOR];
        let mut rng = Rng::new(3);
        noise.chunks_mut(8).for_each(|word| word.copy_from_slice(&rng.next().to_le_bytes()));
        assert_eq!(kind(&noise, &expected(1, 1)), Some(Kind::Lost));
        assert_eq!(kind(&noise, &expected(0, 0)), None);
        assert_eq!(kind(&noise, &expected(2, 2)), Some(Kind::Corrupt));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_corruption(bit in 0..SECTOR * 8, generation in 1u32..9) {
            let mut bytes = sector(generation);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(flipped_bit(&bytes), Some(bit));
            let expected = expected(generation, generation);
            prop_assert_eq!(kind(&bytes, &expected), Some(Kind::Corrupt));
            let found = Stamp::read(&bytes);
            let shown = difference(&bytes, &expected, found, &Text::default());
            prop_assert!(!shown.is_empty());
        }

        #[test]
        fn two_halves_are_torn(at in 8usize..SECTOR - 16, generation in 2u32..9, old_first: bool) {
            let (new, old) = (sector(generation), sector(generation - 1));
            let (front, back) = if old_first { (old, new) } else { (new, old) };
            // Within a word is no place where any device tears.
            let at = at / 8 * 8;
            let bytes = [&front[..at], &back[at..]].concat();
            let found = kind(&bytes, &expected(generation, generation));
            // A tear before the generation leaves the other side whole but for its magic.
            if at > 32 {
                prop_assert_eq!(found, Some(Kind::Torn));
            } else {
                prop_assert_ne!(found, Some(Kind::Swapped));
            }
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), SECTOR), stamped: bool) {
            let mut bytes = bytes;
            if stamped {
                bytes[..8].copy_from_slice(b"FTHMVER1");
            }
            let expected = expected(2, 4);
            prop_assert!(kind(&bytes, &expected).is_some());
            difference(&bytes, &expected, Stamp::read(&bytes), &Text::default());
        }
    }

    #[test]
    fn alone_a_sector_is_checked_against_itself() {
        let alone = Expected::alone(AT, Some(0));
        assert_eq!(kind(&sector(5), &alone), None);
        assert_eq!(kind(&[0; SECTOR], &alone), None);
        assert_eq!(kind(&sector(5), &Expected { address: 0, ..alone }), Some(Kind::Misdirected));
        assert_eq!(kind(&sector(5), &Expected { target: Some(3), ..alone }), Some(Kind::Swapped));
        for bit in [3, 70, 200, 2000, 4095] {
            let mut bytes = sector(5);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(kind(&bytes, &alone), Some(Kind::Corrupt), "bit {bit}");
        }
        let torn = [&sector(5)[..256], &sector(4)[256..]].concat();
        assert_eq!(kind(&torn, &alone), Some(Kind::Torn));
        let late = Stamp { time: 2 * APART_NS, ..written(3) };
        let old = Stamp { address: AT + 512, ..written(2) };
        let mut verdicts = [Verdict::Clean(late), Verdict::Clean(old)];
        find_torn_writes(AT, &mut verdicts, true);
        assert!(matches!(verdicts[1], Verdict::Wrong(Kind::Torn, _)));
    }

    #[test]
    fn a_write_that_arrived_in_part_is_torn_not_lost() {
        let new = Stamp { time: 9000, ..written(3) };
        let mut verdicts = [
            Verdict::Clean(new),
            Verdict::Wrong(Kind::Lost, Some(Stamp { address: AT + 512, ..written(2) })),
        ];
        find_torn_writes(AT, &mut verdicts, false);
        assert!(matches!(verdicts[1], Verdict::Wrong(Kind::Torn, _)));
        // Its neighbour is of the same write: it is a later, smaller write that is missing here.
        let mut verdicts = [
            Verdict::Clean(written(2)),
            Verdict::Wrong(Kind::Lost, Some(Stamp { address: AT + 512, ..written(2) })),
        ];
        find_torn_writes(AT, &mut verdicts, false);
        assert!(matches!(verdicts[1], Verdict::Wrong(Kind::Lost, _)));
    }
}
