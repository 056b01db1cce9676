//! The blocks of a namespace, kept sparsely in memory.

use std::collections::HashMap;

const PAGE: u64 = 4096;

/// Bytes by address; what was never written reads as zeros.
#[derive(Debug, Default)]
pub(crate) struct Media {
    pages: HashMap<u64, Box<[u8]>>,
}

impl Media {
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let n = (PAGE as usize - within).min(into.len() - done);
            match self.pages.get(&page) {
                Some(bytes) => into[done..done + n].copy_from_slice(&bytes[within..within + n]),
                None => into[done..done + n].fill(0),
            }
            done += n;
        }
    }

    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let mut done = 0;
        while done < from.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let n = (PAGE as usize - within).min(from.len() - done);
            let bytes = self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize].into());
            bytes[within..within + n].copy_from_slice(&from[done..done + n]);
            done += n;
        }
    }

    /// Gives a range up: whole pages of it are dropped, parts become zeros.
    pub(crate) fn deallocate(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.pages.retain(|page, bytes| {
            let (from, to) = (page * PAGE, (page + 1) * PAGE);
            if to <= offset || from >= end {
                return true;
            }
            let (a, b) = (offset.max(from) - from, end.min(to) - from);
            bytes[a as usize..b as usize].fill(0);
            !(a == 0 && b == PAGE)
        });
    }

    /// Nothing is on it any more.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_across_pages() {
        let mut media = Media::default();
        let data: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        media.write(3000, &data);
        let mut back = vec![9; 12_000];
        media.read(2000, &mut back);
        assert!(back[..1000].iter().all(|&byte| byte == 0));
        assert_eq!(back[1000..11_000], data[..]);
        media.deallocate(4096, 4096);
        media.read(3000, &mut back[..10_000]);
        assert_eq!(back[..1096], data[..1096]);
        assert!(back[1096..5192].iter().all(|&byte| byte == 0));
        assert_eq!(back[5192..10_000], data[5192..]);
        assert_eq!(media.pages.len(), 3);
    }
}
