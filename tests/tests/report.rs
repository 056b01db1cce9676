//! Reports: every table and plot that a method asks for, in every form. The targets are virtual drives and
//! files; a browser and an office suite read the results where they are installed.

use blackbox::{fathom, folder, not_run, plan, tool};
use std::path::Path;

/// Titles of figures and captions of tables by chapter, from a page.
fn titles(html: &str) -> Vec<(String, String)> {
    let mut chapter = String::new();
    let mut all = Vec::new();
    for (at, _) in html.match_indices('<') {
        let rest = &html[at..];
        let inner = |open: &str, close: &str| -> Option<String> {
            let text = rest.strip_prefix(open)?.split_once('>')?.1;
            Some(text.split_once(close)?.0.trim().to_owned())
        };
        if let Some(name) = inner("<h2 ", "</h2") {
            chapter = name;
        } else if let Some(title) = inner("<title id=", "</title") {
            all.push((chapter.clone(), format!("figure {title}")));
        } else if let Some(caption) = inner("<caption", "<button") {
            all.push((chapter.clone(), format!("table {caption}")));
        }
    }
    all
}

/// What `pts.md` lists under "Report", test by test: number, chapter, and how the title of its figure or
/// table begins.
const PTS: [(&str, &str, &str); 71] = [
    ("IOPS 1", "iops", "figure Steady-state convergence: IOPS, wdpc, matrix, read 0"),
    ("IOPS 1, 65/35", "iops", "figure Steady-state convergence: IOPS, wdpc, matrix, read 65"),
    ("IOPS 1, 100/0", "iops", "figure Steady-state convergence: IOPS, wdpc, matrix, read 100"),
    ("IOPS 2a", "iops", "figure Steady-state window: wdpc, matrix read=0 block=4k iops"),
    ("IOPS 2b", "iops", "figure Steady-state window: wdpc, matrix read=65 block=64k iops"),
    ("IOPS 2c", "iops", "figure Steady-state window: wdpc, matrix read=100 block=1024k iops"),
    ("IOPS 2, table", "iops", "table Steady-state verification: wdpc"),
    ("IOPS 3", "iops", "table IOPS: wdpc, matrix"),
    ("IOPS 4", "iops", "figure IOPS by block and read"),
    ("IOPS 5", "iops", "figure 3D: IOPS by block and read"),
    (
        "TP a, 128k",
        "throughput",
        "figure Steady-state convergence: bandwidth, seq-128k/wdpc, throughput, read 0",
    ),
    (
        "TP b, 128k",
        "throughput",
        "figure Steady-state convergence: bandwidth, seq-128k/wdpc, throughput, read 100",
    ),
    ("TP c, 128k", "throughput", "figure Steady-state window: seq-128k/wdpc"),
    ("TP c, 128k, table", "throughput", "table Steady-state verification: seq-128k/wdpc"),
    (
        "TP a, 1024k",
        "throughput",
        "figure Steady-state convergence: bandwidth, seq-1024k/wdpc, throughput, read 0",
    ),
    (
        "TP b, 1024k",
        "throughput",
        "figure Steady-state convergence: bandwidth, seq-1024k/wdpc, throughput, read 100",
    ),
    ("TP c, 1024k", "throughput", "figure Steady-state window: seq-1024k/wdpc"),
    ("TP c, 1024k, table", "throughput", "table Steady-state verification: seq-1024k/wdpc"),
    ("TP d", "throughput", "table throughput: bandwidth of each, MB/s"),
    ("TP e", "throughput", "figure throughput: bandwidth of each"),
    ("LAT a", "latency", "figure Steady-state convergence: mean latency, wdpc, latency, read 0"),
    ("LAT b", "latency", "figure Steady-state convergence: largest latency, wdpc, latency, read 0"),
    ("LAT c", "latency", "figure Steady-state window: wdpc, latency read=0 block=4k mean"),
    ("LAT c, table", "latency", "table Steady-state verification: wdpc"),
    ("LAT d, IOPS", "latency", "table IOPS: wdpc, latency"),
    ("LAT d, ART", "latency", "table mean latency (ART), ms"),
    ("LAT d, five nines", "latency", "table 99.999 % latency, ms"),
    ("LAT d, MRT", "latency", "table largest latency (MRT), ms"),
    ("LAT e", "latency", "figure 3D: mean latency (ART) by block and read"),
    ("LAT f", "latency", "figure 3D: largest latency (MRT) by block and read"),
    ("LAT g", "latency", "figure Response time histogram, confidence level: histogram"),
    ("WSAT a", "wsat", "figure IOPS over time: wsat/saturation"),
    ("WSAT a, log", "wsat", "figure IOPS over time, logarithmic: wsat/saturation"),
    ("WSAT b", "wsat", "figure IOPS over bytes written (TGBW): wsat/saturation"),
    ("WSAT b, log", "wsat", "figure IOPS over bytes written (TGBW), logarithmic"),
    ("WSAT c", "wsat", "figure IOPS over drive fills: wsat/saturation"),
    ("WSAT d", "wsat", "figure Latency over drive fills: wsat/saturation"),
    ("WSAT e", "wsat", "figure Steady-state window: wsat/saturation"),
    ("WSAT e, table", "wsat", "table Steady-state verification: wsat/saturation"),
    ("WSAT f", "wsat", "figure Response time histogram, confidence level: wsat/histogram"),
    ("HIR a", "hir", "figure Steady-state convergence: IOPS, precondition/saturation"),
    ("HIR b", "hir", "figure Steady-state window: precondition/saturation"),
    ("HIR b, table", "hir", "table Steady-state verification: precondition/saturation"),
    ("HIR c", "hir", "figure IOPS over time: hir"),
    ("HIR d", "hir", "table Recovery by idle time: hir"),
    ("XSR a", "xsr", "figure Bandwidth over time: xsr"),
    ("XSR b", "xsr", "figure Bandwidth, mean and largest latency over time: xsr"),
    ("XSR c", "xsr", "table Recovery between stimuli: xsr"),
    ("XSR d, AG1", "xsr", "figure Latency over time: xsr/group-1"),
    ("XSR d, AG2", "xsr", "figure Latency over time: xsr/group-2"),
    ("XSR d, AG3", "xsr", "figure Latency over time: xsr/group-3"),
    ("P1", "*", "figure Steady-state convergence: IOPS, precondition/saturation"),
    ("P2", "*", "figure Steady-state window: precondition/saturation"),
    ("P2, table", "*", "table Steady-state verification: precondition/saturation"),
    ("P3", "*", "figure Steady-state convergence: IOPS, demand, pre-write"),
    ("P4", "*", "figure Steady-state convergence: IOPS, demand, cells, workers 32"),
    ("P5", "*", "figure Steady-state window: demand, cells workers=32 depth=32 iops"),
    ("P5, table", "*", "table Steady-state verification: demand"),
    ("P6", "*", "figure IOPS by depth and workers: demand, cells"),
    ("P6, table", "*", "table IOPS: demand, cells"),
    ("P7", "*", "figure Demand intensity, mean latency against IOPS: demand, cells"),
    ("P7, table", "*", "table mean latency (ART), ms: demand, cells"),
    ("P8", "*", "figure 3D: CPU of the load"),
    ("P8, table", "*", "table CPU of the load"),
    ("P9", "*", "figure IOPS and bandwidth over time: operating/max/pre-write"),
    ("P10", "*", "figure Response time histogram, confidence level: operating/max/histogram"),
    ("P11", "*", "figure IOPS and bandwidth over time: operating/mid/pre-write"),
    ("P12", "*", "figure Response time histogram, confidence level: operating/mid/histogram"),
    ("P13", "*", "figure IOPS and bandwidth over time: operating/min/pre-write"),
    ("P14", "*", "figure Response time histogram, confidence level: operating/min/histogram"),
    ("P15", "*", "figure IOPS and mean latency over all outstanding I/Os: demand, cells"),
];

/// Fields that the header of a PTS report has.
const DISCLOSED: [&str; 17] = [
    "Method",
    "Deviations",
    "Not verified against its text",
    "Parameters",
    "Started",
    "Ended",
    "Purge",
    "Write cache and settings",
    "Tested by",
    "Auditor",
    "Reference platform",
    "CPU",
    "Memory",
    "Operating system",
    "Test software",
    "User capacity",
    "serial",
];

#[test]
fn the_whole_pts_report_has_every_table_and_plot() {
    let here = folder();
    let run = ["run", "pts", "sim:d5-p5430", "-q", "-o", "pts.fathom"];
    fathom(here.path(), &run).expect(0);
    fathom(here.path(), &["report", "pts.fathom", "-o", "pts.html"]).expect(0);
    let html = std::fs::read_to_string(here.path().join("pts.html")).unwrap();
    let all = titles(&html);
    let mut ticks = 0;
    for (number, chapter, begin) in PTS {
        let chapters = if chapter == "*" { vec!["cbw", "dirth"] } else { vec![chapter] };
        for chapter in chapters {
            let found = all.iter().find(|(c, title)| c == chapter && title.starts_with(begin));
            assert!(found.is_some(), "{number} ({chapter}) is missing: {begin}");
            println!("[x] {chapter} {number}: {}", found.unwrap().1);
            ticks += 1;
        }
    }
    for field in DISCLOSED {
        assert!(html.contains(&format!("<dt>{field}</dt>")), "{field} is not disclosed");
        ticks += 1;
    }
    println!("{ticks} ticks");
    if !tool("chromium", &["--version"]).0 {
        return not_run("chromium is not installed: no PDF");
    }
    fathom(here.path(), &["report", "pts.fathom", "-o", "pts.pdf"]).expect(0);
    if !tool("pdftotext", &["-v"]).0 {
        return not_run("pdftotext is not installed: the PDF is not read back");
    }
    tool_in(here.path(), "pdftotext", &["-layout", "pts.pdf", "pts.txt"]);
    let text = std::fs::read_to_string(here.path().join("pts.txt")).unwrap();
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join("");
    let text = plain(&text);
    for (number, _, begin) in PTS {
        let words = begin.split_once(' ').unwrap().1;
        assert!(text.contains(&plain(words)), "{number} is not in the PDF: {words}");
    }
}

fn tool_in(folder: &Path, program: &str, args: &[&str]) {
    let output =
        std::process::Command::new(program).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A day of one-second intervals with one I/O of 40 ms in it.
#[test]
fn a_day_is_a_small_page_and_its_one_outlier_is_named_with_time_and_temperature() {
    let here = folder();
    let path = plan(
        here.path(),
        "interval=\"1s\"\n[[step]]\nname=\"day\"\nload={read=100, depth=32, workers=4, time=\"24h\"}",
    );
    let target = "sim:d5-p5430,stall=40ms@51234s,noise=2%";
    fathom(here.path(), &["run", &path, target, "-q", "-o", "day.fathom"]).expect(0);
    let started = base::clock::Clock::Monotonic.now();
    fathom(here.path(), &["report", "day.fathom"]).expect(0);
    let took = (base::clock::Clock::Monotonic.now().0 - started.0) as f64 / 1e9;
    let html = std::fs::read_to_string(here.path().join("day.html")).unwrap();
    println!("a day: {took:.2} s, {:.2} MB", html.len() as f64 / 1e6);
    assert!(html.len() < 8_000_000, "{} bytes", html.len());
    assert!(html.contains("An outlier of 40.0 ms at 14:13:54"), "51234 s are 14:13:54");
    let finding = &html[html.find("An outlier of 40.0 ms").unwrap()..];
    let finding = &finding[..finding.find("</div>").unwrap()];
    assert!(finding.contains("the drive had ") && finding.contains(" C"), "{finding}");
    let link = finding.split("href=\"#").nth(1).expect("a link to its figure");
    let id = &link[..link.find('"').unwrap()];
    assert!(id.starts_with('f'), "{id}");
    let figure = &html[html.find(&format!("<figure id=\"{id}\"")).unwrap()..];
    let title = &figure[figure.find("<title").unwrap()..figure.find("</title").unwrap()];
    assert!(title.contains("Latency over time, each I/O counted"), "{title}");
    let others = html.matches("<strong>Warning:").count();
    assert_eq!(others, 1, "one outlier and nothing else was planted");
}

#[test]
fn every_form_of_a_report_has_the_same_figures() {
    let here = folder();
    let run = ["run", "depth-sweep", "sim:tlc-3dwpd", "-q", "-o", "r.fathom"];
    fathom(here.path(), &run).expect(0);
    let csv = fathom(here.path(), &["export", "r.fathom", "-f", "csv", "--table", "cells"])
        .expect(0)
        .out
        .clone();
    for ending in ["html", "md", "xlsx", "csv"] {
        let file = format!("r.{ending}");
        fathom(here.path(), &["report", "r.fathom", "-o", &file]).expect(0);
    }
    assert_eq!(std::fs::read_to_string(here.path().join("r.csv")).unwrap(), csv);
    let html = std::fs::read_to_string(here.path().join("r.html")).unwrap();
    let markdown = std::fs::read_to_string(here.path().join("r.md")).unwrap();
    let document = fathom(here.path(), &["show", "r.fathom", "--json"]).expect(0).json();
    let cells = document["cells"].as_array().unwrap();
    assert!(cells.len() > 5);
    for cell in cells {
        let iops = format!("{:.0}", cell["iops"].as_f64().unwrap());
        assert!(html.contains(&format!(">{iops}<")), "{iops} is not on the page");
        assert!(markdown.contains(&format!("| {iops} |")), "{iops} is not in the text");
    }
    workbook(here.path(), cells);
}

/// Another program reads the workbook.
fn workbook(folder: &Path, cells: &[serde_json::Value]) {
    if !tool("soffice", &["--version"]).0 {
        return not_run("LibreOffice is not installed: the workbook is not read back");
    }
    let filter = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,2";
    let profile = format!("-env:UserInstallation=file://{}", folder.join("office").display());
    let args = [&profile, "--headless", "--convert-to", filter, "--outdir", ".", "r.xlsx"];
    tool_in(folder, "soffice", &args);
    let all: String = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("r-"))
        .map(|entry| std::fs::read_to_string(entry.path()).unwrap())
        .collect();
    for cell in cells {
        let iops = cell["iops"].as_f64().unwrap();
        let has = all.split([',', '\n']).filter_map(|field| field.parse::<f64>().ok());
        assert!(has.into_iter().any(|v| (v - iops).abs() <= iops * 1e-6), "{iops} in {all}");
    }
}

#[test]
fn mistakes_with_reports_are_named() {
    let here = folder();
    let says = |args: &[&str], code: i32, text: &str| {
        fathom(here.path(), args).expect(code).says(text);
    };
    let run = ["run", "qos", "sim:tlc-3dwpd", "-q", "-o", "r.fathom", "--set", "time=1s"];
    fathom(here.path(), &run);
    says(&["report", "r.fathom", "-o", "r.docx"], 2, "a report ends in .html");
    says(&["report", "none.fathom"], 1, "none.fathom");
    says(&["report", "r.fathom", "-o", "no/folder/r.html"], 1, "cannot be written");
    std::fs::write(here.path().join("text.fathom"), "no run").unwrap();
    says(&["report", "text.fathom"], 1, "text.fathom");
    std::fs::rename(here.path().join("r.fathom"), here.path().join("r.html")).unwrap();
    says(&["report", "r.html"], 2, "is the run file itself");
}
