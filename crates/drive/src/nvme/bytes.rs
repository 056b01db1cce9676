//! Little-endian fields of a page. What lies beyond the end of a short page reads as zero: the page's
//! length is checked where it is read.

/// A page as the device gave it.
#[derive(Clone, Copy)]
pub(super) struct Page<'a>(pub(super) &'a [u8]);

impl Page<'_> {
    /// A number of up to 16 bytes.
    pub(super) fn wide(self, at: usize, bytes: usize) -> u128 {
        let byte = |index: usize| u128::from(self.0.get(at + index).copied().unwrap_or(0));
        (0..bytes.min(16)).fold(0, |sum, index| sum | byte(index) << (8 * index))
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        self.wide(at, 1) as u8
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        self.wide(at, 2) as u16
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        self.wide(at, 4) as u32
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        self.wide(at, 8) as u64
    }

    /// Text, without the blanks and zeros around it; what is not printable becomes `?`.
    pub(super) fn text(self, at: usize, bytes: usize) -> String {
        let raw = self.0.get(at..(at + bytes).min(self.0.len())).unwrap_or_default();
        let end = raw.iter().position(|&byte| byte == 0).unwrap_or(raw.len());
        let plain = |&byte: &u8| if (0x20..0x7f).contains(&byte) { byte as char } else { '?' };
        raw[..end].iter().map(plain).collect::<String>().trim().to_owned()
    }

    /// Bytes as lower-case hexadecimal digits; none when all are zero.
    pub(super) fn hex(self, at: usize, bytes: usize) -> Option<String> {
        let raw = self.0.get(at..at + bytes)?;
        let digits = || raw.iter().map(|byte| format!("{byte:02x}")).collect();
        raw.iter().any(|&byte| byte != 0).then(digits)
    }
}

/// A counter of 128 bits as decimal text: JSON numbers end at 64 bits for many readers.
pub(super) fn decimal<S: serde::Serializer>(value: &u128, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}
