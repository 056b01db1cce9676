//! `fathom compare`.

use crate::args::Compare;
use crate::commands::resolution;
use crate::exit::{Exit, usage};
use crate::print;
use analysis::{Arm, Comparison, Kept, Rules, compare, invalid_run, parse_limits};
use report::page::{Sheet, html, json, markdown};
use report::{
    Published, compare_json, compare_notes, compare_page, compare_sheet, compare_summary, table_of,
    write_file, xlsx,
};
use serde_json::json as value;
use std::path::PathBuf;
use store::RunFile;

pub(crate) fn run(args: &Compare) -> anyhow::Result<Exit> {
    let groups: Vec<(String, Vec<PathBuf>)> =
        args.runs.iter().map(|text| arm_of(text)).collect::<anyhow::Result<_>>()?;
    let files: Vec<Vec<RunFile>> = groups
        .iter()
        .map(|(_, paths)| paths.iter().map(|path| RunFile::open(path)).collect())
        .collect::<Result<_, _>>()?;
    let quoted = quoted(args, &files)?;
    let kept = limits(args, &files)?;
    if files.len() == 1 {
        if quoted.is_empty() && args.limits.is_none() {
            return Err(usage("two runs at least, or --limits, or --published"));
        }
        alone(args, &quoted, &kept)?;
        return Ok(exit_of(&kept));
    }
    let arms: Vec<Arm<'_>> = groups
        .iter()
        .zip(&files)
        .map(|((name, _), runs)| Arm { name: name.clone(), runs: runs.iter().collect() })
        .collect();
    let rules = rules(args)?;
    let found = compare(&arms, rules)?;
    if found.rows.is_empty() {
        return Err(usage("the runs have no load in common: fathom show tells what each measured"));
    }
    let mut notes = compare_notes(&found, rules.level);
    notes.push(match rules.resolution {
        r if r > 0.0 => {
            format!("This host resolves {:.2} % (fathom calibrate --resolution).", r * 100.0)
        }
        _ => {
            "This host's resolution is not known: fathom calibrate --resolution measures it.".into()
        }
    });
    show(args, &Shown { found: &found, rules, notes: &notes, quoted, kept: &kept })?;
    Ok(exit_of(&kept))
}

/// Everything there is to show.
struct Shown<'s> {
    found: &'s Comparison,
    rules: Rules,
    notes: &'s [String],
    quoted: Vec<Sheet>,
    kept: &'s [Kept],
}

fn show(args: &Compare, shown: &Shown<'_>) -> anyhow::Result<()> {
    let within = shown.rules.same_within;
    if let Some(path) = &args.output {
        let page = compare_page(shown.found, within, shown.notes, shown.quoted.clone());
        let bytes = match path.extension().and_then(|e| e.to_str()).unwrap_or_default() {
            "html" => html(&page).into_bytes(),
            "md" => markdown(&page).into_bytes(),
            "xlsx" => xlsx(&page)?,
            "json" => serde_json::to_vec_pretty(&json(&page))?,
            _ => {
                let message = format!("{}: it ends in .html, .md, .xlsx or .json", path.display());
                return Err(usage(message));
            }
        };
        write_file(path, &bytes)?;
        eprintln!("fathom: wrote {}", path.display());
    } else if args.json {
        let mut document = compare_json(shown.found, within, shown.notes);
        document["limits"] = shown.kept.iter().map(limit_json).collect();
        print::json(&document)?;
        return Ok(());
    } else {
        let mut text = sheet_text(&compare_sheet(shown.found, within));
        text.push_str(&sheet_text(&compare_summary(shown.found)));
        shown.quoted.iter().for_each(|sheet| text.push_str(&sheet_text(sheet)));
        shown.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        print::out(&text)?;
    }
    print::out(&limits_text(shown.kept))?;
    Ok(())
}

/// `a.fathom`, `a.fathom,b.fathom` (runs of one configuration) or `name=a.fathom,b.fathom`.
fn arm_of(text: &str) -> anyhow::Result<(String, Vec<PathBuf>)> {
    let (name, list) = match text.split_once('=') {
        Some((name, list)) if !std::path::Path::new(text).exists() => (Some(name), list),
        _ => (None, text),
    };
    let whole = PathBuf::from(list);
    let paths: Vec<PathBuf> = match whole.exists() {
        true => vec![whole],
        false => list.split(',').filter(|part| !part.is_empty()).map(PathBuf::from).collect(),
    };
    let Some(first) = paths.first() else {
        return Err(usage(format!("{text}: names no run")));
    };
    let stem = first.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(stem).unwrap_or_else(|| text.to_owned());
    let name = if paths.len() > 1 && !text.contains('=') {
        format!("{name} and {} more", paths.len() - 1)
    } else {
        name
    };
    Ok((name, paths))
}

fn percent(option: &str, text: &str, most: f64) -> anyhow::Result<f64> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.0..=most).contains(share));
    share.ok_or_else(|| usage(format!("{option} {text}: a percentage up to {:.0}%", most * 100.0)))
}

fn rules(args: &Compare) -> anyhow::Result<Rules> {
    let resolved = match &args.resolution {
        Some(text) => percent("--resolution", text, 1.0)?,
        None => resolution::stored().unwrap_or(0.0),
    };
    let level = percent("--level", &args.level, 0.5)?;
    if level <= 0.0 {
        return Err(usage("--level: above 0%"));
    }
    Ok(Rules {
        same_within: percent("--same-within", &args.same_within, 1.0)?,
        level,
        resolution: resolved,
        force: args.force,
        paired: args.paired,
    })
}

fn sheet_text(sheet: &Sheet) -> String {
    let head: Vec<&str> = sheet.head.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = sheet
        .rows
        .iter()
        .map(|row| row.iter().map(|field| field.shown().to_owned()).collect())
        .collect();
    format!("{}\n{}\n", sheet.title, table_of(&head, &rows))
}

/// What others published beside the first run of each arm.
fn quoted(args: &Compare, files: &[Vec<RunFile>]) -> anyhow::Result<Vec<Sheet>> {
    let Some(words) = &args.published else { return Ok(Vec::new()) };
    let published = Published::all().map_err(anyhow::Error::msg)?;
    let drive = published.find(words).ok_or_else(|| {
        let known: Vec<&str> = published.drive.iter().map(|drive| drive.name.as_str()).collect();
        usage(format!("--published {words}: there are {}", known.join("; ")))
    })?;
    let sheets = files.iter().map(|runs| published.beside(&runs[0], drive));
    Ok(sheets.filter(|sheet| !sheet.rows.is_empty()).collect())
}

fn limits(args: &Compare, files: &[Vec<RunFile>]) -> anyhow::Result<Vec<Kept>> {
    let Some(path) = &args.limits else { return Ok(Vec::new()) };
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("{name}: cannot be read: {error}")))?;
    let limits = parse_limits(&text).map_err(|error| usage(format!("{name}: {error}")))?;
    let mut all: Vec<Kept> = files.iter().flatten().filter_map(invalid_run).collect();
    for limit in &limits {
        let found: Vec<Kept> = files.iter().flatten().flat_map(|run| limit.judge(run)).collect();
        if found.is_empty() {
            // A limit on nothing would always be kept.
            let message =
                format!("{name}: line {}: no load is called that: {}", limit.line, limit.text);
            return Err(usage(message));
        }
        all.extend(found);
    }
    Ok(all)
}

fn limit_json(kept: &Kept) -> serde_json::Value {
    value!({"limit": kept.limit, "cell": kept.cell, "found": kept.found, "kept": kept.kept})
}

fn limits_text(kept: &[Kept]) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let row = |kept: &Kept| {
        vec![
            if kept.kept { "kept" } else { "MISSED" }.to_owned(),
            kept.limit.clone(),
            kept.cell.clone(),
            kept.found.clone().unwrap_or_else(|| "n/a: fewer than 10 samples beyond".into()),
        ]
    };
    let rows: Vec<Vec<String>> = kept.iter().map(row).collect();
    format!("\n{}", table_of(&["", "Limit", "Cell", "Found"], &rows))
}

fn exit_of(kept: &[Kept]) -> Exit {
    if kept.iter().all(|kept| kept.kept) { Exit::Done } else { Exit::NotValid }
}

/// One run beside limits and published figures.
fn alone(args: &Compare, quoted: &[Sheet], kept: &[Kept]) -> anyhow::Result<()> {
    if args.json {
        let limits: Vec<_> = kept.iter().map(limit_json).collect();
        print::json(&value!({"fathom_json": report::JSON_VERSION, "limits": limits}))?;
        return Ok(());
    }
    quoted.iter().try_for_each(|sheet| print::out(&sheet_text(sheet)))?;
    print::out(&limits_text(kept))?;
    Ok(())
}
