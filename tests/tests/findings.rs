//! Planted truths: each cause that is planted in a virtual drive is found, and no other; twenty seeds each.
//! The table of hits and false alarms is printed.

use blackbox::{fathom, folder, plan};
use std::collections::BTreeMap;

/// A cause: its name, the drive, the load, and the kinds of findings that must come and may come.
struct Planted {
    name: &'static str,
    target: &'static str,
    steps: &'static str,
    must: Option<&'static str>,
}

const READS: &str = "[[step]]\nname=\"r\"\nload={read=100, depth=32, workers=4, time=\"10m\"}";

const PLANTED: [Planted; 7] = [
    Planted { name: "nothing wrong", target: "sim:d5-p5430,noise=2%", steps: READS, must: None },
    Planted {
        name: "throttle",
        target: "sim:d5-p5430,noise=2%,throttle=55C",
        steps: READS,
        must: Some("throttle"),
    },
    Planted {
        name: "host-bound engine",
        target: "sim:d5-p5430,noise=2%,host=8us",
        steps: READS,
        must: Some("host"),
    },
    Planted {
        name: "link-bound target",
        target: "sim:d5-p5430,noise=1%",
        steps: "[[step]]\nname=\"r\"\nload={block=\"128k\", read=100, depth=32, workers=4, time=\"10m\"}",
        must: Some("link"),
    },
    Planted {
        name: "cliff",
        target: "sim:tlc-3dwpd,noise=2%,capacity=400GB",
        steps: "[[step]]\npurge=\"auto\"\n[[step]]\nname=\"w\"\nload={read=0, depth=32, workers=4, time=\"20m\"}",
        must: Some("cliff"),
    },
    Planted {
        name: "periodic GC",
        target: "sim:d5-p5430,noise=2%,stall=300ms@7s/23s",
        steps: READS,
        must: Some("periodic"),
    },
    Planted {
        name: "one outlier",
        target: "sim:d5-p5430,noise=2%,stall=40ms@300s",
        steps: READS,
        must: Some("outlier"),
    },
];

const SEEDS: u32 = 20;

#[test]
fn planted_causes_are_found_and_nothing_else() {
    let here = folder();
    println!("{:20} {:>5} {:>13}  also found", "planted", "found", "false alarms");
    let mut wrong = Vec::new();
    for planted in &PLANTED {
        let path = plan(here.path(), planted.steps);
        let (mut hits, mut alarms) = (0, 0);
        let mut others: BTreeMap<String, u32> = BTreeMap::new();
        for seed in 1..=SEEDS {
            let target = format!("{},seed={seed}", planted.target);
            let _ = std::fs::remove_file(here.path().join("r.fathom"));
            fathom(here.path(), &["run", &path, &target, "-q", "-o", "r.fathom", "--no-ledger"]);
            fathom(here.path(), &["report", "r.fathom", "-o", "r.json"]).expect(0);
            let text = std::fs::read_to_string(here.path().join("r.json")).unwrap();
            let report: serde_json::Value = serde_json::from_str(&text).unwrap();
            let all = report["findings"].as_array().unwrap();
            // What limits is always told; where a cause is planted it must be that.
            let limited = all.iter().any(|f| f["kind"] == "drive");
            let caused = ["throttle", "host", "link"].contains(&planted.must.unwrap_or(""));
            assert_eq!(limited, !caused, "{}: {all:?}", planted.name);
            let found: Vec<_> = all.iter().filter(|f| f["kind"] != "drive").collect();
            let kinds: Vec<&str> = found.iter().map(|f| f["kind"].as_str().unwrap()).collect();
            hits += u32::from(planted.must.is_some_and(|must| kinds.contains(&must)));
            let more: Vec<&&str> =
                kinds.iter().filter(|kind| Some(**kind) != planted.must).collect();
            alarms += u32::from(!more.is_empty());
            more.iter().for_each(|kind| *others.entry((**kind).to_owned()).or_default() += 1);
            for other in found.iter().filter(|f| f["kind"].as_str() != planted.must) {
                println!("  seed {seed}: {}", other["text"]);
            }
        }
        let wanted = if planted.must.is_some() { SEEDS } else { 0 };
        println!(
            "{:20} {:>5} {:>13}  {others:?}",
            planted.name,
            format!("{hits}/{wanted}"),
            format!("{alarms}/{SEEDS}")
        );
        if hits != wanted || alarms > 0 {
            wrong.push(planted.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
