use super::*;
use crate::{Arrival, Demand, Pattern, Streams, Verb};
use base::units::{Bytes, Nanos};
use proptest::prelude::*;

struct Nothing;

impl Surroundings for Nothing {
    fn include(&self, path: &str) -> Result<String, String> {
        match path {
            "dir/common.inc" => Ok("bs=16k\nruntime=30\ntime_based\n".into()),
            "again.inc" => Ok("include again.inc\n".into()),
            _ => Err("not there".into()),
        }
    }

    fn variable(&self, name: &str) -> String {
        if name == "DEV" { "/dev/nvme9n1".into() } else { String::new() }
    }
}

fn imported(text: &str) -> (crate::Plan, Imported) {
    let imported = fio_jobs("dir/job.fio", text, &Nothing).unwrap_or_else(|e| panic!("{e}"));
    let plan = crate::parse("job", &imported.plan, &[]);
    (plan.unwrap_or_else(|e| panic!("{e}\n{}", imported.plan)), imported)
}

fn refused(text: &str) -> String {
    fio_jobs("job.fio", text, &Nothing).expect_err("it is refused").to_string()
}

fn differs(imported: &Imported) -> Vec<String> {
    imported.notes.iter().filter(|note| note.differs).map(Note::to_string).collect()
}

fn cell(plan: &crate::Plan, at: usize) -> &crate::Cell {
    match &plan.steps[at].verb {
        Verb::Load(cell) => cell,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_usual_job_is_the_same_load() {
    let (plan, imported) = imported(
        "; the most used options\n[global]\nioengine=libaio\ndirect=1\ngroup_reporting\nfilename=${DEV}\n\
         [four-k]\nrw=randread   # reads\nbs=4k\niodepth=32\nnumjobs=4\nnorandommap\nruntime=60\n\
         time_based=1\nramp_time=5s\n",
    );
    assert_eq!(imported.targets, ["/dev/nvme9n1"]);
    assert_eq!(differs(&imported), [""; 0]);
    assert_eq!(imported.notes.len(), 1, "group_reporting needs nothing, and is named");
    let cell = cell(&plan, 0);
    assert_eq!(plan.steps[0].name, "four-k");
    assert_eq!(cell.window.time, Some(Nanos(60_000_000_000)));
    assert_eq!(cell.window.ramp, Nanos(5_000_000_000));
    assert_eq!(cell.window.amount, None);
    let load = &cell.loads[0];
    assert_eq!((load.depth, load.workers, load.read_percent), (32, 4, 100.0));
    assert_eq!(load.block_max(), Bytes(4096));
    assert_eq!(load.pattern, Pattern::Random);
}

#[test]
fn walls_make_steps_and_jobs_between_them_run_side_by_side() {
    let (plan, found) = imported(
        "[global]\ndirect=1\nioengine=io_uring\nruntime=10\ntime_based\nfilename=/dev/a:/dev/b\n\
         [one]\nrw=read\nbs=128k\n[two]\nrw=randwrite\nfilename=/dev/b\n[three]\nstonewall\nrw=randrw\n\
         rwmixread=70\nbs=4k,8k\n",
    );
    assert_eq!(plan.steps.len(), 2);
    let told = differs(&found);
    let shared = told.iter().filter(|note| note.contains("among its files")).count();
    assert_eq!(shared, 2, "the two jobs on both: {told:?}");
    let first = cell(&plan, 0);
    assert_eq!(first.loads.len(), 2);
    assert_eq!(first.loads[0].pattern, Pattern::Sequential(Streams::Shared));
    // fio visits every block once before any again.
    assert_eq!(first.loads[1].pattern, Pattern::RandomOnce);
    let last = &cell(&plan, 1).loads[0];
    assert_eq!(last.read_percent, 70.0);
    assert_eq!(last.read_blocks.max(), Bytes(4096));
    assert_eq!(last.write_blocks.max(), Bytes(8192));
    assert_eq!(last.pattern, Pattern::Random, "several sizes");
}

#[test]
fn sizes_ranges_and_amounts() {
    let (plan, _) = imported(
        "[a]\ndirect=1\nioengine=io_uring\nrw=write\nbs=1m\nsize=1g\noffset=256m\nnumjobs=2\nloops=3\n\
         [b]\nstonewall\ndirect=1\nioengine=io_uring\nrw=randwrite\nsize=25%\nio_size=2g\n\
         [c]\nstonewall\ndirect=1\nioengine=io_uring\nrw=read\nsize=64m\noffset_increment=64m\nnumjobs=3\n",
    );
    let (a, b, c) = (cell(&plan, 0), cell(&plan, 1), cell(&plan, 2));
    let size = Bytes(1 << 40);
    let amount = |cell: &crate::Cell| {
        let load = &cell.loads[0];
        let range = load.range.1.resolve(size).0 - load.range.0.resolve(size).0;
        cell.window.amount.unwrap().on(range, size)
    };
    assert_eq!(a.loads[0].range.0.resolve(size), Bytes(256 << 20));
    assert_eq!(a.loads[0].range.1.resolve(size), Bytes(1280 << 20));
    assert_eq!(amount(a), 6 << 30, "two clones three times");
    assert_eq!(b.loads[0].range.1.resolve(size), Bytes(1 << 38));
    assert_eq!(amount(b), 2 << 30);
    let starts: Vec<u64> = c.loads.iter().map(|load| load.range.0.resolve(size).0).collect();
    assert_eq!(starts, [0, 64 << 20, 128 << 20]);
    assert_eq!(amount(c), 64 << 20, "of each load");
}

#[test]
fn mixes_distributions_rates_and_data() {
    let (plan, imported) = imported(
        "[global]\ndirect=1\nioengine=io_uring\nruntime=10\ntime_based\n\
         [a]\nrw=randread\nbssplit=4k/60:64k:32k\nnorandommap\n\
         [b]\nstonewall\nrw=randread\nrandom_distribution=zipf:0.9\nrate_iops=1000\nrate_process=poisson\n\
         numjobs=2\n\
         [c]\nstonewall\nrw=randwrite\nrandom_distribution=zoned:50/5:30/15:20/80\n\
         buffer_compress_percentage=50\ndedupe_percentage=20\n\
         [d]\nstonewall\nrw=randread\nbsrange=4k-16k\nnorandommap\n\
         [e]\nstonewall\nrw=randread\npercentage_random=80\n",
    );
    assert_eq!(cell(&plan, 4).loads[0].pattern, Pattern::Jumps(80.0));
    let a = &cell(&plan, 0).loads[0];
    assert_eq!(a.read_blocks.0, [(Bytes(4096), 60.0), (Bytes(65536), 20.0), (Bytes(32768), 20.0)]);
    let b = &cell(&plan, 1).loads[0];
    assert!(
        matches!(&b.demand, Demand::Open { rate_iops, arrival: Arrival::Poisson, .. }
        if (*rate_iops - 2000.0).abs() < 1e-9),
        "{:?}",
        b.demand
    );
    assert!(matches!(b.pattern, Pattern::Zipf(_)));
    let c = &cell(&plan, 2).loads[0];
    assert_eq!((c.data.compress_ratio, c.data.dedup_ratio), (2.0, 1.25));
    assert_eq!(cell(&plan, 3).loads[0].read_blocks.0.len(), 4);
    let told = differs(&imported).join("\n");
    assert!(told.contains("job.fio:14: fio holds I/Os back"), "{told}");
}

#[test]
fn what_differs_is_told_with_its_line() {
    let (_, imported) = imported(
        "[global]\nioengine=psync\n[a]\nrw=read\nsize=1g\niodepth=8\ncpus_allowed=0-3\nnumjobs=2\n\
         end_fsync=1\n",
    );
    let told = differs(&imported);
    let has = |line: usize, words: &str| {
        let start = format!("dir/job.fio:{line}: ");
        assert!(
            told.iter().any(|t| t.starts_with(&start) && t.contains(words)),
            "{words}: {told:#?}"
        );
    };
    has(2, "--engine sync");
    has(3, "page cache");
    has(6, "depth 1");
    has(7, "--placement");
    has(8, "one stream");
    has(9, "nothing is synced");
}

#[test]
fn what_cannot_be_the_same_is_refused_with_the_reason() {
    for (options, words) in [
        ("rw=randtrim", "trims are not a load"),
        ("rw=read:8k", "strides"),
        ("rw=banana", "expected read, write"),
        ("thinktime=100", "pauses"),
        ("fsync=1", "not synced"),
        ("verify_only=1", "fathom verify"),
        ("exec_prerun=rm -rf /", "commands are not run"),
        ("rw=randread\nrandom_distribution=normal:10", "random, zipf and zoned"),
        ("ioengine=null", "io_uring"),
        ("bs=4q", "expected one number"),
        ("size=110%", "expected a size"),
        ("offset=1g\nsize=50%", "give both alike"),
        ("time_based", "never ends"),
        ("iodepht=4", "did you mean `iodepth`?"),
        ("rw=randrw\nrate_iops=,100", "one direction of a mix"),
        ("include missing.inc", "not there"),
        ("include again.inc", "include each other"),
        ("zonemode=zbd", "zoned"),
        ("merge_blktrace_file=x", "not merged"),
    ] {
        let text = refused(&format!("[job]\ndirect=1\n{options}\n"));
        assert!(text.contains(words), "{options}: {text}");
        let line = text.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
        assert!(line.is_some_and(|line| (1..=4).contains(&line)), "{text}");
    }
    let unlike = "[a]\ndirect=1\nsize=1m\n[b]\ndirect=1\nsize=50%\n";
    assert!(refused(unlike).contains("give both alike"));
    assert!(refused("bs=4k\n[job]\n").contains("before the first [section]"));
    assert!(refused("[global]\nbs=4k\n").contains("no job"));
    assert!(refused("[job\nbs=4k\n").contains("ends with ]"));
    // Switched off is not there.
    imported("[job]\ndirect=1\nrw=read\nfsync=0\nthinktime=0\nruntime=1\n");
}

#[test]
fn includes_variables_and_later_globals() {
    let (plan, _) = imported(
        "[global]\ndirect=1\nioengine=io_uring\ninclude common.inc\n[a]\nrw=randread\n[global-2]\nbs=(2*4k)\n\
         iodepth=4\n[b]\nstonewall\nrw=randread\n",
    );
    let (a, b) = (cell(&plan, 0), cell(&plan, 1));
    assert_eq!(a.loads[0].block_max(), Bytes(16384));
    assert_eq!(a.window.time, Some(Nanos(30_000_000_000)));
    assert_eq!((b.loads[0].block_max(), b.loads[0].depth), (Bytes(8192), 4));
    assert_eq!(a.loads[0].depth, 1);
}

#[test]
fn the_command_line_form() {
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    let found = fio_arguments(&words(
        "--direct=1 --ioengine=io_uring --runtime=5 --time_based --eta-newline=1 --name=a --rw=randread \
         --bs=4k --name=b --rw=write --bs=128k",
    ))
    .unwrap();
    let plan = crate::parse("x", &found.plan, &[]).unwrap();
    assert_eq!(cell(&plan, 0).loads.len(), 2);
    assert!(fio_arguments(&words("randread")).unwrap_err().to_string().contains("begin with --"));
}

proptest! {
    /// Whatever stands in a file: a plan that parses, or mistakes; never a panic.
    #[test]
    fn any_text_is_a_plan_or_a_list_of_mistakes(
        lines in prop::collection::vec(
            prop_oneof![
                "\\[[a-z]{0,6}\\]?",
                "(rw|bs|size|offset|iodepth|numjobs|runtime|rate_iops|bssplit|bsrange|loops|io_size|ba|\
                 rwmixread|random_distribution|offset_increment|ramp_time|startdelay|randseed)=\
                 [(]?[0-9]{0,12}[kmgt%:/,*^)-]{0,3}[0-9k]{0,4}",
                "rw=(read|write|randread|randwrite|rw|randrw)",
                "(direct|time_based|stonewall|norandommap|zero_buffers)(=[01])?",
                ".{0,40}",
            ],
            0..20,
        ),
    ) {
        let text = format!("[global]\ndirect=1\n[job]\n{}\n", lines.join("\n"));
        if let Ok(found) = fio_jobs("x.fio", &text, &Nothing) {
            // What is out of the range of the plan language is named by it.
            let _ = crate::parse("x", &found.plan, &[]);
        }
    }
}

#[test]
fn what_is_verified_is_read_back_and_checked() {
    let (plan, _) =
        imported("[a]\nfilename=/dev/x\nrw=randwrite\nverify=md5\nsize=8m\noffset=1m\n");
    let (write, back) = (cell(&plan, 0), cell(&plan, 1));
    assert!(plan.verifies() && write.writes() && !back.writes());
    assert_eq!(back.loads[0].range, write.loads[0].range);
    assert_eq!(back.loads[0].verify, Some(crate::Verify { stop_after: 0 }));
    let (plan, _) =
        imported("[a]\nrw=randwrite\nverify=md5\nverify_fatal=1\ndo_verify=0\nsize=8m\n");
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(cell(&plan, 0).loads[0].verify, Some(crate::Verify { stop_after: 1 }));
    let (plan, _) = imported("[a]\nrw=randwrite\nverify=0\nsize=8m\n");
    assert!(!plan.verifies());
}

#[test]
fn amounts_by_number_and_recordings_are_taken() {
    let (plan, _) = imported("[a]\nrw=read\nbs=8k\nnumber_ios=100\nsize=100m\n");
    assert_eq!(
        cell(&plan, 0).window.amount,
        Some(crate::Amount::Bytes(base::units::Bytes(819_200)))
    );
    assert!(refused("[a]\nrw=read\nbssplit=4k/50:8k/50\nnumber_ios=9\n").contains("no amount"));
    let (plan, _) =
        imported("[a]\nfilename=/dev/x\nread_iolog=boot.log\nreplay_time_scale=50\niodepth=64\n");
    let load = &cell(&plan, 0).loads[0];
    let crate::Pattern::Trace(replay) = &load.pattern else { panic!("{load:?}") };
    assert_eq!((replay.file.as_str(), replay.speed, load.depth), ("boot.log", Some(2.0), 64));
    let (plan, _) = imported("[a]\nread_iolog=boot.log\nreplay_no_stall=1\n");
    let crate::Pattern::Trace(replay) = &cell(&plan, 0).loads[0].pattern else { panic!("a trace") };
    assert_eq!(replay.speed, None);
}
