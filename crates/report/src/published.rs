//! Figures that others published, beside those of a run. They are quotations and marked as such.

use crate::page::{Field, Sheet};
use analysis::{felt, summarize};
use serde::Deserialize;
use store::RunFile;

/// Published figures that ship with the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    source: Vec<Source>,
    /// Drives, and configurations of drives.
    pub drive: Vec<Drive>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    id: String,
    title: String,
    platform: String,
}

/// A drive in one configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Model and configuration.
    pub name: String,
    source: String,
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    load: String,
    iops: Option<f64>,
    mean_us: Option<f64>,
    p99_us: Option<f64>,
    p99_99_us: Option<f64>,
}

impl Published {
    /// All that ship.
    ///
    /// # Errors
    /// When the file that ships is damaged.
    pub fn all() -> Result<Published, String> {
        toml::from_str(include_str!("../data/published.toml")).map_err(|error| error.to_string())
    }

    /// The drive whose name has these words.
    pub fn find(&self, words: &str) -> Option<&Drive> {
        let words = words.to_lowercase();
        let exact = self.drive.iter().find(|drive| drive.name.to_lowercase() == words);
        exact.or_else(|| self.drive.iter().find(|drive| drive.name.to_lowercase().contains(&words)))
    }

    /// The loads that run and drive have in common; the last row says whose figures they are.
    pub fn beside(&self, run: &RunFile, drive: &Drive) -> Sheet {
        let mut rows = Vec::new();
        for point in &drive.points {
            let same = |cell: &&store::CellRecord| {
                let load = cell.streams.first().map(|stream| stream.describe.as_str());
                cell.counted && cell.status == "done" && load == Some(point.load.as_str())
            };
            let Some(cell) = run.cells.iter().rfind(same) else { continue };
            let hist = felt(&cell.merged());
            let us = |percent| hist.percentile_ns(percent).map(|ns| ns as f64 / 1e3);
            for (name, quoted, found) in [
                ("IOPS", point.iops, Some(summarize(cell).iops)),
                ("mean, us", point.mean_us, hist.mean_ns().map(|ns| ns / 1e3)),
                ("p99, us", point.p99_us, us(99.0)),
                ("p99.99, us", point.p99_99_us, us(99.99)),
            ] {
                let (Some(quoted), Some(found)) = (quoted, found) else { continue };
                let percent = (found / quoted - 1.0) * 100.0;
                let number = |v: f64| Field::Number(v, base::units::three_digits(v));
                let whole = |v: f64| if v >= 1e3 { Field::iops(v) } else { number(v) };
                rows.push(vec![
                    Field::text(&point.load),
                    Field::text(name),
                    whole(found),
                    whole(quoted),
                    Field::Number(percent, format!("{percent:+.1}")),
                ]);
            }
        }
        let source = self.source.iter().find(|source| source.id == drive.source);
        let source = source.map_or_else(String::new, |s| format!("{} ({})", s.title, s.platform));
        Sheet {
            title: format!("Quoted, not measured here: {}; {source}", drive.name),
            head: ["load", "figure", "this run", "quoted", "difference, %"]
                .map(String::from)
                .to_vec(),
            rows,
        }
    }
}
