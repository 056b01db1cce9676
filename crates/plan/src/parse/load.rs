//! Loads and cells.

use super::method::read_until;
use super::read_name;
use super::step::arrival;
use crate::load::*;
use crate::model::*;
use crate::reader::{Raw, Table, Value};
use base::units::{Bytes, Nanos};

const BACKLOG: u64 = 1_000_000;
const RATE_MAX: f64 = 1e9;

/// A cell from a step with `load`: one table, or several side by side with the window in the step.
pub(super) fn read_cell(step: &mut Table<'_>) -> Option<Cell> {
    let value = step.take("load")?;
    let outer = read_window(step);
    let until = step.take("until").and_then(|v| read_until(&v));
    let stability = step.take("stability").and_then(|v| read_stability(&v));
    let Raw::List(items) = &value.raw else {
        let mut cell = read_one(value.table("load")?, &value, false)?;
        cell.window = merge_windows(outer, cell.window);
        cell.until = cell.until.or(until);
        cell.stability = cell.stability.or(stability);
        return checked(cell, &value);
    };
    let mut loads = Vec::new();
    for item in items {
        let cell = read_one(item.table("load")?, item, false)?;
        if cell.window != Window::default() {
            item.error("with several loads, `time`, `ramp` and `amount` stand in the step");
        }
        loads.extend(cell.loads);
    }
    for (index, load) in loads.iter_mut().enumerate() {
        if load.name.is_empty() {
            load.name = format!("load{}", index + 1);
        }
    }
    check_weights(&loads, &value);
    checked(Cell { loads, window: outer, until, stability }, &value)
}

/// A cell from one load table with its window inside.
pub(super) fn read_cell_table(table: Table<'_>, at: &Value<'_>, fill: bool) -> Option<Cell> {
    let mut cell = read_one(table, at, fill)?;
    if fill && cell.window == Window::default() {
        cell.window.amount = Some(Amount::Passes(1.0));
    }
    checked(cell, at)
}

/// Loads that share workers need the same depth, workers and demand.
fn check_weights(loads: &[Load], at: &Value<'_>) {
    let mut weighted = loads.iter().filter(|load| load.weight.is_some());
    if let Some(first) = weighted.next() {
        let same = |load: &Load| {
            (load.depth, load.workers, load.demand, &load.targets)
                == (first.depth, first.workers, first.demand, &first.targets)
        };
        if !weighted.all(same) {
            at.error(
                "loads with `weight` run in the same workers: give them the same depth, workers, \
                 rate and targets",
            );
        }
    }
}

fn checked(cell: Cell, at: &Value<'_>) -> Option<Cell> {
    let ends = |load: &Load| matches!(load.pattern, Pattern::Trace(_));
    if cell.window.time.is_none() && cell.window.amount.is_none() && !cell.loads.iter().all(ends) {
        at.error("a load needs `time` or `amount`, or it never ends");
        return None;
    }
    Some(cell)
}

fn merge_windows(outer: Window, inner: Window) -> Window {
    Window {
        ramp: if inner.ramp.0 > 0 { inner.ramp } else { outer.ramp },
        time: inner.time.or(outer.time),
        amount: inner.amount.or(outer.amount),
    }
}

impl Default for Window {
    fn default() -> Self {
        Window { ramp: Nanos(0), time: None, amount: None }
    }
}

fn read_window(table: &mut Table<'_>) -> Window {
    let time = table.take("time").and_then(|v| {
        let time = v.span()?;
        if time.0 == 0 {
            v.error("`time` must be above zero");
        }
        Some(time)
    });
    let ramp = table.take("ramp").and_then(|v| v.span()).unwrap_or(Nanos(0));
    let amount = table.take("amount").and_then(|v| read_amount(&v));
    Window { ramp, time, amount }
}

/// `"2x"` is passes over the range, `"2x capacity"` times the target's size, anything else a size.
fn read_amount(value: &Value<'_>) -> Option<Amount> {
    if let Raw::Text(text) = &value.raw
        && let Some(times) = text.trim().strip_suffix("x capacity")
    {
        return match times.trim().parse::<f64>() {
            Ok(times) if times > 0.0 && times <= 1e6 => Some(Amount::Capacities(times)),
            _ => {
                value.error(format!("`{text}` is no number of capacities such as \"2x capacity\""));
                None
            }
        };
    }
    if let Raw::Text(text) = &value.raw
        && let Some(passes) = text.trim().strip_suffix('x')
    {
        return match passes.trim().parse::<f64>() {
            Ok(passes) if passes > 0.0 && passes <= 1e6 => Some(Amount::Passes(passes)),
            _ => {
                value.error(format!("`{text}` is no number of passes such as \"2x\""));
                None
            }
        };
    }
    let bytes = value.bytes()?;
    if bytes.0 == 0 {
        value.error("`amount` must be above zero");
        return None;
    }
    Some(Amount::Bytes(bytes))
}

fn read_one(mut table: Table<'_>, at: &Value<'_>, fill: bool) -> Option<Cell> {
    let name = table.take("name").and_then(|v| read_name(&v)).unwrap_or_default();
    let trace = read_trace(&mut table, fill);
    let pattern = read_pattern(&mut table, fill);
    let (read_blocks, write_blocks) = read_blocks(&mut table, fill)?;
    let read = table.take("read");
    if let (true, Some(value)) = (fill, &read) {
        value.error("a fill writes only; use a load to read");
    }
    let read_percent = read.and_then(|v| v.percent(100.0)).unwrap_or(match (fill, &trace) {
        (true, _) => 0.0,
        // Both directions, as far as the recording has them.
        (_, Some(_)) => 50.0,
        _ => 100.0,
    });
    let range = table.take("range").and_then(|v| read_range(&v));
    let align = table.take("align").and_then(|v| read_block(&v));
    let depth = table.take("depth").and_then(|v| v.count(1, u64::from(DEPTH_MAX)));
    let workers = table.take("workers").and_then(|v| v.count(1, u64::from(WORKERS_MAX)));
    let demand = match &trace {
        None => read_demand(&mut table),
        Some(trace) => recorded(trace, &mut table),
    };
    let data = read_data(&mut table);
    let weight = table.take("weight").and_then(|v| v.percent(1e6));
    let targets = table.take("targets").map(|v| read_targets(&v)).unwrap_or_default();
    let verify = table.take("verify").and_then(|v| read_verify(&v));
    let window = read_window(&mut table);
    let until = table.take("until").and_then(|v| read_until(&v));
    let stability = table.take("stability").and_then(|v| read_stability(&v));
    table.finish();
    let fallback = match (fill, &trace) {
        (true, _) => 32,
        (_, Some(TraceUse { speed: Some(_), .. })) => 256,
        (_, Some(_)) => 32,
        _ => 1,
    };
    let load = Load {
        name,
        pattern: trace.map_or(pattern, Pattern::Trace),
        read_blocks,
        write_blocks,
        read_percent,
        range: range.unwrap_or((Extent::Percent(0.0), Extent::Percent(100.0))),
        align,
        depth: depth.unwrap_or(fallback) as u32,
        workers: workers.unwrap_or(1) as u32,
        demand,
        data,
        weight,
        targets,
        verify,
    };
    check_load(&load, at);
    Some(Cell { loads: vec![load], window, until, stability })
}

/// `["8s", "1088s"]`: a part of the counted time.
fn read_stability(value: &Value<'_>) -> Option<(Nanos, Nanos)> {
    let items = value.items();
    let [from, to] = items.as_slice() else {
        value.error("`stability` is a start and an end within the counted time");
        return None;
    };
    let (from, to) = (from.span()?, to.span()?);
    if from >= to {
        value.error("`stability` ends before it starts");
    }
    Some((from, to))
}

/// `true`, or `{ stop_after = 50 }`.
fn read_verify(value: &Value<'_>) -> Option<Verify> {
    if let Raw::Table(_) = value.raw {
        let mut fields = value.table("verify")?;
        let stop_after = fields.take("stop_after").and_then(|v| v.count(0, u64::MAX));
        fields.finish();
        return Some(Verify { stop_after: stop_after.unwrap_or(Verify::STOP_AFTER) });
    }
    value.flag()?.then_some(Verify { stop_after: Verify::STOP_AFTER })
}

/// Rules that concern several fields at once.
fn check_load(load: &Load, at: &Value<'_>) {
    if load.verify.is_some() && load.data.dedup_ratio > 1.0 {
        at.error(
            "`verify` makes each sector say where it is, so none is a duplicate: leave `dedup` out",
        );
    }
    let mixed = load.reads() && load.writes() && load.read_blocks != load.write_blocks;
    if load.pattern == Pattern::RandomOnce {
        let several = load.read_blocks.0.len() > 1 || load.write_blocks.0.len() > 1;
        if several || mixed {
            at.error("`random-once` visits each block once: give it a single block size");
        }
    }
    if let Some(align) = load.align {
        let smallest = load.read_blocks.min().min(load.write_blocks.min());
        if align > smallest && load.pattern == Pattern::RandomOnce {
            at.error("`align` above the block size leaves blocks out that `random-once` promises");
        }
    }
    if load.depth as u64 * load.block_max().0 > 4 << 30 {
        at.error(format!(
            "depth {} x block {} needs over 4 GiB of buffers a worker",
            load.depth,
            load.block_max()
        ));
    }
}

/// `trace = "FILE"`, with `speed`, `fit` and `disk`.
fn read_trace(table: &mut Table<'_>, fill: bool) -> Option<TraceUse> {
    let file = table.take("trace");
    let speed = table.take("speed");
    let fit = table
        .take("fit")
        .and_then(|v| v.word(&[("auto", Fit::Auto), ("scale", Fit::Scale), ("wrap", Fit::Wrap)]));
    let disk = table.take("disk");
    let Some(file) = file else {
        if speed.is_some() || fit.is_some() || disk.is_some() {
            table.error("`speed`, `fit` and `disk` are of a recording: name it with `trace`");
        }
        return None;
    };
    if fill {
        file.error("a fill writes in order; a recording is replayed by a load");
    }
    for key in ["pattern", "block", "rate", "random", "zones", "theta", "weight"] {
        if table.has(key) {
            table.error(format!("`{key}` is what a recording says itself: leave it out"));
        }
    }
    let as_fast = |value: &Value<'_>| matches!(&value.raw, Raw::Text(text) if text == "max");
    let speed = match speed {
        None => Some(1.0),
        Some(value) if as_fast(&value) => None,
        Some(value) => {
            let speed = value.number()?;
            if !(1e-6..=1e6).contains(&speed) {
                value.error("`speed` is a factor such as 1 or 10, or \"max\"");
            }
            Some(speed)
        }
    };
    let disk = disk.and_then(|v| v.text());
    let file = file.text()?;
    Some(TraceUse { file, disk, speed, fit: fit.unwrap_or_default(), trace: None })
}

fn recorded(trace: &TraceUse, table: &mut Table<'_>) -> Demand {
    let backlog = table.take("backlog").and_then(|v| v.count(1, 1 << 40)).unwrap_or(BACKLOG);
    match trace.speed {
        // The rate is known once the recording is read.
        Some(_) => Demand::Open { rate_iops: 1.0, arrival: Arrival::Recorded, backlog },
        None => Demand::Closed,
    }
}

fn read_pattern(table: &mut Table<'_>, fill: bool) -> Pattern {
    let fallback = if fill { Pattern::Sequential(Streams::Shared) } else { Pattern::Random };
    let pattern = table.take("pattern");
    let streams = table
        .take("streams")
        .and_then(|v| v.word(&[("shared", Streams::Shared), ("per-worker", Streams::PerWorker)]));
    let theta = table.take("theta").and_then(|v| {
        let theta = v.number()?;
        if !(0.01..=10.0).contains(&theta) {
            v.error("`theta` must be from 0.01 to 10");
        }
        Some(theta)
    });
    let zones = table.take("zones");
    let random = table.take("random").and_then(|v| v.percent(100.0));
    let Some(value) = pattern else {
        if random.is_some() && !fill {
            table.error("`random` is a share of pattern = \"random\"; write that too");
        }
        return fallback;
    };
    let words = [("sequential", 0), ("random", 1), ("random-once", 2), ("zipf", 3), ("zones", 4)];
    match value.word(&words) {
        Some(0) => Pattern::Sequential(streams.unwrap_or(Streams::Shared)),
        Some(2) => Pattern::RandomOnce,
        Some(3) => Pattern::Zipf(theta.unwrap_or(1.1)),
        Some(4) => match (zones.and_then(|v| read_zones(&v)), random) {
            (Some(zones), Some(share)) if share < 100.0 => Pattern::ZoneJumps(zones, share),
            (Some(zones), _) => Pattern::Zones(zones),
            (None, _) => {
                value.error("`zones` needs zones = \"50/5:30/15:20/80\" (access/size percents)");
                fallback
            }
        },
        _ => match random {
            Some(share) if share < 100.0 => Pattern::Jumps(share),
            _ => Pattern::Random,
        },
    }
}

/// `50/5:30/15:20/80`: access percent / size percent, both summing to 100.
fn read_zones(value: &Value<'_>) -> Option<Vec<Zone>> {
    let text = value.text()?;
    let part = |part: &str| {
        let (access, size) = part.split_once('/')?;
        let zone = Zone { access: access.trim().parse().ok()?, size: size.trim().parse().ok()? };
        (zone.access >= 0.0 && zone.size > 0.0).then_some(zone)
    };
    let zones: Option<Vec<Zone>> = text.split(':').map(part).collect();
    let Some(zones) = zones.filter(|zones| zones.len() <= MIX_MAX) else {
        value.error(format!("`{text}` is no zone list such as 50/5:30/15:20/80"));
        return None;
    };
    let access: f64 = zones.iter().map(|zone| zone.access).sum();
    let size: f64 = zones.iter().map(|zone| zone.size).sum();
    if (access - 100.0).abs() > 0.01 || (size - 100.0).abs() > 0.01 {
        value.error(format!("zones must sum to 100: access sums to {access}, size to {size}"));
        return None;
    }
    Some(zones)
}

/// `block = "4k"`, a weighted mix `{ "4k" = 60, "8k" = 40 }`, or `{ read = ..., write = ... }`.
fn read_blocks(table: &mut Table<'_>, fill: bool) -> Option<(BlockMix, BlockMix)> {
    let Some(value) = table.take("block") else {
        let block = BlockMix::one(Bytes(if fill { 128 << 10 } else { 4096 }));
        return Some((block.clone(), block));
    };
    if let Raw::Table(_) = value.raw {
        let mut sides = value.table("block")?;
        if sides.has("read") || sides.has("write") {
            let read = sides.take("read").and_then(|v| read_mix(&v));
            let write = sides.take("write").and_then(|v| read_mix(&v));
            sides.finish();
            let either = read.clone().or_else(|| write.clone())?;
            return Some((read.unwrap_or(either.clone()), write.unwrap_or(either)));
        }
    }
    let mix = read_mix(&value)?;
    Some((mix.clone(), mix))
}

fn read_mix(value: &Value<'_>) -> Option<BlockMix> {
    let Raw::Table(_) = value.raw else {
        return Some(BlockMix::one(read_block(value)?));
    };
    let mut mix = Vec::new();
    for (size, span, weight) in value.table("block mix")?.in_order() {
        let size = Value { raw: Raw::Text(size), span, ..weight.clone() };
        let weight = weight.number().filter(|&w| w > 0.0);
        if weight.is_none() {
            size.error("a weight must be above zero");
        }
        mix.push((read_block(&size)?, weight?));
    }
    if mix.is_empty() || mix.len() > MIX_MAX {
        value.error(format!("a block mix has from 1 to {MIX_MAX} sizes"));
        return None;
    }
    Some(BlockMix(mix))
}

fn read_block(value: &Value<'_>) -> Option<Bytes> {
    let block = value.bytes()?;
    if block.0 < 512 || block > BLOCK_MAX || block.0 % 512 != 0 {
        value.error(format!(
            "a block is a multiple of 512 from 512 to {BLOCK_MAX}, not {}",
            block.0
        ));
        return None;
    }
    Some(block)
}

/// `["10%", "50%"]`, `["0", "1GiB"]`, or one value for "from the start up to".
/// A share of a target, or bytes of it.
pub(super) fn read_extent(value: &Value<'_>) -> Option<Extent> {
    match &value.raw {
        Raw::Text(text) if text.trim().ends_with('%') => value.percent(100.0).map(Extent::Percent),
        _ => value.bytes().map(Extent::Bytes),
    }
}

fn read_range(value: &Value<'_>) -> Option<(Extent, Extent)> {
    let range = match value.items().as_slice() {
        [end] => (Extent::Percent(0.0), read_extent(end)?),
        [start, end] => (read_extent(start)?, read_extent(end)?),
        _ => {
            value.error("a range is an end or a start and an end, such as [\"0%\", \"25%\"]");
            return None;
        }
    };
    let empty = match range {
        (Extent::Percent(a), Extent::Percent(b)) => a >= b,
        (Extent::Bytes(a), Extent::Bytes(b)) => a >= b,
        _ => false,
    };
    if empty {
        value.error("the range ends before it starts");
    }
    Some(range)
}

fn read_demand(table: &mut Table<'_>) -> Demand {
    let rate = table.take("rate").and_then(|v| {
        let rate = v.number()?;
        if !(0.001..=RATE_MAX).contains(&rate) {
            v.error("`rate` is in I/Os per second, from 0.001 to 1e9");
        }
        Some(rate)
    });
    let arrival_value = table.take("arrival");
    let backlog = table.take("backlog").and_then(|v| v.count(1, 1 << 40));
    match rate {
        Some(rate_iops) => Demand::Open {
            rate_iops,
            arrival: arrival_value.and_then(|v| arrival(&v)).unwrap_or(Arrival::Poisson),
            backlog: backlog.unwrap_or(BACKLOG),
        },
        None => {
            if let Some(value) = arrival_value {
                value.error("`arrival` needs a `rate`: without one the load is closed-loop");
            }
            Demand::Closed
        }
    }
}

/// `data = "random"`, `"zero"`, or `{ compress = 2.0, dedup = 3.0, unit = "4k" }`.
fn read_data(table: &mut Table<'_>) -> Data {
    let Some(value) = table.take("data") else {
        return Data::default();
    };
    if let Raw::Text(_) = value.raw {
        let zero = value.word(&[("random", false), ("zero", true)]).unwrap_or(false);
        return Data { zero, ..Data::default() };
    }
    let Some(mut fields) = value.table("data") else {
        return Data::default();
    };
    let mut ratio = |name| {
        fields.take(name).and_then(|v| {
            let ratio = v.number()?;
            if !(1.0..=1000.0).contains(&ratio) {
                v.error(format!("a ratio is from 1 to 1000, not {ratio}"));
            }
            Some(ratio)
        })
    };
    let compress_ratio = ratio("compress").unwrap_or(1.0);
    let dedup_ratio = ratio("dedup").unwrap_or(1.0);
    let unit = fields.take("unit").and_then(|v| read_block(&v)).unwrap_or(Bytes(4096));
    fields.finish();
    Data { compress_ratio, dedup_ratio, unit, zero: false }
}

fn read_targets(value: &Value<'_>) -> Vec<usize> {
    let index = |v: &Value<'_>| v.count(1, 1024).map(|n| n as usize - 1);
    value.items().iter().filter_map(index).collect()
}
