//! Limits that a run must keep, for continuous integration: one a line, such as
//! `p99.99 of 4k-read <= 200us`.

use crate::claims::{result_cells, steady_groups};
use crate::course::felt;
use crate::summary::summarize;
use base::units::{format_latency, format_rate, parse_span};
use store::{CellRecord, RunFile, State};

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    figure: Figure,
    /// Words of the step or of the load's short form.
    of: String,
    most: bool,
    /// I/Os a second, bytes a second, or ns.
    value: f64,
    /// Line of the file, from 1.
    pub line: usize,
    /// As written.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Iops,
    Bandwidth,
    Mean,
    Max,
    Percentile(f64),
}

/// A run that is not valid keeps no limit; none when it is valid.
pub fn invalid_run(run: &RunFile) -> Option<Kept> {
    (run.state != State::Done).then(|| Kept {
        cell: run.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        limit: "the run is valid".into(),
        found: Some(run.state.word().to_owned()),
        kept: false,
    })
}

/// How a limit fared on a cell.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Step and load.
    pub cell: String,
    /// As written.
    pub limit: String,
    /// What was found, with its unit; none where too few samples lie beyond a percentile.
    pub found: Option<String>,
    /// Whether it was kept.
    pub kept: bool,
}

fn figure_of(word: &str) -> Option<Figure> {
    Some(match word {
        "iops" | "IOPS" => Figure::Iops,
        "bandwidth" => Figure::Bandwidth,
        "mean" => Figure::Mean,
        "max" => Figure::Max,
        _ => {
            let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
            Figure::Percentile(Some(percent).filter(|p| (1.0..100.0).contains(p))?)
        }
    })
}

fn value_of(figure: Figure, text: &str) -> Option<f64> {
    match figure {
        Figure::Iops => {
            let (number, times) = match text.char_indices().last()? {
                (at, 'k') => (&text[..at], 1e3),
                (at, 'M') => (&text[..at], 1e6),
                _ => (text, 1.0),
            };
            Some(number.trim().parse::<f64>().ok()? * times)
        }
        Figure::Bandwidth => {
            let units = [("MiB/s", 1_048_576.0), ("GB/s", 1e9), ("MB/s", 1e6)];
            let (unit, times) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
            Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * times)
        }
        // A bare number would be seconds, which nobody means.
        _ if text.ends_with(|c: char| c.is_ascii_digit()) => None,
        _ => Some(parse_span(text).ok()?.0 as f64),
    }
}

/// Reads limits; `#` begins a remark.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_limits(text: &str) -> Result<Vec<Limit>, String> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let plain = line.split('#').next().unwrap_or_default().trim();
        if plain.is_empty() {
            continue;
        }
        all.push(parse_line(plain, at + 1).ok_or_else(|| {
            format!(
                "line {}: `{plain}` is no limit; one is FIGURE of LOAD <= VALUE, such as `p99.99 of 4k-read \
                 <= 200us` or `iops of RND4K read Q32T4 >= 800k`; figures are iops, bandwidth, mean, max \
                 and pNN",
                at + 1
            )
        })?);
    }
    Ok(all)
}

fn parse_line(text: &str, line: usize) -> Option<Limit> {
    let (left, value, most) = match (text.split_once("<="), text.split_once(">=")) {
        (Some((left, value)), None) => (left, value, true),
        (None, Some((left, value))) => (left, value, false),
        _ => return None,
    };
    let (word, of) = left.trim().split_once(" of ")?;
    let figure = figure_of(word.trim())?;
    let value = value_of(figure, value.trim()).filter(|value| *value > 0.0)?;
    let of = of.trim().to_owned();
    (!of.is_empty()).then(|| Limit { figure, of, most, value, line, text: text.to_owned() })
}

impl Limit {
    /// The limit on each result that it names (of rounds those in the window); empty when it names none.
    pub fn judge(&self, run: &RunFile) -> Vec<Kept> {
        let named = |cell: &&CellRecord| {
            let describe = cell.streams.first().map_or("", |stream| stream.describe.as_str());
            let name = format!("{} {} {describe}", cell.path, cell.label);
            name.to_lowercase().contains(&self.of.to_lowercase())
        };
        let cells = result_cells(run, &steady_groups(run));
        cells.into_iter().filter(named).map(|cell| self.on(cell)).collect()
    }

    fn on(&self, cell: &CellRecord) -> Kept {
        let summary = summarize(cell);
        let hist = felt(&cell.merged());
        let found = match self.figure {
            Figure::Iops => Some(summary.iops),
            Figure::Bandwidth => Some(summary.bandwidth_bytes),
            Figure::Mean => hist.mean_ns(),
            Figure::Max => hist.max_ns().map(|ns| ns as f64),
            Figure::Percentile(percent) => hist.percentile_ns(percent).map(|ns| ns as f64),
        };
        let shown = |value: f64| match self.figure {
            Figure::Iops => format!("{} IOPS", format_rate(value)),
            Figure::Bandwidth => format!("{:.1} MB/s", value / 1e6),
            _ => format_latency(value),
        };
        let keeps = |value: f64| if self.most { value <= self.value } else { value >= self.value };
        Kept {
            cell: format!("{} {}", cell.path, cell.label).trim_end().to_owned(),
            limit: self.text.clone(),
            found: found.map(shown),
            kept: found.is_some_and(keeps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_read_and_mistakes_named_with_their_line() {
        let text = "# service\np99.99 of 4k-read <= 200us\n\niops of RND4K read >= 800k # enough\n\
                    bandwidth of seq >= 3.2GB/s\n";
        let all = parse_limits(text).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(
            (all[0].figure, all[0].value, all[0].most),
            (Figure::Percentile(99.99), 2e5, true)
        );
        assert_eq!((all[1].of.as_str(), all[1].value, all[1].most), ("RND4K read", 8e5, false));
        assert_eq!(all[2].value, 3.2e9);
        for bad in [
            "p99 of x < 2us",
            "p101 of x <= 2us",
            "iops of  >= 2",
            "mean of x <= 2",
            "speed of x <= 1",
        ] {
            let error = parse_limits(&format!("\n{bad}")).unwrap_err();
            assert!(error.starts_with("line 2: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}") {
            let _ = parse_limits(&text);
        }

        #[test]
        fn no_near_limit_is_a_panic(text in "(p[0-9.]{0,6}|iops|mean|bandwidth) ?(of)? ?[a-z ]{0,6} ?[<>]?=? ?[0-9.]{0,5}[a-zA-Z/]{0,5}") {
            let _ = parse_limits(&text);
        }
    }
}
