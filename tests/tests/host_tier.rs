//! Block devices of this host with exact behaviour: QEMU's storage daemon behind FUSE and a loop device
//! (real I/O; no drive, no NVMe).

use base::sample::StreamSample;
use blackbox::daemon::behaving;
use blackbox::{fathom, folder, is_root, plan};
use serde_json::json;
use store::RunFile;

const BYTES: u64 = 256 << 20;

#[test]
fn a_cliff_is_where_it_is_and_the_rate_behind_it_is_exact() {
    if !is_root() {
        return;
    }
    let here = folder();
    let group =
        "throttle-group,id=tg0,x-iops-write=1000,x-iops-write-max=5000,x-iops-write-max-length=2";
    let zeros = json!({"driver": "null-co", "node-name": "n0", "size": BYTES, "read-zeroes": true});
    let node =
        json!({"driver": "throttle", "node-name": "t0", "throttle-group": "tg0", "file": "n0"});
    let Some(made) = behaving(here.path(), &[group], &[zeros, node], "t0") else { return };
    let path = plan(
        here.path(),
        "interval = \"500ms\"\n[[step]]\nload={read=0, block=\"4k\", depth=16, time=\"9s\"}\n",
    );
    let args =
        ["run", &path, &made.disk.text(), "-q", "--destroy", &made.disk.identity, "-o", "c.fathom"];
    fathom(here.path(), &args).expect(0);
    let run = RunFile::open(&here.path().join("c.fathom")).unwrap();
    let rates: Vec<f64> = run
        .intervals(run.cells[0].id)
        .unwrap()
        .iter()
        .map(|interval| {
            let ios: u64 = interval.streams.iter().map(StreamSample::ios).sum();
            ios as f64 / interval.len.as_secs_f64()
        })
        .collect();
    println!("IOPS by half second: {rates:.0?}");
    let behind = &rates[12..];
    let mean = behind.iter().sum::<f64>() / behind.len() as f64;
    assert!((mean / 1000.0 - 1.0).abs() < 0.02, "behind the cliff: {mean}");
    // A slow host cannot use all of the burst; it is well above the rate behind it all the same.
    assert!(rates[1] > 2.0 * mean, "before the cliff: {}", rates[1]);
}

#[test]
fn a_bad_sector_is_named_by_every_engine_and_nothing_is_lost() {
    if !is_root() {
        return;
    }
    let here = folder();
    let bad = json!({"event": "none", "iotype": "read", "errno": 5, "sector": 4096, "once": false});
    let zeros = json!({"driver": "null-co", "size": BYTES, "read-zeroes": true});
    let node = json!({
        "driver": "raw", "node-name": "top",
        "file": {"driver": "blkdebug", "image": zeros, "inject-error": [bad]},
    });
    let Some(made) = behaving(here.path(), &[], &[node], "top") else { return };
    let path = plan(
        here.path(),
        "[[step]]\nload={pattern=\"sequential\", block=\"4k\", depth=1, range=[\"1MiB\", \"4MiB\"], \
         time=\"20s\"}\n",
    );
    for engine in ["uring", "sync"] {
        let file = format!("{engine}.fathom");
        let args = ["run", &path, &made.disk.text(), "-q", "--engine", engine, "-o", &file];
        let ran = fathom(here.path(), &args);
        ran.expect(1).says("at byte 2097152").says("Input/output error");
        let run = RunFile::open(&here.path().join(&file)).unwrap();
        let ios: u64 = run.cells[0].totals.iter().map(StreamSample::ios).sum();
        assert_eq!(ios, 256, "all blocks before the bad one are counted ({engine})");
    }
}

#[test]
fn a_fixed_latency_is_seen() {
    if !is_root() {
        return;
    }
    let here = folder();
    let node = json!({
        "driver": "null-co", "node-name": "top", "size": BYTES, "read-zeroes": true,
        "latency-ns": 3_000_000,
    });
    let Some(made) = behaving(here.path(), &[], &[node], "top") else { return };
    let path = plan(here.path(), "[[step]]\nload={block=\"4k\", depth=1, time=\"2s\"}\n");
    fathom(here.path(), &["run", &path, &made.disk.text(), "-q", "-o", "l.fathom"]).expect(0);
    let run = RunFile::open(&here.path().join("l.fathom")).unwrap();
    let service = &run.cells[0].totals[0].reads.service;
    let (least, mean) = (service.min_ns().unwrap(), service.mean_ns().unwrap());
    println!("least {least} ns, mean {mean:.0} ns");
    // No host makes it shorter.
    assert!(least >= 3_000_000, "{least}");
}
