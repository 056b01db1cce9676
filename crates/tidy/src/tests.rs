use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may name (DESIGN section 1). A new edge is a decision, taken here.
const MAY_NAME: [(&str, &[&str]); 14] = [
    ("target", &["base", "sim"]),
    ("base", &[]),
    ("trace", &["base"]),
    ("plan", &["base", "trace"]),
    ("drive", &["base"]),
    ("engine", &["base", "trace", "plan", "drive"]),
    ("store", &["base", "plan"]),
    ("analysis", &["base", "plan", "store"]),
    ("sim", &["base", "plan", "engine"]),
    ("runner", &["base", "trace", "plan", "drive", "engine", "sim", "store", "analysis"]),
    ("report", &["base", "plan", "store", "analysis"]),
    ("serve", &["base", "plan", "store", "analysis", "report", "runner"]),
    (
        "fathom",
        &[
            "base", "plan", "drive", "engine", "sim", "store", "analysis", "runner", "report",
            "serve", "trace",
        ],
    ),
    ("tidy", &[]),
];

/// Files that may hold `unsafe`: one call a function, under a SAFETY sentence.
const UNSAFE: [&str; 8] = [
    "crates/engine/src/sys/command_ring.rs",
    "crates/base/src/clock/sys.rs",
    "crates/drive/src/nvme/sys.rs",
    "crates/engine/src/sys/memory.rs",
    "crates/engine/src/sys/mod.rs",
    "crates/engine/src/sys/ring.rs",
    "crates/engine/src/sys/thread.rs",
    "bench/src/sys.rs",
];

const LINE_MAX: usize = 110;
const FILE_MAX: usize = 620;
const FUNCTION_MAX: usize = 60;

/// Functions that are longer. This list may only shrink.
const LONG_FUNCTIONS: [(&str, &str); 5] = [
    ("bench/src/bin/engine.rs", "main"),
    ("crates/engine/src/external.rs", "put_load"),
    ("crates/report/src/fio.rs", "job"),
    ("crates/report/src/text.rs", "results"),
    ("crates/runner/src/cell.rs", "run_cell"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Rust sources of the project with their path from its root.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut open = vec![root.join("crates"), root.join("tests"), root.join("bench")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.len() > 50, "the sources are where they were");
    found
}

/// Whether a source file holds tests only.
fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("tests.rs")
}

/// The part before the tests of a file.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn each_crate_names_only_what_it_may() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_NAME.into_iter().collect();
    let crates = fs::read_dir(root().join("crates")).unwrap().flatten();
    let mut seen = 0;
    for folder in crates {
        let name = folder.file_name().into_string().unwrap();
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the plan"));
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        let own = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        for line in own.lines() {
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if allowed.contains_key(dependency) {
                assert!(may.contains(&dependency), "{name} may not name {dependency}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, MAY_NAME.len());
}

#[test]
fn unsafe_stands_only_in_sys_files_under_a_reason() {
    for (name, text) in sources() {
        if name == "crates/tidy/src/tests.rs" {
            continue;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let word = code.contains("unsafe {")
                || code.contains("unsafe fn")
                || code.contains("unsafe impl");
            if !word {
                continue;
            }
            assert!(UNSAFE.contains(&name.as_str()), "{name}:{}: unsafe outside of sys", at + 1);
            let above = lines[at.saturating_sub(6)..at].join("\n");
            let reason = above.contains("SAFETY") || above.contains("# Safety");
            assert!(reason, "{name}:{}: unsafe without a SAFETY sentence", at + 1);
        }
    }
}

#[test]
fn only_the_program_prints_reads_the_environment_or_exits() {
    let words =
        ["println!(", "eprintln!(", "print!(", "process::exit", "env::var", "env::args", "dbg!("];
    for (name, text) in sources() {
        let inside = name.starts_with("crates/") && !name.starts_with("crates/fathom/");
        if !inside || is_test(&name) {
            continue;
        }
        for word in words {
            assert!(!product(&text).contains(word), "{name}: {word} belongs to the fathom crate");
        }
    }
}

#[test]
fn only_the_clock_reads_time() {
    for (name, text) in sources() {
        let exempt = name.starts_with("crates/base/src/clock") || is_test(&name);
        if !name.starts_with("crates/") || exempt {
            continue;
        }
        for word in ["Instant::now", "SystemTime::now", "Zoned::now", "Timestamp::now"] {
            assert!(!product(&text).contains(word), "{name}: {word}: ask base::clock");
        }
    }
}

#[test]
fn the_engine_keeps_no_marker_of_unfinished_work() {
    for (name, text) in sources() {
        if name == "crates/tidy/src/tests.rs" {
            continue;
        }
        for word in ["todo!(", "unimplemented!(", "FIXME", "XXX", "#[ignore"] {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn files_lines_and_functions_fit_a_screen() {
    let mut long = Vec::new();
    for (name, text) in sources() {
        let is_data = name.starts_with("crates/tidy/");
        for (at, line) in text.lines().enumerate() {
            let length = line.chars().count();
            let fits = length <= LINE_MAX || line.contains('"') || is_data;
            assert!(fits, "{name}:{}: {length} columns", at + 1);
        }
        if is_test(&name) {
            continue;
        }
        let product = product(&text);
        let lines = product.lines().count();
        assert!(lines <= FILE_MAX, "{name}: {lines} lines: split it");
        long.extend(functions(product).into_iter().filter_map(|(function, length)| {
            (length > FUNCTION_MAX).then(|| (name.clone(), function, length))
        }));
    }
    let known = |(file, function, _): &&(String, String, usize)| {
        !LONG_FUNCTIONS.contains(&(file.as_str(), function.as_str()))
    };
    let new: Vec<_> = long.iter().filter(known).collect();
    assert!(new.is_empty(), "functions over {FUNCTION_MAX} lines: {new:#?}");
    for (file, function) in LONG_FUNCTIONS {
        let still = long.iter().any(|(f, n, _)| f == file && n == function);
        assert!(still, "{function} in {file} is short now: take it off the list");
    }
}

/// Names and lengths of functions: from the signature to the brace at the same indent.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let Some(place) = body.find("fn ") else {
            continue;
        };
        let before = &body[..place];
        let words = ["", "pub ", "pub(crate) ", "pub(super) ", "unsafe ", "const ", "pub const "];
        if !words.contains(&before) {
            continue;
        }
        let indent = &line[..line.len() - body.len()];
        let end = format!("{indent}}}");
        let Some(length) = lines[at..].iter().position(|line| *line == end) else {
            continue;
        };
        let head = lines[at..].iter().find(|line| line.ends_with(['{', ';', '}']));
        if head.is_some_and(|line| line.ends_with(';')) {
            continue; // A declaration without a body.
        }
        let name = body[place + 3..].split(['(', '<']).next().unwrap_or_default();
        found.push((name.to_owned(), length + 1));
    }
    found
}

#[test]
fn every_dependency_has_a_licence_that_may_be_shipped() {
    const FREE: [&str; 13] = [
        "MIT",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unlicense",
        "CC0-1.0",
        "Unicode-3.0",
        "0BSD",
        "BSL-1.0",
        "blessing",
    ];
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut seen = 0;
    for part in text.split("\"license\":").skip(1) {
        let Some(licence) = part.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
            panic!("a package without a licence: {}", &part[..part.len().min(80)]);
        };
        let plain = licence.replace('/', " OR ").replace(['(', ')'], " ");
        // One free choice must remain; everything joined by AND must be free.
        let free = |choice: &str| choice.split(" AND ").all(|one| FREE.contains(&one.trim()));
        assert!(plain.split(" OR ").any(free), "licence {licence}");
        seen += 1;
    }
    assert!(seen > 50, "{seen} packages");
}
