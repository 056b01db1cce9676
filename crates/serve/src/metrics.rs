//! Figures for Prometheus, in its text format 0.0.4.

use crate::view::Gauges;
use std::fmt::Write as _;

/// A run that goes on.
pub(crate) struct RunFigures {
    pub(crate) run: String,
    pub(crate) plan: String,
    pub(crate) target: String,
    pub(crate) gauges: Gauges,
}

/// Name, kind, help, and the value of a run.
type Metric = (&'static str, &'static str, &'static str, fn(&Gauges) -> f64);

const METRICS: [Metric; 9] = [
    ("fathom_run_iops", "gauge", "I/Os per second in the last interval.", |g| g.iops),
    (
        "fathom_run_bandwidth_bytes_per_second",
        "gauge",
        "Bytes per second in the last interval.",
        |g| g.bandwidth_bytes,
    ),
    ("fathom_run_latency_max_seconds", "gauge", "Largest latency of the last interval.", |g| {
        g.max_ns / 1e9
    }),
    ("fathom_run_ios_total", "counter", "I/Os completed, ramps included.", |g| g.ios as f64),
    ("fathom_run_bytes_total", "counter", "Bytes moved, ramps included.", |g| g.bytes as f64),
    ("fathom_run_errors_total", "counter", "I/Os that failed.", |g| g.errors as f64),
    ("fathom_run_cells_total", "counter", "Cells that ended.", |g| g.cells as f64),
    (
        "fathom_run_left_seconds",
        "gauge",
        "Time still to go if everything is steady at the first chance.",
        |g| g.left_s.unwrap_or(f64::NAN),
    ),
    ("fathom_run_up", "gauge", "1 while the run goes on.", |_| 1.0),
];

/// The whole answer: runs by state, and the figures of those that go on.
pub(crate) fn text(states: &[(String, usize)], runs: &[RunFigures]) -> String {
    let mut out = String::new();
    head(&mut out, "fathom_runs", "gauge", "Run files of the folder by state.");
    for (state, n) in states {
        let _ = writeln!(out, "fathom_runs{{state=\"{}\"}} {n}", escape(state));
    }
    if runs.is_empty() {
        return out;
    }
    for (name, kind, help, value) in METRICS {
        head(&mut out, name, kind, help);
        for run in runs {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(run), number(value(&run.gauges)));
        }
    }
    let name = "fathom_run_latency_seconds";
    head(&mut out, name, "gauge", "Percentiles of the latency in the last interval.");
    for run in runs {
        for (quantile, ns) in
            ["0.5", "0.99", "0.999", "0.9999"].iter().zip(run.gauges.percentiles_ns)
        {
            let labels = labels(run);
            let value = number(ns / 1e9);
            let _ = writeln!(out, "{name}{{{labels},quantile=\"{quantile}\"}} {value}");
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels(run: &RunFigures) -> String {
    let all = [("run", &run.run), ("plan", &run.plan), ("target", &run.target)];
    all.map(|(name, value)| format!("{name}=\"{}\"", escape(value))).join(",")
}

/// In a label backslash, quote and line feed stand behind a backslash.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value.is_nan() { "NaN".into() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hold_whatever_a_drive_is_called() {
        let run = RunFigures {
            run: "a.fathom".into(),
            plan: "quick".into(),
            target: "mo\"del\\ \n} 1".into(),
            gauges: Gauges { iops: 1.5, max_ns: f64::NAN, ..Gauges::default() },
        };
        let text = text(&[("done".into(), 3)], &[run]);
        assert!(text.contains("fathom_runs{state=\"done\"} 3\n"));
        let labels = r#"{run="a.fathom",plan="quick",target="mo\"del\\ \n} 1"}"#;
        assert!(text.contains(&format!("fathom_run_iops{labels} 1.5\n")), "{text}");
        assert!(text.contains(&format!("fathom_run_latency_max_seconds{labels} NaN\n")));
        for line in text.lines() {
            assert!(line.starts_with("# ") || line.starts_with("fathom_"), "{line}");
        }
    }
}
