//! Emulated SATA and SAS drives (no NVMe), read and set through smartctl.

use crate::compare::{device, is, seen};
use crate::kit::{Guest, Seen, events, fathom, plan, sh, start};

pub(crate) fn run(guest: &mut Guest) {
    for module in ["ata_piix", "virtio_pci", "virtio_scsi", "sd_mod"] {
        sh("modprobe", &[module]);
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    guest.check("a SATA drive is found", |_| found("SN-ATA", "Model-ATA", "ata"));
    guest.check("a SAS drive is found", |_| found("SN-SAS", "Model-SAS", "scsi"));
    guest.check("the write cache of a SATA drive is switched, and put back", |_| {
        let node = node_of("SN-ATA")?;
        let cache = || sh("smartctl", &["-g", "wcache", &node]).out.contains("Enabled");
        if !cache() {
            return Err("it is off before".into());
        }
        let path =
            plan("cache", "[[step]]\nset={write_cache=\"off\"}\n[[step]]\nload={time=\"2s\"}\n");
        let going = start("cache", &[&path, &node], 1)?;
        let off = !cache();
        let (ran, run) = going.end()?;
        ran.expect(0)?;
        let text =
            format!("{}; {}", events(&run, "set").join(" "), events(&run, "restore").join(" "));
        match off && cache() && text.contains("switched off") {
            true => Ok(text),
            false => Err(format!("off {off}, on again {}: {text}", cache())),
        }
    });
    secure_erase(guest);
}

/// A stand-in: no emulated drive has the security feature set. It keeps the drive's state in a file, says
/// what `hdparm` says, and writes down what it was asked.
const HDPARM: &str = r#"#!/bin/sh
echo "$@" >>/tmp/hdparm.calls
state=/tmp/hdparm.state
case "$*" in
-I*)
    printf 'Commands/features:\n\t   *\tBLOCK_ERASE_EXT command\nSecurity: \n\t\tsupported\n'
    [ -e /tmp/hdparm.frozen ] && printf '\t\tfrozen\n' || printf '\tnot\tfrozen\n'
    [ -e $state ] && printf '\t\tenabled\n' || printf '\tnot\tenabled\n' ;;
*--security-set-pass*) touch $state ;;
*--security-erase*)
    [ -e $state ] || exit 1
    [ -e /tmp/hdparm.fails ] && { echo 'SECURITY_ERASE: Input/output error' >&2; exit 5; }
    rm $state ;;
*--security-disable*) rm $state ;;
*--sanitize-block-erase*) echo 0 >/tmp/hdparm.sanitize ;;
*--sanitize-status*)
    done=$(cat /tmp/hdparm.sanitize)
    echo $((done + 50)) >/tmp/hdparm.sanitize
    if [ "$done" -lt 100 ]; then
        printf '    State:    SD2 Sanitize operation In Process\n    Progress: 0x0 (%d%%)\n' "$done"
    else
        printf '    State:    SD0 Sanitize Idle\n    Last Sanitize Operation Completed Without Error\n'
    fi ;;
esac
"#;

/// Runs a purge of this kind, with the exit code that is expected; gives its events.
fn purge(name: &str, way: &str, node: &str, serial: &str, exit: i32) -> Result<String, String> {
    let text = format!("[[step]]\npurge=\"{way}\"\n[[step]]\nload={{time=\"1s\"}}\n");
    let path = plan(name, &text);
    let file = format!("/tmp/{name}.fathom");
    let ran = fathom(&["run", &path, node, "--destroy", serial, "-q", "-o", &file]);
    let said = format!("{} {}", ran.out, ran.err);
    ran.expect(exit)?;
    match store::RunFile::open(std::path::Path::new(&file)) {
        Ok(run) => Ok(format!("{} {said}", events(&run, "purge").join(" "))),
        Err(_) => Ok(said),
    }
}

fn has(text: String, part: &str) -> Seen {
    let line = text.lines().find(|line| line.contains(part)).map(|line| line.trim().to_owned());
    line.ok_or(format!("no `{part}` in {text}"))
}

fn secure_erase(guest: &mut Guest) {
    let node = || node_of("SN-ATA");
    guest.check("a SATA drive without security features is not erased, and why (hdparm)", |_| {
        has(purge("none", "format", &node()?, "SN-ATA", 2)?, "no security feature set")
    });
    let _ = std::fs::remove_file("/bin/hdparm");
    guest.check("a missing hdparm is named", |_| {
        has(purge("missing", "format", &node()?, "SN-ATA", 2)?, "apt-get install hdparm")
    });
    if let Err(error) = std::fs::write("/bin/hdparm", HDPARM) {
        return guest.check("a stand-in for hdparm is written", |_| Err(error.to_string()));
    }
    sh("chmod", &["+x", "/bin/hdparm"]);
    guest.check("secure erase: password set, erased, password gone (hdparm stand-in)", |_| {
        let said = has(purge("erase", "format", &node()?, "SN-ATA", 0)?, "SECURITY ERASE UNIT")?;
        let calls = std::fs::read_to_string("/tmp/hdparm.calls").map_err(|e| e.to_string())?;
        let order = ["--security-set-pass fathom", "--security-erase fathom"];
        let at: Vec<_> = order.iter().filter_map(|call| calls.find(call)).collect();
        match at.len() == 2 && at.is_sorted() && !std::path::Path::new("/tmp/hdparm.state").exists()
        {
            true => Ok(said),
            false => Err(calls),
        }
    });
    guest.check("ATA sanitize is waited for, with its progress (hdparm stand-in)", |_| {
        has(
            purge("sanitize", "sanitize", &node()?, "SN-ATA", 0)?,
            "SANITIZE by hdparm, block erase",
        )
    });
    guest.check("a failed secure erase ends the run and leaves no password (stand-in)", |_| {
        let _ = std::fs::write("/tmp/hdparm.fails", "");
        let said =
            has(purge("fails", "format", &node()?, "SN-ATA", 1)?, "SECURITY_ERASE: Input/output");
        let _ = std::fs::remove_file("/tmp/hdparm.fails");
        match std::path::Path::new("/tmp/hdparm.state").exists() {
            true => Err("the drive has a password".into()),
            false => said,
        }
    });
    guest.check("a frozen drive is refused before the run, with the way out (stand-in)", |_| {
        let _ = std::fs::write("/tmp/hdparm.frozen", "");
        has(purge("frozen", "format", &node()?, "SN-ATA", 2)?, "pull the drive's power")
    });
    guest.check("a SAS drive is formatted by FORMAT UNIT (sg_format), or says why not", |_| {
        let node = node_of("SN-SAS")?;
        has(purge("sas", "format", &node, "SN-SAS", 0)?, "FORMAT UNIT by sg_format")
    });
}

fn node_of(serial: &str) -> Result<String, String> {
    let list = fathom(&["devices", "--json"]).json()?;
    let mut all = list["devices"].as_array().cloned().unwrap_or_default().into_iter();
    let found = all.find(|device| device["serial"] == serial);
    let path = found.and_then(|device| device["path"].as_str().map(str::to_owned));
    path.ok_or(format!("no {serial} in {list}"))
}

fn found(serial: &str, model: &str, transport: &str) -> Seen {
    let node = node_of(serial)?;
    let ours = device(&node)?;
    is(&ours, "/model", model)?;
    is(&ours, "/transport", transport)?;
    is(&ours, "/size_bytes", 256 << 20)?;
    let theirs = sh("smartctl", &["--json", "--all", &node]).json()?;
    for pointer in ["/user_capacity/bytes", "/logical_block_size", "/serial_number"] {
        let theirs = theirs.pointer(pointer).cloned().unwrap_or_default();
        is(&ours["health"]["smartctl"], pointer, theirs)?;
    }
    seen(&ours, &["/path", "/transport", "/model", "/temperature_c", "/settings/write_cache"])
}
