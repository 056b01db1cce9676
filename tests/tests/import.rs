//! Job files of fio, run by fio and by Fathom on the same file of this disk: the same I/Os are made.

use blackbox::{fathom, folder, not_run, tool};
use serde_json::Value;
use std::path::Path;

/// I/Os and bytes of each direction, all jobs together: reads, writes.
type Moved = [(u64, u64); 2];

fn by_fio(folder: &Path, job: &str) -> Option<Moved> {
    let out = folder.join("fio.json").display().to_string();
    let path = folder.join(job).display().to_string();
    let (ok, text) = tool("fio", &["--output-format=json", "--output", &out, &path]);
    if !ok {
        assert!(text.contains("No such file"), "fio: {text}");
        not_run("fio is not installed");
        return None;
    }
    let json: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let sum = |side: &str, key: &str| {
        let jobs = json["jobs"].as_array().unwrap().iter();
        jobs.map(|job| job[side][key].as_u64().unwrap()).sum::<u64>()
    };
    Some(["read", "write"].map(|side| (sum(side, "total_ios"), sum(side, "io_bytes"))))
}

fn by_fathom(folder: &Path, job: &str, more: &[&str]) -> (Moved, Value) {
    let file = folder.join("r.fathom");
    let _ = std::fs::remove_file(&file);
    let args = [&["run", job, "-q", "--json", "-o", "r.fathom"], more].concat();
    let shown = fathom(folder, &args).expect(0).json();
    let sum = |side: &str, key: &str| {
        let cells =
            shown["cells"].as_array().unwrap().iter().filter(|cell| cell["path"] != "prepare");
        cells.map(|cell| cell[side][key].as_u64().unwrap_or(0)).sum::<u64>()
    };
    (["read", "write"].map(|side| (sum(side, "ios"), sum(side, "bytes"))), shown)
}

fn data(folder: &Path) -> String {
    let path = folder.join("data.bin");
    std::fs::write(&path, vec![3; 16 << 20]).unwrap();
    path.display().to_string()
}

#[test]
fn the_same_job_moves_the_same() {
    let folder = folder();
    let here = folder.path();
    let file = data(here);
    let head = format!("[global]\nfilename={file}\nioengine=io_uring\ndirect=1\n");
    for (name, jobs) in [
        ("seq.fio", "[a]\nrw=read\nbs=64k\nsize=8m\noffset=1m\niodepth=4\n"),
        ("once.fio", "[a]\nrw=randread\nbs=4k\nsize=4m\niodepth=8\n"),
        ("loops.fio", "[a]\nrw=read\nbs=128k\nsize=2m\nloops=3\n"),
        ("less.fio", "[a]\nrw=randread\nbs=4k\nio_size=1m\nnorandommap\n"),
        ("parts.fio", "[a]\nrw=read\nbs=64k\nsize=2m\noffset_increment=2m\nnumjobs=4\n"),
        ("walls.fio", "[a]\nrw=read\nbs=64k\nsize=2m\n[b]\nstonewall\nrw=randread\nsize=1m\n"),
        ("half.fio", "[a]\nrw=read\nbs=256k\nsize=50%\n"),
    ] {
        std::fs::write(here.join(name), format!("{head}{jobs}")).unwrap();
        let Some(theirs) = by_fio(here, name) else { return };
        let (ours, _) = by_fathom(here, name, &[]);
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn writes_pass_the_guard_and_mixes_have_their_shares() {
    let folder = folder();
    let here = folder.path();
    let file = data(here);
    let job = format!(
        "[global]\nfilename={file}\nioengine=io_uring\ndirect=1\nruntime=1\ntime_based\n[mix]\nrw=randrw\n\
         rwmixread=70\nbs=4k,8k\niodepth=4\n"
    );
    std::fs::write(here.join("mix.fio"), job).unwrap();
    fathom(here, &["run", "mix.fio", "-q"]).expect(3).says("--destroy");
    let (moved, shown) = by_fathom(here, "mix.fio", &["--destroy", &file]);
    let [reads, writes] = moved;
    let share = reads.0 as f64 / (reads.0 + writes.0) as f64;
    assert!((share - 0.7).abs() < 0.03, "{share}");
    assert_eq!((reads.0 * 4096, writes.0 * 8192), (reads.1, writes.1));
    // The plan is in the run file: the run is repeated without the job file.
    let source = shown["plan"]["source"].as_str().unwrap();
    std::fs::write(here.join("again.toml"), source).unwrap();
    fathom(here, &["plan", "check", "again.toml"]).expect(0);
}

#[test]
fn what_becomes_of_a_job_is_told() {
    let folder = folder();
    let here = folder.path();
    std::fs::write(
        here.join("a.fio"),
        "[global]\nthread\n[one]\nrw=randread\nfilename=/dev/a:/dev/b\ncpus_allowed=1\nruntime=5\n",
    )
    .unwrap();
    let told = fathom(here, &["plan", "convert", "a.fio"]);
    told.expect(0);
    told.says("a.fio:2: thread: workers are threads (nothing differs)");
    told.says("a.fio:6: cpus_allowed: ").says("targets: /dev/a /dev/b").says("page cache");
    std::fs::write(here.join("a.toml"), &told.out).unwrap();
    fathom(here, &["plan", "check", "a.toml"]).expect(0);
    fathom(here, &["run", "a.fio", "sim:client"]).expect(2).says("2 targets");
    fathom(here, &["run", "a.fio", "sim:client", "sim:client", "-q", "-o", "s.fathom"]).expect(0);
    std::fs::write(here.join("bad.fio"), "[one]\nrw=randread\nthinktime=5\nbss=4k\n").unwrap();
    let bad = fathom(here, &["run", "bad.fio"]);
    bad.expect(2).says("bad.fio:3:1: thinktime").says("bad.fio:4:1: fio has no option `bss`");
    fathom(here, &["run", "none.fio"]).expect(2).says("cannot be read");
    fathom(here, &["run", "x.icf"]).expect(2).says("cannot be read");
    std::fs::write(here.join("y.icf"), "Version 1.1.0\n").unwrap();
    fathom(here, &["run", "y.icf"]).expect(2).says("without a run time");
    fathom(here, &["plan", "convert", "x.txt"]).expect(2).says(".icf");
    let line = ["plan", "convert", "--", "--name=a", "--rw=randread", "--bs=4k", "--direct=1"];
    let told = fathom(here, &line);
    told.expect(0);
    assert!(told.out.contains("random-once"), "{}", told.out);
}

#[test]
fn a_parameter_file_of_vdbench_runs() {
    let folder = folder();
    let here = folder.path();
    let file = data(here);
    let text = format!(
        "* two sizes at two rates\nsd=default,openflags=o_direct,threads=4\nsd=sd1,lun={file}\n\
         wd=wd1,sd=sd1,rdpct=100,seekpct=random\n\
         rd=run1,wd=wd1,iorate=(500,$high),forxfersize=(4k,16k),elapsed=1,interval=1,warmup=1\n"
    );
    std::fs::write(here.join("a.vdb"), text).unwrap();
    fathom(here, &["run", "a.vdb"]).expect(2).says("--set high=");
    // On another target than it names: one that keeps its rates however busy this machine is.
    let args = ["run", "a.vdb", "sim:client,mode=exact", "--set", "high=1000", "-q", "--json"];
    let shown = fathom(here, &[&args[..], &["-o", "v.fathom"]].concat()).expect(0).json();
    let cells = shown["cells"].as_array().unwrap();
    let found: Vec<(f64, f64)> = cells
        .iter()
        .map(|cell| {
            let read = &cell["read"];
            let (ios, bytes) = (read["ios"].as_f64().unwrap(), read["bytes"].as_f64().unwrap());
            (ios / cell["seconds"].as_f64().unwrap(), bytes / ios)
        })
        .collect();
    for ((rate, block), (wanted, size)) in
        found.iter().zip([(500.0, 4096.0), (1000.0, 4096.0), (500.0, 16384.0), (1000.0, 16384.0)])
    {
        // Poisson arrivals of one second: four standard deviations.
        assert!((rate - wanted).abs() < 4.0 * f64::sqrt(wanted), "{rate} of {wanted}");
        assert_eq!(*block, size);
    }
    assert_eq!(found.len(), 4);
    // On other targets than it names, as many.
    fathom(here, &["run", "a.vdb", "sim:client", "--set", "high=9", "-q", "-o", "s.fathom"])
        .expect(0);
}

/// The suites on a virtual drive, shortened: every step of each is measured, and reads, writes and sizes have
/// their shares.
#[test]
fn the_models_have_their_shares() {
    let folder = folder();
    let here = folder.path();
    // Percent of reads, and KiB of an average read and write: the sums of the published tables.
    for (name, reads, read_kib, write_kib) in [
        ("oracle", 83.14, 56.7, 31.9),
        ("sql", 68.42, 52.3, 32.8),
        ("vdi", 59.44, 47.8, 24.4),
        ("vsi", 57.40, 77.5, 24.6),
    ] {
        let file = format!("{name}.fathom");
        let args = ["run", name, "sim:d5-p5430,mode=exact", "-q", "--json", "-o", &file];
        let short =
            ["--set", "time=400ms", "--set", "ramp=0s", "--set", "workers=2", "--set", "depth=32"];
        let ran = fathom(here, &[&args[..], &short[..]].concat());
        let shown = ran.expect(0).json();
        let cells = shown["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 12, "{name}: the maximum and eleven points");
        let sum = |side: &str, key: &str| {
            cells.iter().map(|cell| cell[side][key].as_f64().unwrap_or(0.0)).sum::<f64>()
        };
        let share = sum("read", "ios") / (sum("read", "ios") + sum("write", "ios")) * 100.0;
        assert!((share - reads).abs() < 1.0, "{name}: {share} % reads");
        let kib = |side: &str| sum(side, "bytes") / sum(side, "ios") / 1024.0;
        for (side, wanted) in [("read", read_kib), ("write", write_kib)] {
            let found = kib(side);
            assert!((found / wanted - 1.0).abs() < 0.05, "{name}: {side} of {found} KiB");
        }
    }
}

#[test]
fn a_whole_review_is_one_run() {
    let folder = folder();
    let here = folder.path();
    let short =
        ["sequential", "random", "time", "nines", "stability"].map(|name| format!("{name}=200ms"));
    let mut args = vec!["run", "review", "sim:client,capacity=100GB", "-q", "-o", "r.fathom"];
    short.iter().for_each(|set| args.extend(["--set", set.as_str()]));
    args.extend(["--set", "ramp=0s"]);
    fathom(here, &args).expect(0);
    fathom(here, &["report", "r.fathom"]).expect(0);
    let page = std::fs::read_to_string(here.join("r.html")).unwrap();
    for part in
        ["corners", "curve-4k-read", "oracle", "sql", "vdi", "vsi", "nines", "mixes", "stability"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn fios_command_line_runs_and_prints_as_fio_does() {
    let folder = folder();
    let here = folder.path();
    let file = data(here);
    let name = format!("--filename={file}");
    let job = ["--name=a", &name, "--rw=randread", "--bs=4k", "--iodepth=4", "--ioengine=io_uring"];
    let more = ["--direct=1", "--runtime=1", "--time_based", "--norandommap"];
    let args = [&["fio", "-o", "n.fathom", "--"], &job[..], &more[..]].concat();
    let text = fathom(here, &args);
    text.expect(0);
    for part in
        ["a: (groupid=0, jobs=1): err= 0", "  read: IOPS=", "clat percentiles (", "READ: bw="]
    {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    let args = [
        &["fio", "-o", "j.fathom", "--", "--output-format=json+", "--output=o.json"],
        &job[..],
        &more[..],
    ];
    fathom(here, &args.concat()).expect(0);
    let json: Value = serde_json::from_slice(&std::fs::read(here.join("o.json")).unwrap()).unwrap();
    assert!(json["jobs"][0]["read"]["iops"].as_f64().unwrap() > 0.0);
    fathom(here, &["fio", "--", "--name=a", "--output-format=terse"]).expect(2).says("terse");
    let write = ["fio", "--", "--name=a", &name, "--rw=randwrite", "--bs=4k", "--size=1m"];
    fathom(here, &write).expect(3).says("--destroy");
}

#[test]
fn vdbenchs_tables_have_its_columns() {
    let folder = folder();
    let here = folder.path();
    let plan = "name = \"t\"\n[[step]]\nload = { block = \"8k\", read = 70, rate = 2000, time = \"3s\", ramp = \"1s\" }\n";
    std::fs::write(here.join("p.toml"), plan).unwrap();
    fathom(here, &["run", "p.toml", "sim:client,mode=exact", "-q", "-o", "r.fathom"]).expect(0);
    let flat = fathom(here, &["export", "r.fathom", "--format", "vdbench-flatfile"]);
    let lines: Vec<Vec<&str>> = flat
        .expect(0)
        .out
        .lines()
        .filter(|line| !line.starts_with('*'))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let at = |name: &str| lines[0].iter().position(|column| *column == name).expect("a column");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{}", flat.out);
    assert_eq!(lines.len(), 6, "a head, four intervals and the mean of the last three");
    let mean = &lines[5];
    assert_eq!(mean[at("Interval")], "avg_2-4");
    let number = |name: &str| mean[at(name)].parse::<f64>().unwrap();
    assert!((number("rate") / 2000.0 - 1.0).abs() < 0.1 && number("bytes/io") == 8192.0);
    assert!((number("read%") - 70.0).abs() < 3.0);
    assert!((number("rate") * 8192.0 / f64::from(1 << 20) / number("MB/sec") - 1.0).abs() < 1e-3);
    assert!((number("rate") * number("resp") / 1000.0 / number("queue_depth") - 1.0).abs() < 0.05);
    let totals = fathom(here, &["export", "r.fathom", "--format", "vdbench-totals"]);
    assert!(totals.expect(0).out.contains("i/o rate"), "{}", totals.out);
}

/// A job that verifies writes what can be checked, reads it back, and finds what is not as it was.
#[test]
fn a_job_that_verifies_checks_its_data() {
    let folder = folder();
    let here = folder.path();
    let file = data(here);
    let job = format!(
        "[v]\nfilename={file}\nrw=randwrite\nbs=4k\nsize=4m\nverify=crc32c\nioengine=io_uring\n"
    );
    std::fs::write(here.join("v.fio"), job).unwrap();
    let args = ["run", "v.fio", "--destroy", &file, "-q", "-o", "v.fathom"];
    let ran = fathom(here, &args);
    assert!(ran.expect(0).out.contains("4 MiB read back right"), "{}", ran.out);
    fathom(here, &["verify", &file, "-q", "-o", "w.fathom"]).expect(0);
}

#[test]
fn a_configuration_of_iometer_runs_and_its_results_have_its_columns() {
    let folder = folder();
    let here = folder.path();
    let text = include_str!("../corpus/iometer/disk.icf");
    let short = text
        .replace("0          1          30", "0          0          1")
        .replace("\t5\n", "\t0\n");
    std::fs::write(here.join("disk.icf"), short).unwrap();
    let args = ["run", "disk.icf", "sim:client,mode=exact", "-q", "--json", "-o", "r.fathom"];
    let shown = fathom(here, &args).expect(0).json();
    let cells = shown["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 12, "two specifications at six depths");
    let (reads, writes) = (&cells[0]["read"]["ios"], &cells[0]["write"]["ios"]);
    let share = reads.as_f64().unwrap() / (reads.as_f64().unwrap() + writes.as_f64().unwrap());
    assert!((share - 0.8).abs() < 0.02, "{share}");
    let out = fathom(here, &["export", "r.fathom", "--format", "iometer-csv"]);
    let lines: Vec<Vec<&str>> =
        out.expect(0).out.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| lines[2].iter().position(|column| *column == name).expect("a column");
    assert!(lines[2..].iter().all(|line| line.len() == lines[2].len()), "{}", out.out);
    let first = |name: &str| lines[3][at(name)].parse::<f64>().unwrap();
    assert!((first("IOps") - first("Read IOps") - first("Write IOps")).abs() < 1e-3);
    assert!((first("MiBps (Binary)") * 1.048_576 - first("MBps (Decimal)")).abs() < 1e-3);
    let told = fathom(here, &["plan", "convert", "disk.icf"]);
    assert!(told.expect(0).out.contains("weight = 60"), "{}", told.out);
}
