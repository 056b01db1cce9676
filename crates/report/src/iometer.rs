//! Iometer's results file, for programs that read it: one row for each cell, with Iometer's names of columns
//! up to what this program has a word for. Columns are to be picked by name.

use base::hist::{Hist, Service};
use base::sample::Side;
use std::fmt::Write as _;
use store::{CellRecord, RunFile};

const COLUMNS: [&str; 34] = [
    "'Target Type",
    "Target Name",
    "Access Specification Name",
    "# Managers",
    "# Workers",
    "# Disks",
    "IOps",
    "Read IOps",
    "Write IOps",
    "MiBps (Binary)",
    "Read MiBps (Binary)",
    "Write MiBps (Binary)",
    "MBps (Decimal)",
    "Read MBps (Decimal)",
    "Write MBps (Decimal)",
    "Average Response Time",
    "Average Read Response Time",
    "Average Write Response Time",
    "Maximum Response Time",
    "Maximum Read Response Time",
    "Maximum Write Response Time",
    "Errors",
    "Read Errors",
    "Write Errors",
    "Bytes Read",
    "Bytes Written",
    "Read I/Os",
    "Write I/Os",
    "Queue Depth",
    "% CPU Utilization",
    "% User Time",
    "% Privileged Time",
    "Starting Sector",
    "Maximum Size",
];

/// The results of every counted cell. Times are in milliseconds, of the service.
pub fn iometer_results(run: &RunFile) -> String {
    let mut out = String::from("'Test Type,Test Description\n0,made by fathom\n");
    let _ = writeln!(out, "{}", COLUMNS.join(","));
    for cell in run.cells.iter().filter(|cell| cell.counted) {
        let _ = writeln!(out, "{}", row(run, cell).join(","));
    }
    out
}

fn row(run: &RunFile, cell: &CellRecord) -> Vec<String> {
    let counts = cell.merged();
    let seconds = cell.len.as_secs_f64().max(1e-9);
    let (reads, writes) = (&counts.reads, &counts.writes);
    let mut both = reads.service.clone();
    both.merge(&writes.service);
    let rate = |n: u64| format!("{:.6}", n as f64 / seconds);
    let bytes = |n: u64, unit: f64| format!("{:.6}", n as f64 / seconds / unit);
    let mean = |hist: &Hist<Service>| format!("{:.6}", hist.mean_ns().unwrap_or(0.0) / 1e6);
    let most = |hist: &Hist<Service>| format!("{:.6}", hist.max_ns().unwrap_or(0) as f64 / 1e6);
    let cpus = crate::vdbench::host_cpus(run);
    let cpu = |ns: u64| format!("{:.6}", ns as f64 / 1e9 / seconds / cpus * 100.0);
    let of = |key: &str| cell.spec["loads"][0][key].as_u64().unwrap_or(1);
    let sum = |pick: fn(&Side) -> u64| [pick(reads) + pick(writes), pick(reads), pick(writes)];
    let name = [cell.path.as_str(), cell.label.as_str()].join(" ");
    let mut row = vec![
        "ALL".to_owned(),
        "All".into(),
        name.trim_end().replace(',', ";"),
        "1".into(),
        of("workers").to_string(),
        run.targets.len().to_string(),
    ];
    row.extend(sum(Side::ios).map(rate));
    row.extend(sum(|side| side.bytes).map(|n| bytes(n, f64::from(1 << 20))));
    row.extend(sum(|side| side.bytes).map(|n| bytes(n, 1e6)));
    row.extend([&both, &reads.service, &writes.service].map(mean));
    row.extend([&both, &reads.service, &writes.service].map(most));
    row.extend(sum(|side| side.errors).map(|n| n.to_string()));
    row.extend(
        [reads.bytes, writes.bytes, reads.ios(), writes.ios(), of("depth")].map(|n| n.to_string()),
    );
    row.push(cpu(cell.cpu.user_ns + cell.cpu.system_ns));
    row.extend([cpu(cell.cpu.user_ns), cpu(cell.cpu.system_ns)]);
    row.extend(["0".to_owned(), "0".to_owned()]);
    row
}
