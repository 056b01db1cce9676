//! `fathom devices`.

use crate::args::Devices;
use crate::exit::{Exit, usage};
use crate::print;
use base::units::format_bytes_decimal;
use drive::{
    Controller, Device, FoundKind, Health, Link, Smart, celsius, discover, find, link_errors, scan,
    usage_of_device,
};
use report::table_of;
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn run(args: &Devices) -> anyhow::Result<Exit> {
    if args.restore {
        return super::restore::run();
    }
    let devices = match args.devices.as_slice() {
        [] => discover(),
        nodes => nodes.iter().map(|node| named(node)).collect::<anyhow::Result<_>>()?,
    };
    let all: Vec<(Device, Health)> = devices
        .into_iter()
        .map(|device| {
            let health = Health::read(&device);
            (device, health)
        })
        .collect();
    if args.json {
        let list: Vec<Value> = all.iter().map(|(device, health)| as_json(device, health)).collect();
        print::json(&json!({"fathom_json": report::JSON_VERSION, "devices": list}))?;
        return Ok(Exit::Done);
    }
    if !args.devices.is_empty() {
        for (device, health) in &all {
            print::out(&page(device, health))?;
        }
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        print::out("No block device is visible here. `fathom run quick` measures a file.\n")?;
        return Ok(Exit::Done);
    }
    let body: Vec<Vec<String>> = all.iter().map(|(device, health)| row(device, health)).collect();
    let head = [
        "Device", "Kind", "Model", "Size", "Identity", "Block", "Link", "NUMA", "Temp", "Wear",
        "State",
    ];
    print::out(&table_of(&head, &body))?;
    print::out(
        "Identity is the word for --destroy. Reading needs no word. `fathom devices DEVICE` tells all \
         of one.\n",
    )?;
    Ok(Exit::Done)
}

fn named(node: &Path) -> anyhow::Result<Device> {
    let missing = || usage(format!("{}: is no block device; see `fathom devices`", node.display()));
    find(node).ok_or_else(missing)
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn link_words(link: &Link) -> String {
    let Some(now) = link.now() else { return "-".into() };
    match link.is_downgraded() {
        true => format!("{now} (DOWNGRADED, at most {})", link.most().unwrap_or_default()),
        false => now,
    }
}

fn temperature(device: &Device, health: &Health) -> Option<f64> {
    health.temperature_c().or(device.temperature_c)
}

fn row(device: &Device, health: &Health) -> Vec<String> {
    vec![
        device.path.display().to_string(),
        device.transport.clone(),
        or_dash(device.model.as_ref()),
        format_bytes_decimal(device.size()),
        device.identity(),
        format!("{} B", device.logical_block_bytes),
        device.link.as_ref().map_or_else(|| "-".into(), link_words),
        or_dash(device.numa_node),
        or_dash(temperature(device, health).map(|t| format!("{t:.0} C"))),
        or_dash(health.used_percent().map(|percent| format!("{percent:.0} %"))),
        state(device),
    ]
}

/// Why it cannot be written, or what would be destroyed.
fn state(device: &Device) -> String {
    let usage = usage_of_device(device);
    if let Some(first) = usage.first() {
        return format!("in use: {first}");
    }
    let found = std::fs::File::open(&device.path).map(|file| scan(&file, device.size_bytes));
    match found {
        Err(error) => format!("cannot be opened: {error}"),
        Ok(found) if found.is_empty() => "free".into(),
        Ok(found) => {
            let member = found.iter().any(|f| matches!(f.kind, FoundKind::Member { .. }));
            let names: Vec<String> = found.iter().map(ToString::to_string).collect();
            let word = if member { "member" } else { "holds" };
            format!("{word}: {}", names.join(", "))
        }
    }
}

/// Lines of a page: a name and a value.
type Lines = Vec<(&'static str, String)>;

/// All of one device.
fn page(device: &Device, health: &Health) -> String {
    let mut lines = identity_lines(device);
    bus_lines(device, &mut lines);
    if let Some(controller) = &health.controller {
        controller_lines(controller, health, &mut lines);
    }
    match &health.smart {
        Some(smart) => smart_lines(smart, &mut lines),
        None => {
            let now = temperature(device, health);
            lines.extend(now.map(|t| ("Temperature", format!("{t:.0} C"))));
        }
    }
    if let Some(ocp) = &health.ocp {
        let text = format!(
            "{} bytes written to the media, {} throttle events, capacitors {} %",
            ocp.media_written_bytes, ocp.throttle_events, ocp.capacitor_percent
        );
        lines.push(("OCP health", text));
    }
    lines.extend(health.problems.iter().map(|problem| ("Not read", problem.clone())));
    lines.push(("State", state(device)));
    let mut text = format!("{}\n", device.path.display());
    for (name, value) in lines {
        text.push_str(&format!("  {name:<16} {value}\n"));
    }
    text
}

fn identity_lines(device: &Device) -> Lines {
    let (logical, physical) = (device.logical_block_bytes, device.physical_block_bytes);
    let size = format_bytes_decimal(device.size());
    vec![
        ("Model", or_dash(device.model.as_ref())),
        ("Identity", device.identity()),
        ("World-wide name", or_dash(device.wwid.as_ref())),
        ("Firmware", or_dash(device.firmware.as_ref())),
        ("Transport", device.transport.clone()),
        ("Size", format!("{size} ({} bytes)", device.size_bytes)),
        ("Blocks", format!("{logical} B logical, {physical} B physical")),
    ]
}

/// How it hangs on this host.
fn bus_lines(device: &Device, lines: &mut Lines) {
    if let Some(link) = &device.link {
        lines.push(("PCIe", format!("{} {}", link.address(), link_words(link))));
        if let Some(slot) = link.slot_is_better() {
            lines.push(("", format!("the slot could do {slot}")));
        }
    }
    if let Some([correctable, nonfatal, fatal]) = link_errors(device) {
        let text = format!("{correctable} correctable, {nonfatal} non-fatal, {fatal} fatal");
        lines.push(("Link errors", text));
    }
    lines.extend(device.address.iter().map(|address| ("Fabric", address.clone())));
    lines.extend(device.numa_node.map(|node| ("NUMA node", node.to_string())));
    lines.extend(device.local_cpus.iter().map(|cpus| ("Near CPUs", cpus.clone())));
    if !device.queues.is_empty() {
        let mut text = format!("{}; CPUs {}", device.queues.len(), device.queues.join(" | "));
        if !device.interrupts.is_empty() {
            text.push_str(&format!("; {} interrupts", device.interrupts.len()));
        }
        lines.push(("Hardware queues", text));
    }
    let some = ["scheduler", "nr_requests", "write_cache", "max_sectors_kb", "nomerges", "io_poll"];
    let setting = |name: &&str| Some(format!("{name} {}", device.settings.get(*name)?));
    lines.push(("Block layer", some.iter().filter_map(setting).collect::<Vec<_>>().join(", ")));
}

fn controller_lines(controller: &Controller, health: &Health, lines: &mut Lines) {
    let version = controller.version.clone().unwrap_or_else(|| "before 1.2".into());
    lines.push(("NVMe", format!("{version}, {}", controller.subsystem)));
    if let Some(namespace) = &health.namespace {
        let formats: Vec<String> = namespace
            .formats
            .iter()
            .enumerate()
            .filter(|(_, format)| format.data_bytes > 0)
            .map(|(n, format)| {
                let mark = if n == usize::from(namespace.format) { "*" } else { "" };
                format!("{n}{mark}: {}+{}", format.data_bytes, format.metadata_bytes)
            })
            .collect();
        lines.push(("LBA formats", format!("{} (* in use)", formats.join(", "))));
    }
    let states: Vec<String> = controller
        .power_states
        .iter()
        .filter_map(|state| {
            let watts = f64::from(state.max_mw?) / 1000.0;
            let idle = if state.operational { "" } else { " (no I/O)" };
            Some(format!("{}: {watts} W{idle}", state.state))
        })
        .collect();
    let now = health.features.get(drive::Feature::PowerState.word()).map(|value| value & 31);
    if !states.is_empty() {
        lines.push(("Power states", format!("{}; now {}", states.join(", "), or_dash(now))));
    }
    let cache = match health.write_cache() {
        Some(true) => "volatile, on",
        Some(false) => "volatile, off",
        None => "none that is volatile",
    };
    lines.push(("Write cache", cache.into()));
    let ways = controller.sanitize;
    let can: Vec<&str> = [
        (controller.commands.format, "format"),
        (controller.crypto_erase, "format with crypto erase"),
        (ways.block, "sanitize by block erase"),
        (ways.crypto, "sanitize by crypto erase"),
        (ways.overwrite, "sanitize by overwrite"),
        (controller.commands.namespaces, "namespace management"),
        (controller.deallocate, "deallocate"),
    ]
    .into_iter()
    .filter_map(|(can, name)| can.then_some(name))
    .collect();
    lines.push(("Can", can.join(", ")));
}

fn smart_lines(smart: &Smart, lines: &mut Lines) {
    let warnings = smart.warnings();
    let verdict = if warnings.is_empty() { "good".into() } else { warnings.join("; ") };
    lines.push(("Health", verdict));
    let sensors: Vec<String> =
        smart.sensors_k.iter().flatten().map(|&k| format!("{} C", celsius(k))).collect();
    let composite = smart.temperature_k.map(|k| format!("{} C", celsius(k)));
    let sensors = if sensors.is_empty() {
        String::new()
    } else {
        format!(" (sensors {})", sensors.join(", "))
    };
    lines.push((
        "Temperature",
        format!("{}{sensors}", composite.unwrap_or_else(|| "not reported".into())),
    ));
    lines.push((
        "Endurance",
        format!("{} % used, spare {} %", smart.used_percent, smart.available_spare_percent),
    ));
    lines.push((
        "Written, read",
        format!(
            "{:.3} TB, {:.3} TB",
            smart.units_written as f64 * 512e-9,
            smart.units_read as f64 * 512e-9
        ),
    ));
    lines.push((
        "Errors",
        format!("{} of the media, {} in the log", smart.media_errors, smart.error_entries),
    ));
}

fn as_json(device: &Device, health: &Health) -> Value {
    let mut value = serde_json::to_value(device).unwrap_or(Value::Null);
    let usage: Vec<String> = usage_of_device(device).iter().map(ToString::to_string).collect();
    let found = std::fs::File::open(&device.path).map(|file| scan(&file, device.size_bytes));
    let found: Vec<String> = found.unwrap_or_default().iter().map(ToString::to_string).collect();
    value["identity"] = device.identity().into();
    value["in_use"] = usage.into();
    value["contents"] = found.into();
    value["link_now"] = device.link.as_ref().and_then(Link::now).into();
    value["link_most"] = device.link.as_ref().and_then(Link::most).into();
    value["link_downgraded"] = device.link.as_ref().map(Link::is_downgraded).into();
    value["link_errors"] = json!(link_errors(device));
    value["temperature_c"] = json!(temperature(device, health));
    value["health"] = serde_json::to_value(health).unwrap_or(Value::Null);
    value
}
