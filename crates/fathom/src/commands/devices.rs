//! `fathom devices`.

use crate::args::Devices;
use crate::exit::Exit;
use crate::print;
use base::units::format_bytes_decimal;
use drive::{Device, FoundKind, discover, scan, usage_of_device};
use report::table_of;
use serde_json::{Value, json};

pub(crate) fn run(args: &Devices) -> anyhow::Result<Exit> {
    let devices = discover();
    if args.json {
        let list: Vec<Value> = devices.iter().map(as_json).collect();
        print::json(&json!({"fathom_json": report::JSON_VERSION, "devices": list}))?;
        return Ok(Exit::Done);
    }
    if devices.is_empty() {
        print::out("No block device is visible here. `fathom run quick` measures a file.\n")?;
        return Ok(Exit::Done);
    }
    let body: Vec<Vec<String>> = devices.iter().map(row).collect();
    let head =
        ["Device", "Kind", "Model", "Size", "Identity", "Block", "Link", "NUMA", "Temp", "State"];
    print::out(&table_of(&head, &body))?;
    print::out("Identity is the word for --destroy. Reading needs no word.\n")?;
    Ok(Exit::Done)
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn row(device: &Device) -> Vec<String> {
    let link = device.link.as_ref().map(|link| {
        let note = if link.is_downgraded() {
            format!(" (DOWNGRADED, at most {} x{})", link.max_speed, link.max_width)
        } else {
            String::new()
        };
        format!("{} x{}{note}", link.speed, link.width)
    });
    vec![
        device.path.display().to_string(),
        device.transport.clone(),
        or_dash(device.model.as_ref()),
        format_bytes_decimal(device.size()),
        device.identity(),
        format!("{} B", device.logical_block_bytes),
        or_dash(link),
        or_dash(device.numa_node),
        or_dash(device.temperature_c.map(|t| format!("{t:.0} C"))),
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

fn as_json(device: &Device) -> Value {
    let mut value = serde_json::to_value(device).unwrap_or(Value::Null);
    let usage: Vec<String> = usage_of_device(device).iter().map(ToString::to_string).collect();
    let found = std::fs::File::open(&device.path).map(|file| scan(&file, device.size_bytes));
    let found: Vec<String> = found.unwrap_or_default().iter().map(ToString::to_string).collect();
    value["identity"] = device.identity().into();
    value["in_use"] = usage.into();
    value["contents"] = found.into();
    value["link_downgraded"] = device.link.as_ref().map(drive::Link::is_downgraded).into();
    value
}
