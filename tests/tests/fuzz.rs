//! Readers of other people's text, given what nobody would write: seeds from `tests/corpus`, changed at
//! random. Nothing may panic or hang. An input that does is kept in the corpus and is a seed from then on.
//!
//! 200,000 inputs in CI; `FATHOM_FUZZ=10000000 cargo test --release -p blackbox --test fuzz -- --nocapture`
//! for more, with `FATHOM_FUZZ_SEED` for others.

use base::rng::{Rng, derive};
use plan::import::{Surroundings, fio_jobs, iometer_configuration, vdbench_parameters};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct Nothing;

impl Surroundings for Nothing {
    fn include(&self, path: &str) -> Result<String, String> {
        Ok(format!("[global]\nbs={path}\n"))
    }

    fn variable(&self, _: &str) -> String {
        String::new()
    }
}

type Reader = fn(&[u8]);

fn text(bytes: &[u8], read: impl Fn(&str)) {
    read(&String::from_utf8_lossy(bytes));
}

/// Name of the folder of seeds, the reader, and words that mean something to it.
const READERS: [(&str, Reader, &[&str]); 7] = [
    (
        "fio",
        |bytes| {
            text(bytes, |text| {
                if let Ok(found) = fio_jobs("f.fio", text, &Nothing) {
                    // What a plan cannot have is told by its reader.
                    drop(plan::parse("f", &found.plan, &[]));
                }
            });
        },
        &[
            "[global]",
            "rw=randrw",
            "bs=",
            "bssplit=4k/50:8k",
            "size=50%",
            "numjobs=99999999",
            "offset_increment=",
            "rate_iops=1,2",
            "verify=md5",
            "runtime=(1+2)*3",
            "include ",
            "${X}",
            "$pagesize",
            "stonewall",
            "-1",
            "18446744073709551615",
            "1e309",
            "random_distribution=zoned:",
            "read_iolog=",
            "number_ios=",
            "%",
            ":",
        ],
    ),
    (
        "vdbench",
        |bytes| {
            text(bytes, |text| {
                if let Ok(found) = vdbench_parameters("f.vdb", text, &[], &Nothing) {
                    // What a plan cannot have is told by its reader.
                    drop(plan::parse("f", &found.plan, &[]));
                }
            });
        },
        &[
            "sd=",
            "wd=",
            "rd=",
            "default",
            "lun=/dev/x",
            "xfersize=(4k,50,8k,50)",
            "seekpct=",
            "(1-64,d)",
            "range=(",
            "iorate=curve",
            "curve=(10-100,10)",
            "count=(1,9999999)",
            "skew=",
            "rhpct=",
            "validate=yes",
            "hitarea=",
            "$x",
            "!x",
            "*",
            "include=",
            "elapsed=",
            "forthreads=(1-99999999,1)",
            "-5",
            "1e99",
            ",",
            "\"",
        ],
    ),
    (
        "iometer",
        |bytes| {
            text(bytes, |text| {
                if let Ok(found) = iometer_configuration("f.icf", text) {
                    drop(plan::parse("f", &found.plan, &[]));
                }
            });
        },
        &[
            "'Worker",
            "'END worker",
            "'TEST SETUP ====",
            "NORMAL",
            "CYCLE_OUTSTANDING_IOS",
            "CYCLE_WORKERS",
            "EXPONENTIAL",
            "4294967295",
            "18446744073709551615",
            "-1",
            "1e308",
            ",",
            "\n\t",
            "'Target",
            "'Assigned access specs",
        ],
    ),
    (
        "trace",
        |bytes| {
            let _ = trace::read(bytes, &trace::Options::default()).map(|found| {
                let model = trace::plan_of(&found, "f", 3);
                let plan = plan::parse("f", &model, &[]);
                assert!(plan.is_ok(), "{}\n{model}", plan.unwrap_err());
            });
        },
        &[
            "fio version 2 iolog\n",
            "fio version 3 iolog\n",
            "wait",
            "read",
            "write",
            "8,0",
            " Q ",
            " C ",
            " + ",
            "block_bio_queue: ",
            "time,type,offset,size",
            "18446744073709551615",
            "9223372036854775807",
            "-1",
            "1e9",
            "LOST 99999999999 EVENTS]",
            ",R,",
            ",Write,",
            "\x07tae",
            "0.000000001",
            ".",
        ],
    ),
    (
        "plan",
        |bytes| {
            text(bytes, |text| drop(plan::parse("f.toml", text, &[("time".into(), "1s".into())])))
        },
        &[
            "[[step]]",
            "load = {",
            "fill = {",
            "curve",
            "percents = [",
            "limit = \"p99 <= 1ms\"",
            "verify = true",
            "trace = \"x\"",
            "zones = \"50/5:50/95\"",
            "$time",
            "repeat = ",
            "sweep",
            "over",
            "block = { \"4k\" = 1 }",
            "amount = \"2x\"",
            "1e400",
            "-1",
            "99999999999999999999",
            "'''",
            "[",
            "]",
            "=",
            "range = [",
        ],
    ),
    (
        "limits",
        |bytes| text(bytes, |text| drop(analysis::parse_limits(text))),
        &[
            "p99.99",
            " of ",
            "<=",
            ">=",
            "200us",
            "iops",
            "bandwidth",
            "800k",
            "#",
            "1e999",
            "-",
            "\n",
        ],
    ),
    (
        "target",
        |bytes| text(bytes, |text| drop(sim::VirtualTarget::parse(text))),
        &[
            "sim:",
            "client",
            "d5-p5430",
            "capacity=",
            "mode=exact",
            ",",
            "throttle=70C",
            "seed=",
            "power=",
            "1e999",
            "-1",
            "99999999999999999999999",
            "stall=",
            "error=",
            "block=4k",
        ],
    ),
];

fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the corpus")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

/// A seed with up to eight changes.
fn mutant(seeds: &[Vec<u8>], words: &[&str], rng: &mut Rng) -> Vec<u8> {
    let pick = |rng: &mut Rng, n: usize| rng.below(n.max(1) as u64) as usize;
    let mut bytes = seeds[pick(rng, seeds.len())].clone();
    for _ in 0..1 + rng.below(8) {
        let at = pick(rng, bytes.len() + 1);
        let len = pick(rng, (bytes.len() - at).min(64) + 1);
        match rng.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.below(256) as u8,
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let part = bytes[at..at + len].to_vec();
                bytes.splice(at..at, part);
            }
            4 => {
                let word = words[pick(rng, words.len())].bytes();
                bytes.splice(at..at, word);
            }
            5 => {
                let other = &seeds[pick(rng, seeds.len())];
                let from = pick(rng, other.len() + 1);
                let to = from + pick(rng, (other.len() - from).min(200) + 1);
                bytes.splice(at..at + len, other[from..to].iter().copied());
            }
            _ => {
                let number = (rng.next() >> rng.below(64)).to_string();
                bytes.splice(at..at, number.bytes());
            }
        }
        bytes.truncate(16 << 10);
    }
    bytes
}

/// Slower than this is as good as hanging: inputs are of 16 KiB at most.
const TOO_LONG: Duration = Duration::from_secs(5);

fn fuzz(reader: usize, inputs: u64, seed: u64) -> Vec<String> {
    let (name, read, words) = READERS[reader];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let seeds = seeds(&folder);
    let mut rng = Rng::new(seed);
    let mut wrong = Vec::new();
    let all = seeds.clone().into_iter().map(Some).chain((0..inputs).map(|_| None));
    for input in all {
        let input = input.unwrap_or_else(|| mutant(&seeds, words, &mut rng));
        let start = Instant::now();
        let fine = catch_unwind(AssertUnwindSafe(|| read(&input))).is_ok();
        if fine && start.elapsed() < TOO_LONG {
            continue;
        }
        let kept = folder.join(format!("found-{:016x}", derive(seed, rng.next())));
        let _ = std::fs::write(&kept, &input);
        wrong.push(format!(
            "{}: {}",
            kept.display(),
            if fine { "takes too long" } else { "panics" }
        ));
        if wrong.len() >= 5 {
            break;
        }
    }
    wrong
}

#[test]
fn no_reader_panics_or_hangs() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let inputs = number("FATHOM_FUZZ").unwrap_or(200_000);
    let seed = number("FATHOM_FUZZ_SEED").unwrap_or(1);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let each = inputs.div_ceil(READERS.len() as u64 * threads);
    let start = Instant::now();
    let mut wrong = Vec::new();
    for (reader, (name, ..)) in READERS.iter().enumerate() {
        let began = Instant::now();
        let run =
            |thread: u64| move || fuzz(reader, each, derive(seed, reader as u64 * 1000 + thread));
        let hands: Vec<_> = (0..threads).map(|thread| std::thread::spawn(run(thread))).collect();
        hands.into_iter().for_each(|hand| wrong.extend(hand.join().expect("a thread")));
        let seconds = began.elapsed().as_secs_f64();
        println!("{name:<8} {} inputs in {seconds:.1} s", each * threads);
    }
    println!(
        "{} inputs in {:.0} s",
        each * threads * READERS.len() as u64,
        start.elapsed().as_secs_f64()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
