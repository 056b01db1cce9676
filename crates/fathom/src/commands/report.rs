//! `fathom report`.

use crate::args::Report;
use crate::exit::{Exit, usage};
use report::page::{Page, html, json, markdown, page};
use report::{cells_table, pdf, write_file, xlsx};
use std::path::{Path, PathBuf};
use store::RunFile;

const ENDINGS: &str = ".html, .pdf, .xlsx, .csv, .md or .json";

pub(crate) fn run(args: &Report) -> anyhow::Result<Exit> {
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.runs[0]));
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !["html", "pdf", "xlsx", "csv", "md", "json"].contains(&ending) {
        let message = format!("{}: a report ends in {ENDINGS}", output.display());
        return Err(usage(message));
    }
    if args.runs.iter().any(|run| same_file(run, &output)) {
        return Err(usage(format!("{}: is the run file itself", output.display())));
    }
    let runs: Vec<RunFile> =
        args.runs.iter().map(|path| RunFile::open(path)).collect::<Result<_, _>>()?;
    if ending == "csv" {
        let tables: Vec<String> = runs.iter().map(|run| cells_table(run).csv()).collect();
        write_file(&output, joined(&tables).as_bytes())?;
    } else {
        let page = of_all(&runs)?;
        match ending {
            "html" => write_file(&output, html(&page).as_bytes())?,
            "md" => write_file(&output, markdown(&page).as_bytes())?,
            "json" => write_file(&output, &serde_json::to_vec_pretty(&json(&page))?)?,
            "xlsx" => write_file(&output, &xlsx(&page)?)?,
            _ => pdf(&html(&page), &output, rustix::process::geteuid().is_root())?,
        }
    }
    eprintln!("fathom: wrote {}", output.display());
    Ok(Exit::Done)
}

/// The run's name with another ending, in this folder.
fn default_output(run: &Path) -> PathBuf {
    let stem = run.file_stem().map(PathBuf::from).unwrap_or_else(|| "report".into());
    let mut name = stem.into_os_string();
    name.push(".html");
    name.into()
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Tables of one head below each other.
fn joined(tables: &[String]) -> String {
    let mut all = tables.first().cloned().unwrap_or_default();
    for table in tables.iter().skip(1) {
        all.extend(table.lines().skip(1).map(|line| format!("{line}\n")));
    }
    all
}

/// One page of several runs has their chapters after each other, each named by its run.
fn of_all(runs: &[RunFile]) -> anyhow::Result<Page> {
    let mut pages = runs.iter().map(page).collect::<Result<Vec<Page>, _>>()?;
    if pages.len() == 1 {
        return Ok(pages.remove(0));
    }
    let (mut sections, mut findings) = (Vec::new(), Vec::new());
    for (n, one) in pages.into_iter().enumerate() {
        findings.extend(one.findings);
        for mut section in one.sections {
            if section.level == 2 {
                section.title = format!("Run {}: {} ({})", n + 1, section.title, one.lead);
            }
            sections.push(section);
        }
    }
    Ok(Page { title: format!("{} runs", runs.len()), lead: String::new(), findings, sections })
}
