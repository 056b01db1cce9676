//! Fathom against the kernel's real NVMe driver, in virtual machines (emulated drives; no device).

use serde_json::json;
use testbed::{Boot, Drive, Machine, ready};

#[test]
fn pcie_drives() {
    let Some(image) = ready() else { return };
    let boot = Boot {
        scenario: "pcie",
        drives: vec![
            Drive::new("SN-A512", 512).on_node(0),
            Drive::new("SN-B4096", 4096).on_node(1),
            Drive { namespaces: vec![512, 4096], ..Drive::new("SN-TWO", 512) },
        ],
        numa: true,
        ..Boot::default()
    };
    Machine::boot(&image, &boot).finish().passed(22);
}

/// A block node of zeros that fails to read some sectors.
fn bad_sectors(name: &str, sectors: &[u64], once: bool) -> [String; 2] {
    let error = |sector: &u64| json!({"event": "none", "iotype": "read", "errno": 5, "sector": sector, "once": once});
    let errors: Vec<_> = sectors.iter().map(error).collect();
    let zeros = json!({"driver": "null-co", "size": 268435456, "read-zeroes": true});
    let node = json!({
        "driver": "raw", "node-name": name,
        "file": {"driver": "blkdebug", "image": zeros, "inject-error": errors},
    });
    ["-blockdev".into(), node.to_string()]
}

#[test]
fn drives_that_fail() {
    let Some(image) = ready() else { return };
    let on = |serial: &str, node: &str| Drive {
        backing: Some(node.into()),
        ..Drive::new(serial, 512).on_node(0)
    };
    let mut extra = Vec::new();
    extra.extend(bad_sectors("bad", &[2048], false));
    extra.extend(bad_sectors("once", &[2048, 8192], true));
    let boot = Boot {
        scenario: "faults",
        drives: vec![
            on("SN-BAD", "bad"),
            on("SN-ONCE", "once"),
            Drive::new("SN-HOT", 512).on_node(1),
            Drive::new("SN-GONE", 512).on_node(1),
        ],
        numa: true,
        extra,
        ..Boot::default()
    };
    let mut machine = Machine::boot(&image, &boot);
    machine.wait_for("read-only");
    let path = "/machine/peripheral/ctl2";
    let warning = json!({"path": path, "property": "smart_critical_warning", "value": 8});
    machine.qmp("qom-set", warning);
    machine.go();
    machine.wait_for("unplug");
    machine.qmp("device_del", json!({"id": "ctl3"}));
    machine.go();
    machine.finish().passed(6);
}

#[test]
fn model_drive() {
    let Some(image) = ready() else { return };
    let boot = Boot { scenario: "model", ..Boot::default() };
    Machine::boot(&image, &boot).finish().passed(11);
}

#[test]
fn sata_and_sas_drives() {
    let Some(image) = ready() else { return };
    let zeros = |name: &str| {
        let node =
            json!({"driver": "null-co", "node-name": name, "size": 268435456, "read-zeroes": true});
        ["-blockdev".to_owned(), node.to_string()]
    };
    let device = |text: &str| ["-device".to_owned(), text.to_owned()];
    let parts = [
        zeros("ata"),
        device("piix4-ide,id=ide"),
        device("ide-hd,drive=ata,bus=ide.0,serial=SN-ATA,model=Model-ATA"),
        zeros("sas"),
        device("virtio-scsi-pci,id=sas"),
        device("scsi-hd,drive=sas,bus=sas.0,serial=SN-SAS,vendor=FATHOM,product=Model-SAS"),
    ];
    let extra = parts.into_iter().flatten().collect();
    let boot = Boot { scenario: "sata", extra, ..Boot::default() };
    Machine::boot(&image, &boot).finish().passed(10);
}

/// The power goes in the middle of verified writes; what the journal says was acknowledged is there.
#[test]
fn power_cut_during_verified_writes() {
    let Some(image) = ready() else { return };
    let folder = image.join(format!("cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let node = |name: &str, bytes: u64| {
        let path = folder.join(name);
        let made = std::fs::File::create(&path).and_then(|file| file.set_len(bytes));
        made.expect("a file for a drive");
        let node = json!({
            "driver": "raw", "node-name": name,
            "file": {"driver": "file", "filename": path.display().to_string()},
        });
        ["-blockdev".to_owned(), node.to_string()]
    };
    let on =
        |serial: &str, node: &str| Drive { backing: Some(node.into()), ..Drive::new(serial, 512) };
    let boot = |scenario: &'static str, extra: Vec<String>| Boot {
        scenario,
        drives: vec![on("SN-DATA", "data"), on("SN-LOG", "log")],
        extra,
        ..Boot::default()
    };
    let extra = [node("data", 128 << 20), node("log", 64 << 20)].concat();
    let mut machine = Machine::boot(&image, &boot("cut", extra.clone()));
    machine.wait_for("cut");
    machine.power_cut();
    Machine::boot(&image, &boot("after-cut", extra)).finish().passed(3);
    let _ = std::fs::remove_dir_all(&folder);
}
