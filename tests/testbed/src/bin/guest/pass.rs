//! The pass-through engine: NVMe commands to the generic device of an emulated PCIe drive.

use crate::compare::node_of;
use crate::kit::{Guest, fathom, plan, sh};
use store::RunFile;

pub(crate) fn run(guest: &mut Guest) {
    same_bytes(guest);
    statistics(guest);
    limits(guest);
}

/// Commands to the generic device and I/O to the block device: the same drive.
fn same_bytes(guest: &mut Guest) {
    let plan_of = |name: &str, data: &str| {
        let fill = format!(
            "seed = 7\n[[step]]\nfill={{block=\"64k\", depth=1, amount=\"8MiB\", data=\"{data}\"}}\n"
        );
        plan(name, &fill)
    };
    let (random, zero) = (plan_of("random", "random"), plan_of("zero", "zero"));
    let hash = |node: &str| {
        let text = format!("dd if={node} bs=64k count=128 iflag=direct 2>/dev/null | sha256sum");
        sh("sh", &["-c", &text]).out
    };
    let write = |path: &str, node: &str| {
        let ran = fathom(&["run", path, node, "-q", "--destroy", "SN-A512", "-o", "/tmp/w.fathom"]);
        let done = ran.expect(0).map(|_| ());
        let _ = std::fs::remove_file("/tmp/w.fathom");
        done
    };
    guest.check("pass-through and block engine write the same bytes", |_| {
        let block = node_of("SN-A512", 1)?;
        let generic = block.replace("nvme", "ng");
        write(&random, &block)?;
        let by_block = hash(&block);
        write(&zero, &generic)?;
        let empty = hash(&block);
        write(&random, &generic)?;
        let by_commands = hash(&block);
        let read = format!("nvme read {generic} -s 0 -c 127 -z 65536 -d /tmp/first 2>&1");
        sh("sh", &["-c", &read]).expect(0)?;
        let same = sh("sh", &["-c", &format!("head -c 65536 {block} | cmp - /tmp/first")]);
        same.expect(0)?;
        match by_block == by_commands && empty != by_block {
            true => Ok(by_block),
            false => Err(format!("{by_block} by blocks, {by_commands} by commands, {empty} zeros")),
        }
    });
}

fn statistics(guest: &mut Guest) {
    guest.check("pass-through: every command reaches the drive, with the same statistics", |_| {
        let block = node_of("SN-A512", 1)?;
        let generic = block.replace("nvme", "ng");
        let commands = || {
            let json = sh("nvme", &["smart-log", &block, "-o", "json"]).json()?;
            let count = &json["host_read_commands"];
            let text = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
            text.replace(',', "").parse::<u64>().map_err(|error| format!("{text}: {error}"))
        };
        let path = plan("read", "[[step]]\nload={block=\"4k\", depth=8, time=\"1s\"}\n");
        let before = commands()?;
        let ran = fathom(&["run", &path, &generic, "-q", "--json", "-o", "/tmp/r.fathom"]);
        let json = ran.expect(0)?.json()?;
        let sent = commands()? - before;
        let run =
            RunFile::open(std::path::Path::new("/tmp/r.fathom")).map_err(|e| e.to_string())?;
        let cell = &run.cells[0];
        let ios: u64 = cell.totals.iter().map(|stream| stream.ios()).sum();
        let _ = std::fs::remove_file("/tmp/r.fathom");
        // Two probes before the cell, and what was on its way at the end of it.
        if sent < ios || sent > ios + 24 {
            return Err(format!("{ios} I/Os, {sent} commands: {json}"));
        }
        let ring = &cell.facts["ring"];
        if !ring.to_string().contains("nvme-pass-through") {
            return Err(format!("ring: {ring}"));
        }
        Ok(format!("{ios} I/Os, {sent} commands, {ring}"))
    });
}

fn limits(guest: &mut Guest) {
    guest.check("pass-through: what a command cannot do is said before", |_| {
        let generic = node_of("SN-B4096", 1)?.replace("nvme", "ng");
        let path = plan("small", "[[step]]\nload={block=\"512\", time=\"1s\"}\n");
        let small = fathom(&["run", &path, &generic, "-q"]);
        small.expect(2)?.says("unit is 4096 bytes")?;
        let path = plan("large", "[[step]]\nload={block=\"8MiB\", time=\"1s\"}\n");
        let large = fathom(&["run", &path, &generic, "-q"]);
        large.says("one command moves")?;
        let path = plan("w", "[[step]]\nload={read=0, time=\"1s\"}\n");
        let write = fathom(&["run", &path, &generic, "-q"]);
        write.expect(3)?.says("--destroy SN-B4096")?;
        let sync = fathom(&["run", &path, &generic, "-q", "--engine", "sync", "--read-only"]);
        sync.expect(2)?;
        Ok(format!("{}{}{}", small.err, large.err, write.err))
    });
}
