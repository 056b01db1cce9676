//! What becomes of every option of fio and every keyword of VDBench: found by importing a small file that
//! has it, so that the table cannot say what the importers do not do.

use super::{Imported, Surroundings, fio, fio_jobs, vdbench_parameters};
use crate::reader::PlanErrors;

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It shapes the plan.
    Honoured,
    /// Nothing has to be done for it: what it asks for is so anyway, or it changes no I/O.
    NotNeeded,
    /// It is left out, and the difference is told.
    Warned,
    /// The file is refused, with the reason.
    Refused,
}

impl Fate {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Honoured => "honoured",
            Fate::NotNeeded => "not needed",
            Fate::Warned => "warned",
            Fate::Refused => "refused",
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `fio`, or the kind of object of VDBench: general, sd, wd, rd, hd.
    pub place: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The value it was tried with.
    pub value: &'static str,
    /// What becomes of it.
    pub fate: Fate,
    /// What is told of it.
    pub text: String,
}

/// Values that show what options of fio do; `1` for the others.
const FIO_VALUES: &[(&str, &str)] = &[
    ("rw", "randwrite"),
    ("bs", "8k"),
    ("bsrange", "4k-16k"),
    ("bssplit", "4k/60:8k/40"),
    ("ba", "512"),
    ("rwmixread", "30"),
    ("rwmixwrite", "30"),
    ("iodepth", "7"),
    ("numjobs", "3"),
    ("ioengine", "psync"),
    ("direct", "0"),
    ("buffered", "1"),
    ("filename", "/dev/other"),
    ("size", "1m"),
    ("io_size", "2m"),
    ("offset", "1m"),
    ("offset_increment", "1m"),
    ("runtime", "7"),
    ("ramp_time", "2"),
    ("startdelay", "2"),
    ("loops", "2"),
    ("rate_iops", "100"),
    ("rate", "1m"),
    ("rate_process", "poisson"),
    ("random_distribution", "zipf:1.2"),
    ("percentage_random", "50"),
    ("randseed", "77"),
    ("kb_base", "1000"),
    ("buffer_compress_percentage", "50"),
    ("dedupe_percentage", "50"),
    ("description", "a job"),
    ("verify", "crc32c"),
    ("do_verify", "0"),
    ("number_ios", "10"),
    ("read_iolog", "a.log"),
    ("replay_time_scale", "50"),
    ("verify_state_save", "1"),
    ("filesize", "1m"),
];

/// What an option of fio needs beside it to mean something.
fn fio_beside(name: &str) -> &'static str {
    match name {
        "rwmixread" | "rwmixwrite" => "rw=randrw\n",
        "offset_increment" => "numjobs=2\nsize=1m\n",
        "time_based" => "runtime=5\nsize=4m\n",
        "stonewall" => "size=1m\n[b]\nfilename=/dev/x\nrw=read\nsize=1m\n",
        "rate_process" => "rate_iops=50\n",
        "kb_base" => "size=4k\n",
        "buffer_compress_percentage" | "dedupe_percentage" | "zero_buffers" => "rw=randwrite\n",
        "do_verify" | "verify_fatal" => "rw=randwrite\nverify=crc32c\n",
        "verify" => "rw=randwrite\n",
        "replay_time_scale" | "replay_no_stall" => "read_iolog=a.log\n",
        "ba" => "bs=4k\n",
        _ => "",
    }
}

/// Keywords of VDBench with a value that shows what they do: general, sd, wd, rd, hd.
const VDBENCH: &[(&str, &[(&str, &str)])] = &[
    (
        "general",
        &[
            ("compratio", "2"),
            ("compression", "50"),
            ("dedupratio", "2"),
            ("dedupunit", "4k"),
            ("dedupsets", "100"),
            ("deduphotsets", "(1,2)"),
            ("dedupflipflop", "yes"),
            ("dedupacross", "yes"),
            ("dedupmaxkey", "100"),
            ("pattern", "file"),
            ("pattern_buffer", "1m"),
            ("compressionseed", "1"),
            ("validate", "yes"),
            ("journal", "yes"),
            ("data_errors", "5"),
            ("force_error_after", "10"),
            ("concatenatesds", "yes"),
            ("formatsds", "yes"),
            ("formatxfersize", "128k"),
            ("histogram", "default"),
            ("report", "host_detail"),
            ("report_run_totals", "yes"),
            ("startcmd", "ls"),
            ("endcmd", "ls"),
            ("monitor", "file"),
            ("messagescan", "no"),
            ("loop", "2"),
            ("port", "5570"),
            ("timeout", "10"),
            ("abort_failed_skew", "5"),
            ("ios_per_jvm", "100000"),
            ("fwd_thread_adjust", "yes"),
            ("psrset", "x"),
            ("create_anchors", "yes"),
            ("showlba", "no"),
            ("debug", "1"),
            ("misc", "x"),
            ("auxreport", "x"),
        ],
    ),
    (
        "sd",
        &[
            ("lun", "/dev/other"),
            ("host", "hd1"),
            ("size", "1m"),
            ("count", "(1,2)"),
            ("range", "(10,50)"),
            ("threads", "3"),
            ("hitarea", "2m"),
            ("offset", "4096"),
            ("align", "4096"),
            ("openflags", "o_direct"),
            ("journal", "/tmp"),
            ("replay", "1"),
            ("resetlun", "1"),
            ("resetbus", "1"),
            ("kstat", "x"),
            ("instance", "x"),
            ("dedupratio", "2"),
        ],
    ),
    (
        "wd",
        &[
            ("xfersize", "8k"),
            ("rdpct", "50"),
            ("readpct", "50"),
            ("wrpct", "50"),
            ("writepct", "50"),
            ("seekpct", "50"),
            ("stride", "(1,2)"),
            ("range", "(10,50)"),
            ("hotband", "(10,20)"),
            ("rhpct", "10"),
            ("whpct", "10"),
            ("skew", "100"),
            ("iorate", "100"),
            ("priority", "1"),
            ("host", "hd1"),
            ("openflags", "o_direct"),
            ("user", "x"),
            ("threads", "2"),
            ("streams", "2"),
        ],
    ),
    (
        "rd",
        &[
            ("iorate", "100"),
            ("curve", "(10,50)"),
            ("stopcurve", "5"),
            ("distribution", "uniform"),
            ("elapsed", "7"),
            ("interval", "2"),
            ("warmup", "2"),
            ("maxdata", "10m"),
            ("maxdataread", "10m"),
            ("maxdatawritten", "10m"),
            ("pause", "2"),
            ("replay", "x"),
            ("forxfersize", "(8k,16k)"),
            ("forthreads", "(1,2)"),
            ("forrdpct", "(0,50)"),
            ("forrhpct", "(0,50)"),
            ("forwhpct", "(0,50)"),
            ("forseekpct", "(0,50)"),
            ("forhitarea", "(1m,2m)"),
            ("forcompratio", "(1,2)"),
            ("xfersize", "8k"),
            ("threads", "2"),
            ("rdpct", "50"),
            ("readpct", "50"),
            ("rhpct", "30"),
            ("whpct", "30"),
            ("seekpct", "50"),
            ("hitarea", "2m"),
            ("compratio", "2"),
            ("startcmd", "ls"),
            ("endcmd", "ls"),
            ("fwd", "x"),
            ("fwdrate", "100"),
            ("operations", "read"),
            ("format", "yes"),
            ("openflags", "o_direct"),
        ],
    ),
    (
        "hd",
        &[("system", "other"), ("user", "x"), ("shell", "ssh"), ("vdbench", "/x"), ("jvms", "2")],
    ),
];

struct Nothing;

impl Surroundings for Nothing {
    fn include(&self, _: &str) -> Result<String, String> {
        Err("none".into())
    }

    fn variable(&self, _: &str) -> String {
        String::new()
    }
}

type Read = Result<Imported, PlanErrors>;

/// What the difference between two imports says of what only the first one had.
fn fate(with: &Read, without: &Read) -> (Fate, String) {
    let (with, without) = match (with, without) {
        (Err(errors), _) => {
            let text = errors.0.first().map_or_else(String::new, |error| error.message.clone());
            return (Fate::Refused, text);
        }
        (Ok(with), Ok(without)) => (with, without),
        (Ok(_), Err(errors)) => return (Fate::Refused, errors.to_string()),
    };
    let new = |note: &&super::Note| !without.notes.iter().any(|other| other.text == note.text);
    let notes: Vec<&super::Note> = with.notes.iter().filter(new).collect();
    let text = notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
    let fate = match () {
        () if with.plan != without.plan || with.targets != without.targets => Fate::Honoured,
        () if notes.iter().any(|note| note.differs) => Fate::Warned,
        () => Fate::NotNeeded,
    };
    (fate, text)
}

/// The whole table.
pub fn table() -> Vec<Row> {
    let mut rows: Vec<Row> = fio::names().map(fio_row).collect();
    for (place, keywords) in VDBENCH {
        rows.extend(keywords.iter().map(|(name, value)| vdbench_row(place, name, value)));
    }
    rows
}

fn fio_row(name: &'static str) -> Row {
    let value = FIO_VALUES.iter().find(|(key, _)| *key == name).map_or("1", |(_, value)| value);
    let file = |option: &str| {
        let beside = fio_beside(name);
        let job = "[a]\nfilename=/dev/x\nrw=randread\nioengine=io_uring\ndirect=1\n";
        fio_jobs("x.fio", &format!("{job}{beside}{option}"), &Nothing)
    };
    let (fate, text) = fate(&file(&format!("{name}={value}\n")), &file(""));
    Row { place: "fio", name, value, fate, text }
}

fn vdbench_row(place: &'static str, name: &'static str, value: &'static str) -> Row {
    let file = |option: bool| {
        let add = |here: &str, key: &str| match option && here == place && key == name {
            true => format!(",{name}={value}"),
            false => String::new(),
        };
        let line = |here: &str, text: &str| format!("{text}{}\n", add(here, name));
        let general =
            if option && place == "general" { format!("{name}={value}\n") } else { String::new() };
        let general = match name {
            // It says how much of what is checked.
            "data_errors" => format!("validate=yes\n{general}"),
            "dedupunit" => format!("dedupratio=2\n{general}"),
            _ => general,
        };
        let sd =
            if place == "sd" && name == "lun" && option { "sd=sd1" } else { "sd=sd1,lun=/dev/x" };
        let wd = match name {
            "rhpct" | "whpct" | "hitarea" | "forrhpct" | "forwhpct" | "forhitarea" => {
                "wd=wd1,sd=sd1,rdpct=50,rhpct=20"
            }
            "count" => "wd=wd1,sd=*",
            // What is written has ratios.
            _ if name.contains("comp") || name.contains("dedup") => "wd=wd1,sd=sd1,rdpct=0",
            _ => "wd=wd1,sd=sd1",
        };
        let hit = if wd.contains("rhpct") && name != "hitarea" { ",hitarea=1m" } else { "" };
        let rd = match name {
            "iorate" | "curve" if place == "rd" => "rd=rd1,wd=wd1".to_owned(),
            "distribution" => "rd=rd1,wd=wd1,iorate=50".to_owned(),
            "stopcurve" => "rd=rd1,wd=wd1,iorate=curve".to_owned(),
            _ => "rd=rd1,wd=wd1,iorate=max".to_owned(),
        };
        let rd = if place == "rd" && name == "curve" { format!("{rd},iorate=curve") } else { rd };
        let time = if name == "elapsed" && option { "" } else { ",elapsed=10" };
        let text = format!(
            "{general}{}{}{}{}",
            line("hd", "hd=hd1,system=localhost"),
            line("sd", &format!("{sd},openflags=o_direct{hit}")),
            line("wd", wd),
            line("rd", &format!("{rd}{time}")),
        );
        vdbench_parameters("x.vdb", &text, &[], &Nothing)
    };
    let (fate, text) = fate(&file(true), &file(false));
    Row { place, name, value, fate, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is what the importers do; here are the promises that hold for all of it.
    #[test]
    fn nothing_is_dropped_in_silence() {
        let rows = table();
        for row in &rows {
            let Row { place, name, fate, text, .. } = row;
            // One job or one workload: what is said of others, or what is so anyway.
            let plain = ["description", "openflags", "skew"].contains(name);
            let told = *fate == Fate::Honoured || plain || !text.is_empty();
            assert!(told, "{place} {name} is {} without a word", fate.word());
            let broken = text.contains("expected") || text.contains("has no option");
            assert!(!broken, "{place} {name} was tried with a value it does not take: {text}");
        }
        let count = |fate| rows.iter().filter(|row| row.fate == fate).count();
        println!(
            "{} options: {} honoured, {} not needed, {} warned, {} refused",
            rows.len(),
            count(Fate::Honoured),
            count(Fate::NotNeeded),
            count(Fate::Warned),
            count(Fate::Refused)
        );
        assert!(rows.len() > 350);
    }

    /// What a user of either tool cannot do without.
    #[test]
    fn what_makes_the_load_is_honoured() {
        let rows = table();
        let honoured = |place: &str, name: &str| {
            let row = rows.iter().find(|row| row.place == place && row.name == name);
            row.unwrap_or_else(|| panic!("{place} {name} is not in the table")).fate
                == Fate::Honoured
        };
        for name in [
            "rw",
            "bs",
            "bsrange",
            "bssplit",
            "ba",
            "rwmixread",
            "rwmixwrite",
            "iodepth",
            "numjobs",
            "filename",
            "size",
            "io_size",
            "offset",
            "offset_increment",
            "runtime",
            "time_based",
            "ramp_time",
            "startdelay",
            "loops",
            "stonewall",
            "rate_iops",
            "rate",
            "rate_process",
            "norandommap",
            "random_distribution",
            "percentage_random",
            "randseed",
            "buffer_compress_percentage",
            "dedupe_percentage",
            "zero_buffers",
            "verify",
            "do_verify",
            "verify_fatal",
            "number_ios",
            "read_iolog",
            "replay_time_scale",
            "replay_no_stall",
        ] {
            assert!(honoured("fio", name), "{name}");
        }
        for (place, names) in [
            (
                "general",
                &["compratio", "compression", "dedupratio", "dedupunit", "validate", "data_errors"]
                    [..],
            ),
            ("sd", &["lun", "count", "range", "threads", "hitarea", "align"]),
            ("wd", &["xfersize", "rdpct", "wrpct", "seekpct", "range", "rhpct", "whpct"]),
            (
                "rd",
                &[
                    "iorate",
                    "curve",
                    "stopcurve",
                    "distribution",
                    "elapsed",
                    "warmup",
                    "pause",
                    "forxfersize",
                    "forthreads",
                    "forrdpct",
                    "forseekpct",
                    "forcompratio",
                    "xfersize",
                    "threads",
                    "rdpct",
                ],
            ),
        ] {
            for name in names {
                assert!(honoured(place, name), "{place} {name}");
            }
        }
    }
}
