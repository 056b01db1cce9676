//! Twelve job files of fio, run by fio and by Fathom on the same device: a loop device over a file system in
//! user space that writes down every request it gets. What reached the device is compared: how much, which
//! mix, which sizes, which addresses; rates and percentiles are shown.

use blackbox::faulty::FaultyDisk;
use blackbox::{fathom, folder, is_root, not_run, tool};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const SIZE: u64 = 256 << 20;
/// Parts of the device in which addresses are counted.
const BINS: usize = 64;

type Asked = Vec<(u64, u32, bool)>;

/// Job, and whether requests of a stream may reach the device joined.
const JOBS: [(&str, &str, bool); 12] = [
    ("random read", "rw=randread\nbs=4k\niodepth=8\nnorandommap\n", false),
    ("random write", "rw=randwrite\nbs=4k\niodepth=8\nnorandommap\n", false),
    ("mix", "rw=randrw\nrwmixread=70\nbs=4k\niodepth=4\nnorandommap\n", false),
    ("mix of two sizes", "rw=randrw\nrwmixread=30\nbs=4k,16k\niodepth=4\nnorandommap\n", false),
    ("block sizes", "rw=randread\nbssplit=4k/50:16k/30:64k/20\niodepth=4\nnorandommap\n", false),
    ("zipf", "rw=randread\nbs=4k\nrandom_distribution=zipf:1.2\niodepth=4\nnorandommap\n", false),
    (
        "zones",
        "rw=randread\nbs=4k\nrandom_distribution=zoned:60/10:30/20:10/70\niodepth=4\nnorandommap\n",
        false,
    ),
    ("part", "rw=randread\nbs=8k\noffset=64m\nsize=64m\niodepth=4\nnorandommap\n", false),
    ("rate", "rw=randread\nbs=4k\nrate_iops=1000\niodepth=4\nnorandommap\n", false),
    (
        "half sequential",
        "rw=randread\nbs=4k\npercentage_random=50\niodepth=1\nnorandommap\n",
        false,
    ),
    ("stream", "rw=read\nbs=64k\niodepth=1\n", true),
    ("clones", "rw=randread\nbs=4k\nnumjobs=2\niodepth=4\nnorandommap\n", false),
];

struct Seen {
    asked: Asked,
    iops: f64,
    p50_us: f64,
    p99_us: f64,
}

fn by_fio(here: &Path, disk: &FaultyDisk, job: &str) -> Option<Seen> {
    disk.faults.asked.lock().unwrap().clear();
    let out = here.join("fio.json").display().to_string();
    let args = ["--output-format=json", "--output", &out, "--group_reporting", job];
    let (ok, text) = tool("fio", &args);
    if !ok {
        assert!(text.contains("No such file"), "fio: {text}");
        not_run("fio is not installed");
        return None;
    }
    let json: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let job = &json["jobs"][0];
    let sum = |key: &str| ["read", "write"].map(|side| job[side][key].as_f64().unwrap_or(0.0));
    let main = if sum("total_ios")[0] >= sum("total_ios")[1] { "read" } else { "write" };
    let percentile = |p: &str| job[main]["clat_ns"]["percentile"][p].as_f64().unwrap_or(0.0) / 1e3;
    Some(Seen {
        asked: std::mem::take(&mut *disk.faults.asked.lock().unwrap()),
        iops: sum("iops").iter().sum(),
        p50_us: percentile("50.000000"),
        p99_us: percentile("99.000000"),
    })
}

fn by_fathom(here: &Path, disk: &FaultyDisk, job: &str) -> Seen {
    disk.faults.asked.lock().unwrap().clear();
    let file = here.join("r.fathom");
    let _ = std::fs::remove_file(&file);
    let args = ["run", job, "-q", "--json", "-o", "r.fathom", "--destroy", &disk.device.identity];
    let ran = fathom(here, &args);
    // A busy machine may make a rate not valid; what reached the device is compared all the same.
    let shown = ran.expect(if ran.code == 4 { 4 } else { 0 }).json();
    let cell = &shown["cells"][0];
    let sides = ["read", "write"].map(|side| &cell[side]);
    let ios = sides.map(|side| side["ios"].as_f64().unwrap_or(0.0));
    let main = if ios[0] >= ios[1] { sides[0] } else { sides[1] };
    let at = |p: &str| main["service"]["percentiles_ns"][p].as_f64().unwrap_or(0.0) / 1e3;
    Seen {
        asked: std::mem::take(&mut *disk.faults.asked.lock().unwrap()),
        iops: ios.iter().sum::<f64>() / cell["seconds"].as_f64().unwrap(),
        p50_us: at("p50"),
        p99_us: at("p99"),
    }
}

/// Without what looks at the device before and after: partition tables, signatures.
fn of_the_job(asked: &Asked, stream: bool) -> Asked {
    let edge = |offset: u64| !(1 << 20..SIZE - (1 << 20)).contains(&offset);
    let usual = asked.iter().filter(|(offset, ..)| stream || !edge(*offset));
    usual.copied().collect()
}

fn share_of_reads(asked: &Asked) -> f64 {
    asked.iter().filter(|(.., write)| !write).count() as f64 / asked.len() as f64
}

/// Share that starts where the last one ended; only one at a time has an order.
fn goes_on(asked: &Asked) -> f64 {
    let on = asked.windows(2).filter(|two| two[1].0 == two[0].0 + u64::from(two[0].1)).count();
    on as f64 / asked.len() as f64
}

fn sizes(asked: &Asked) -> BTreeMap<(u32, bool), f64> {
    let mut all = BTreeMap::new();
    for (_, len, write) in asked {
        *all.entry((*len, *write)).or_insert(0.0) += 1.0 / asked.len() as f64;
    }
    all
}

/// Chi-square of two samples over the parts of the device, for each degree of freedom.
fn chi_square(a: &Asked, b: &Asked) -> f64 {
    let count = |asked: &Asked| {
        let mut bins = [0.0; BINS];
        asked.iter().for_each(|(at, ..)| bins[(at * BINS as u64 / SIZE) as usize % BINS] += 1.0);
        bins
    };
    let (x, y) = (count(a), count(b));
    let (n, m) = (a.len() as f64, b.len() as f64);
    let term = |(x, y): (&f64, &f64)| ((m / n).sqrt() * x - (n / m).sqrt() * y).powi(2) / (x + y);
    let used: Vec<(&f64, &f64)> = x.iter().zip(&y).filter(|(x, y)| **x + **y > 0.0).collect();
    let free = used.len().saturating_sub(1).max(1);
    used.into_iter().map(term).sum::<f64>() / free as f64
}

#[test]
fn the_same_reaches_the_device() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let here = folder.path();
    let disk = match FaultyDisk::new(here, SIZE) {
        Ok(disk) => disk,
        Err(error) => return not_run(&format!("no file system in user space: {error}")),
    };
    let name = disk.device.text();
    println!(
        "{:<18} {:>9} {:>9} {:>6} {:>15} {:>15}  chi2/df",
        "job", "fio IOPS", "Fathom", "ratio", "p50 us", "p99 us"
    );
    for (title, job, stream) in JOBS {
        let text = format!(
            "[a]\nfilename={name}\nioengine=io_uring\ndirect=1\nruntime=1\ntime_based\ninvalidate=0\n{job}"
        );
        std::fs::write(here.join("a.fio"), text).unwrap();
        let Some(theirs) = by_fio(here, &disk, &here.join("a.fio").display().to_string()) else {
            return;
        };
        let ours = by_fathom(here, &disk, "a.fio");
        let (a, b) = (of_the_job(&theirs.asked, stream), of_the_job(&ours.asked, stream));
        let chi = chi_square(&a, &b);
        println!(
            "{title:<18} {:>9.0} {:>9.0} {:>6.2} {:>7.0} {:>7.0} {:>7.0} {:>7.0}  {chi:.2}",
            theirs.iops,
            ours.iops,
            ours.iops / theirs.iops,
            theirs.p50_us,
            ours.p50_us,
            theirs.p99_us,
            ours.p99_us,
        );
        assert!(a.len() > 300 && b.len() > 300, "{title}: {} and {} requests", a.len(), b.len());
        let (x, y) = (share_of_reads(&a), share_of_reads(&b));
        let noise = 4.0 * (0.25 / a.len().min(b.len()) as f64).sqrt();
        assert!((x - y).abs() < noise, "{title}: {x} and {y} reads");
        let (x, y) = (sizes(&a), sizes(&b));
        for key in x.keys().chain(y.keys()) {
            let share = |all: &BTreeMap<(u32, bool), f64>| all.get(key).copied().unwrap_or(0.0);
            assert!((share(&x) - share(&y)).abs() < noise, "{title}: {key:?}: {x:?} and {y:?}");
        }
        let (x, y) = (goes_on(&a), goes_on(&b));
        assert!((x - y).abs() < noise, "{title}: {x} and {y} go on where the last one ended");
        // Where zipf has its hot blocks is chance, and another one in each program; a stream is as long
        // as the device was fast.
        if title != "zipf" && !stream {
            // Requests that go on where the last one ended fall into one part together.
            let limit = if title == "half sequential" { 5.0 } else { 2.0 };
            let what = "for each degree of freedom";
            assert!(chi < limit, "{title}: addresses differ: chi-square {chi} {what}");
        }
    }
}
