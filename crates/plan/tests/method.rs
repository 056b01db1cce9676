//! The verbs of a method and the suites made of them: every number a suite stands on, checked against
//! arithmetic on the specification.

use base::units::{Bytes, Nanos};
use plan::{
    Amount, Cell, Coordinate, Figure, Pattern, PickRule, Plan, Points, Purge, Rounds, Step, Sweep,
    Take, Verb, Way, Zone, estimate, estimate_most, find_builtin, parse,
};

fn suite(name: &str, settings: &[(&str, &str)]) -> Plan {
    let settings: Vec<(String, String)> =
        settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    parse(name, find_builtin(name).unwrap().text, &settings).unwrap_or_else(|e| panic!("{e}"))
}

fn step<'p>(steps: &'p [Step], path: &str) -> &'p Step {
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let found = steps.iter().find(|step| step.name == name);
    let found = found.unwrap_or_else(|| panic!("no step {name}"));
    if rest.is_empty() {
        return found;
    }
    step(children(found), rest)
}

fn children(step: &Step) -> &[Step] {
    match &step.verb {
        Verb::Repeat(repeat) => &repeat.steps,
        Verb::Rounds(rounds) => &rounds.steps,
        Verb::Points(points) => &points.steps,
        Verb::Group(steps) => steps,
        _ => &[],
    }
}

fn cell<'p>(plan: &'p Plan, path: &str) -> &'p Cell {
    match &step(&plan.steps, path).verb {
        Verb::Fill(cell) | Verb::Load(cell) => cell,
        other => panic!("{path} is {}", other.word()),
    }
}

fn rounds<'p>(plan: &'p Plan, path: &str) -> &'p Rounds {
    let Verb::Rounds(rounds) = &step(&plan.steps, path).verb else { panic!("rounds") };
    rounds
}

fn sweep<'p>(plan: &'p Plan, path: &str) -> &'p Sweep {
    let Verb::Sweep(sweep) = &step(&plan.steps, path).verb else { panic!("a sweep") };
    sweep
}

fn minutes(n: f64) -> Nanos {
    Nanos((n * 60e9) as u64)
}

fn hours(time: Nanos) -> f64 {
    time.as_secs_f64() / 3600.0
}

const ENTERPRISE: Bytes = Bytes(15_360_000_000_000);
const RATE: f64 = 4e9;

/// The run times of the fact sheet: least and most hours on a 15.36 TB drive at 4 GB/s.
#[test]
fn each_suite_takes_as_long_as_the_arithmetic_says() {
    for (name, least, most) in [
        ("pts-iops", 6.8, 25.5),
        ("pts-throughput", 4.6, 5.9),
        ("pts-latency", 3.2, 6.2),
        ("pts-wsat", 2.35, 6.33),
        ("pts-hir", 17.5, 28.0),
        ("pts-xsr", 22.0, 22.0),
        ("pts-cbw", 10.0, 38.5),
        ("pts-dirth", 10.0, 38.5),
        ("pts", 77.0, 171.0),
    ] {
        let plan = suite(name, &[]);
        let (low, high) = (estimate(&plan, ENTERPRISE), estimate_most(&plan, ENTERPRISE));
        let (low, high) = (hours(low.time(RATE)), hours(high.time(RATE)));
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.02;
        assert!(near(low, least) && near(high, most), "{name}: {low:.2} to {high:.2} h");
    }
}

#[test]
fn iops_has_its_matrix_in_the_mandated_order() {
    let plan = suite("pts-iops", &[]);
    let matrix = sweep(&plan, "wdpc/matrix");
    let labels: Vec<&str> = matrix.cells.iter().map(|cell| cell.label.as_str()).collect();
    assert_eq!(labels.len(), 56);
    assert_eq!(labels[..3], ["read=100 block=1024k", "read=100 block=128k", "read=100 block=64k"]);
    assert_eq!(labels[53..], ["read=0 block=8k", "read=0 block=4k", "read=0 block=512"]);
    assert!(matrix.cells.iter().all(|cell| cell.cell.window.time == Some(minutes(1.0))));
    let rounds = rounds(&plan, "wdpc");
    assert_eq!((rounds.most, rounds.rule.window), (25, 5));
    assert_eq!((rounds.rule.range_percent, rounds.rule.slope_percent), (20.0, 10.0));
    let tracked: Vec<String> = rounds.track.iter().map(plan::Track::describe).collect();
    assert_eq!(
        tracked,
        [
            "matrix read=0 block=4k iops",
            "matrix read=65 block=64k iops",
            "matrix read=100 block=1024k iops"
        ]
    );
}

#[test]
fn the_two_modes_set_range_cache_and_demand() {
    for (mode, range, cache, workers, depth) in
        [("enterprise", "Percent(100.0)", false, 4, 32), ("client", "Percent(75.0)", true, 2, 16)]
    {
        let plan = suite("pts-iops", &[("mode", mode)]);
        assert!(plan.claim.as_ref().unwrap().deviations.is_empty(), "a mode is no deviation");
        let wipc = cell(&plan, "wipc");
        assert_eq!(wipc.window.amount, Some(Amount::Capacities(2.0)));
        for load in [&wipc.loads[0], &sweep(&plan, "wdpc/matrix").cells[0].cell.loads[0]] {
            assert_eq!(format!("{:?}", load.range.1), range);
            assert_eq!((load.workers, load.depth), (workers, depth));
        }
        let Verb::Set(setting) = &step(&plan.steps, "write-cache").verb else { panic!("set") };
        assert_eq!(setting.write_cache, Some(cache));
        // Test cells and preconditioning of every suite stay within the range.
        for name in ["pts-wsat", "pts-hir", "pts-xsr", "pts-cbw", "pts-dirth", "pts-latency"] {
            let text = format!("{:?}", suite(name, &[("mode", mode)]).steps);
            let other = if mode == "client" { "Percent(100.0)" } else { "Percent(75.0)" };
            assert!(!text.contains(other), "{name} in {mode} mode leaves its range");
        }
    }
    // An operator's own choice of demand is none either; another cell time is.
    let own = suite("pts-iops", &[("mode", "client"), ("depth", "64")]);
    assert!(own.claim.unwrap().deviations.is_empty());
    let short = suite("pts-iops", &[("time", "10s")]);
    assert_eq!(short.claim.unwrap().deviations, ["time=10s instead of 60s"]);
}

#[test]
fn throughput_purges_and_fills_with_each_size_and_tracks_writes() {
    let plan = suite("pts-throughput", &[]);
    for (group, block) in [("seq-128k", 128 << 10), ("seq-1024k", 1 << 20)] {
        assert!(matches!(
            step(&plan.steps, &format!("{group}/purge")).verb,
            Verb::Purge(Purge::Auto)
        ));
        let wipc = cell(&plan, &format!("{group}/wipc"));
        assert_eq!(wipc.loads[0].write_blocks.max(), Bytes(block));
        let rounds = rounds(&plan, &format!("{group}/wdpc"));
        assert_eq!(rounds.track.len(), 1);
        assert_eq!(rounds.track[0].figure, Figure::Bandwidth);
        assert_eq!(rounds.track[0].at, [Coordinate { axis: "read".into(), value: "0".into() }]);
        let cells = &sweep(&plan, &format!("{group}/wdpc/throughput")).cells;
        let loads: Vec<(f64, Bytes, u32, u32)> = cells
            .iter()
            .map(|cell| &cell.cell.loads[0])
            .map(|load| (load.read_percent, load.block_max(), load.workers, load.depth))
            .collect();
        assert_eq!(loads, [(100.0, Bytes(block), 1, 32), (0.0, Bytes(block), 1, 32)]);
    }
}

#[test]
fn latency_ends_with_twenty_minutes_of_writes_at_one_outstanding() {
    let plan = suite("pts-latency", &[]);
    let matrix = sweep(&plan, "wdpc/latency");
    assert_eq!(matrix.cells.len(), 9);
    let one = |cell: &Cell| (cell.loads[0].workers, cell.loads[0].depth) == (1, 1);
    assert!(matrix.cells.iter().all(|cell| one(&cell.cell)));
    let track = &rounds(&plan, "wdpc").track[0];
    assert_eq!((track.figure, track.way), (Figure::Mean, Way::Both));
    let last = cell(&plan, "histogram");
    assert_eq!(last.window.time, Some(minutes(20.0)));
    assert_eq!((last.loads[0].read_percent, one(last)), (0.0, true));
}

#[test]
fn saturation_ends_at_the_first_of_time_amount_and_steady_state() {
    let plan = suite("pts-wsat", &[]);
    assert!(step(&plan.steps, "wsat").continuous, "no gap from purge to histogram");
    let load = cell(&plan, "wsat/saturation");
    assert_eq!(load.window.time, Some(minutes(360.0)));
    assert_eq!(load.window.amount, Some(Amount::Capacities(4.0)));
    let until = load.until.unwrap();
    assert_eq!((until.every, until.average), (minutes(30.0), minutes(1.0)));
    assert_eq!((until.rule.window, until.figure), (5, Figure::Iops));
    assert_eq!(cell(&plan, "wsat/histogram").window.time, Some(minutes(20.0)));
    let names: Vec<&str> =
        children(step(&plan.steps, "wsat")).iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["purge", "write-cache", "saturation", "histogram"], "no other writes");
}

#[test]
fn host_idle_recovery_has_five_wait_states_of_360_accesses() {
    let plan = suite("pts-hir", &[]);
    for (state, wait) in [(1, 5.0), (2, 10.0), (3, 15.0), (4, 25.0), (5, 50.0)] {
        let path = format!("state-{state}/wait");
        let Verb::Repeat(repeat) = &step(&plan.steps, &path).verb else { panic!("repeat") };
        assert_eq!((repeat.times, repeat.gap), (360, Nanos(0)));
        assert_eq!(cell(&plan, &format!("{path}/access")).window.time, Some(minutes(5.0 / 60.0)));
        let Verb::Idle(idle) = step(&plan.steps, &format!("{path}/idle")).verb else { panic!() };
        assert_eq!(idle, minutes(wait / 60.0));
        let baseline = cell(&plan, &format!("state-{state}/baseline"));
        assert_eq!(baseline.window.time, Some(minutes(30.0)));
    }
    assert_eq!(cell(&plan, "precondition/saturation").window.time, Some(minutes(750.0)));
}

#[test]
fn cross_stimulus_recovery_is_one_continuous_process() {
    let plan = suite("pts-xsr", &[]);
    assert!(step(&plan.steps, "xsr").continuous);
    for (name, hours, block) in
        [("group-1", 8.0, 1 << 20), ("group-2", 6.0, 8 << 10), ("group-3", 8.0, 1 << 20)]
    {
        let cell = cell(&plan, &format!("xsr/{name}"));
        assert_eq!(cell.window.time, Some(minutes(hours * 60.0)));
        assert_eq!(cell.loads[0].block_max(), Bytes(block));
        assert_eq!((cell.loads[0].workers, cell.loads[0].depth), (1, 32));
        let sequential = matches!(cell.loads[0].pattern, Pattern::Sequential(_));
        assert_eq!(sequential, block > 8 << 10, "{name}");
    }
}

#[test]
fn the_composite_workload_has_its_sizes_its_skew_and_its_points() {
    let plan = suite("pts-cbw", &[]);
    let load = &cell(&plan, "demand/pre-write").loads[0];
    let shares: Vec<(u64, f64)> = load.write_blocks.0.iter().map(|(b, w)| (b.0, *w)).collect();
    assert_eq!(
        shares,
        [
            (512, 4.0),
            (1024, 1.0),
            (1536, 1.0),
            (2048, 1.0),
            (2560, 1.0),
            (3072, 1.0),
            (3584, 1.0),
            (4096, 67.0),
            (8192, 10.0),
            (16384, 7.0),
            (32768, 3.0),
            (65536, 3.0)
        ]
    );
    let (sum, mean) = shares.iter().fold((0.0, 0.0), |(s, m), (b, w)| (s + w, m + *b as f64 * w));
    assert_eq!(sum, 100.0);
    assert!((mean / 100.0 / 1024.0 - 7.635).abs() < 0.001, "{mean}");
    let zone = |access, size| Zone { access, size };
    assert_eq!(
        load.pattern,
        Pattern::Zones(vec![zone(50.0, 5.0), zone(30.0, 15.0), zone(20.0, 80.0)])
    );
    assert_eq!((load.workers, load.depth, load.read_percent), (32, 32, 0.0));
    let cells = &sweep(&plan, "demand/cells").cells;
    assert_eq!(cells.len(), 49);
    let demand = |at: usize| (cells[at].cell.loads[0].workers, cells[at].cell.loads[0].depth);
    assert_eq!((demand(0), demand(1), demand(48)), ((32, 32), (32, 16), (1, 1)), "high to low");
    assert!(cells.iter().all(|cell| cell.cell.loads[0].read_percent == 40.0));
    let Verb::Points(Points { below, picks, take, .. }) = &step(&plan.steps, "operating").verb
    else {
        panic!("points")
    };
    assert_eq!(*below, Some((Figure::Mean, 5e6)));
    assert_eq!(take, &[Take::Workers, Take::Depth]);
    let names: Vec<&str> = picks.iter().map(|pick| pick.name.as_str()).collect();
    assert_eq!(names, ["max", "mid", "min"]);
    assert_eq!(picks[1].rule, PickRule::Between(Figure::Iops, "max".into(), "min".into()));
    assert_eq!(cell(&plan, "operating/pre-write").window.time, Some(minutes(60.0)));
    assert_eq!(cell(&plan, "operating/histogram").window.time, Some(minutes(10.0)));
}

#[test]
fn the_set_passes_mode_on_and_gathers_what_is_unverified() {
    let plan = suite("pts", &[("mode", "client")]);
    let load = &sweep(&plan, "iops/wdpc/matrix").cells[0].cell.loads[0];
    assert_eq!((load.workers, load.depth), (2, 16));
    let claim = plan.claim.unwrap();
    assert!(claim.deviations.is_empty() && claim.unverified.len() > 8);
    let one = suite("pts", &[("purges", "one")]);
    let text = format!("{:?}", one.steps);
    assert_eq!(text.matches("Purge(Auto)").count(), 1);
    assert!(!one.claim.unwrap().deviations.is_empty());
}

#[test]
fn mistakes_of_a_method_are_named_with_their_place() {
    let mistake = |body: &str| {
        let text = format!("name = \"t\"\n[[step]]\nname = \"a\"\n{body}\n");
        parse("p.toml", &text, &[]).map(|_| String::new()).unwrap_or_else(|e| e.to_string())
    };
    let child = "\n[[step.step]]\nname = \"c\"\nload = { time = 1 }";
    for (body, expected) in [
        ("purge = \"wipe\"", "unknown word `wipe`"),
        ("set = {}", "needs what is to be set"),
        ("rounds = { most = 3 }", "needs `track`"),
        ("rounds = { most = 3, track = [{ step = \"c\" }] }", "at least the `window`"),
        ("rounds = { track = [{ step = \"x\" }] }", "no child step has a cell `x iops`"),
        ("rounds = { track = [{ step = \"c\", at = { read = 1 } }] }", "no child step has a cell"),
        ("rounds = { track = [{ step = \"c\", figure = \"p12\" }] }", "unknown figure `p12`"),
        ("rounds = { window = 2, track = [{ step = \"c\" }] }", "whole number from 3"),
        ("points = { pick = [] }", "needs `from`"),
        ("points = { from = \"s\", pick = [{ name = \"x\" }] }", "one of `highest`"),
        (
            "points = { from = \"s\", pick = [{ name = \"m\", between = [\"a\", \"b\"] }] }",
            "names two other points",
        ),
        ("points = { from = \"s\", below = { speed = 1 }, pick = [] }", "`speed` is no figure"),
    ] {
        let found = mistake(&format!("{body}{child}"));
        assert!(found.contains(expected), "{body}: {found}");
        assert!(found.starts_with("p.toml:"), "{found}");
    }
    for (body, expected) in [
        ("load = { time = 1, until = { average = 1 } }", "needs `every`"),
        ("load = { time = 1, until = { every = 1, average = 2 } }", "at most `every`"),
        ("load = { amount = \"-1x capacity\" }", "no number of capacities"),
        ("load = { time = 1, stability = [\"2s\", \"1s\"] }", "ends before it starts"),
        ("plan = \"pts-iop\"", "did you mean `pts-iops`?"),
        ("plan = \"pts-iops\"\nwith = { tempo = 1 }", "unknown parameter `tempo`"),
        ("repeat = 1\n[[step.step]]\nplan = \"quick\"", "top level"),
        ("continuous = 1\nidle = 1", "true or false"),
    ] {
        let found = mistake(body);
        assert!(found.contains(expected), "{body}: {found}");
    }
    let bad_choice = parse(
        "pts-iops",
        find_builtin("pts-iops").unwrap().text,
        &[("mode".into(), "home".into())],
    );
    assert!(bad_choice.unwrap_err().to_string().contains("unknown choice `home`"));
}

#[test]
fn a_plan_to_skip_a_step_of_must_have_it() {
    let text = "name=\"t\"\n[[step]]\nplan=\"pts-iops\"\nskip=[\"purge\", \"nothing\"]\n";
    let error = plan::parse("t", text, &[]).unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("skip"), "{error}");
    let text = text.replace(", \"nothing\"", "");
    plan::parse("t", &text, &[]).unwrap();
}

#[test]
fn settings_are_read_and_mistakes_in_them_named() {
    let parse = |set: &str| {
        let text = format!("name=\"t\"\n[[step]]\nset={{{set}}}\n");
        plan::parse("t", &text, &[]).map_err(|error| error.to_string())
    };
    let plan = parse("power=\"15W\", thermal=[\"60C\", \"70C\"], placement=\"far\"").unwrap();
    let Verb::Set(setting) = &plan.steps[0].verb else { panic!("set") };
    assert_eq!((setting.power_w, setting.thermal_c), (Some(15.0), Some((60, 70))));
    for (wrong, says) in [
        ("", "what is to be set"),
        ("power=\"15\"", "such as"),
        ("power=\"15W\", power_state=1", "leave one out"),
        ("thermal=[\"70C\", \"60C\"]", "two rising"),
        ("placement=\"near\"", "cores=0-3"),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(says), "{wrong}: {error}");
    }
    let late = "name=\"t\"\n[[step]]\nload={time=1}\n[[step]]\nset={over_provision=\"80%\"}\n";
    let error = plan::parse("t", late, &[]).unwrap_err().to_string();
    assert!(error.contains("set it in the first step"), "{error}");
    let first = late.replace("load={time=1}", "set={over_provision=\"80%\"}");
    assert!(
        plan::parse("t", &first.replacen("[[step]]\nset={over_provision=\"80%\"}\n", "", 1), &[])
            .unwrap()
            .writes()
    );
}
