use super::*;
use crate::{Arrival, Demand, Pattern, Plan, Verb};
use base::units::{Bytes, Nanos};
use proptest::prelude::*;

struct Nothing;

impl Surroundings for Nothing {
    fn include(&self, path: &str) -> Result<String, String> {
        match path {
            "sds.parm" => Ok("sd=sd1,lun=/dev/a,openflags=o_direct\n".into()),
            "nested.parm" => Ok("include=sds.parm\n".into()),
            _ => Err("not there".into()),
        }
    }

    fn variable(&self, _name: &str) -> String {
        String::new()
    }
}

fn imported(text: &str) -> (Plan, Imported) {
    let found = vdbench_parameters("a.vdb", text, &[], &Nothing).unwrap_or_else(|e| panic!("{e}"));
    let plan = crate::parse("a", &found.plan, &[]);
    (plan.unwrap_or_else(|e| panic!("{e}\n{}", found.plan)), found)
}

fn refused(text: &str) -> String {
    vdbench_parameters("a.vdb", text, &[], &Nothing).expect_err("it is refused").to_string()
}

fn cell(plan: &Plan, at: usize) -> &crate::Cell {
    match &plan.steps[at].verb {
        Verb::Load(cell) => cell,
        Verb::Curve(curve) => &curve.cell,
        other => panic!("{other:?}"),
    }
}

const SD: &str = "sd=sd1,lun=/dev/a,openflags=o_direct,threads=16\n";

#[test]
fn a_usual_file_is_the_same_load() {
    let text = "* a comment\nsd=default,openflags=o_direct,threads=32\nsd=sd1,lun=/dev/a\nsd=sd2,lun=/dev/b\n\
                wd=wd1,sd=sd*,xfersize=8k,rdpct=70,seekpct=random   and what follows is a comment\n\
                rd=run1,wd=wd1,iorate=max,elapsed=2m,interval=5,warmup=30\n";
    let (plan, found) = imported(text);
    assert_eq!(found.targets, ["/dev/a", "/dev/b"]);
    assert!(found.notes.iter().all(|note| !note.differs), "{:?}", found.notes);
    let cell = cell(&plan, 0);
    assert_eq!(plan.steps[0].name, "run1");
    assert_eq!(
        (cell.window.time, cell.window.ramp),
        (Some(Nanos(120 * 1_000_000_000)), Nanos(30_000_000_000))
    );
    let load = &cell.loads[0];
    assert_eq!((load.depth, load.read_percent, load.block_max()), (32, 70.0, Bytes(8192)));
    assert_eq!((load.pattern.clone(), load.targets.len()), (Pattern::Random, 0));
}

#[test]
fn curves_skews_and_mixes_of_sizes() {
    let text = format!(
        "compratio=3\ndedupratio=2\ndedupunit=4k\n{SD}\
         wd=reads,sd=sd1,rdpct=100,seekpct=80,skew=83.14,xfersize=(4k,25,8k,75)\n\
         wd=writes,sd=sd1,rdpct=0,seekpct=seq,range=(50,100)\n\
         rd=curve,wd=(reads,writes),iorate=curve,curve=(10-50,20),el=60,in=1\n"
    );
    let (plan, found) = imported(&text);
    let Verb::Curve(curve) = &plan.steps[0].verb else { panic!("a curve") };
    assert_eq!(curve.percents, [10.0, 30.0, 50.0]);
    assert_eq!(curve.arrival, Arrival::Poisson);
    let [reads, writes] = curve.cell.loads.as_slice() else { panic!("two loads") };
    assert_eq!(reads.pattern, Pattern::Jumps(80.0));
    assert_eq!(reads.read_blocks.0, [(Bytes(4096), 25.0), (Bytes(8192), 75.0)]);
    let weights = [reads, writes].map(|load| load.weight.unwrap());
    assert!((weights[0] / (weights[0] + weights[1]) - 0.8314).abs() < 1e-9);
    assert_eq!((writes.data.compress_ratio, writes.data.dedup_ratio), (3.0, 2.0));
    let size = Bytes(1000 << 20);
    assert_eq!(writes.range.0.resolve(size), Bytes(500 << 20));
    assert!(found.notes.iter().any(|n| n.differs && n.text.contains("wait before a thread")));
}

#[test]
fn loops_are_nested_in_the_order_they_stand() {
    let text = format!(
        "{SD}wd=wd1,sd=sd1,rdpct=100\n\
         rd=run1,wd=wd1,iorate=(100,200),forthreads=(1-4,d),forxfersize=(4k,8k),elapsed=10\n"
    );
    let (plan, _) = imported(&text);
    let all: Vec<(u32, u64, f64)> = (0..plan.steps.len())
        .map(|at| {
            let load = &cell(&plan, at).loads[0];
            let Demand::Open { rate_iops, .. } = load.demand else { panic!("a rate") };
            (load.depth, load.block_max().0, rate_iops)
        })
        .collect();
    assert_eq!(all.len(), 12);
    assert_eq!(all[..4], [(1, 4096, 100.0), (1, 4096, 200.0), (1, 8192, 100.0), (1, 8192, 200.0)]);
    assert_eq!(all[11], (4, 8192, 200.0));
    let names: std::collections::HashSet<&str> =
        plan.steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names.len(), 12);
}

#[test]
fn rates_are_divided_hits_are_a_load_and_clones_have_numbers() {
    let text = "sd=sd,lun=/dev/x,count=(1,2),openflags=directio,hitarea=4m\n\
                wd=wd1,sd=sd1-sd2,rdpct=80,rhpct=25\nrd=r,wd=wd1,iorate=1000,elapsed=5,\n  \ninterval=1\n";
    let (plan, found) = imported(text);
    assert_eq!(found.targets, ["/dev/x1", "/dev/x2"]);
    let [hits, rest] = cell(&plan, 0).loads.as_slice() else { panic!("two loads") };
    assert_eq!((hits.read_percent, hits.range.1.resolve(Bytes(1 << 40))), (100.0, Bytes(4 << 20)));
    assert!((hits.weight.unwrap() - 0.2).abs() < 1e-9 && (rest.weight.unwrap() - 0.8).abs() < 1e-9);
    assert!((rest.read_percent - 75.0).abs() < 1e-9);
    let Demand::Open { rate_iops, .. } = rest.demand else { panic!("a rate") };
    assert_eq!(rate_iops, 500.0, "on each of two targets");
}

#[test]
fn the_files_of_the_four_models_become_what_they_literally_are() {
    // One share of reads for both workloads: their author meant reads and writes apart.
    let text = format!(
        "{SD}wd=wd1,sd=sd1,rdpct=100,xfersize=(4k,50,8k,50)\nwd=wd2,sd=sd1,rdpct=0,xfersize=64k\n\
         rd=r,wd=wd*,forrdpct=83.14,iorate=max,elapsed=10\n"
    );
    let (plan, found) = imported(&text);
    assert!(cell(&plan, 0).loads.iter().all(|load| (load.read_percent - 83.14).abs() < 1e-9));
    assert!(
        found.notes.iter().any(|n| n.differs && n.text.contains("become the same mix")),
        "{:?}",
        found.notes
    );
}

#[test]
fn what_cannot_be_the_same_is_refused_with_file_and_line() {
    for (line, words) in [
        ("fsd=fsd1,anchor=/x", "file-system workloads"),
        ("wd=w,sd=sd1,hotband=(10,20)", "hotband"),
        ("wd=w,sd=sd1,stride=(1m,2m)", "stride"),
        ("wd=w,sd=sd1,xfersize=(4k,50,8k,40)", "add up to 100"),
        ("wd=w,sd=sd1,xfersize=1000", "multiple of 512"),
        ("wd=w,sd=sd9", "no such sd"),
        ("wd=w,sd=sd1,skew=40", "not 100"),
        ("wd=w,sd=sd1,zork=1", "no keyword"),
        ("wd=w,sd=sd1,openflags=o_sync", "not synced"),
        ("wd=w,sd=sd1,range=(50,150)", "does not wrap"),
        ("wd=w,sd=sd1,seekpct=(poisson,5)", "seekpct"),
        ("wd=w,sd=$which", "--set which="),
        ("include=none.parm", "not there"),
        ("include=nested.parm", "forbids"),
        ("wd=w", "on no sd"),
    ] {
        let text = refused(&format!("{SD}{line}\nrd=r,wd=w,iorate=max,elapsed=5\n"));
        assert!(text.contains(words), "{line}: {text}");
    }
    for (line, words) in [
        ("force_error_after=10", "not planted"),
        ("concatenatesds=yes", "side by side"),
        ("zork=1", "no keyword before"),
    ] {
        assert!(refused(&format!("{line}\n{SD}")).contains(words), "{line}");
    }
    assert!(refused(SD).contains("no run"));
    assert!(refused("sd=sd1\nwd=w,sd=sd1\nrd=r,wd=w,iorate=max\n").contains("has no lun"));
    let with = |variables: &[(String, String)]| {
        let text = "include=sds.parm\nwd=w,sd=sd1\nrd=r,wd=w,iorate=$rate,elapsed=5\neof\nwd=!\n";
        vdbench_parameters("a.vdb", text, variables, &Nothing)
    };
    assert!(with(&[]).is_err());
    let found = with(&[("rate".into(), "300".into())]).unwrap();
    assert!(found.plan.contains("rate = 300"), "{}", found.plan);
}

proptest! {
    /// Whatever stands in a file: a plan that parses, or mistakes; never a panic.
    #[test]
    fn any_text_is_a_plan_or_a_list_of_mistakes(
        lines in prop::collection::vec(
            prop_oneof![
                "(sd|wd|rd)=(default|x[0-9]?)(,[a-z]{2,9}=[(]?[0-9a-z]{0,5}[-,*%]?[0-9dk]{0,4}[)]?){0,4}",
                "(wd=w|sd=s),(xfersize|range|seekpct|rdpct|skew|count|lun|rhpct)=[(]?[0-9k,-]{0,12}[)]?",
                "rd=r,wd=[w*]{1,2},(iorate|curve|forxfersize|forthreads|elapsed)=[(]?[0-9dkm,-]{0,12}[)]?",
                ".{0,40}",
            ],
            0..12,
        ),
    ) {
        let text = format!("{SD}{}\n", lines.join("\n"));
        if let Ok(found) = vdbench_parameters("x.vdb", &text, &[], &Nothing) {
            let _ = crate::parse("x", &found.plan, &[]);
        }
    }
}
