//! Workloads on storage as the loads of a step.

use super::objects::{Object, Objects};
use super::run::Chosen;
use super::syntax::Item;
use super::value::number;
use crate::import::told::Told;
use std::fmt::Write as _;

/// Threads of an SD that says nothing.
const THREADS: f64 = 8.0;
/// Hit area of an SD that says nothing, in bytes.
const HIT_AREA: f64 = 1_048_576.0;

/// What a run sets for its workloads.
pub(super) struct Settings<'a> {
    pub(super) run: &'a Object,
    pub(super) values: &'a [(String, String)],
    pub(super) iorate: Option<f64>,
    pub(super) arrival: &'static str,
}

impl Settings<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        number(self.text(key)?, false)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// A part of a workload: all of it, or what goes to the hit area.
struct Part {
    name: String,
    /// Of the workload's I/Os, 0 to 1.
    share: f64,
    read: f64,
    hit: bool,
}

/// The loads of all workloads, as TOML; none when they cannot be.
pub(super) fn loads(
    chosen: &[Chosen<'_>],
    objects: &Objects,
    settings: &Settings<'_>,
    targets: &[String],
    told: &mut Told,
) -> Option<Vec<String>> {
    let skews = skews(chosen, told)?;
    let together = chosen.windows(2).all(|two| {
        two[0].storage.iter().map(|s| &s.name).eq(two[1].storage.iter().map(|s| &s.name))
    });
    let mut all = Vec::new();
    let mut splits = false;
    for (one, skew) in chosen.iter().zip(&skews) {
        refuse(&one.workload, &one.storage, told);
        let parts = parts(one, settings, told);
        splits |= parts.len() > 1;
        for part in parts {
            let share = skew * part.share;
            all.push((one, part, share));
        }
    }
    let weighted = all.len() > 1 && together;
    if weighted && chosen.iter().any(|one| same_kind(&one.storage, settings).len() > 1) {
        told.refuse(
            settings.run,
            "several workloads on SDs that differ in threads, range, align or hitarea: give them the same",
        );
        return None;
    }
    if !together {
        if splits {
            told.refuse(settings.run, "hit areas in workloads on different SDs are not there");
            return None;
        }
        told.note(
            settings.run,
            "workloads on different SDs have threads of their own; threads of an SD that several use are \
             divided among them",
        );
    }
    let verify = match objects.validates() {
        true => format!("\nverify = {{ stop_after = {} }}", objects.stop_after()),
        false => String::new(),
    };
    let data = data(objects, settings);
    let frame = Frame { chosen, settings, targets, data, verify, together, weighted };
    let mut texts = Vec::new();
    for (one, part, share) in &all {
        for storage in same_kind(&one.storage, settings) {
            texts.push(frame.load(one, part, *share, &storage, told)?);
        }
    }
    Some(texts)
}

/// What all loads of a step have in common.
struct Frame<'a> {
    chosen: &'a [Chosen<'a>],
    settings: &'a Settings<'a>,
    targets: &'a [String],
    data: String,
    /// How data are checked, where they are.
    verify: String,
    /// All workloads are on the same SDs.
    together: bool,
    /// They share workers.
    weighted: bool,
}

impl Frame<'_> {
    /// A part of a workload on SDs of one kind.
    fn load(
        &self,
        one: &Chosen<'_>,
        part: &Part,
        share: f64,
        storage: &[&Object],
        told: &mut Told,
    ) -> Option<String> {
        let first = *storage.first()?;
        let mut text = format!("name = \"{}\"", part.name.replace(['"', '\\'], "-"));
        places(&mut text, one, part, first, self.settings, told)?;
        let uses = |c: &&Chosen<'_>| c.storage.iter().any(|s| s.name == first.name);
        let users = self.chosen.iter().filter(uses).count();
        let divided = if self.together { 1.0 } else { users as f64 };
        let depth = (threads(first, self.settings) / divided).max(1.0).floor();
        let _ = write!(text, "\ndepth = {depth}");
        if self.weighted {
            let _ = write!(text, "\nweight = {share}");
        }
        if let Some(iorate) = self.settings.iorate {
            // A rate is that of each target: with shared workers of all loads together.
            let of = if self.weighted { 1.0 } else { share };
            let rate = iorate * of / one.storage.len() as f64;
            let arrival = self.settings.arrival;
            let _ = write!(text, "\nrate = {rate}\narrival = \"{arrival}\"");
        }
        if part.read < 100.0 && !self.data.is_empty() {
            let _ = write!(text, "\n{}", self.data);
        }
        text.push_str(&self.verify);
        let on: Vec<String> = storage
            .iter()
            .filter_map(|s| self.targets.iter().position(|target| *target == lun(s)))
            .map(|n| (n + 1).to_string())
            .collect();
        if on.len() < self.targets.len() {
            let _ = write!(text, "\ntargets = [{}]", on.join(", "));
        }
        Some(text)
    }
}

/// The file or device of an SD.
pub(super) fn lun(storage: &Object) -> String {
    let item = storage.option("lun");
    item.and_then(|item| item.values.first()).cloned().unwrap_or_default()
}

/// Each workload's share of the rate: what is not given is shared equally.
fn skews(chosen: &[Chosen<'_>], told: &mut Told) -> Option<Vec<f64>> {
    let given: Vec<Option<f64>> = chosen.iter().map(|c| c.workload.number("skew")).collect();
    let sum: f64 = given.iter().flatten().sum();
    let open = given.iter().filter(|skew| skew.is_none()).count();
    let whole = if open > 0 { sum <= 100.0001 } else { (sum - 100.0).abs() < 0.001 };
    if !whole {
        let at = &chosen.first()?.workload;
        told.refuse(at, format!("the skew of the workloads adds up to {sum}, not 100"));
        return None;
    }
    if open == chosen.len() && open > 1 {
        told.note(
            &chosen.first()?.workload,
            "without a skew VDBench lets each workload run as fast as it can; here they have equal shares",
        );
    }
    let rest = (100.0 - sum) / open.max(1) as f64 / 100.0;
    Some(given.into_iter().map(|skew| skew.map_or(rest, |skew| skew / 100.0)).collect())
}

fn threads(storage: &Object, settings: &Settings<'_>) -> f64 {
    let own = storage.number("threads").unwrap_or(THREADS);
    settings.number("forthreads").unwrap_or(own).max(1.0)
}

/// SDs that need no load of their own: with equal threads, range and alignment.
fn same_kind<'o>(storage: &[&'o Object], settings: &Settings<'_>) -> Vec<Vec<&'o Object>> {
    let kind = |s: &Object| {
        let values = |key: &str| s.option(key).map(|item| item.values.clone());
        (threads(s, settings).to_bits(), values("range"), values("align"), values("hitarea"))
    };
    let mut all: Vec<Vec<&Object>> = Vec::new();
    for one in storage {
        match all.iter_mut().find(|group| kind(group[0]) == kind(one)) {
            Some(group) => group.push(one),
            None => all.push(vec![one]),
        }
    }
    all
}

/// A workload whole, or divided into what hits and what does not.
fn parts(one: &Chosen<'_>, settings: &Settings<'_>, told: &mut Told) -> Vec<Part> {
    let workload = &one.workload;
    let read = read_share(workload, settings, told) / 100.0;
    let chance = |key: &str, of_run: &str| {
        let own = workload.number(key);
        settings.number(of_run).or(own).unwrap_or(0.0).clamp(0.0, 100.0) / 100.0
    };
    let hits = [read * chance("rhpct", "forrhpct"), (1.0 - read) * chance("whpct", "forwhpct")];
    let rest = 1.0 - hits[0] - hits[1];
    let name = &workload.name;
    let mut all = Vec::new();
    for (share, read, kind) in [(hits[0], 100.0, "read-hits"), (hits[1], 0.0, "write-hits")] {
        if share > 0.0 {
            all.push(Part { name: format!("{name}-{kind}"), share, read, hit: true });
        }
    }
    if rest > 1e-9 {
        let read = (read - hits[0]) / rest * 100.0;
        all.push(Part { name: name.clone(), share: rest, read, hit: false });
    }
    all
}

/// Percent of reads: of the run with its decimals, of the workload without.
fn read_share(workload: &Object, settings: &Settings<'_>, told: &mut Told) -> f64 {
    if let Some(share) = settings.number("forrdpct") {
        return share.clamp(0.0, 100.0);
    }
    let own = workload.number("rdpct");
    let Some(share) = own.or(workload.number("wrpct").map(|share| 100.0 - share)) else {
        return 100.0;
    };
    if share.fract() != 0.0
        && let Some(item) = workload.option("rdpct").or(workload.option("wrpct"))
    {
        let whole = share.trunc();
        told.note(
            item,
            format!("VDBench cuts the {share} % of reads of a workload to {whole}; so does this"),
        );
    }
    share.trunc().clamp(0.0, 100.0)
}

/// Pattern, sizes, range.
fn places(
    text: &mut String,
    one: &Chosen<'_>,
    part: &Part,
    storage: &Object,
    settings: &Settings<'_>,
    told: &mut Told,
) -> Option<()> {
    let workload = &one.workload;
    let (pattern, eof) = pattern(workload, settings, told)?;
    let _ = write!(text, "\n{pattern}\nread = {}", part.read);
    if eof {
        told.note(
            workload,
            "seekpct=eof: the stream begins again at its end, until the time is over",
        );
    }
    let _ = write!(text, "\nblock = {}", sizes(workload, settings, told)?);
    if let Some(align) = storage.number("align").filter(|align| *align >= 512.0) {
        let _ = write!(text, "\nalign = \"{align}\"");
    }
    let range = workload.option("range").or(storage.option("range"));
    let range = match range {
        Some(item) => Some(range_of(item, told)?),
        None => None,
    };
    if part.hit {
        let area = settings.number("forhitarea").or(storage.number("hitarea")).unwrap_or(HIT_AREA);
        let start = match range {
            None => 0.0,
            Some((start, _, false)) => start,
            Some(_) => {
                told.refuse(workload, "a hit area in a range of percents: give the range in bytes");
                return None;
            }
        };
        let _ = write!(text, "\nrange = [\"{start}\", \"{}\"]", start + area);
    } else if let Some((start, end, percent)) = range {
        let unit = if percent { "%" } else { "" };
        let _ = write!(text, "\nrange = [\"{start}{unit}\", \"{end}{unit}\"]");
    }
    Some(())
}

/// Start and end, and whether they are percents: up to 100 (the end up to 200, which is not there).
fn range_of(item: &Item, told: &mut Told) -> Option<(f64, f64, bool)> {
    let values: Vec<f64> =
        item.values.iter().filter_map(|v| number(v, false)).map(f64::abs).collect();
    match values.as_slice() {
        [start, end] if *end <= 100.0 && start < end => Some((*start, *end, true)),
        [start, end] if *start > 100.0 && start < end => Some((*start, *end, false)),
        [start, end] if *start == 0.0 && *end > 200.0 => Some((0.0, *end, false)),
        _ => {
            told.refuse(item, "range: expected (from,to), in percent or bytes, that does not wrap");
            None
        }
    }
}

fn pattern(workload: &Object, settings: &Settings<'_>, told: &mut Told) -> Option<(String, bool)> {
    let item = workload.option("seekpct");
    let word =
        settings.text("forseekpct").or(item.and_then(|i| i.values.first()).map(String::as_str));
    let word = word.unwrap_or("100").to_ascii_lowercase();
    let random = |share: f64| format!("pattern = \"random\"\nrandom = {share}");
    match word.as_str() {
        "random" | "rand" => return Some(("pattern = \"random\"".into(), false)),
        "seq" | "sequential" | "seqnz" => return Some(("pattern = \"sequential\"".into(), false)),
        "eof" | "-1" => return Some(("pattern = \"sequential\"".into(), true)),
        _ => {}
    }
    match word.parse::<f64>() {
        Ok(share) if share >= 100.0 => Some(("pattern = \"random\"".into(), false)),
        Ok(share) if share <= 0.0 => Some(("pattern = \"sequential\"".into(), false)),
        Ok(share) => Some((random(share), false)),
        Err(_) => {
            told.refuse(
                workload,
                format!("seekpct={word}: expected a percentage, seq, random or eof"),
            );
            None
        }
    }
}

/// One size, sizes with shares, or `(min,max,align)`.
fn sizes(workload: &Object, settings: &Settings<'_>, told: &mut Told) -> Option<String> {
    let own = workload.option("xfersize");
    let of_run: Option<Vec<String>> =
        settings.text("forxfersize").map(|text| text.split(',').map(String::from).collect());
    let texts = of_run.or(own.map(|item| item.values.clone())).unwrap_or_else(|| vec!["4k".into()]);
    let values: Option<Vec<f64>> = texts.iter().map(|text| number(text, false)).collect();
    let whole = |size: f64| size >= 512.0 && size % 512.0 == 0.0;
    let text = match values.as_deref() {
        Some([size]) if whole(*size) => Some(format!("\"{size}\"")),
        Some([min, max, align]) if whole(*min) && whole(*align) && max > min => {
            let n = ((max - min) / align).floor() as usize;
            let all: Vec<String> =
                (0..=n).take(65).map(|n| format!("\"{}\" = 1", min + n as f64 * align)).collect();
            (all.len() <= crate::MIX_MAX).then(|| format!("{{ {} }}", all.join(", ")))
        }
        Some(pairs) if pairs.len().is_multiple_of(2) => {
            let shares: f64 = pairs.iter().skip(1).step_by(2).map(|share| share.abs()).sum();
            let all: Vec<String> = pairs
                .chunks_exact(2)
                .filter(|pair| pair[1] != 0.0)
                .map(|pair| format!("\"{}\" = {}", pair[0], pair[1].abs()))
                .collect();
            let right = (shares - 100.0).abs() < 0.5 && pairs.iter().step_by(2).all(|s| whole(*s));
            (right && all.len() <= crate::MIX_MAX).then(|| format!("{{ {} }}", all.join(", ")))
        }
        _ => None,
    };
    if text.is_none() {
        told.refuse(
            own.map_or(workload as &dyn crate::import::told::Placed, |item| item),
            format!(
                "xfersize={}: expected a multiple of 512, pairs of size and share that add up to 100, or \
                 (min,max,align) of at most {} steps",
                texts.join(","),
                crate::MIX_MAX
            ),
        );
    }
    text
}

/// Compression and deduplication of what is written.
fn data(objects: &Objects, settings: &Settings<'_>) -> String {
    let general = |key: &str| {
        let item = objects.general.iter().rev().find(|item| item.key == key)?;
        number(item.values.first()?, false).map(f64::abs)
    };
    let compress = settings
        .number("forcompratio")
        .or_else(|| general("compratio"))
        .or_else(|| general("compression").filter(|share| *share > 0.0).map(|share| 100.0 / share));
    // A sector that says where it is has no duplicate.
    let dedup = general("dedupratio").filter(|_| !objects.validates());
    if compress.is_none() && dedup.is_none() {
        return String::new();
    }
    let unit = general("dedupunit").unwrap_or(131_072.0);
    format!(
        "data = {{ compress = {}, dedup = {}, unit = \"{unit}\" }}",
        compress.unwrap_or(1.0).max(1.0),
        dedup.unwrap_or(1.0).max(1.0)
    )
}

/// What would not be the same without it, and what is left out.
fn refuse(workload: &Object, storage: &[&Object], told: &mut Told) {
    for item in &workload.options {
        match item.key.as_str() {
            "hotband" => told
                .refuse(item, "hotband: its curve is not there; zones are (pattern = \"zones\")"),
            "stride" => told.refuse(item, "stride: jumps of a given length are not there"),
            "priority" | "iorate" => {
                told.refuse(item, format!("{}: a rate of one workload; give it a skew", item.key));
            }
            "threads" | "streams" => {
                told.refuse(item, format!("{}: concatenated SDs are not there", item.key));
            }
            "host" | "user" => told.note(item, format!("{}: I/O comes from this host", item.key)),
            "openflags" => flags(item, told),
            _ => {}
        }
    }
    for item in storage.iter().flat_map(|s| &s.options) {
        match item.key.as_str() {
            "offset" if item.values.first().is_some_and(|v| v != "0") => {
                told.refuse(item, "offset: blocks begin at multiples of their size or of align");
            }
            "size" => {
                told.note(item, "size: a file is as large as it is, a device too; range limits it")
            }
            "journal" => told.note(item, "journal: keep one with --journal FILE"),
            "openflags" => flags(item, told),
            "host" | "kstat" | "instance" | "replay" | "resetlun" | "resetbus" => {
                told.note(item, format!("{}: it is not used", item.key));
            }
            "dedupratio" | "dedupunit" | "dedupsets" => {
                told.note(item, format!("{}: what the whole file says holds", item.key));
            }
            _ => {}
        }
    }
}

pub(super) fn flags(item: &Item, told: &mut Told) {
    for flag in &item.values {
        match flag.to_ascii_lowercase().as_str() {
            "o_direct" | "directio" => {}
            "o_sync" | "o_dsync" | "o_rsync" => {
                told.refuse(item, format!("openflags={flag}: writes are not synced"));
            }
            other => told.note(item, format!("openflags={other}: it is not used")),
        }
    }
}
