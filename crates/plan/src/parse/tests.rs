use super::parse;
use crate::load::*;
use crate::model::*;
use crate::{BUILTIN, Estimate, estimate};
use base::units::{Bytes, Nanos};
use proptest::prelude::*;

/// The mistakes of a plan as one text.
fn mistakes(text: &str) -> String {
    match parse("p.toml", text, &[]) {
        Ok(_) => "none".into(),
        Err(errors) => errors.to_string(),
    }
}

fn step(body: &str) -> String {
    format!("name = \"t\"\n[[step]]\nname = \"a\"\n{body}\n")
}

/// Checks that a step's mistake is reported with this text at the step's fourth line.
fn check(body: &str, expected: &str) {
    let found = mistakes(&step(body));
    assert!(found.contains(expected), "for {body}\nexpected {expected}\nfound {found}");
    assert!(found.starts_with("p.toml:"), "{found}");
}

#[test]
fn every_built_in_plan_is_right() {
    for plan in BUILTIN {
        let parsed = parse(plan.name, plan.text, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(parsed.name, plan.name);
        assert!(!parsed.title.is_empty());
        let cost = estimate(&parsed, Bytes(1 << 30));
        assert!(cost.cells > 0 && cost.timed > Nanos(0), "{}", plan.name);
    }
}

#[test]
fn mistakes_name_line_and_remedy() {
    let found = mistakes(&step("load = { bloksize = \"4k\", time = \"1s\" }"));
    insta::assert_snapshot!(found, @"p.toml:4:10: unknown key `bloksize`, did you mean `block`? (in a load)");
    let found = mistakes("name = \"t\"\n[[step]]\nload = { block = \"4q\", time = \"1s\" }");
    insta::assert_snapshot!(found, @"p.toml:3:18: `4q` is not a size such as 4k, 128KiB, 1MB or 15.36TB");
}

#[test]
fn each_kind_of_mistake_is_found() {
    check("load = { time = 1, pattern = \"randm\" }", "did you mean `random`?");
    check("load = { time = 1, read = 101 }", "must be from 0 to 100 percent");
    check("load = { time = 1, depth = 0 }", "whole number from 1 to 4096");
    check("load = { time = 1, depth = 1.5 }", "whole number");
    check("load = { time = 1, block = 100 }", "multiple of 512");
    check("load = { time = 1, workers = \"many\" }", "expected a number, found the text `many`");
    check("load = { time = 1, range = [\"50%\", \"10%\"] }", "ends before it starts");
    check("load = { time = 1, arrival = \"poisson\" }", "needs a `rate`");
    check("load = { time = 1, rate = 0 }", "from 0.001 to 1e9");
    check("load = { }", "needs `time` or `amount`");
    check("load = { time = 0 }", "`time` must be above zero");
    check("load = { amount = \"0x\" }", "no number of passes");
    check("load = { time = 1, pattern = \"zones\" }", "needs zones =");
    check("load = { time = 1, pattern = \"zones\", zones = \"50/5:30/15\" }", "sum to 100");
    check("load = { time = 1, data = { compress = 0.5 } }", "a ratio is from 1 to 1000");
    check("load = { time = 1, block = \"$blok\" }", "unknown parameter `blok`");
    check("load = { time = 1, block = {\"4k\" = 0} }", "weight must be above zero");
    check("load = [{depth = 1, weight = 1}, {depth = 2, weight = 1}]\ntime = 1", "same depth");
    check("load = { time = 1 }\nidle = 1", "a step has one verb");
    check("time = 1", "a step needs a verb");
    check("sweep = { over = { dept = [1] }, load = { time = 1 } }", "unknown axis `dept`");
    check("sweep = { load = { time = 1 } }", "needs `over`");
    check("curve = { percents = [10], load = { time = 1, rate = 5 } }", "cannot have a `rate`");
    check("repeat = 3", "needs child steps");
    check("fill = { read = 50 }", "a fill writes only");
    check("load = { time = 1, block = \"64MiB\", depth = 4096 }", "over 4 GiB of buffers");
    assert!(mistakes("name = \"t\"").contains("at least one [[step]]"));
    assert!(mistakes("[[step]]\nidle = 1").contains("needs a `name`"));
    assert!(mistakes("name = ").contains("not valid TOML"));
    let twice = "name=\"t\"\n[[step]]\nname=\"a\"\nidle=1\n[[step]]\nname=\"a\"\nidle=1";
    assert!(mistakes(twice).contains("two steps have the name `a`"));
}

#[test]
fn settings_change_declared_parameters_within_limits() {
    let text = "name=\"t\"\n[params]\ntime={default=\"60s\", min=\"1s\", max=\"1h\"}\n\
                depth={default=\"1,2\", kind=\"text\"}\n\
                [[step]]\nsweep={over={depth=\"$depth\"}, load={time=\"$time\"}}";
    let set = |name: &str, value: &str| {
        parse("p", text, &[(name.to_owned(), value.to_owned())]).map_err(|e| e.to_string())
    };
    let plan = set("time", "5s").unwrap();
    let Verb::Sweep(sweep) = &plan.steps[0].verb else { panic!("a sweep") };
    assert_eq!(sweep.cells.len(), 2);
    assert_eq!(sweep.cells[1].cell.window.time, Some(Nanos(5_000_000_000)));
    assert_eq!(sweep.cells[1].label, "depth=2");
    let plan = set("depth", "4,8,16").unwrap();
    let Verb::Sweep(sweep) = &plan.steps[0].verb else { panic!("a sweep") };
    assert_eq!(sweep.cells.len(), 3);
    assert!(set("time", "0.5s").unwrap_err().contains("below its least value 1s"));
    assert!(set("time", "2h").unwrap_err().contains("above its greatest value 1h"));
    assert!(set("tiem", "2s").unwrap_err().contains("did you mean `time`?"));
}

#[test]
fn sweep_axes_keep_the_order_they_are_written_in() {
    let text =
        "name=\"t\"\n[[step]]\nsweep={over={workers=[2,1], block=[\"8k\",\"4k\"]}, load={time=1}}";
    let plan = parse("p", text, &[]).unwrap();
    let Verb::Sweep(sweep) = &plan.steps[0].verb else { panic!("a sweep") };
    let labels: Vec<&str> = sweep.cells.iter().map(|cell| cell.label.as_str()).collect();
    assert_eq!(
        labels,
        ["workers=2 block=8k", "workers=2 block=4k", "workers=1 block=8k", "workers=1 block=4k"]
    );
}

#[test]
fn a_curve_takes_several_loads_and_a_load_a_share_of_random() {
    let text = "name=\"p\"\n[[step]]\nname=\"c\"\n[step.curve]\npercents=[50]\ntime=\"1s\"\n\
                [[step.curve.load]]\nread=100\nweight=83\nrandom=80\n\
                [[step.curve.load]]\nread=0\nweight=17\nrange=[\"50%\",\"100%\"]\n";
    // `random` belongs to the pattern of that name, which has to be written.
    let error = parse("p", text, &[]);
    let text = text.replace("random=80", "pattern=\"random\"\nrandom=80");
    let plan = parse("p", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Curve(curve) = &plan.steps[0].verb else { panic!("a curve") };
    assert_eq!(curve.cell.loads.len(), 2);
    assert_eq!(curve.cell.window.time, Some(Nanos(1_000_000_000)));
    assert_eq!(curve.cell.loads[0].pattern, Pattern::Jumps(80.0));
    assert_eq!(curve.cell.loads[1].pattern, Pattern::Random);
    assert!(error.is_err());
}

#[test]
fn a_full_load_is_read_as_written() {
    let text = step(
        "time = \"10s\"\nramp = \"2s\"\n\
         [[step.load]]\nname = \"log\"\npattern = \"sequential\"\nstreams = \"per-worker\"\n\
         block = \"64k\"\nread = 0\nweight = 10\ndepth = 4\nrange = [\"0%\", \"10%\"]\n\
         data = { compress = 2, dedup = 3, unit = \"8k\" }\n\
         [[step.load]]\nname = \"db\"\npattern = \"zones\"\nzones = \"50/5:30/15:20/80\"\n\
         block = { read = \"8k\", write = { \"8k\" = 90, \"16k\" = 10 } }\nread = 70\nweight = 90\ndepth = 4",
    );
    let plan = parse("p", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    assert_eq!(cell.window.ramp, Nanos(2_000_000_000));
    let (log, db) = (&cell.loads[0], &cell.loads[1]);
    assert_eq!(log.pattern, Pattern::Sequential(Streams::PerWorker));
    assert_eq!(log.data.dedup_ratio, 3.0);
    assert_eq!(db.read_blocks, BlockMix::one(Bytes(8192)));
    assert_eq!(db.write_blocks.0, vec![(Bytes(8192), 90.0), (Bytes(16384), 10.0)]);
    assert!(matches!(&db.pattern, Pattern::Zones(zones) if zones.len() == 3));
    assert_eq!(db.describe(), "ZONE8K 70/30 Q4T1");
}

#[test]
fn estimates_add_up() {
    let text = "name=\"t\"\n[[step]]\nname=\"f\"\nfill={amount=\"2x\"}\n\
                [[step]]\nname=\"r\"\nrepeat={times=3, gap=\"1s\"}\n\
                [[step.step]]\nload={time=10, ramp=2, read=70}";
    let plan = parse("p", text, &[]).unwrap();
    let cost = estimate(&plan, Bytes(1 << 30));
    let expected = Estimate {
        timed: Nanos(38_000_000_000),
        amount: Bytes(2 << 30),
        amount_written: Bytes(2 << 30),
        timed_writing: Nanos(10_800_000_000),
        cells: 4,
    };
    assert_eq!(cost.timed, expected.timed);
    assert_eq!((cost.amount, cost.amount_written), (expected.amount, expected.amount_written));
    assert!(cost.timed_writing.0.abs_diff(expected.timed_writing.0) < 10);
    assert_eq!(cost.cells, expected.cells);
}

/// Fragments that hit many branches when shuffled.
const WORDS: [&str; 26] = [
    "name",
    "=",
    "\"t\"",
    "\n",
    "[[step]]",
    "[params]",
    "load",
    "{",
    "}",
    "time",
    "1",
    ",",
    "block",
    "\"4k\"",
    "sweep",
    "over",
    "[",
    "]",
    "\"$time\"",
    "default",
    "repeat",
    "[[step.step]]",
    "curve",
    "percents",
    "read",
    "-1e400",
];

proptest! {
    #[test]
    fn shuffled_plans_never_panic(picks in prop::collection::vec(0..WORDS.len(), 0..60)) {
        let text: Vec<&str> = picks.iter().map(|&i| WORDS[i]).collect();
        let _ = parse("p", &text.join(" "), &[]);
    }

    #[test]
    fn damaged_plans_never_panic(at in 0usize..2000, byte: u8, which in 0..BUILTIN.len()) {
        let mut text = BUILTIN[which].text.as_bytes().to_vec();
        let at = at % text.len();
        text[at] = byte;
        let _ = parse("p", &String::from_utf8_lossy(&text), &[]);
    }
}
