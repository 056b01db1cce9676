//! Checking of data on real I/O: faults planted into files below the engine are all found and named, and
//! nothing else is.

use base::clock::Clock;
use base::rng::Rng;
use base::sample::IntervalSample;
use base::units::{Bytes, Nanos};
use engine::verify::{Kind, Mismatch, Tracker, Verified};
use engine::{
    Backend, CellSpec, Direct, Engine, Next, Outcome, Polling, Sink, Target, host_backend,
};
use plan::{Amount, Load, Verb, Verify, Window};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 128 << 20;
const BLOCK: u64 = 4096;
/// Planted faults of each kind.
const EACH: usize = 1000;

struct Nothing;

impl Sink for Nothing {
    fn interval(&mut self, _: IntervalSample) -> Next {
        Next::Continue
    }
}

/// Two targets, a back end that checks them, and their files as they are below it.
struct Bed {
    _folder: tempfile::TempDir,
    files: Vec<std::fs::File>,
    backend: Box<dyn Backend>,
}

fn bed(engine: Engine, n: usize, size: u64, granule: u64) -> Bed {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (mut files, mut targets) = (Vec::new(), Vec::new());
    for index in 0..n {
        let path = folder.path().join(format!("disk{index}"));
        std::fs::File::create(&path).unwrap().set_len(size).unwrap();
        let open = |flags| {
            std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)
        };
        let (file, direct) = match open(0o40000) {
            Ok(file) => (file, Direct::Yes),
            Err(_) => (open(0).unwrap(), Direct::No),
        };
        files.push(open(0).unwrap());
        targets.push(Target {
            name: format!("disk{index}"),
            path,
            file: Some(Arc::new(file.into())),
            size: Bytes(size),
            block: Bytes(512),
            direct,
            polling: Polling::Off,
            command: None,
        });
    }
    let mut backend = host_backend(engine, targets, Clock::host());
    let tracker = |index| Arc::new(Tracker::new(77, index, size, granule).unwrap());
    assert!(backend.verify((0..n as u32).map(tracker).collect()));
    Bed { _folder: folder, files, backend }
}

fn load(text: &str) -> Load {
    let text = format!("name=\"t\"\n[[step]]\nload={{time=1, {text}}}");
    let plan = plan::parse("t", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    cell.loads[0].clone()
}

impl Bed {
    fn run_all(&mut self, loads: Vec<Load>, seed: u64, ms: Option<u64>) -> Verified {
        let amount = ms.is_none().then_some(Amount::Passes(1.0));
        let spec = CellSpec {
            loads,
            window: Window { ramp: Nanos(0), time: ms.map(|ms| Nanos(ms * 1_000_000)), amount },
            interval: Nanos(100_000_000),
            seed,
            record_ios: 0,
        };
        let end = self.backend.run(&spec, &mut Nothing, &AtomicBool::new(false)).unwrap();
        assert_eq!(end.outcome, Outcome::Completed);
        end.facts.verified.unwrap()
    }

    fn run(&mut self, text: &str, seed: u64) -> Verified {
        self.run_all(vec![load(text)], seed, None)
    }

    fn write_all(&mut self, seed: u64) {
        let found = self.run("read=0, pattern=\"sequential\", block=\"64k\", depth=4", seed);
        assert_eq!(found.acknowledged, self.files.len() as u64 * (SIZE >> 16));
    }

    /// Every block once, in random order, so that each block is a write of its own.
    fn overwrite_all(&mut self, seed: u64) {
        self.run("read=0, pattern=\"random-once\", block=\"4k\", depth=16", seed);
    }

    fn read_all(&mut self) -> Verified {
        let mut load = load("read=100, pattern=\"sequential\", block=\"128k\", depth=4");
        load.verify = Some(Verify { stop_after: 0 });
        self.run_all(vec![load], 9, None)
    }

    fn block(&self, target: usize, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK as usize];
        self.files[target].read_exact_at(&mut bytes, block * BLOCK).unwrap();
        bytes
    }

    fn put(&self, target: usize, block: u64, bytes: &[u8]) {
        self.files[target].write_all_at(bytes, block * BLOCK).unwrap();
    }

    /// Content as it is now, of some blocks.
    fn copy(&self, target: usize, blocks: &[u64]) -> HashMap<u64, Vec<u8>> {
        blocks.iter().map(|block| (*block, self.block(target, *block))).collect()
    }
}

/// What was planted, by target and block.
type Planted = BTreeMap<(u32, u64), Kind>;

fn found(verified: &Verified) -> Planted {
    let of = |mismatch: &Mismatch| {
        let blocks =
            mismatch.address.0 / BLOCK..(mismatch.address.0 + mismatch.len.0).div_ceil(BLOCK);
        blocks.map(|block| ((mismatch.target, block), mismatch.kind)).collect::<Vec<_>>()
    };
    verified.mismatches.iter().flat_map(of).collect()
}

/// Distinct blocks in random order, no two of them neighbours.
fn blocks(rng: &mut Rng) -> Vec<u64> {
    let mut all: Vec<u64> = (0..SIZE / BLOCK / 2).map(|n| n * 2).collect();
    for index in (1..all.len()).rev() {
        all.swap(index, rng.below(index as u64 + 1) as usize);
    }
    all
}

#[test]
fn every_planted_fault_is_found_and_named() {
    let mut bed = bed(Engine::Uring, 2, SIZE, BLOCK);
    let mut rng = Rng::new(11);
    let places = blocks(&mut rng);
    let parts: Vec<&[u64]> = places.chunks(EACH).take(7).collect();
    bed.write_all(1);
    let stale = bed.copy(0, parts[1]);
    bed.overwrite_all(2);
    let older = bed.copy(0, &places);
    bed.overwrite_all(3);
    let mut planted = Planted::new();
    let mut plant = |blocks: &[u64], kind, bytes: &mut dyn FnMut(u64) -> Vec<u8>| {
        for block in blocks {
            let bytes = bytes(*block);
            bed.put(0, *block, &bytes);
            planted.insert((0, *block), kind);
        }
    };
    let swapped = bed.copy(1, parts[4]);
    let newest = bed.copy(0, &places);
    plant(parts[0], Kind::Lost, &mut |block| older[&block].clone());
    plant(parts[1], Kind::Stale, &mut |block| stale[&block].clone());
    plant(parts[2], Kind::Torn, &mut |block| {
        // At a sector, or in the middle of one.
        let at = 8 * (1 + rng.below(BLOCK / 8 - 2)) as usize;
        let at = if block % 4 == 0 { at.next_multiple_of(512).min(3584) } else { inside(at) };
        [&newest[&block][..at], &older[&block][at..]].concat()
    });
    plant(parts[3], Kind::Misdirected, &mut |block| {
        newest[&((block + 64) % (SIZE / BLOCK))].clone()
    });
    plant(parts[4], Kind::Swapped, &mut |block| swapped[&block].clone());
    plant(parts[5], Kind::Corrupt, &mut |block| {
        let mut bytes = newest[&block].clone();
        let bit = rng.below(BLOCK * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let verified = bed.read_all();
    let seen = found(&verified);
    for kind in Kind::ALL {
        let n = seen
            .iter()
            .filter(|(place, k)| **k == kind && planted.get(place) == Some(&kind))
            .count();
        println!("{:<12} {n} of {EACH} found and named so", kind.word());
    }
    let wrong: Vec<_> =
        planted.iter().filter(|(place, kind)| seen.get(place) != Some(kind)).collect();
    assert!(wrong.is_empty(), "{} named wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    assert_eq!(seen.len(), planted.len(), "nothing else is wrong");
    assert_eq!(verified.unknown, 0);
    assert!(verified.mismatches.iter().all(|m| !m.difference.is_empty()));
}

/// A place within a sector behind its head, where a tear leaves something of both.
fn inside(at: usize) -> usize {
    let sector = at / 512 * 512;
    (at.max(sector + 72)).min(sector + 488)
}

#[test]
fn what_was_read_back_and_then_reverts_is_stale() {
    let mut bed = bed(Engine::Sync, 1, SIZE, BLOCK);
    bed.write_all(1);
    let before = bed.block(0, 7);
    bed.overwrite_all(2);
    assert_eq!(bed.read_all().sectors_wrong(), 0);
    bed.put(0, 7, &before);
    let verified = bed.read_all();
    assert_eq!(found(&verified), Planted::from([((0, 7), Kind::Stale)]));
}

/// A run that is to stop after so many wrong places fails, and keeps what it found.
#[test]
fn enough_wrong_places_end_the_cell() {
    let mut bed = bed(Engine::Uring, 1, SIZE, BLOCK);
    bed.write_all(1);
    (0..100).for_each(|n| bed.put(0, n * 64, &[7; 4096]));
    let mut load = load("read=100, pattern=\"sequential\", block=\"64k\", depth=1");
    load.verify = Some(Verify { stop_after: 3 });
    let spec = CellSpec {
        loads: vec![load],
        window: Window { ramp: Nanos(0), time: None, amount: Some(Amount::Passes(1.0)) },
        interval: Nanos(100_000_000),
        seed: 1,
        record_ios: 0,
    };
    let end = bed.backend.run(&spec, &mut Nothing, &AtomicBool::new(false)).unwrap();
    let Outcome::Failed(message) = end.outcome else { panic!("{:?}", end.outcome) };
    assert!(message.contains("too much reads back wrong"), "{message}");
    assert_eq!(end.facts.verified.unwrap().places(), 3);
}

#[test]
fn a_large_write_that_arrives_in_part_is_torn() {
    let mut bed = bed(Engine::Uring, 1, SIZE, BLOCK);
    bed.write_all(1);
    let before = bed.copy(0, &[5, 6]);
    bed.write_all(2);
    bed.put(0, 5, &before[&5]);
    bed.put(0, 6, &before[&6]);
    let verified = bed.read_all();
    assert_eq!(found(&verified), Planted::from([((0, 5), Kind::Torn), ((0, 6), Kind::Torn)]));
    assert_eq!(verified.mismatches.len(), 1, "side by side, told once: {:?}", verified.mismatches);
}

/// Writes and reads of mixed sizes that overlap all the time, on a small range, from several workers.
#[test]
fn overlapping_io_raises_no_false_alarm() {
    for engine in [Engine::Uring, Engine::Sync] {
        let mut bed = bed(engine, 1, 4 << 20, 512);
        let mut mixed = load(
            "read=50, pattern=\"random\", align=\"512\", depth=16, workers=3, \
             block={ \"512\" = 30, \"4k\" = 40, \"16k\" = 20, \"64k\" = 10 }",
        );
        mixed.verify = Some(Verify { stop_after: 0 });
        let verified = bed.run_all(vec![mixed], 5, Some(1500));
        println!(
            "{engine:?}: {} sectors right, {} raced, {} writes",
            verified.clean, verified.unknown, verified.acknowledged
        );
        assert_eq!(verified.sectors_wrong(), 0, "{:?}", verified.mismatches.first());
        assert!(verified.clean > 1000 && verified.acknowledged > 100);
        let after = {
            let mut all = load("read=100, pattern=\"sequential\", block=\"64k\", depth=4");
            all.verify = Some(Verify { stop_after: 0 });
            bed.run_all(vec![all], 6, None)
        };
        assert_eq!(after.sectors_wrong(), 0, "{:?}", after.mismatches.first());
        assert!(after.clean > 7000, "{}", after.clean);
    }
}

/// A million sectors in CI; `bench/verify` reads a hundred million.
#[test]
fn clean_sectors_raise_no_false_alarm() {
    let mut bed = bed(Engine::Uring, 1, SIZE, BLOCK);
    bed.write_all(1);
    let mut clean = 0;
    for _ in 0..4 {
        let verified = bed.read_all();
        assert_eq!((verified.sectors_wrong(), verified.unknown), (0, 0));
        clean += verified.clean;
    }
    assert_eq!(clean, 4 * SIZE / 512);
}
