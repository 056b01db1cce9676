//! Identify data structures that the model answers with.

use crate::model::{CRITICAL_K, FORMATS, Namespace, POWER_STATES, State, WARNING_K};

pub(crate) const VERSION: u32 = 0x1_0400;
/// Largest transfer in pages of 4 KiB, as a power of two: 1 MiB.
const TRANSFER_LOG2: u8 = 8;

/// Writes fields into a page.
pub(crate) struct PageOf(pub(crate) Vec<u8>);

impl PageOf {
    pub(crate) fn new(bytes: usize) -> PageOf {
        PageOf(vec![0; bytes])
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut PageOf {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Text padded with blanks.
    pub(crate) fn text(&mut self, at: usize, len: usize, text: &str) -> &mut PageOf {
        let mut padded = vec![b' '; len];
        let n = text.len().min(len);
        padded[..n].copy_from_slice(&text.as_bytes()[..n]);
        self.put(at, &padded)
    }
}

/// Identify Controller.
pub(crate) fn controller(state: &State, name: &str) -> Vec<u8> {
    let mut page = PageOf::new(4096);
    page.put(0, &0x1b36u16.to_le_bytes())
        .put(2, &0x1af4u16.to_le_bytes())
        .text(4, 20, &state.model.serial)
        .text(24, 40, "Fathom model drive")
        .text(64, 8, env!("CARGO_PKG_VERSION"))
        .put(77, &[TRANSFER_LOG2])
        .put(78, &1u16.to_le_bytes())
        .put(80, &VERSION.to_le_bytes())
        .put(111, &[1])
        // Format, namespace management.
        .put(256, &0b1010u16.to_le_bytes())
        .put(258, &[3, 3, 0, 0])
        .put(262, &[15, POWER_STATES.len() as u8 - 1])
        .put(266, &WARNING_K.to_le_bytes())
        .put(268, &CRITICAL_K.to_le_bytes())
        .put(280, &u128::from(state.model.capacity_bytes).to_le_bytes())
        .put(296, &u128::from(state.unallocated()).to_le_bytes())
        // Keep-alive in 100 ms; host-controlled thermal management from 0 to 100 C.
        .put(320, &10u16.to_le_bytes())
        .put(322, &1u16.to_le_bytes())
        .put(324, &273u16.to_le_bytes())
        .put(326, &373u16.to_le_bytes())
        // Sanitize by crypto erase and block erase.
        .put(328, &0b11u32.to_le_bytes())
        .put(512, &[0x66, 0x44])
        .put(514, &128u16.to_le_bytes())
        .put(516, &16u32.to_le_bytes())
        // Dataset management, write zeroes.
        .put(520, &0b1100u16.to_le_bytes())
        .put(525, &[1])
        .put(536, &((1u32 << 20) | 1).to_le_bytes())
        .put(768, name.as_bytes())
        // Capsules without data in them, but for the admin queue.
        .put(1792, &4u32.to_le_bytes())
        .put(1796, &1u32.to_le_bytes())
        .put(1803, &[1]);
    for (n, (watts, slower)) in POWER_STATES.iter().enumerate() {
        let at = 2048 + 32 * n;
        page.put(at, &(watts * 100).to_le_bytes())
            .put(at + 4, &(*slower as u32 * 100).to_le_bytes())
            .put(at + 8, &(*slower as u32 * 200).to_le_bytes());
    }
    page.0
}

/// Identify Namespace; all zeros for one that is not there.
pub(crate) fn namespace(namespace: Option<&Namespace>) -> Vec<u8> {
    let mut page = PageOf::new(4096);
    let Some(namespace) = namespace else { return page.0 };
    let blocks = namespace.blocks.to_le_bytes();
    page.put(0, &blocks)
        .put(8, &blocks)
        .put(16, &blocks)
        .put(25, &[FORMATS.len() as u8 - 1, namespace.format])
        .put(48, &u128::from(namespace.bytes()).to_le_bytes());
    for (n, bytes) in FORMATS.iter().enumerate() {
        page.put(128 + 4 * n + 2, &[bytes.trailing_zeros() as u8]);
    }
    page.0
}

/// Identification descriptors of a namespace: a UUID of its own.
pub(crate) fn descriptors(nsid: u32) -> Vec<u8> {
    let mut page = PageOf::new(4096);
    page.put(0, &[3, 16]).put(4, b"model-drive!").put(16, &nsid.to_be_bytes());
    page.0
}

/// A list of namespaces above a number.
pub(crate) fn list(numbers: impl Iterator<Item = u32>, above: u32) -> Vec<u8> {
    let mut page = PageOf::new(4096);
    for (n, nsid) in numbers.filter(|&nsid| nsid > above).take(1024).enumerate() {
        page.put(4 * n, &nsid.to_le_bytes());
    }
    page.0
}
