//! Emulated PCIe drives under the kernel's own driver.

use crate::compare::{all, device, is, node_of, seen};
use crate::kit::{Guest, fathom, plan, sh, start, verdict};
use store::RunFile;

pub(crate) fn run(guest: &mut Guest) {
    for (serial, nsid, block, node) in
        [("SN-A512", 1, 512, Some(0)), ("SN-B4096", 1, 4096, Some(1)), ("SN-TWO", 2, 4096, None)]
    {
        guest.check(&format!("{serial}/{nsid} is found"), |_| {
            let ours = device(&node_of(serial, nsid)?)?;
            is(&ours, "/model", "QEMU NVMe Ctrl")?;
            is(&ours, "/serial", serial)?;
            is(&ours, "/logical_block_bytes", block)?;
            is(&ours, "/size_bytes", 256 << 20)?;
            is(&ours, "/transport", "nvme-pcie")?;
            is(&ours, "/link_downgraded", false)?;
            if let Some(node) = node {
                is(&ours, "/numa_node", node)?;
                is(&ours, "/local_cpus", node.to_string())?;
                is(&ours, "/link_now", "2.5 GT/s x1")?;
            } else {
                is(&ours, "/link_now", serde_json::Value::Null)?;
            }
            let queues = ours["queues"].as_array().map_or(0, Vec::len);
            let interrupts = ours["interrupts"].as_array().map_or(0, Vec::len);
            if queues == 0 || interrupts < 2 {
                return Err(format!("{queues} queues, {interrupts} interrupts"));
            }
            let text = seen(&ours, &["/path", "/numa_node", "/link_now", "/settings/scheduler"])?;
            Ok(format!("{text}, {queues} queues, {interrupts} interrupts"))
        });
        all(guest, serial, nsid);
    }
    page(guest);
    guard(guest);
    partition(guest);
    latency(guest);
    format(guest);
    settings_survive_a_crash(guest);
    setting_lost(guest);
    placement(guest);
}

fn page(guest: &mut Guest) {
    guest.check("a page tells all of a drive", |_| {
        let ran = fathom(&["devices", &node_of("SN-A512", 1)?]);
        let text = &ran.expect(0)?.out;
        for part in ["SN-A512", "the slot could do 16.0 GT/s x4", "Near CPUs", "0*: 512+0", "50 C"]
        {
            if !text.contains(part) {
                return Err(format!("`{part}` is not in: {text}"));
            }
        }
        Ok(text.clone())
    });
    guest.check("all devices are listed", |_| {
        let ran = fathom(&["devices"]);
        Ok(ran.expect(0)?.out.clone())
    });
}

/// Nothing may be written to what is in use or not named.
fn guard(guest: &mut Guest) {
    let path = plan("write", "[[step]]\nfill={block=\"64k\"}\n");
    // The start of it: what a careless tool overwrites first.
    let checksum =
        |node: &str| sh("sh", &["-c", &format!("head -c 8388608 {node} | sha256sum")]).out;
    guest.check("a mounted namespace is refused", |_| {
        let node = node_of("SN-TWO", 1)?;
        sh("mke2fs", &["-q", "-t", "ext4", &node]).expect(0)?;
        sh("mount", &[&node, "/mnt"]).expect(0)?;
        sh("mount", &["-o", "remount,ro", "/mnt"]).expect(0)?;
        let before = checksum(&node);
        let ran = fathom(&["run", &path, &node, "-q", "--destroy", "SN-TWO"]);
        ran.expect(3)?.says("is mounted at /mnt")?;
        // Its neighbour of the same controller may be written, but not by what reaches both.
        let same = checksum(&node) == before;
        sh("umount", &["/mnt"]).expect(0)?;
        if same { Ok(ran.err) } else { Err("it was changed".into()) }
    });
    guest.check("a namespace in an MD set is refused", |_| {
        let node = node_of("SN-B4096", 1)?;
        sh("modprobe", &["raid1"]).expect(0)?;
        let make =
            ["--create", "/dev/md7", "--level=1", "--force", "--raid-devices=1", "--run", &node];
        sh("mdadm", &make).expect(0)?;
        let before = checksum(&node);
        let ran = fathom(&["run", &path, &node, "-q", "--destroy", "SN-B4096"]);
        ran.expect(3)?.says("md7")?;
        sh("mdadm", &["--stop", "/dev/md7"]).expect(0)?;
        let stopped = fathom(&["run", &path, &node, "-q", "--destroy", "SN-B4096"]);
        stopped.expect(3)?.says("mdadm")?;
        let same = checksum(&node) == before;
        sh("mdadm", &["--zero-superblock", &node]).expect(0)?;
        if same { Ok(ran.err + &stopped.err) } else { Err("it was changed".into()) }
    });
    guest.check("a wrong serial is refused", |_| {
        let node = node_of("SN-A512", 1)?;
        let before = checksum(&node);
        let ran = fathom(&["run", &path, &node, "-q", "--destroy", "SN-B4096"]);
        ran.expect(3)?.says("this is `SN-A512`")?;
        if checksum(&node) == before { Ok(ran.err) } else { Err("it was changed".into()) }
    });
}

/// A permit for a part is none for the whole.
fn partition(guest: &mut Guest) {
    guest.check("a partition is no leave to format the namespace around it", |_| {
        let node = node_of("SN-B4096", 1)?;
        let table =
            format!("printf 'o\\nn\\np\\n1\\n\\n+64M\\nw\\n' | fdisk -b 4096 {node}; sleep 1");
        sh("sh", &["-c", &table]);
        let part = format!("{node}p1");
        let behind = format!("dd if=/dev/urandom of={node} bs=1M seek=200 count=1 2>/dev/null");
        sh("sh", &["-c", &behind]).expect(0)?;
        let hash = || {
            sh(
                "sh",
                &["-c", &format!("dd if={node} bs=1M skip=200 count=1 2>/dev/null | sha256sum")],
            )
            .out
        };
        let before = hash();
        let format = plan("part", "[[step]]\npurge=\"format\"\n");
        let ran = fathom(&["run", &format, &part, "-q", "--destroy", "SN-B4096"]);
        ran.expect(2)?.says("it is a partition")?;
        let resize = plan("partop", "[[step]]\nset={over_provision=\"50%\"}\n");
        fathom(&["run", &resize, &part, "-q", "--destroy", "SN-B4096"]).expect(2)?;
        let auto = plan("partauto", "[[step]]\npurge=\"auto\"\n");
        fathom(&["run", &auto, &part, "-q", "--destroy", "SN-B4096"]).expect(0)?;
        sh("dd", &["if=/dev/zero", &format!("of={node}"), "bs=1M", "count=1"]).expect(0)?;
        sh("blockdev", &["--rereadpt", &node]);
        if hash() == before { Ok(ran.err) } else { Err("what lies behind it was erased".into()) }
    });
}

fn cache(node: &str) -> Result<bool, String> {
    let json = sh("nvme", &["get-feature", "-f", "6", "-H", node]).out;
    match (json.contains("Enabled"), json.contains("Disabled")) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(format!("nvme get-feature said: {json}")),
    }
}

/// A shortened latency test of the PTS with a real purge.
fn latency(guest: &mut Guest) {
    guest.check("pts-latency, shortened, with a real purge and the write cache off", |_| {
        let node = node_of("SN-A512", 1)?;
        let pattern = sh("dd", &["if=/dev/urandom", &format!("of={node}"), "bs=1M", "count=4"]);
        pattern.expect(0)?;
        if !cache(&node)? {
            return Err("the write cache is off before".into());
        }
        let ran = fathom(&[
            "run",
            "pts-latency",
            &node,
            "-q",
            "--destroy",
            "SN-A512",
            "-o",
            "latency.fathom",
            "--set",
            "cache=off",
            "--set",
            "time=200ms",
            "--set",
            "rounds=5",
            "--set",
            "histogram=1s",
            "--set",
            "fill=16MiB",
            "--json",
        ]);
        if ran.code != 0 && ran.code != 4 {
            return Err(format!("exit {}: {}", ran.code, ran.err));
        }
        if !cache(&node)? {
            return Err("the write cache was not put back".into());
        }
        let run = RunFile::open(std::path::Path::new("/tmp/latency.fathom"));
        let run = run.map_err(|error| error.to_string())?;
        let event = |kind: &str| {
            let found = run.events.iter().find(|event| event.kind == kind);
            found.map(|event| event.text.clone()).ok_or(format!("no event `{kind}`"))
        };
        let (purge, set, back) = (event("purge")?, event("set")?, event("restore")?);
        for (text, part) in [
            (&purge, "Format NVM"),
            (&set, "write cache switched off"),
            (&back, "write_cache is 1"),
        ] {
            if !text.contains(part) {
                return Err(format!("`{part}` is not in: {text}"));
            }
        }
        Ok(format!("exit {}; {purge}; {set}; {back}; {} cells", ran.code, run.cells.len()))
    });
}

fn format(guest: &mut Guest) {
    guest.check("a format is for one namespace, and refused where it is for all", |_| {
        let one = plan("format", "[[step]]\npurge=\"format\"\n");
        let node = node_of("SN-A512", 1)?;
        sh("dd", &["if=/dev/urandom", &format!("of={node}"), "bs=1M", "count=1"]).expect(0)?;
        fathom(&["run", &one, &node, "-q", "--destroy", "SN-A512"]).expect(0)?;
        let read = sh("sh", &["-c", &format!("head -c 1048576 {node} | tr -d '\\000' | wc -c")]);
        if read.out.trim() != "0" {
            return Err(format!("{} bytes are not zero after the format", read.out.trim()));
        }
        let sanitize = plan("sanitize", "[[step]]\npurge=\"sanitize\"\n");
        let ran = fathom(&["run", &sanitize, &node, "-q", "--destroy", "SN-A512"]);
        ran.expect(2)?.says("has no Sanitize command")?;
        Ok(ran.err)
    });
}

/// What a killed run changed is put back by hand.
fn settings_survive_a_crash(guest: &mut Guest) {
    guest.check("settings of a killed run are put back", |_| {
        let node = node_of("SN-A512", 1)?;
        let path =
            plan("long", "[[step]]\nset={write_cache=\"off\"}\n[[step]]\nload={time=\"60s\"}\n");
        let mut child = std::process::Command::new("/bin/fathom")
            .args(["run", &path, &node, "-q", "-o", "/tmp/killed.fathom"])
            .spawn()
            .map_err(|error| error.to_string())?;
        for _ in 0..200 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if !cache(&node)? {
                break;
            }
        }
        let off = !cache(&node)?;
        let _ = child.kill();
        let _ = child.wait();
        if !off || cache(&node)? {
            return Err("the cache was never off".into());
        }
        let ran = fathom(&["devices", "--restore"]);
        ran.expect(0)?;
        if !cache(&node)? {
            return Err(format!("still off after: {}", ran.out));
        }
        let again = fathom(&["devices", "--restore"]);
        Ok(format!("{}{}", ran.out, again.expect(0)?.out))
    });
}

fn setting_lost(guest: &mut Guest) {
    guest.check("a setting that the drive loses in mid-run makes the run not valid", |_| {
        let node = node_of("SN-A512", 1)?;
        let controller = device(&node)?["controller"].as_str().unwrap_or_default().to_owned();
        let path =
            plan("lost", "[[step]]\nset={write_cache=\"off\"}\n[[step]]\nload={time=\"4s\"}\n");
        let going = start("lost", &[&path, &node], 1)?;
        sh("nvme", &["set-feature", &format!("/dev/{controller}"), "-f", "6", "-v", "1"])
            .expect(0)?;
        let (ran, run) = going.end()?;
        ran.expect(4)?;
        match cache(&node)? {
            true => verdict(&run, "setting-lost", "fail"),
            false => Err("the cache is off after the run".into()),
        }
    });
}

/// Two nodes with a CPU each; the far one is kept busy by another program.
fn placement(guest: &mut Guest) {
    guest.check("placement: workers run near by default, and far when told", |_| {
        let node = node_of("SN-B4096", 1)?;
        let path = plan("placed", "[[step]]\nload={time=\"200ms\"}\n");
        let mut told = Vec::new();
        for (placement, cpu) in [("local", 1), ("far", 0), ("cores=1", 1)] {
            let _ = std::fs::remove_file("/tmp/p.fathom");
            let args = ["run", &path, &node, "-q", "--placement", placement, "-o", "/tmp/p.fathom"];
            fathom(&args).expect(0)?;
            let run = RunFile::open(std::path::Path::new("/tmp/p.fathom"));
            let run = run.map_err(|error| error.to_string())?;
            is(&run.cells[0].facts, "/cpus", vec![cpu])?;
            let warned = run.verdicts.iter().any(|verdict| verdict.name == "far-node");
            if warned != (placement == "far") {
                return Err(format!("{placement}: far-node warned: {warned}"));
            }
            told.push(format!("{placement}: CPU {cpu}"));
        }
        Ok(told.join(", "))
    });
    // More blocks than a quiet machine needs: a scan ends as soon as it is resolved.
    guest.check("placement: a node that is slower is found, with its sign", |_| {
        let node = node_of("SN-A512", 1)?;
        let busy = "taskset 2 sh -c 'while :; do :; done'";
        let child = std::process::Command::new("sh").args(["-c", busy]).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let args = ["placement", &node, "--by", "node", "--depth", "1", "--blocks", "60"];
        let mut all = args.to_vec();
        all.extend(["--time", "100ms", "--json", "-q"]);
        let ran = fathom(&all);
        let _ = child.kill();
        let _ = child.wait();
        sh("sh", &["-c", "pkill -f 'while :' || killall sh"]);
        let scan = ran.json()?["scans"][0].clone();
        is(&scan, "/reference/name", "node 0 (CPUs 0, near)")?;
        is(&scan, "/groups/0/name", "node 1 (CPUs 1, far)")?;
        is(&scan, "/groups/0/finding", "slower")?;
        seen(&scan, &["/groups/0/ratio", "/groups/0/interval"])
    });
}
