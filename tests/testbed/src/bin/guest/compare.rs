//! Field for field: what Fathom reads against what nvme-cli and smartctl read of the same drive.

use crate::kit::{Guest, Seen, fathom, same, sh};
use serde_json::Value;

/// What Fathom knows of a device.
pub(crate) fn device(node: &str) -> Result<Value, String> {
    let ran = fathom(&["devices", node, "--json"]);
    let list = ran.expect(0)?.json()?;
    Ok(list["devices"][0].clone())
}

/// The block device of a namespace, by serial number: names are not in order.
pub(crate) fn node_of(serial: &str, nsid: u64) -> Result<String, String> {
    let ran = fathom(&["devices", "--json"]);
    let list = ran.expect(0)?.json()?;
    let is_it = |d: &&Value| d["serial"] == serial && d["nsid"] == nsid;
    let found = list["devices"].as_array().into_iter().flatten().find(is_it);
    let path = found.and_then(|d| d["path"].as_str());
    path.map(str::to_owned).ok_or(format!("no namespace {nsid} of {serial}"))
}

fn nvme(args: &[&str]) -> Result<Value, String> {
    let mut all = args.to_vec();
    all.extend(["-o", "json"]);
    sh("nvme", &all).json()
}

/// (our field, nvme-cli's field)
type Pairs = &'static [(&'static str, &'static str)];

const CONTROLLER: Pairs = &[
    ("/vendor_id", "vid"),
    ("/subsystem_vendor_id", "ssvid"),
    ("/serial", "sn"),
    ("/model", "mn"),
    ("/firmware", "fr"),
    ("/controller_id", "cntlid"),
    ("/total_capacity_bytes", "tnvmcap"),
    ("/unallocated_capacity_bytes", "unvmcap"),
    ("/namespaces_max", "nn"),
    ("/subsystem", "subnqn"),
];

const SMART: Pairs = &[
    ("/critical_warning", "critical_warning"),
    ("/temperature_k", "temperature"),
    ("/available_spare_percent", "avail_spare"),
    ("/spare_threshold_percent", "spare_thresh"),
    ("/used_percent", "percent_used"),
    ("/units_read", "data_units_read"),
    ("/units_written", "data_units_written"),
    ("/read_commands", "host_read_commands"),
    ("/write_commands", "host_write_commands"),
    ("/busy_minutes", "controller_busy_time"),
    ("/power_cycles", "power_cycles"),
    ("/power_on_hours", "power_on_hours"),
    ("/unsafe_shutdowns", "unsafe_shutdowns"),
    ("/media_errors", "media_errors"),
    ("/error_entries", "num_err_log_entries"),
    ("/warning_minutes", "warning_temp_time"),
    ("/critical_minutes", "critical_comp_time"),
    ("/light_throttles", "thm_temp1_trans_count"),
    ("/heavy_throttles", "thm_temp2_trans_count"),
    ("/light_throttle_s", "thm_temp1_total_time"),
    ("/heavy_throttle_s", "thm_temp2_total_time"),
];

const SMARTCTL: Pairs = &[
    ("/critical_warning", "critical_warning"),
    ("/available_spare_percent", "available_spare"),
    ("/spare_threshold_percent", "available_spare_threshold"),
    ("/used_percent", "percentage_used"),
    ("/units_read", "data_units_read"),
    ("/units_written", "data_units_written"),
    ("/read_commands", "host_reads"),
    ("/write_commands", "host_writes"),
    ("/power_cycles", "power_cycles"),
    ("/power_on_hours", "power_on_hours"),
    ("/unsafe_shutdowns", "unsafe_shutdowns"),
    ("/media_errors", "media_errors"),
    ("/error_entries", "num_err_log_entries"),
];

fn compare(ours: &Value, theirs: &Value, pairs: Pairs) -> Result<usize, String> {
    for (our, their) in pairs {
        let value = ours.pointer(our).unwrap_or(&Value::Null);
        let zero = Value::from(0);
        // A missing value is none here and 0 there.
        let value = if value.is_null() { &zero } else { value };
        let their_value = theirs.get(*their).unwrap_or(&zero);
        same(our, value, their_value)?;
    }
    Ok(pairs.len())
}

/// All of one namespace against both.
pub(crate) fn all(guest: &mut Guest, serial: &str, nsid: u64) {
    guest.check(&format!("{serial}/{nsid}: as nvme-cli and smartctl read it"), |_| {
        let node = node_of(serial, nsid)?;
        // Theirs first: looking for signatures reads some blocks, which the drive counts.
        let smart_log = nvme(&["smart-log", &node])?;
        let smartctl = sh("smartctl", &["--json", "--all", &node]).json()?;
        let ours = device(&node)?;
        let health = &ours["health"];
        if health["problems"].as_array().is_none_or(|problems| !problems.is_empty()) {
            return Err(format!("problems: {}", health["problems"]));
        }
        let theirs = nvme(&["id-ctrl", &node])?;
        let mut n = compare(&health["controller"], &theirs, CONTROLLER)?;
        n += power_states(&health["controller"], &theirs)?;
        n += capabilities(&health["controller"], &theirs)?;
        n += namespace(&health["namespace"], &nvme(&["id-ns", &node])?)?;
        n += compare(&health["smart"], &smart_log, SMART)?;
        let log = &smartctl["nvme_smart_health_information_log"];
        n += compare(&health["smart"], log, SMARTCTL)?;
        let kelvin = health["smart"]["temperature_k"].as_i64();
        if kelvin.map(|k| k - 273) != log["temperature"].as_i64() {
            return Err(format!("temperature: {kelvin:?} K here, {} C there", log["temperature"]));
        }
        same("model", &ours["model"], &smartctl["model_name"])?;
        same("serial", &ours["serial"], &smartctl["serial_number"])?;
        same("size", &ours["size_bytes"], &smartctl["user_capacity"]["bytes"])?;
        Ok(format!("{} fields equal", n + 4))
    });
}

fn power_states(ours: &Value, theirs: &Value) -> Result<usize, String> {
    let states = ours["power_states"].as_array().ok_or("no power states")?;
    let other = theirs["psds"].as_array().ok_or("no psds")?;
    for (our, their) in states.iter().zip(other) {
        let unit = if their["max_power_scale"] == 1 { 0.1 } else { 10.0 };
        let mw = their["max_power"].as_f64().unwrap_or(0.0) * unit;
        if our["max_mw"].as_f64().unwrap_or(0.0) != mw.floor() {
            return Err(format!("power: {our} here, {their} there"));
        }
        same("entry", &our["entry_us"], &their["entry_lat"])?;
        same("exit", &our["exit_us"], &their["exit_lat"])?;
        let flag = their["non-operational_state"].as_u64().unwrap_or(0) == 0;
        same("operational", &our["operational"], &Value::from(flag))?;
    }
    same("states", &states.len().into(), &(theirs["npss"].as_u64().unwrap_or(0) + 1).into())?;
    Ok(4 * states.len() + 1)
}

fn capabilities(ours: &Value, theirs: &Value) -> Result<usize, String> {
    let bits = [
        ("/commands/format", "oacs", 1),
        ("/commands/namespaces", "oacs", 3),
        ("/commands/self_test", "oacs", 4),
        ("/sanitize/crypto", "sanicap", 0),
        ("/sanitize/block", "sanicap", 1),
        ("/sanitize/overwrite", "sanicap", 2),
        ("/format_is_for_all", "fna", 0),
        ("/erase_is_for_all", "fna", 1),
        ("/crypto_erase", "fna", 2),
        ("/volatile_write_cache", "vwc", 0),
        ("/deallocate", "oncs", 2),
    ];
    for (our, their, bit) in bits {
        let set = theirs[their].as_u64().unwrap_or(0) >> bit & 1 == 1;
        same(our, ours.pointer(our).unwrap_or(&Value::Null), &Value::from(set))?;
    }
    Ok(bits.len())
}

fn namespace(ours: &Value, theirs: &Value) -> Result<usize, String> {
    for (our, their) in
        [("size_blocks", "nsze"), ("capacity_blocks", "ncap"), ("used_blocks", "nuse")]
    {
        same(our, &ours[our], &theirs[their])?;
    }
    let format = theirs["flbas"].as_u64().unwrap_or(99) & 15;
    same("format", &ours["format"], &format.into())?;
    let (formats, lbafs) = (ours["formats"].as_array(), theirs["lbafs"].as_array());
    let (formats, lbafs) = (formats.ok_or("no formats")?, lbafs.ok_or("no lbafs")?);
    for (our, their) in formats.iter().zip(lbafs) {
        let bytes = 1u64 << their["ds"].as_u64().unwrap_or(0);
        same("block", &our["data_bytes"], &bytes.into())?;
        same("metadata", &our["metadata_bytes"], &their["ms"])?;
    }
    Ok(4 + 2 * formats.len())
}

/// A value of Fathom's own view must be this.
pub(crate) fn is(value: &Value, pointer: &str, wanted: impl Into<Value>) -> Result<(), String> {
    same(pointer, value.pointer(pointer).unwrap_or(&Value::Null), &wanted.into())
}

/// Everything seen, for the line of a check.
pub(crate) fn seen(value: &Value, pointers: &[&str]) -> Seen {
    let get = |p: &&str| format!("{p} {}", value.pointer(p).unwrap_or(&Value::Null));
    Ok(pointers.iter().map(get).collect::<Vec<_>>().join(", "))
}
