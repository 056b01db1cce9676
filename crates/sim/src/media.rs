//! The flash behind the buffer: the state layer at its scale, and the cache in front of it.

use crate::device::{Media, Written};
use crate::ftl::Ftl;
use crate::profile::{Profile, bytes};
use crate::target::VirtualTarget;

/// Superblocks of the state, as many as real drives have; with it every time constant is kept.
const SUPERBLOCKS: usize = 1760;
/// Pages of a superblock at most: 1,760 of them follow the full-size curve within 0.1 % in the steady
/// state and 2.5 % at the cliff.
const BLOCK_PAGES_MAX: usize = 1024;
const BLOCK_PAGES_MIN: usize = 16;

/// A fixed amplification, for tables.
pub(crate) struct Fixed {
    pub(crate) moves: f64,
    pub(crate) cached: bool,
}

impl Media for Fixed {
    fn written(&mut self, _offset: u64) -> Written {
        Written { moves: if self.cached { 0.0 } else { self.moves }, cached: self.cached }
    }

    fn amplification(&self) -> f64 {
        1.0 + self.moves
    }
}

/// The state of a virtual drive's flash.
pub(crate) struct Flash {
    pub(crate) ftl: Ftl,
    /// Bytes that one page of the state stands for.
    pub(crate) page_bytes: u64,
    unit: u64,
    /// Bytes written that make no whole page yet.
    rest: u64,
    /// Moves for each unit.
    rate: f64,
    pub(crate) cache: Option<CacheState>,
    /// Bytes programmed, moves included.
    pub(crate) programmed: f64,
}

/// The cache of single-bit flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheState {
    pub(crate) size: f64,
    pub(crate) free: f64,
    /// Bytes a second that come back while the host is idle.
    pub(crate) fold: f64,
}

impl Flash {
    pub(crate) fn new(target: &VirtualTarget) -> Flash {
        let unit = bytes(&target.profile.flash.indirection).0;
        let units = (target.size().0 / unit) as usize;
        let wanted = ((SUPERBLOCKS * BLOCK_PAGES_MAX) as f64 / target.spare()) as usize;
        let scale = units.div_ceil(wanted).max(1);
        let pages = units / scale;
        let physical = (pages as f64 * target.spare()) as usize;
        let block_pages = (physical / SUPERBLOCKS).clamp(BLOCK_PAGES_MIN, BLOCK_PAGES_MAX);
        Flash {
            ftl: Ftl::new(pages, target.spare(), block_pages),
            page_bytes: scale as u64 * unit,
            unit,
            rest: 0,
            rate: 0.0,
            cache: cache_of(&target.profile, target),
            programmed: 0.0,
        }
    }

    /// A page at `offset` is written as a whole.
    pub(crate) fn write_page(&mut self, offset: u64) {
        let page = (offset / self.page_bytes) as usize;
        let last = self.ftl.len() - 1;
        self.rate = self.ftl.write(page.min(last));
        self.programmed += self.page_bytes as f64 * (1.0 + self.rate);
    }

    /// Bytes of a superblock.
    pub(crate) fn superblock_bytes(&self) -> u64 {
        self.page_bytes * self.ftl.block_pages() as u64
    }

    /// Bytes that still fit into the cache.
    pub(crate) fn cache_left(&self) -> f64 {
        self.cache.map_or(0.0, |cache| cache.free)
    }

    /// Takes room in the cache.
    pub(crate) fn use_cache(&mut self, bytes: f64) {
        if let Some(cache) = &mut self.cache {
            cache.free = (cache.free - bytes).max(0.0);
        }
    }

    /// The host was idle for this long.
    pub(crate) fn idle(&mut self, seconds: f64) {
        if let Some(cache) = &mut self.cache {
            cache.free = (cache.free + cache.fold * seconds).min(cache.size);
        }
    }

    pub(crate) fn purge(&mut self) {
        self.ftl.purge();
        (self.rest, self.rate, self.programmed) = (0, 0.0, 0.0);
        if let Some(cache) = &mut self.cache {
            cache.free = cache.size;
        }
    }
}

fn cache_of(profile: &Profile, target: &VirtualTarget) -> Option<CacheState> {
    let cache = profile.cache.as_ref()?;
    // A smaller drive of the same kind has a smaller cache, emptied as fast as before in its share.
    let share =
        target.setup.capacity.map_or(1.0, |size| size.0 as f64 / profile.capacity().0 as f64);
    let size = bytes(&cache.size).0 as f64 * share;
    Some(CacheState { size, free: size, fold: bytes(&cache.fold).0 as f64 * share })
}

impl Media for Flash {
    fn written(&mut self, offset: u64) -> Written {
        self.rest += self.unit;
        if self.rest >= self.page_bytes {
            self.rest -= self.page_bytes;
            self.write_page(offset);
        }
        let cached = self.cache_left() >= self.unit as f64;
        self.use_cache(if cached { self.unit as f64 } else { 0.0 });
        Written { moves: if cached { 0.0 } else { self.rate }, cached }
    }

    fn amplification(&self) -> f64 {
        1.0 + self.rate
    }
}
