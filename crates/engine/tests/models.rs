//! The four models of arrays, as what they issue on real I/O (a file in memory where there is one): shares of
//! reads, of each block size, and of I/Os that jump, against their definitions.

use base::clock::Clock;
use base::sample::IntervalSample;
use base::units::{Bytes, Nanos};
use engine::{
    CellSpec, Direct, Engine, IoRecord, Next, Outcome, Polling, Sink, Target, host_backend,
};
use plan::{BlockMix, Load, Pattern, Verb, Window};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 512 << 20;
/// I/Os of each model; four standard deviations of a half are 0.4 points.
const IOS: usize = 250_000;

struct Until(usize, usize);

impl Sink for Until {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        self.0 += sample.streams.iter().map(|stream| stream.ios() as usize).sum::<usize>();
        if self.0 >= self.1 { Next::Stop } else { Next::Continue }
    }
}

fn issued(loads: Vec<Load>) -> Vec<IoRecord> {
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").as_ref() };
    let folder = tempfile::tempdir_in(place).unwrap();
    let path = folder.path().join("data");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let target = Target {
        name: "data".into(),
        path,
        file: Some(Arc::new(file.into())),
        size: Bytes(SIZE),
        block: Bytes(512),
        direct: Direct::No,
        polling: Polling::Off,
        command: None,
    };
    let spec = CellSpec {
        loads,
        window: Window { ramp: Nanos(0), time: Some(Nanos(120_000_000_000)), amount: None },
        interval: Nanos(50_000_000),
        seed: 12,
        record_ios: IOS,
    };
    let mut backend = host_backend(Engine::Sync, vec![target], Clock::host());
    let end = backend.run(&spec, &mut Until(0, IOS), &AtomicBool::new(false)).unwrap();
    assert_eq!(end.outcome, Outcome::Completed);
    end.facts.records
}

/// The loads of a model as one worker issues them, one at a time: then the order is its own.
fn model(name: &str) -> Vec<Load> {
    let text = plan::find_builtin(name).unwrap().text;
    let plan = plan::parse(name, text, &[]).unwrap();
    let Some(Verb::Curve(curve)) = plan.steps.last().map(|step| &step.verb) else {
        panic!("a curve")
    };
    let one = |load: &Load| Load { workers: 1, depth: 1, ..load.clone() };
    curve.cell.loads.iter().map(one).collect()
}

fn share(n: usize, of: usize) -> f64 {
    n as f64 / of as f64 * 100.0
}

fn check_sizes(name: &str, mix: &BlockMix, records: &[&IoRecord]) -> f64 {
    let total: f64 = mix.0.iter().map(|(_, weight)| weight).sum();
    let mut worst: f64 = 0.0;
    for (block, weight) in &mix.0 {
        let n = records.iter().filter(|record| u64::from(record.len) == block.0).count();
        let (found, wanted) = (share(n, records.len()), weight / total * 100.0);
        assert!((found - wanted).abs() < 0.5, "{name}: {found} % of {block}, not {wanted}");
        worst = worst.max((found - wanted).abs());
    }
    worst
}

#[test]
fn the_models_issue_what_they_are_defined_as() {
    for name in ["oracle", "sql", "vdi", "vsi"] {
        let loads = model(name);
        let records = issued(loads.clone());
        assert!(records.len() >= IOS, "{}", records.len());
        let mut worst: f64 = 0.0;
        for load in &loads {
            let mine: Vec<&IoRecord> =
                records.iter().filter(|record| record.write == load.writes()).collect();
            let weights: f64 = loads.iter().filter_map(|load| load.weight).sum();
            let wanted = load.weight.unwrap() / weights * 100.0;
            let found = share(mine.len(), records.len());
            assert!((found - wanted).abs() < 0.5, "{name}: {found} % {}, not {wanted}", load.name);
            worst = worst.max((found - wanted).abs());
            let mix = if load.writes() { &load.write_blocks } else { &load.read_blocks };
            worst = worst.max(check_sizes(name, mix, &mine));
            let Pattern::Jumps(percent) = load.pattern else { panic!("{name}: jumps") };
            let on = mine.windows(2).filter(|w| w[1].offset == w[0].offset + u64::from(w[0].len));
            let jumps = 100.0 - share(on.count(), mine.len() - 1);
            assert!((jumps - percent).abs() < 0.5, "{name}: {jumps} % jump, not {percent}");
            worst = worst.max((jumps - percent).abs());
        }
        println!("{name}: {} I/Os, largest difference {worst:.2} points", records.len());
    }
}
