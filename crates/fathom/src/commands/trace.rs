//! `fathom trace`: what recordings are like, as plans, and new ones.

use crate::args::{TimeUnitName, TraceCommand, TraceFile, TraceRecord};
use crate::commands::run::{INTERRUPT, watch_signals};
use crate::exit::{Exit, usage};
use crate::print;
use base::clock::Clock;
use base::units::{Bytes, Nanos, format_rate, parse_span};
use runner::{RunError, read_recording};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use trace::{Character, Options, TimeUnit, Trace, plan_of};

pub(crate) fn run(command: &TraceCommand) -> anyhow::Result<Exit> {
    match command {
        TraceCommand::Show(file) => show(file),
        TraceCommand::Model(args) => {
            let trace = read(&args.file)?;
            let name = args.file.file.rsplit('/').next().unwrap_or_default();
            let stem = name.split('.').next().unwrap_or(name);
            let text = plan_of(&trace, stem, args.phases);
            plan::parse(name, &text, &[])?;
            print::out(&text)?;
            Ok(Exit::Done)
        }
        TraceCommand::Convert(file) => {
            print::out(&read(file)?.to_csv())?;
            Ok(Exit::Done)
        }
        TraceCommand::Record(args) => record(args),
    }
}

fn read(file: &TraceFile) -> anyhow::Result<Trace> {
    let time_unit = file.time_unit.map(|unit| match unit {
        TimeUnitName::Ns => TimeUnit::Nanoseconds,
        TimeUnitName::Filetime => TimeUnit::FileTime,
        TimeUnitName::Us => TimeUnit::Microseconds,
        TimeUnitName::Ms => TimeUnit::Milliseconds,
        TimeUnitName::S => TimeUnit::Seconds,
    });
    let trace = read_recording(&file.file, &Options { disk: file.disk.clone(), time_unit })?;
    trace.notes.iter().for_each(|note| eprintln!("fathom: {}: {note}", file.file));
    Ok(trace)
}

fn show(file: &TraceFile) -> anyhow::Result<Exit> {
    let trace = read(file)?;
    let parts = [
        ("all", Character::of(&trace)),
        ("reads", Character::of_direction(&trace, false)),
        ("writes", Character::of_direction(&trace, true)),
    ];
    if file.json {
        let of = |(name, character): &(&str, Character)| ((*name).to_owned(), as_json(character));
        print::json(&json!({
            "fathom_json": report::JSON_VERSION,
            "file": file.file, "format": trace.format, "span_ns": trace.span(), "end": trace.end(),
            "depth": trace.depth, "notes": trace.notes,
            "character": parts.iter().map(of).collect::<serde_json::Map<_, _>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let depth = trace.depth.map_or("not recorded".into(), |depth| format!("{depth:.1}"));
    let mut page = format!(
        "{}: {}, {} requests in {}, addresses up to {}, mean depth {depth}\n",
        file.file,
        trace.format,
        trace.requests.len(),
        Nanos(trace.span()),
        Bytes(trace.end()),
    );
    for (name, character) in parts.iter().filter(|(_, character)| character.n > 0) {
        page += &text_of(name, character);
    }
    print::out(&page)?;
    Ok(Exit::Done)
}

fn text_of(name: &str, character: &Character) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let sizes: Vec<String> = character
        .sizes
        .iter()
        .take(8)
        .map(|size| format!("{} {}", Bytes(size.len.into()), percent(size.share)))
        .collect();
    let [first, second, third] = character.reuse.hottest;
    format!(
        "\n{name}\n  requests    {} ({} reads), {}\n  rate        {} a second, {} in the busiest\n  \
         gaps        vary by {:.2} of their mean (0 equal, 1 independent, more: bursts)\n  \
         sizes       {}; mean {:.0} bytes\n  order       {} go on where another ended; addresses are \
         multiples of {}\n  places      {} touched; the busiest 1 % of the space has {} of the accesses, 5 % \
         {}, 20 % {}\n",
        character.n,
        percent(character.reads),
        Bytes(character.bytes),
        format_rate(character.rate),
        character.peak,
        character.gap_variation,
        sizes.join(", "),
        character.mean_size(),
        percent(character.sequential),
        Bytes(character.align),
        Bytes(character.reuse.footprint),
        percent(first),
        percent(second),
        percent(third),
    )
}

fn as_json(character: &Character) -> Value {
    let sizes = character.sizes.iter().map(|size| json!([size.len, size.share]));
    json!({
        "requests": character.n, "bytes": character.bytes, "read_share": character.reads,
        "sizes": sizes.collect::<Vec<_>>(), "mean_size": character.mean_size(),
        "sequential_share": character.sequential, "align": character.align,
        "rate": character.rate, "peak_second": character.peak,
        "gap_variation": character.gap_variation,
        "footprint_bytes": character.reuse.footprint,
        "hottest_share": {
            "1%": character.reuse.hottest[0], "5%": character.reuse.hottest[1],
            "20%": character.reuse.hottest[2],
        },
    })
}

/// Records until the time is over or Ctrl-C.
fn record(args: &TraceRecord) -> anyhow::Result<Exit> {
    let time = parse_span(&args.time).map_err(|error| usage(format!("--time: {error}")))?;
    let subject = drive::resolve(&args.device, Bytes(0)).map_err(RunError::from)?;
    let Some(device) = subject.device() else {
        let path = args.device.display();
        return Err(usage(format!("{path}: is no block device; only those have block events")));
    };
    watch_signals()?;
    let number = drive::device_number(&device.name).map_err(usage)?;
    let mut recorder = drive::Recorder::start(number).map_err(usage)?;
    eprintln!("fathom: recording {} for {time}; Ctrl-C ends it earlier", args.device.display());
    let clock = Clock::host();
    let end = clock.now().0.saturating_add(time.0);
    let mut text = Vec::new();
    while clock.now().0 < end && !INTERRUPT.load(Ordering::Relaxed) {
        if recorder.read(&mut text)? == 0 {
            clock.sleep_until(Nanos(clock.now().0 + 20_000_000));
        }
    }
    recorder.stop();
    while recorder.read(&mut text)? > 0 {}
    let trace = trace::read(&text, &Options::default()).map_err(|error| {
        usage(format!("{}: nothing was recorded: {error}", args.device.display()))
    })?;
    // Beside the name first: what is there, a device for one, is never written into.
    report::write_file(&args.output, trace.to_csv().as_bytes())?;
    trace.notes.iter().for_each(|note| eprintln!("fathom: {note}"));
    print::out(&format!("{} requests in {}\n", trace.requests.len(), args.output.display()))?;
    Ok(Exit::Done)
}
