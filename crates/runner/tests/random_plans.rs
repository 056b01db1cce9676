//! Plans nobody would write, run in virtual time: no panic, every cell accounted for, and every I/O
//! counted alike by intervals, cells and the drive (the virtual drive; no device).

use base::sample::StreamSample;
use plan::{Step, Verb};
use proptest::prelude::*;
use runner::{Progress, RunError, RunOptions, Targets};
use sim::VirtualTarget;
use std::sync::atomic::AtomicBool;
use store::{RunFile, State};

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("pattern=\"random\"".to_owned()),
        Just("pattern=\"random-once\"".to_owned()),
        Just("pattern=\"sequential\"".to_owned()),
        Just("pattern=\"sequential\", streams=\"per-worker\"".to_owned()),
        (1u32..20).prop_map(|t| format!("pattern=\"zipf\", theta={}", f64::from(t) / 10.0)),
        Just("pattern=\"zones\", zones=\"50/5:30/15:20/80\"".to_owned()),
    ]
}

fn demand() -> impl Strategy<Value = String> {
    let arrival = prop_oneof![Just("poisson"), Just("uniform"), Just("deterministic")];
    prop_oneof![
        3 => (1u32..65, 1u32..5).prop_map(|(d, w)| format!("depth={d}, workers={w}")),
        1 => (100u32..400_000, 1u32..65, arrival).prop_map(|(rate, depth, arrival)| {
            format!("rate={rate}, depth={depth}, arrival=\"{arrival}\", backlog=500")
        }),
    ]
}

fn load() -> impl Strategy<Value = String> {
    let block = prop_oneof![Just("512"), Just("4k"), Just("12k"), Just("128k"), Just("1M")];
    let window = prop_oneof![
        3 => (1u32..60).prop_map(|ms| format!("time=\"{ms}ms\"")),
        1 => (1u32..40, 1u32..20).prop_map(|(t, r)| format!("time=\"{t}ms\", ramp=\"{r}ms\"")),
        1 => (1u32..40).prop_map(|mb| format!("amount=\"{mb}MB\", time=\"2s\"")),
    ];
    let range = prop_oneof![
        3 => Just(""),
        1 => Just(", range=[\"10%\", \"60%\"]"),
        1 => Just(", range=\"5%\""),
    ];
    (pattern(), block, 0u32..=100, demand(), window, range).prop_map(
        |(pattern, block, read, demand, window, range)| {
            format!("{{ {pattern}, block=\"{block}\", read={read}, {demand}, {window}{range} }}")
        },
    )
}

/// A step without children, but for the head of its table.
fn leaf() -> impl Strategy<Value = String> {
    let over = "over={read=[0, 50, 100], block=[\"4k\", \"64k\"]}";
    prop_oneof![
        4 => load().prop_map(|load| format!("load={load}")),
        1 => (1u32..30).prop_map(|mb| {
            format!("fill={{block=\"128k\", amount=\"{mb}MB\", time=\"1s\"}}")
        }),
        1 => load().prop_map(move |load| format!("sweep={{{over}, load={load}}}")),
        1 => Just("curve={load={depth=16, time=\"10ms\"}, percents=[10, 50, 120]}".to_owned()),
        1 => (1u32..500).prop_map(|ms| format!("idle=\"{ms}ms\"")),
        1 => Just("purge=\"auto\"".to_owned()),
        1 => Just("set={write_cache=\"off\"}".to_owned()),
        1 => (2u32..9).prop_map(|ms| {
            let until = format!("until={{every=\"{ms}ms\", average=\"1ms\", window=3}}");
            format!("load={{read=0, depth=8, time=\"200ms\", {until}}}")
        }),
    ]
}

fn nested(head: &str, children: &[String]) -> String {
    let inner: String = children.iter().map(|leaf| format!("[[step.step]]\n{leaf}\n")).collect();
    format!("[[step]]\n{head}\n{inner}")
}

/// A sweep, and the points chosen from it.
fn with_points(load: &str) -> String {
    format!(
        "[[step]]\nname=\"s\"\nsweep={{over={{depth=[1, 4, 16]}}, load={load}}}\n\
         [[step]]\nname=\"p\"\n\
         points={{from=\"s\", pick=[{{name=\"max\", highest=\"iops\"}}], take=[\"depth\"]}}\n\
         [[step.step]]\nload={{time=\"10ms\"}}\n"
    )
}

fn plans() -> impl Strategy<Value = String> {
    let children = || prop::collection::vec(leaf(), 1..4);
    let step = prop_oneof![
        3 => leaf().prop_map(|leaf| format!("[[step]]\n{leaf}\n")),
        1 => (1u32..4, children()).prop_map(|(n, c)| nested(&format!("repeat={n}"), &c)),
        1 => (3u32..7, children()).prop_map(|(most, mut c)| {
            c.push("name=\"t\"\nload={read=30, depth=4, time=\"10ms\"}".into());
            let head = format!("rounds={{most={most}, window=3, track=[{{step=\"t\"}}]}}");
            nested(&head, &c)
        }),
        1 => load().prop_map(|load| with_points(&load)),
    ];
    (prop::collection::vec(step, 1..5), 1u32..1000).prop_map(|(steps, seed)| {
        // Names must differ: only the first sweep with points stays.
        let mut named = false;
        let kept = steps.into_iter().filter(|step| {
            let is_named = step.contains("name=\"s\"");
            let keep = !is_named || !named;
            named |= is_named;
            keep
        });
        format!("name=\"random\"\nseed={seed}\ninterval=\"10ms\"\n{}", kept.collect::<String>())
    })
}

/// Cells a plan has at least and at most.
fn cells(steps: &[Step]) -> (usize, usize) {
    let mut sum = (0, 0);
    for step in steps {
        let times =
            |(least, most): (usize, usize), a: u32, b: u32| (least * a as usize, most * b as usize);
        let (least, most) = match &step.verb {
            Verb::Fill(_) | Verb::Load(_) => (1, 1),
            Verb::Sweep(sweep) => (sweep.cells.len(), sweep.cells.len()),
            Verb::Curve(curve) => (1 + curve.percents.len(), 1 + curve.percents.len()),
            Verb::Repeat(repeat) => times(cells(&repeat.steps), repeat.times, repeat.times),
            Verb::Rounds(rounds) => times(cells(&rounds.steps), rounds.rule.window, rounds.most),
            Verb::Points(points) => {
                times(cells(&points.steps), points.picks.len() as u32, points.picks.len() as u32)
            }
            Verb::Group(steps) => cells(steps),
            Verb::Idle(_) | Verb::Purge(_) | Verb::Set(_) => (0, 0),
        };
        sum = (sum.0 + least, sum.1 + most);
    }
    sum
}

fn check(text: &str, target: &str) -> Result<(), TestCaseError> {
    let Ok(plan) = plan::parse("random", text, &[]) else {
        return Err(TestCaseError::reject("the language refuses it, which is as good"));
    };
    let folder = tempfile::tempdir().unwrap();
    let targets = [VirtualTarget::parse(target).unwrap()];
    let options = RunOptions {
        plan: &plan,
        targets: Targets::Virtual(&targets),
        destroy: &[],
        read_only: false,
        engine: engine::Engine::Uring,
        file: folder.path().join("run.fathom"),
        ledger: None,
        settings: std::path::PathBuf::new(),
        telemetry: None,
        placement: plan::Placement::default(),
        before: &[],
        reuse: false,
        journaling: runner::Journaling::Off,
    };
    let end = runner::run(&options, &mut |_: Progress<'_>| {}, &AtomicBool::new(false));
    let end = match end {
        Ok(end) => end,
        Err(error @ RunError::Engine { .. }) => {
            prop_assert!(error.to_string().contains("range"), "{error}");
            return Ok(());
        }
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    prop_assert!(matches!(end.state, State::Done | State::Invalid), "{end:?}");
    let run = RunFile::open(&options.file).unwrap();
    let (least, most) = cells(&plan.steps);
    let n = run.cells.len();
    prop_assert!((least..=most).contains(&n), "{n} cells, expected {least} to {most}");
    run.cells.iter().try_for_each(|cell| check_cell(&run, cell))
}

/// Intervals, cell and drive count the same.
fn check_cell(run: &RunFile, cell: &store::CellRecord) -> Result<(), TestCaseError> {
    prop_assert_eq!(cell.status.as_str(), "done");
    let (mut counted, mut all) = (StreamSample::default(), StreamSample::default());
    for sample in run.intervals(cell.id).unwrap() {
        for stream in &sample.streams {
            all.merge(stream);
            if !sample.ramp {
                counted.merge(stream);
            }
        }
    }
    prop_assert_eq!(&counted, &cell.merged(), "{}: intervals and cell", cell.path);
    let judged = |name: &str| {
        run.verdicts.iter().find(|verdict| verdict.cell == Some(cell.id) && verdict.name == name)
    };
    let device = &judged("device-counters").expect("the drive counts").evidence["device"];
    prop_assert_eq!(device["read"].as_u64(), Some(all.reads.bytes), "{}", cell.path);
    prop_assert_eq!(device["written"].as_u64(), Some(all.writes.bytes), "{}", cell.path);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_plan_is_accounted_for_in_exact_mode(text in plans()) {
        check(&text, "sim:d5-p5430,capacity=64MB,mode=exact")?;
    }

    #[test]
    fn every_plan_is_accounted_for_in_intervals(text in plans()) {
        check(&text, "sim:client,capacity=256MB,samples=2000")?;
    }
}
