//! What a verified write puts into each sector of 512 bytes: who wrote it, where to, which time around,
//! and a checksum. The rest of a sector follows from these fields, so that any byte of it can be told
//! right or wrong later, by another process too.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | `FTHMVER1` |
//! | 8..16 | address of this sector on the target, in bytes |
//! | 16..24 | the run |
//! | 24..28 | generation: the how-manieth write of this place in the run, from 1 |
//! | 28..32 | number of the target in the run |
//! | 32..40 | time of the write on the run's clock, in ns |
//! | 40..48 | address of the write's first byte |
//! | 48..52 | length of the write in bytes |
//! | 52..54 | 8-byte words of the payload that are not zero |
//! | 54..64 | zero |
//! | 64..504 | payload |
//! | 504..508 | zero |
//! | 508..512 | CRC-32 (IEEE) of bytes 0..508 |
//!
//! All numbers are little-endian.

use base::rng::{Rng, derive};
use plan::Data;

/// Bytes that carry a stamp of their own: the smallest block of any device.
pub const SECTOR: usize = 512;
const HEAD: usize = 64;
/// What a compressor leaves of head and checksum.
const HEAD_PACKED: usize = 24;
const PAYLOAD_END: usize = 504;
/// 8-byte words of the payload.
pub(crate) const WORDS: usize = (PAYLOAD_END - HEAD) / 8;
const SUM_AT: usize = SECTOR - 4;
pub(crate) const MAGIC: [u8; 8] = *b"FTHMVER1";

/// The fields of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Where the sector was meant to be, in bytes.
    pub address: u64,
    /// The run that wrote it.
    pub run: u64,
    /// The how-manieth write of this place in the run, from 1.
    pub generation: u32,
    /// Number of the target in the run.
    pub target: u32,
    /// When it was written, in ns on the run's clock.
    pub time: u64,
    /// First byte of the write.
    pub first: u64,
    /// Bytes of the write.
    pub len: u32,
    /// Words of the payload that are not zero.
    pub words: u16,
}

impl Stamp {
    /// Whether the write that this stamp is of also wrote the sector at `address`.
    pub fn covers(&self, address: u64) -> bool {
        address >= self.first && address < self.first + u64::from(self.len)
    }

    /// Fills a sector.
    ///
    /// # Panics
    /// When it has not [`SECTOR`] bytes.
    pub fn write(&self, text: &Text, sector: &mut [u8]) {
        self.write_unsummed(text, sector);
        let sum = crc32fast::hash(&sector[..SUM_AT]);
        sector[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    fn write_unsummed(&self, text: &Text, sector: &mut [u8]) {
        assert_eq!(sector.len(), SECTOR);
        let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &self.address.to_le_bytes());
        put(16, &self.run.to_le_bytes());
        put(24, &self.generation.to_le_bytes());
        put(28, &self.target.to_le_bytes());
        put(32, &self.time.to_le_bytes());
        put(40, &self.first.to_le_bytes());
        put(48, &self.len.to_le_bytes());
        put(52, &self.words.to_le_bytes());
        put(54, &[0; 10]);
        let key = self.key();
        let used = usize::from(self.words).min(WORDS);
        let (payload, _) = sector[HEAD..PAYLOAD_END].as_chunks_mut::<8>();
        for (word, text) in payload[..used].iter_mut().zip(&text.0) {
            *word = (text ^ key).to_le_bytes();
        }
        sector[HEAD + 8 * used..SUM_AT].fill(0);
    }

    /// The fields of a sector that says it is one; its checksum is not looked at.
    pub fn read(sector: &[u8]) -> Option<Stamp> {
        if sector.len() != SECTOR || sector[..8] != MAGIC {
            return None;
        }
        let four =
            |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().unwrap_or_default());
        let eight =
            |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().unwrap_or_default());
        Some(Stamp {
            address: eight(8),
            run: eight(16),
            generation: four(24),
            target: four(28),
            time: eight(32),
            first: eight(40),
            len: four(48),
            words: u16::from_le_bytes(sector[52..54].try_into().unwrap_or_default()),
        })
    }

    /// The word of the payload at an index, as it was written.
    pub(crate) fn word(&self, text: &Text, index: usize) -> u64 {
        if index < usize::from(self.words) { text.0[index] ^ self.key() } else { 0 }
    }

    /// Differs for each run, target, place and generation.
    fn key(&self) -> u64 {
        let place = derive(self.run ^ u64::from(self.target) << 40, self.address);
        derive(place, u64::from(self.generation))
    }
}

/// Whether the checksum of a sector is right.
pub fn sum_is_right(sector: &[u8]) -> bool {
    sector.len() == SECTOR && sector[SUM_AT..] == crc32fast::hash(&sector[..SUM_AT]).to_le_bytes()
}

/// Words of the payload of a sector, as they are.
pub(crate) fn words_of(sector: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = sector[HEAD..PAYLOAD_END].as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// The fixed random text that payloads are made of: the same for every run and version.
#[derive(Clone, Debug)]
pub struct Text([u64; WORDS]);

impl Default for Text {
    fn default() -> Text {
        let mut rng = Rng::new(0x7e87_5eed);
        Text(std::array::from_fn(|_| rng.next()))
    }
}

/// How many words of each sector's payload are not zero, so that a unit of data has the compression
/// ratio asked for, as far as the heads leave room.
#[derive(Clone, Debug)]
pub(crate) struct Filling(Vec<u16>);

impl Filling {
    /// For the data of a load. Duplicates cannot be had: every sector says where it is.
    pub(crate) fn new(data: &Data) -> Filling {
        let sectors = (data.unit.0 as usize / SECTOR).max(1);
        let random = if data.zero { 0.0 } else { data.unit.0 as f64 / data.compress_ratio };
        let mut left = ((random - (sectors * HEAD_PACKED) as f64) / 8.0).max(0.0) as usize;
        let mut take = || {
            let words = left.min(WORDS);
            left -= words;
            words as u16
        };
        Filling((0..sectors).map(|_| take()).collect())
    }

    /// Words of the sector at an address.
    pub(crate) fn words(&self, address: u64) -> u16 {
        self.0[(address / SECTOR as u64 % self.0.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::Bytes;

    fn stamp() -> Stamp {
        Stamp {
            address: 1 << 33,
            run: 77,
            generation: 5,
            target: 1,
            time: 123,
            first: (1 << 33) - 512,
            len: 4096,
            words: WORDS as u16,
        }
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let mut sector = [0xff; SECTOR];
        stamp().write(&Text::default(), &mut sector);
        assert_eq!(Stamp::read(&sector), Some(stamp()));
        assert!(sum_is_right(&sector));
        let text = Text::default();
        assert!(words_of(&sector).enumerate().all(|(i, word)| word == stamp().word(&text, i)));
        assert!(stamp().covers(1 << 33) && !stamp().covers((1 << 33) + 3584));
    }

    #[test]
    fn every_single_bit_is_covered_by_the_checksum() {
        let mut sector = [0; SECTOR];
        stamp().write(&Text::default(), &mut sector);
        for bit in 0..SECTOR * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert!(!sum_is_right(&sector), "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn places_and_generations_share_no_word() {
        let text = Text::default();
        let mut seen = std::collections::HashSet::new();
        for (address, generation) in [(0, 1), (512, 1), (0, 2), (512, 2), (1 << 40, 1)] {
            let stamp = Stamp { address, generation, ..stamp() };
            assert!((0..WORDS).all(|index| seen.insert(stamp.word(&text, index))));
        }
    }

    #[test]
    fn a_ratio_is_kept_as_far_as_heads_allow() {
        for (ratio, low, high) in [(1.0, 1.0, 1.13), (2.0, 1.9, 2.1), (4.0, 3.8, 4.2)] {
            let data = Data { compress_ratio: ratio, ..Data::default() };
            let (filling, text) = (Filling::new(&data), Text::default());
            let mut all = vec![0; 1 << 20];
            for (index, sector) in all.chunks_mut(SECTOR).enumerate() {
                let address = (index * SECTOR) as u64;
                let words = filling.words(address);
                Stamp { address, first: address, words, ..stamp() }.write(&text, sector);
            }
            let packed: usize =
                all.chunks(128 << 10).map(|c| lz4_flex::block::compress(c).len()).sum();
            let found = all.len() as f64 / packed as f64;
            assert!(found > low && found < high, "{found} for {ratio}");
        }
        let zero = Filling::new(&Data { zero: true, unit: Bytes(4096), ..Data::default() });
        assert_eq!(zero.words(512), 0);
    }
}
