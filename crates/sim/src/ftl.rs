//! The state layer: a page-mapped flash translation layer with greedy cleaning. It answers one
//! question: how many pages does the flash program for each page the host writes, now?
//!
//! Pages are in *indirection units* (IU). Host writes and moved pages have frontiers of their own.
//! Moves found when a superblock fills up are paid out over the following superblocks of host writes
//! (tokens), as firmware must do to keep its latency even.

/// No page.
const NONE: u32 = u32::MAX;
/// Superblocks kept free for cleaning; they and the two frontiers are not part of the spare.
const RESERVE: usize = 4;
/// Superblocks of host writes over which found moves are paid out.
const TOKEN_WINDOW: f64 = 32.0;

/// Counts since the state was made or purged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages written by the host.
    pub host: u64,
    /// Pages moved by cleaning.
    pub moved: u64,
    /// Superblocks erased.
    pub erased: u64,
}

/// State of the flash.
#[derive(Clone, Debug)]
pub struct Ftl {
    /// Pages of a superblock.
    block_pages: usize,
    /// Physical page of each logical one.
    physical: Vec<u32>,
    /// Logical page of each physical one.
    logical: Vec<u32>,
    /// Valid pages of each superblock.
    valid: Vec<u32>,
    /// Full superblocks by their number of valid pages, as linked lists.
    buckets: Buckets,
    free: Vec<u32>,
    host: Frontier,
    cleaning: Frontier,
    /// Moves found and not yet paid.
    tokens: f64,
    /// Paid per host page.
    token_rate: f64,
    counts: FlashCounts,
}

#[derive(Clone, Copy, Debug)]
struct Frontier {
    block: u32,
    used: usize,
}

impl Ftl {
    /// An empty state of `logical_pages` with `spare` times as many physical pages (effective, so
    /// without the reserve, and with frontiers that are half full on average) in whole superblocks
    /// of `block_pages`.
    ///
    /// # Panics
    /// When the spare leaves less than two superblocks to clean, or the state has no page.
    pub fn new(logical_pages: usize, spare: f64, block_pages: usize) -> Ftl {
        let usable = (logical_pages as f64 * spare).round() as usize;
        let blocks = usable / block_pages + RESERVE + 1;
        assert!(logical_pages > 0 && usable >= logical_pages + 2 * block_pages, "no spare");
        let mut ftl = Ftl {
            block_pages,
            physical: vec![NONE; logical_pages],
            logical: vec![NONE; blocks * block_pages],
            valid: vec![0; blocks],
            buckets: Buckets::new(block_pages, blocks),
            free: (0..blocks as u32).rev().collect(),
            host: Frontier { block: 0, used: 0 },
            cleaning: Frontier { block: 0, used: 0 },
            tokens: 0.0,
            token_rate: 0.0,
            counts: FlashCounts::default(),
        };
        ftl.open_frontiers();
        ftl
    }

    fn open_frontiers(&mut self) {
        let mut open = || Frontier { block: self.free.pop().expect("new blocks"), used: 0 };
        (self.host, self.cleaning) = (open(), open());
    }

    /// Logical pages.
    pub fn len(&self) -> usize {
        self.physical.len()
    }

    /// Whether it has no page; it always has.
    pub fn is_empty(&self) -> bool {
        self.physical.is_empty()
    }

    /// Physical over logical pages, as it came out in whole superblocks.
    pub fn spare(&self) -> f64 {
        let blocks = self.valid.len() - RESERVE - 1;
        (blocks * self.block_pages) as f64 / self.physical.len() as f64
    }

    /// Pages of a superblock.
    pub fn block_pages(&self) -> usize {
        self.block_pages
    }

    /// Counts since the beginning or the last purge.
    pub fn counts(&self) -> FlashCounts {
        self.counts
    }

    /// Pages programmed for each host page at this moment: one, and the moves being paid out.
    pub fn amplification(&self) -> f64 {
        1.0 + self.token_rate
    }

    /// Whether a logical page holds data.
    pub fn mapped(&self, page: usize) -> bool {
        self.physical[page] != NONE
    }

    /// The host writes a page. Gives the moves to be paid for it.
    pub fn write(&mut self, page: usize) -> f64 {
        self.forget(page);
        if self.host.used == self.block_pages {
            self.next_host_block();
        }
        let at = self.host.block as usize * self.block_pages + self.host.used;
        self.host.used += 1;
        self.place(page as u32, at);
        self.counts.host += 1;
        let paid = self.token_rate.min(self.tokens);
        self.tokens -= paid;
        paid
    }

    /// The host gives a page up.
    pub fn trim(&mut self, page: usize) {
        self.forget(page);
        self.physical[page] = NONE;
    }

    /// Everything is given up and erased; counts start anew.
    pub fn purge(&mut self) {
        let blocks = self.valid.len();
        self.physical.fill(NONE);
        self.logical.fill(NONE);
        self.valid.fill(0);
        self.buckets = Buckets::new(self.block_pages, blocks);
        self.free = (0..blocks as u32).rev().collect();
        (self.tokens, self.token_rate, self.counts) = (0.0, 0.0, FlashCounts::default());
        self.open_frontiers();
    }

    fn place(&mut self, page: u32, at: usize) {
        self.physical[page as usize] = at as u32;
        self.logical[at] = page;
        self.valid[at / self.block_pages] += 1;
    }

    /// The page's old copy is worth nothing any more.
    #[inline]
    fn forget(&mut self, page: usize) {
        let at = self.physical[page];
        if at == NONE {
            return;
        }
        self.logical[at as usize] = NONE;
        let block = at / self.block_pages as u32;
        let left = self.valid[block as usize] - 1;
        self.valid[block as usize] = left;
        // Open frontiers stand in no list.
        if block != self.host.block && block != self.cleaning.block {
            self.buckets.lower(block, left);
        }
    }

    fn next_host_block(&mut self) {
        self.buckets.push(self.host.block, self.valid[self.host.block as usize]);
        let before = self.counts.moved;
        while self.free.len() <= RESERVE {
            self.clean_one();
        }
        let found = self.counts.moved - before;
        self.tokens += found as f64;
        self.token_rate = self.tokens / (TOKEN_WINDOW * self.block_pages as f64);
        self.host = Frontier { block: self.free.pop().expect("cleaned blocks"), used: 0 };
    }

    /// Moves the valid pages of the superblock that has the fewest, and erases it.
    fn clean_one(&mut self) {
        let victim = self.buckets.pop_least().expect("a full superblock") as usize;
        let first = victim * self.block_pages;
        for at in first..first + self.block_pages {
            let page = self.logical[at];
            if page == NONE {
                continue;
            }
            self.logical[at] = NONE;
            if self.cleaning.used == self.block_pages {
                self.buckets.push(self.cleaning.block, self.valid[self.cleaning.block as usize]);
                let block = self.free.pop().expect("the reserve");
                self.cleaning = Frontier { block, used: 0 };
            }
            let to = self.cleaning.block as usize * self.block_pages + self.cleaning.used;
            self.cleaning.used += 1;
            self.place(page, to);
            self.counts.moved += 1;
        }
        self.valid[victim] = 0;
        self.free.push(victim as u32);
        self.counts.erased += 1;
    }
}

/// Lists of superblocks by valid pages: the least is found in constant time.
#[derive(Clone, Debug)]
struct Buckets {
    head: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Bucket of each listed block.
    of: Vec<u32>,
    /// No bucket below this one holds a block.
    least: usize,
}

impl Buckets {
    fn new(block_pages: usize, blocks: usize) -> Buckets {
        Buckets {
            head: vec![NONE; block_pages + 1],
            next: vec![NONE; blocks],
            previous: vec![NONE; blocks],
            of: vec![NONE; blocks],
            least: block_pages,
        }
    }

    fn push(&mut self, block: u32, valid: u32) {
        let (at, bucket) = (block as usize, valid as usize);
        self.next[at] = self.head[bucket];
        self.previous[at] = NONE;
        if self.head[bucket] != NONE {
            self.previous[self.head[bucket] as usize] = block;
        }
        self.head[bucket] = block;
        self.of[at] = valid;
        self.least = self.least.min(bucket);
    }

    fn remove(&mut self, block: u32) {
        let at = block as usize;
        let (next, previous) = (self.next[at], self.previous[at]);
        match previous {
            NONE => self.head[self.of[at] as usize] = next,
            _ => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        self.of[at] = NONE;
    }

    #[inline]
    fn lower(&mut self, block: u32, valid: u32) {
        self.remove(block);
        self.push(block, valid);
    }

    fn pop_least(&mut self) -> Option<u32> {
        while self.least < self.head.len() {
            let block = self.head[self.least];
            if block != NONE {
                self.remove(block);
                return Some(block);
            }
            self.least += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory;
    use base::rng::Rng;

    const LOGICAL: usize = 1 << 20;

    fn fill(ftl: &mut Ftl) {
        (0..ftl.len()).for_each(|page| {
            ftl.write(page);
        });
    }

    /// Write amplification of `passes` drive writes after a warm-up of `warm` passes.
    fn measured(ftl: &mut Ftl, warm: f64, passes: f64, mut step: impl FnMut(&mut Ftl)) -> f64 {
        let n = ftl.len() as f64;
        (0..(n * warm) as u64).for_each(|_| step(ftl));
        let before = ftl.counts();
        (0..(n * passes) as u64).for_each(|_| step(ftl));
        let after = ftl.counts();
        1.0 + (after.moved - before.moved) as f64 / (after.host - before.host) as f64
    }

    #[test]
    fn uniform_writes_amplify_as_the_closed_formula_says() {
        for block in [64, 256, 1024] {
            for over in [0.07, 0.14, 0.28] {
                let mut rng = Rng::new(7);
                // The formula is for many superblocks.
                let pages = LOGICAL * if block > 512 { 2 } else { 1 };
                let mut ftl = Ftl::new(pages, 1.0 + over, block);
                fill(&mut ftl);
                let pages = ftl.len() as u64;
                let found = measured(&mut ftl, 5.0, 3.0, |ftl| {
                    ftl.write(rng.below(pages) as usize);
                });
                let theory = theory::greedy(ftl.spare(), block as u32);
                let off = found / theory - 1.0;
                println!("spare {over}, {block} pages: {found:.3}, formula {theory:.3}, {off:+.4}");
                assert!(off.abs() < 0.005, "spare {over}, {block} pages: {found} and {theory}");
            }
        }
    }

    #[test]
    fn trimmed_pages_count_as_spare() {
        let spare = 1.1453;
        for share in [0.05, 0.1, 0.2, 0.3] {
            let mut rng = Rng::new(8);
            let mut ftl = Ftl::new(LOGICAL, spare, 256);
            fill(&mut ftl);
            let pages = ftl.len() as u64;
            let found = measured(&mut ftl, 8.0, 4.0, |ftl| {
                if rng.unit() < share {
                    // A trim gives up a page that holds data.
                    let page = loop {
                        let page = rng.below(pages) as usize;
                        if ftl.mapped(page) {
                            break page;
                        }
                    };
                    ftl.trim(page);
                } else {
                    ftl.write(rng.below(pages) as usize);
                }
            });
            let theory = theory::greedy(theory::trimmed(ftl.spare(), share), 256);
            let off = found / theory - 1.0;
            println!("trims {share}: {found:.3}, formula {theory:.3}, {off:+.4}");
            assert!(off.abs() < 0.01, "trims {share}: {found} and {theory}");
        }
    }

    #[test]
    fn an_active_range_leaves_its_share_of_the_spare_to_the_rest() {
        let spare = 1.1453;
        for share in [0.25, 0.5, 0.75] {
            let mut rng = Rng::new(9);
            let mut ftl = Ftl::new(LOGICAL, spare, 256);
            fill(&mut ftl);
            let active = (ftl.len() as f64 * share) as u64;
            let found = measured(&mut ftl, 6.0, 3.0, |ftl| {
                ftl.write(rng.below(active) as usize);
            });
            let theory = theory::greedy(theory::active_range(ftl.spare(), share), 256);
            let off = found / theory - 1.0;
            println!("range {share}: {found:.3}, formula {theory:.3}, {off:+.4}");
            assert!(off.abs() < 0.01, "range {share}: {found} and {theory}");
        }
    }

    #[test]
    fn sequential_rewriting_heals_quarter_by_quarter() {
        let mut rng = Rng::new(10);
        let mut ftl = Ftl::new(LOGICAL, 1.155, 1024);
        fill(&mut ftl);
        let pages = ftl.len();
        measured(&mut ftl, 5.0, 1.0, |ftl| {
            ftl.write(rng.below(pages as u64) as usize);
        });
        let mut at = 0;
        let quarters: Vec<f64> = (0..5)
            .map(|_| {
                measured(&mut ftl, 0.0, 0.25, |ftl| {
                    ftl.write(at);
                    at = (at + 1) % pages;
                })
            })
            .collect();
        assert!(quarters.windows(2).all(|pair| pair[1] <= pair[0] + 0.01), "{quarters:?}");
        assert!(quarters[0] > 3.0 && quarters[4] < 1.01, "{quarters:?}");
    }

    #[test]
    fn what_is_found_is_paid_out_in_full_and_evenly() {
        let mut rng = Rng::new(11);
        let mut ftl = Ftl::new(1 << 18, 1.15, 256);
        fill(&mut ftl);
        let pages = ftl.len() as u64;
        let mut paid = 0.0;
        let mut rates = Vec::new();
        for n in 0..8 * pages {
            paid += ftl.write(rng.below(pages) as usize);
            if n > 6 * pages && n % 997 == 0 {
                rates.push(ftl.amplification());
            }
        }
        let counts = ftl.counts();
        let owed = counts.moved as f64 - paid;
        assert!((owed - ftl.tokens).abs() < 1.0, "{owed} owed, {} known", ftl.tokens);
        assert!(owed < 0.01 * counts.moved as f64, "{owed} of {}", counts.moved);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let spread = rates.iter().map(|rate| (rate / mean - 1.0).abs()).fold(0.0, f64::max);
        assert!(spread < 0.10, "{spread}");
    }

    #[test]
    fn every_page_keeps_its_place_through_cleaning_trims_and_a_purge() {
        let mut rng = Rng::new(12);
        let mut ftl = Ftl::new(20_000, 1.2, 64);
        let check = |ftl: &Ftl| {
            for (page, &at) in ftl.physical.iter().enumerate().filter(|(_, at)| **at != NONE) {
                assert_eq!(ftl.logical[at as usize], page as u32);
            }
            let valid: u32 = ftl.valid.iter().sum();
            let mapped = ftl.physical.iter().filter(|&&at| at != NONE).count();
            assert_eq!(valid as usize, mapped);
        };
        for n in 0..400_000u64 {
            let page = rng.below(20_000) as usize;
            match n % 7 {
                0 => ftl.trim(page),
                _ => {
                    ftl.write(page);
                }
            }
            if n % 50_000 == 0 {
                check(&ftl);
            }
        }
        ftl.purge();
        check(&ftl);
        assert_eq!(ftl.counts(), FlashCounts::default());
        fill(&mut ftl);
        assert_eq!(ftl.counts().moved, 0, "the first fill moves nothing");
    }
}
