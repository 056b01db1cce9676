//! A job as a load of a plan.

use super::job::Options;
use super::syntax::{Entry, Section};
use super::value::Size;
use crate::import::told::Told;
use crate::import::word;
use std::fmt::Write as _;

/// Clones with addresses of their own that become a load each.
const CLONES_MAX: u64 = 64;

/// A job, with everything that decides how it stands beside others.
pub(super) struct Job {
    pub(super) name: String,
    /// Fields of the load, as TOML; several when its clones have ranges of their own.
    pub(super) loads: Vec<String>,
    /// What reads it back and checks it, the same way; empty without verify.
    pub(super) read_back: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) stonewall: bool,
    pub(super) time_s: Option<f64>,
    pub(super) ramp_s: f64,
    pub(super) delay_s: f64,
    /// How much each of its loads moves before it ends.
    pub(super) amount: Option<String>,
    /// It ends with its recording.
    pub(super) replays: bool,
    pub(super) scratch: Option<u64>,
    pub(super) seed: Option<u64>,
    /// Where it stands, for what concerns several jobs.
    pub(super) head: Entry,
}

/// How the addresses of a job follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Sequential,
    Random,
}

/// Which I/Os a job makes.
struct Kind {
    order: Order,
    /// Percent of reads.
    read: f64,
}

/// Reads a job; none when it cannot be one, which is told.
pub(super) fn job(section: &Section, options: &Options, told: &mut Told) -> Option<Job> {
    let head = Entry {
        key: section.name.clone(),
        value: None,
        file: section.file.clone(),
        line: section.line,
    };
    if let Some(entry) = options.entry("read_iolog") {
        return Some(replay(section, options, entry, head, told));
    }
    let kind = kind(options, &head, told)?;
    let clones = options.number("numjobs", told).unwrap_or(1).max(1);
    let mut fields: Vec<(&str, String)> = Vec::new();
    let several = blocks(options, &kind, &mut fields, told);
    pattern(options, &kind, several, clones, &mut fields, told);
    fields.push(("read", format!("{}", kind.read)));
    depth(options, &mut fields, told);
    rate(options, &kind, clones, &mut fields, told);
    data(options, &mut fields, told);
    if let Some(align) = options.number("ba", told) {
        fields.push(("align", quoted(&align.to_string())));
    }
    cache(options, &head, told);
    let time_s = options.seconds("runtime", told).filter(|s| *s > 0.0);
    if options.flag("time_based") && time_s.is_none() {
        told.refuse(&head, "time_based without a runtime never ends");
    }
    let verify = verify(options);
    fields.extend(verify.clone().map(|how| ("verify", how)));
    let (loads, size) = ranges(options, clones, &fields, &head, told)?;
    let read_back = back(options, &kind, verify, &head)?;
    // An amount is that of each load: of all clones together where they are its workers.
    let together = if loads.len() > 1 { 1 } else { clones };
    let amount = amount(options, together, size, told);
    let files = options.text("filename").map(|text| {
        // A colon divides names; one in a name stands behind a backslash.
        let text = text.replace("\\:", "\u{0}");
        text.split(':').map(|name| name.replace('\u{0}', ":")).collect()
    });
    Some(Job {
        name: section.name.clone(),
        loads,
        read_back,
        files: files.unwrap_or_default(),
        stonewall: options.flag("stonewall"),
        time_s,
        ramp_s: options.seconds("ramp_time", told).unwrap_or(0.0),
        delay_s: options.seconds("startdelay", told).unwrap_or(0.0),
        amount: amount.filter(|_| !options.flag("time_based")),
        replays: false,
        scratch: match size {
            Some(Size::Bytes(bytes)) => Some(bytes),
            _ => None,
        },
        seed: options.number("randseed", told),
        head,
    })
}

/// `verify = true`, or with a stop at the first wrong place.
fn verify(options: &Options) -> Option<String> {
    let method = options.text("verify")?;
    if matches!(method, "0" | "none" | "null") {
        return None;
    }
    let stop = if options.flag("verify_fatal") { 1 } else { 0 };
    Some(format!("{{ stop_after = {stop} }}"))
}

/// What reads back and checks what a job wrote; nothing where it is not asked to.
fn back(
    options: &Options,
    kind: &Kind,
    verify: Option<String>,
    head: &Entry,
) -> Option<Vec<String>> {
    match verify {
        Some(how) if kind.read < 100.0 && options.text("do_verify") != Some("0") => {
            // What is told of the job is told once.
            Some(ranges(options, 1, &read_back(how), head, &mut Told::default())?.0)
        }
        _ => Some(Vec::new()),
    }
}

fn read_back(verify: String) -> Vec<(&'static str, String)> {
    vec![
        ("block", quoted("64k")),
        ("pattern", quoted("sequential")),
        ("read", "100".into()),
        ("depth", "16".into()),
        ("verify", verify),
    ]
}

/// A recording, replayed at its times or without stalls.
fn replay(
    section: &Section,
    options: &Options,
    entry: &Entry,
    head: Entry,
    told: &mut Told,
) -> Job {
    let file = options.text("read_iolog").unwrap_or_default();
    if file.is_empty() || file.contains(':') {
        told.refuse(entry, "read_iolog: expected one file");
    }
    let scale = options.number("replay_time_scale", told).unwrap_or(100).max(1);
    let speed = match options.flag("replay_no_stall") {
        true => quoted("max"),
        false => format!("{}", 100.0 / scale as f64),
    };
    let mut load =
        format!("name = {}\ntrace = {}\nspeed = {speed}", quoted(&named(&head.key)), quoted(file));
    if let Some(depth) = options.number("iodepth", told).filter(|depth| *depth > 1) {
        let _ = write!(load, "\ndepth = {depth}");
    }
    Job {
        name: section.name.clone(),
        loads: vec![load],
        read_back: Vec::new(),
        files: options.text("filename").map(|name| vec![name.to_owned()]).unwrap_or_default(),
        stonewall: options.flag("stonewall"),
        time_s: options.seconds("runtime", told).filter(|s| *s > 0.0),
        ramp_s: 0.0,
        delay_s: options.seconds("startdelay", told).unwrap_or(0.0),
        amount: None,
        replays: true,
        scratch: None,
        seed: None,
        head,
    }
}

/// A job's name as a plan takes it: fio allows any.
fn named(name: &str) -> String {
    let plain = word(name, 60);
    if plain.is_empty() { "job".into() } else { plain }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn kind(options: &Options, head: &Entry, told: &mut Told) -> Option<Kind> {
    let word = options.text("rw").unwrap_or("read");
    let entry = options.entry("rw").unwrap_or(head);
    let (word, sequence) = word.split_once(':').unwrap_or((word, ""));
    if !sequence.is_empty() && sequence != "1" {
        told.refuse(entry, "rw=...:N: runs of I/Os between jumps, and strides, are not there");
    }
    let (order, read) = match word {
        "read" => (Order::Sequential, 100.0),
        "write" => (Order::Sequential, 0.0),
        "randread" => (Order::Random, 100.0),
        "randwrite" => (Order::Random, 0.0),
        "rw" | "readwrite" => (Order::Sequential, mix(options, told)),
        "randrw" => (Order::Random, mix(options, told)),
        "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
            told.refuse(
                entry,
                format!("rw={word}: trims are not a load here; a purge step trims all"),
            );
            return None;
        }
        other => {
            told.refuse(
                entry,
                format!("rw={other}: expected read, write, rw, randread, randwrite or randrw"),
            );
            return None;
        }
    };
    Some(Kind { order, read })
}

/// Percent of reads: the later of the two options wins.
fn mix(options: &Options, told: &mut Told) -> f64 {
    let read = options.percent("rwmixread", told);
    let write = options.percent("rwmixwrite", told).map(|share| 100.0 - share);
    let line = |key: &str| options.entry(key).map_or(0, |entry| entry.line);
    match (read, write) {
        (Some(read), Some(_)) if line("rwmixwrite") <= line("rwmixread") => read,
        (_, Some(write)) => write,
        (read, None) => read.unwrap_or(50.0),
    }
}

/// The block sizes; gives whether there are several.
fn blocks(
    options: &Options,
    kind: &Kind,
    fields: &mut Vec<(&'static str, String)>,
    told: &mut Told,
) -> bool {
    let one = |size: Option<u64>| vec![(size.unwrap_or(4096), 100.0)];
    let single = options.pair("bs", told).map(|[reads, writes]| [one(reads), one(writes)]);
    let sides = options
        .splits(told)
        .or_else(|| options.ranges(told))
        .or(single)
        .unwrap_or_else(|| [one(None), one(None)]);
    let table = |side: &[(u64, f64)]| match side {
        [(size, _)] => quoted(&size.to_string()),
        several => {
            let parts: Vec<String> =
                several.iter().map(|(size, share)| format!("\"{size}\" = {share}")).collect();
            format!("{{ {} }}", parts.join(", "))
        }
    };
    let used: Vec<&Vec<(u64, f64)>> = match kind.read {
        read if read >= 100.0 => vec![&sides[0]],
        read if read <= 0.0 => vec![&sides[1]],
        _ => vec![&sides[0], &sides[1]],
    };
    let text = match used.as_slice() {
        [reads, writes] if reads != writes => {
            format!("{{ read = {}, write = {} }}", table(reads), table(writes))
        }
        all => table(all[0]),
    };
    fields.push(("block", text));
    used.iter().any(|side| side.len() > 1) || used.windows(2).any(|two| two[0] != two[1])
}

fn pattern(
    options: &Options,
    kind: &Kind,
    several: bool,
    clones: u64,
    fields: &mut Vec<(&'static str, String)>,
    told: &mut Told,
) {
    if kind.order == Order::Sequential {
        fields.push(("pattern", quoted("sequential")));
        return;
    }
    let distribution = options.text("random_distribution").unwrap_or("random");
    let (word, rest) = distribution.split_once(':').unwrap_or((distribution, ""));
    let entry = options.entry("random_distribution");
    let share = options.percent("percentage_random", told).filter(|share| *share < 100.0);
    match (word, entry) {
        ("zipf", Some(entry)) => {
            let theta: Option<f64> = match rest.split(':').next().unwrap_or_default() {
                "" => Some(1.1),
                text => text.parse().ok(),
            };
            if theta.is_none() {
                told.refuse(entry, format!("random_distribution={distribution}: zipf:THETA"));
            }
            if rest.contains(':') {
                told.note(entry, "the centre of zipf is not moved: what is hot lies elsewhere");
            }
            fields.push(("pattern", quoted("zipf")));
            fields.push(("theta", format!("{}", theta.unwrap_or(1.1))));
        }
        ("zoned", Some(_)) => {
            fields.push(("pattern", quoted("zones")));
            fields.push(("zones", quoted(rest.split(',').next().unwrap_or_default())));
        }
        ("random", _) if share.is_some() => {
            // fio keeps no map then either.
            fields.push(("pattern", quoted("random")));
            fields.push(("random", format!("{}", share.unwrap_or(100.0))));
        }
        ("random", _) => {
            let once = visits_once(options, several, clones, told);
            fields.push(("pattern", quoted(if once { "random-once" } else { "random" })));
        }
        (other, Some(entry)) => {
            told.refuse(
                entry,
                format!("random_distribution={other}: random, zipf and zoned are there"),
            );
        }
        (_, None) => {}
    }
}

/// Whether each block is visited once before any is again, as fio's map has it.
fn visits_once(options: &Options, several: bool, clones: u64, told: &mut Told) -> bool {
    let map = !options.flag("norandommap");
    if map
        && several
        && let Some(rw) = options.entry("rw")
    {
        told.note(
            rw,
            "fio's map of visited blocks is not kept with several block sizes: blocks may repeat before \
             all were visited (as with norandommap)",
        );
    }
    let once = map && !several;
    if once
        && clones > 1
        && let Some(jobs) = options.entry("numjobs")
    {
        told.note(jobs, "fio's clones each visit every block; here they share one pass over all");
    }
    once
}

fn depth(options: &Options, fields: &mut Vec<(&'static str, String)>, told: &mut Told) {
    let depth = options.number("iodepth", told).unwrap_or(1).max(1);
    let engine = options.text("ioengine").unwrap_or("psync");
    let one_at_a_time = ["sync", "psync", "vsync", "pvsync", "pvsync2"].contains(&engine);
    if let Some(entry) = options.entry("ioengine") {
        match engine {
            "io_uring" | "libaio" | "posixaio" | "io_uring_cmd" => {}
            _ if one_at_a_time => {
                told.note(entry, "run with --engine sync for the same system calls");
            }
            other => {
                told.refuse(entry, format!("ioengine={other}: block devices and files are measured through io_uring, or pread and pwrite"));
            }
        }
    }
    if one_at_a_time
        && depth > 1
        && let Some(entry) = options.entry("iodepth")
    {
        told.note(
            entry,
            format!("fio's engine {engine} has one I/O at a time, whatever iodepth says: depth 1"),
        );
    }
    let depth = if one_at_a_time { 1 } else { depth };
    fields.push(("depth", depth.to_string()));
}

/// A limit becomes a rate of arrivals, on each target over all clones.
fn rate(
    options: &Options,
    kind: &Kind,
    clones: u64,
    fields: &mut Vec<(&'static str, String)>,
    told: &mut Told,
) {
    let iops = options.pair("rate_iops", told);
    let bytes = options.pair("rate", told);
    let (key, sides) = match (iops, bytes) {
        (Some(sides), _) => ("rate_iops", sides),
        (None, Some(sides)) => ("rate", sides),
        _ => return,
    };
    let Some(entry) = options.entry(key) else { return };
    let wanted = match (kind.read, sides) {
        (read, [Some(reads), _]) if read >= 100.0 => reads as f64,
        (read, [_, Some(writes)]) if read <= 0.0 => writes as f64,
        (read, [Some(reads), Some(writes)]) if read > 0.0 && read < 100.0 => {
            // fio limits reads and writes apart; a mix has one rate here.
            let sum = reads as f64 + writes as f64;
            if (reads as f64 / sum * 100.0 - read).abs() > 1.0 {
                told.refuse(
                    entry,
                    format!(
                        "{key}: reads and writes at rates that do not fit the mix of {read} % reads"
                    ),
                );
            }
            sum
        }
        _ => {
            told.refuse(entry, format!("{key}: a limit on one direction of a mix is not there"));
            return;
        }
    };
    let rate = match key {
        "rate_iops" => wanted,
        _ => match options.pair("bs", told) {
            Some([Some(reads), Some(writes)]) if reads == writes => wanted / reads as f64,
            None if options.entry("bssplit").is_none() => wanted / 4096.0,
            _ => {
                told.refuse(
                    entry,
                    "rate: bytes per second with several block sizes; use rate_iops",
                );
                return;
            }
        },
    };
    told.note(
        entry,
        "fio holds I/Os back to this limit and measures from when they are sent; here they arrive at this \
         rate whatever the drive does, and response time counts from the arrival",
    );
    fields.push(("rate", format!("{}", rate * clones as f64)));
    let poisson = options.text("rate_process") == Some("poisson");
    fields.push(("arrival", quoted(if poisson { "poisson" } else { "deterministic" })));
}

fn data(options: &Options, fields: &mut Vec<(&'static str, String)>, told: &mut Told) {
    let ratio =
        |share: Option<f64>| share.filter(|s| *s > 0.0).map(|s| 100.0 / (100.0 - s.min(99.9)));
    let compress = ratio(options.percent("buffer_compress_percentage", told));
    let dedup = ratio(options.percent("dedupe_percentage", told));
    if options.flag("zero_buffers") {
        fields.push(("data", quoted("zero")));
    } else if compress.is_some() || dedup.is_some() {
        let (compress, dedup) = (compress.unwrap_or(1.0), dedup.unwrap_or(1.0));
        fields.push(("data", format!("{{ compress = {compress:.4}, dedup = {dedup:.4} }}")));
    }
}

fn cache(options: &Options, head: &Entry, told: &mut Told) {
    let direct = options.flag("direct") && !options.flag("buffered");
    let entry = options.entry("buffered").or(options.entry("direct")).unwrap_or(head);
    if !direct {
        told.note(
            entry,
            "fio would go through the page cache (direct=0); here I/O is direct: the drive is measured, \
             not the memory",
        );
    }
}

/// The loads of a job: one, or one for each clone that begins elsewhere. Gives the size of one, too.
fn ranges(
    options: &Options,
    clones: u64,
    fields: &[(&'static str, String)],
    head: &Entry,
    told: &mut Told,
) -> Option<(Vec<String>, Option<Size>)> {
    let size = options.size("size", told).or_else(|| options.size("filesize", told));
    let offset = options.size("offset", told);
    let step = options.size("offset_increment", told);
    let line = |workers: u64, range: Option<String>, name: &str| {
        let mut all = format!("name = {}", quoted(&named(name)));
        for (key, value) in fields {
            let _ = write!(all, "\n{key} = {value}");
        }
        if workers > 1 {
            let _ = write!(all, "\nworkers = {workers}");
        }
        if let Some(range) = range {
            let _ = write!(all, "\nrange = {range}");
        }
        all
    };
    let sequential =
        fields.iter().any(|(key, value)| *key == "pattern" && value == "\"sequential\"");
    match (step, clones) {
        (Some(step), 2..=CLONES_MAX) => {
            let mut loads = Vec::new();
            for n in 0..clones {
                let range = span(add(offset, step, n), size, head, told)?;
                loads.push(line(1, range, &format!("{}-{}", head.key, n + 1)));
            }
            Some((loads, size))
        }
        (Some(_), more) if more > CLONES_MAX => {
            let entry = options.entry("numjobs").unwrap_or(head);
            told.refuse(entry, format!("offset_increment with more than {CLONES_MAX} clones"));
            None
        }
        _ => {
            if sequential && clones > 1 {
                let entry = options.entry("numjobs").unwrap_or(head);
                told.note(
                    entry,
                    "fio's clones each go through the whole region; here they go on in one stream \
                     together (offset_increment gives each a region of its own)",
                );
            }
            let range = span(offset, size, head, told)?;
            Some((vec![line(clones, range, &head.key)], size))
        }
    }
}

/// Offset and size as a range of the plan; none for the whole target.
#[allow(clippy::option_option)]
fn span(
    offset: Option<Size>,
    size: Option<Size>,
    head: &Entry,
    told: &mut Told,
) -> Option<Option<String>> {
    let text = |size: Size| match size {
        Size::Bytes(bytes) => quoted(&bytes.to_string()),
        Size::Percent(share) => quoted(&format!("{share}%")),
    };
    let start = offset.unwrap_or(Size::Bytes(0));
    let end = match (start, size) {
        (_, None) => Size::Percent(100.0),
        (Size::Bytes(a), Some(Size::Bytes(b))) => Size::Bytes(a.saturating_add(b)),
        (Size::Percent(a), Some(Size::Percent(b))) => Size::Percent((a + b).min(100.0)),
        (Size::Bytes(0), Some(share)) => share,
        _ => {
            told.refuse(
                head,
                "offset and size: one is in bytes, the other a share; give both alike",
            );
            return None;
        }
    };
    if start == Size::Bytes(0) && end == Size::Percent(100.0) {
        return Some(None);
    }
    Some(Some(format!("[{}, {}]", text(start), text(end))))
}

/// How much the job moves before it ends by itself.
fn amount(options: &Options, clones: u64, size: Option<Size>, told: &mut Told) -> Option<String> {
    let loops = options.number("loops", told).unwrap_or(1).max(1);
    let times = clones.saturating_mul(loops);
    if let (Some(count), Some(entry)) =
        (options.number("number_ios", told), options.entry("number_ios"))
    {
        let one = options.entry("bssplit").is_none() && options.entry("bsrange").is_none();
        let block = match options.pair("bs", told) {
            None if one => Some(4096),
            Some([Some(reads), Some(writes)]) if one && reads == writes => Some(reads),
            _ => None,
        };
        match block {
            Some(block) => {
                return Some(count.saturating_mul(block).saturating_mul(times).to_string());
            }
            None => told.refuse(
                entry,
                "number_ios: with several block sizes it is no amount; give io_size",
            ),
        }
    }
    match options.size("io_size", told) {
        Some(Size::Bytes(bytes)) => Some(bytes.saturating_mul(times).to_string()),
        Some(Size::Percent(share)) => Some(format!("{}x", share / 100.0 * times as f64)),
        None => match size {
            Some(Size::Bytes(bytes)) => Some(bytes.saturating_mul(times).to_string()),
            _ => Some(format!("{times}x")),
        },
    }
}

fn add(offset: Option<Size>, step: Size, n: u64) -> Option<Size> {
    match (offset, step) {
        (None, Size::Bytes(step)) => Some(Size::Bytes(step.saturating_mul(n))),
        (None, Size::Percent(step)) => Some(Size::Percent(step * n as f64)),
        (Some(Size::Bytes(a)), Size::Bytes(step)) => {
            Some(Size::Bytes(a.saturating_add(step.saturating_mul(n))))
        }
        (Some(Size::Percent(a)), Size::Percent(step)) => Some(Size::Percent(a + step * n as f64)),
        (offset, _) => offset,
    }
}
