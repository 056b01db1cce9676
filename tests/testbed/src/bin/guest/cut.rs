//! A power cut during verified writes: before it a run that keeps a journal on another drive, after it the
//! proof of what was acknowledged.

use crate::compare::node_of;
use crate::kit::{Guest, fathom, plan, sh, start};
use std::time::Duration;

const JOURNAL: &str = "/mnt/journal";
/// Blocks that must be acknowledged before the power goes.
const ENOUGH: usize = 500;

/// Blocks of which the journal knows an acknowledged write.
fn acknowledged() -> Vec<usize> {
    let bytes = std::fs::read(JOURNAL).unwrap_or_default();
    let words = bytes.get(64 << 10..).unwrap_or_default().chunks(4).enumerate();
    words.filter(|(_, word)| word.iter().any(|byte| *byte > 0)).map(|(block, _)| block).collect()
}

fn mount() -> Result<(), String> {
    sh("mount", &["-t", "ext4", &node_of("SN-LOG", 1)?, "/mnt"]).expect(0).map(|_| ())
}

pub(crate) fn before(guest: &mut Guest) {
    guest.check("verified writes with a journal on another drive", |guest| {
        sh("mke2fs", &["-q", "-F", "-t", "ext4", &node_of("SN-LOG", 1)?]).expect(0)?;
        mount()?;
        let path = plan(
            "cut",
            "[[step]]\nload={block=\"4k\", read=20, depth=16, workers=2, time=\"250s\", verify=true}\n",
        );
        let data = node_of("SN-DATA", 1)?;
        let run = start("cut", &[&path, &data, "--destroy", "SN-DATA", "--journal", JOURNAL], 0)?;
        for _ in 0..600 {
            if acknowledged().len() >= ENOUGH {
                // The power goes while writes are on their way.
                guest.ready("cut");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let (ran, _) = run.end()?;
        Err(format!("the power did not go: {}", ran.err))
    });
}

pub(crate) fn after(guest: &mut Guest) {
    let verify = |data: &str| {
        let _ = std::fs::remove_file("/tmp/v.fathom");
        fathom(&["verify", data, "--journal", JOURNAL, "-q", "--json", "-o", "/tmp/v.fathom"])
    };
    guest.check("every acknowledged write is there after the power cut", |_| {
        mount()?;
        let there = acknowledged().len();
        let json = verify(&node_of("SN-DATA", 1)?).expect(0)?.json()?;
        let verdict = &json["cells"][0]["verdicts"];
        let clean = |verdict: &serde_json::Value| verdict["evidence"]["clean_sectors"].as_u64();
        let clean = verdict.as_array().and_then(|all| all.iter().find_map(clean)).unwrap_or(0);
        match there >= ENOUGH && clean >= 8 * there as u64 {
            true => Ok(format!("{there} blocks acknowledged, {clean} sectors right")),
            false => Err(format!("{there} blocks acknowledged, {clean} sectors right: {json}")),
        }
    });
    guest.check("an acknowledged write that is gone is found", |_| {
        let block = *acknowledged().last().ok_or("nothing was acknowledged")?;
        let data = node_of("SN-DATA", 1)?;
        let of = format!("of={data}");
        let seek = format!("seek={block}");
        sh("dd", &["if=/dev/zero", &of, "bs=4k", "count=1", &seek, "oflag=direct"]).expect(0)?;
        let ran = verify(&data);
        let json = ran.expect(4)?.json()?;
        let text = json.to_string();
        match text.contains(&format!("4096 bytes at byte {}", block * 4096)) {
            true => Ok(format!("block {block}")),
            false => Err(text),
        }
    });
    guest.check("a damaged block is told from it without a journal, too", |_| {
        let block = acknowledged()[0];
        let data = node_of("SN-DATA", 1)?;
        let (of, seek) = (format!("of={data}"), format!("seek={}", block * 4096 + 300));
        sh("sh", &["-c", &format!("printf XYZ | dd {of} bs=1 {seek} conv=notrunc")]).expect(0)?;
        let _ = std::fs::remove_file("/tmp/w.fathom");
        let ran = fathom(&["verify", &data, "-q", "-o", "/tmp/w.fathom"]);
        let wanted = format!("corrupt: 512 bytes at byte {}", block * 4096);
        match ran.expect(4)?.out.contains(&wanted) {
            true => Ok(wanted),
            false => Err(ran.out),
        }
    });
}
