//! Checking of data as a user meets it, on files of this disk: plans that verify, journals, and
//! `fathom verify` after a run was killed.

use blackbox::{command, fathom, folder, plan};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn disk(folder: &Path) -> String {
    let path = folder.join("disk");
    std::fs::File::create(&path).unwrap().set_len(32 << 20).unwrap();
    path.display().to_string()
}

fn file(path: &str) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(path).unwrap()
}

const WRITE: &str = "[[step]]\nname = \"write\"\nfill = { block = \"128k\", depth = 4 }\n";

/// The verdict of a verifying cell, with its evidence.
fn data(shown: &Value) -> &Value {
    let cells = shown["cells"].as_array().unwrap().iter();
    let mut verdicts = cells.flat_map(|cell| cell["verdicts"].as_array().unwrap());
    verdicts.find(|verdict| verdict["name"] == "data").expect("a verdict of the data")
}

#[test]
fn a_clean_run_says_so_and_its_stamps_can_be_checked_later() {
    let folder = folder();
    let here = folder.path();
    let disk = disk(here);
    let args = [
        "run",
        "data-check",
        &disk,
        "--destroy",
        &disk,
        "--set",
        "time=500ms",
        "-q",
        "--json",
        "-o",
        "r.fathom",
    ];
    let shown = fathom(here, &args).expect(0).json();
    assert_eq!(data(&shown)["status"], "pass");
    let again = fathom(here, &["verify", &disk, "-q", "--json", "-o", "v.fathom"]).expect(0).json();
    let evidence = &data(&again)["evidence"];
    assert_eq!(evidence["clean_sectors"], (32 << 20) / 512);
    assert_eq!(evidence["unknown_sectors"], 0);
    // One bit.
    let bytes = file(&disk);
    let mut byte = [0];
    bytes.read_exact_at(&mut byte, 5_000_000).unwrap();
    bytes.write_all_at(&[byte[0] ^ 8], 5_000_000).unwrap();
    let found = fathom(here, &["verify", &disk, "-q", "-o", "w.fathom"]);
    found.expect(4);
    let sector = 5_000_000 / 512 * 512;
    assert!(found.out.contains(&format!("corrupt: 512 bytes at byte {sector}")), "{}", found.out);
    assert!(found.out.contains(&format!("{:#x}: read ", 5_000_000 / 16 * 16)), "{}", found.out);
    // What this program never wrote is no error.
    let other = here.join("other");
    std::fs::write(&other, vec![1; 1 << 20]).unwrap();
    let other = other.display().to_string();
    let unknown =
        fathom(here, &["verify", &other, "-q", "--json", "-o", "x.fathom"]).expect(0).json();
    assert_eq!(data(&unknown)["evidence"]["unknown_sectors"], (1 << 20) / 512);
}

#[test]
fn a_lost_write_is_told_against_the_journal() {
    let folder = folder();
    let here = folder.path();
    let disk = disk(here);
    let text = format!(
        "{WRITE}[[step]]\nname = \"check\"\nload = {{ pattern = \"sequential\", block = \"128k\", amount = \"1x\", \
         verify = true }}\n"
    );
    let plan = plan(here, &text);
    let journal = ["--journal", "j"];
    let first = fathom(
        here,
        &[&["run", &plan, &disk, "--destroy", &disk, "-q", "-o", "a.fathom"], &journal[..]]
            .concat(),
    );
    first.expect(0);
    let before = {
        let mut bytes = vec![0; 4096];
        file(&disk).read_exact_at(&mut bytes, 1 << 20).unwrap();
        bytes
    };
    let taken = fathom(
        here,
        &[&["run", &plan, &disk, "--destroy", &disk, "-q", "-o", "b.fathom"], &journal[..]]
            .concat(),
    );
    taken.expect(2).says("it may belong to another run");
    let again = ["run", &plan, &disk, "--destroy", &disk, "-q", "-o", "c.fathom", "--journal", "k"];
    fathom(here, &again).expect(0);
    fathom(here, &["verify", &disk, "--journal", "k", "-q", "-o", "d.fathom"]).expect(0);
    // What the first run wrote there, as if the second had never written it.
    file(&disk).write_all_at(&before, 1 << 20).unwrap();
    let lost = fathom(here, &["verify", &disk, "--journal", "k", "-q", "-o", "e.fathom"]);
    lost.expect(4);
    assert!(lost.out.contains("torn: 4096 bytes at byte 1048576"), "{}", lost.out);
    // A whole write of it: nothing near it is of the same write.
    let mut whole = vec![0; 128 << 10];
    whole[..4096].copy_from_slice(&before);
    file(&disk).write_all_at(&whole, 2 << 20).unwrap();
    let lost = fathom(here, &["verify", &disk, "--journal", "k", "-q", "--json", "-o", "f.fathom"]);
    let shown = lost.expect(4).json();
    assert!(
        data(&shown)["evidence"]["wrong_sectors"]["lost"].as_u64().unwrap() >= 240,
        "{}",
        lost.out
    );
    // Stamps alone cannot know that there was a later run.
    let wrong = fathom(here, &["verify", "a.fathom", "--journal", "k", "-q", "-o", "g.fathom"]);
    wrong.expect(2).says("is of a target of 33554432 bytes");
    fathom(here, &["verify", &disk, "--journal", &disk, "-q", "-o", "h.fathom"])
        .expect(2)
        .says("is no journal of fathom");
}

/// Writes without end, killed: everything that the journal says must be there, and nothing is torn.
#[test]
fn after_a_kill_every_acknowledged_write_is_proven() {
    let folder = folder();
    let here = folder.path();
    let disk = disk(here);
    let text = "[[step]]\nname = \"write\"\nload = { block = \"4k\", read = 20, depth = 16, workers = 2, \
                time = \"60s\", verify = true }\n";
    let plan = plan(here, text);
    for (round, flush) in [(1, "batch"), (2, "none"), (3, "batch")] {
        let (run, journal) = (format!("r{round}.fathom"), format!("j{round}"));
        let args =
            ["run", &plan, &disk, "--destroy", &disk, "-q", "-o", &run, "--journal", &journal];
        let mut child =
            command(here, &[&args[..], &["--journal-flush", flush]].concat()).spawn().unwrap();
        let start = Instant::now();
        while acknowledged(&here.join(&journal)) < 500 {
            assert!(start.elapsed() < Duration::from_secs(30), "nothing is acknowledged");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let there = acknowledged(&here.join(&journal));
        let out = format!("v{round}.fathom");
        let args = ["verify", &disk, "--journal", &journal, "-q", "--json", "-o", &out];
        let shown = fathom(here, &args).expect(0).json();
        let clean = data(&shown)["evidence"]["clean_sectors"].as_u64().unwrap();
        println!("flush {flush}: {there} blocks acknowledged, {clean} sectors right");
        assert!(clean >= there * 8, "{clean} sectors right of {there} blocks");
        // The same run goes on, and knows what it wrote.
        if round == 3 {
            let mut child =
                command(here, &["resume", &run, "--destroy", &disk, "-q"]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(2500));
            assert!(child.try_wait().unwrap().is_none(), "it goes on");
            child.kill().unwrap();
            child.wait().unwrap();
            let args = ["verify", &disk, "--journal", &journal, "-q", "-o", "w.fathom"];
            fathom(here, &args).expect(0);
            // An acknowledged write goes missing.
            let words = std::fs::read(here.join(&journal)).unwrap();
            let words = words[64 << 10..].chunks(4);
            let mut written =
                words.enumerate().filter(|(_, word)| word.iter().any(|byte| *byte > 0));
            let (block, _) = written.next_back().unwrap();
            file(&disk).write_all_at(&[0; 4096], block as u64 * 4096).unwrap();
            let args = ["verify", &disk, "--journal", &journal, "-q", "-o", "x.fathom"];
            let lost = fathom(here, &args);
            lost.expect(4);
            assert!(
                lost.out.contains(&format!("4096 bytes at byte {}", block * 4096)),
                "{}",
                lost.out
            );
        }
    }
}

/// Blocks of which a journal knows an acknowledged write.
fn acknowledged(journal: &Path) -> u64 {
    let bytes = std::fs::read(journal).unwrap_or_default();
    let words = bytes.get(64 << 10..).unwrap_or_default().chunks(4);
    words.filter(|word| word.iter().any(|byte| *byte > 0)).count() as u64
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let folder = folder();
    let here = folder.path();
    let disk = disk(here);
    fathom(here, &["run", "data-check", "sim:d5-p5430", "-q", "-o", "a.fathom"])
        .expect(2)
        .says("virtual drives hold no data");
    fathom(here, &["run", "quick", &disk, "-q", "-o", "b.fathom", "--journal", "j"])
        .expect(2)
        .says("this plan has none");
    fathom(here, &["verify", ".", "-q"]).expect(2).says("is a folder");
    let dedup = plan(
        here,
        "[[step]]\nload = { block = \"4k\", read = 0, time = 1, verify = true, data = { dedup = 2 } }\n",
    );
    fathom(here, &["run", &dedup, &disk, "-q"]).expect(2).says("leave `dedup` out");
}
