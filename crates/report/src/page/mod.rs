//! What a report says, before it is a page, a text or a workbook.

mod disclosure;
mod headlines;
mod html;
mod json;
mod markdown;
mod summary;

pub use html::html;
pub use json::json;
pub use markdown::markdown;

use crate::chart::Figure;
use crate::figures;
use analysis::Insight;
use store::{RunFile, StoreError};

/// A report.
#[derive(Clone, Debug)]
pub struct Page {
    /// What was measured.
    pub title: String,
    /// One line under it.
    pub lead: String,
    /// What was found.
    pub findings: Vec<Insight>,
    /// Its parts in order.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// 2 for a chapter, 3 for a part of one.
    pub level: u8,
    /// What stands in it.
    pub blocks: Vec<Block>,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, level: u8) -> Section {
        Section { title: title.into(), level, blocks: Vec::new() }
    }

    pub(crate) fn add(&mut self, block: Block) {
        self.blocks.push(block);
    }
}

/// A piece of a report.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Sheet),
    /// A picture.
    Figure(Box<Figure>),
    /// A word that must not be missed.
    Notice(Notice),
}

/// How much a notice weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Good to know, and good.
    Good,
    /// Good to know.
    Note,
    /// Spoils or explains figures.
    Warning,
    /// The figures are not valid.
    Invalid,
}

impl Weight {
    /// As words, for those who do not see colours.
    pub fn word(self) -> &'static str {
        match self {
            Weight::Good => "OK",
            Weight::Note => "Note",
            Weight::Warning => "Warning",
            Weight::Invalid => "Not valid",
        }
    }
}

/// A verdict or a finding.
#[derive(Clone, Debug)]
pub struct Notice {
    /// How much it weighs.
    pub weight: Weight,
    /// In a few words.
    pub title: String,
    /// With its evidence.
    pub text: String,
    /// Title of the figure that shows it.
    pub figure: Option<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// Names of the columns, with units.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<Field>>,
}

/// A field of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Words.
    Text(String),
    /// A value, and how it is shown.
    Number(f64, String),
}

impl Field {
    /// As it is shown.
    pub fn shown(&self) -> &str {
        match self {
            Field::Text(text) | Field::Number(_, text) => text,
        }
    }

    pub(crate) fn text(text: impl Into<String>) -> Field {
        Field::Text(text.into())
    }

    pub(crate) fn iops(value: f64) -> Field {
        Field::Number(value, format!("{value:.0}"))
    }

    /// Bytes a second, shown in MB/s.
    pub(crate) fn bandwidth(value: f64) -> Field {
        Field::Number(value / 1e6, base::units::three_digits(value / 1e6))
    }

    /// Bytes a second, shown in MiB/s.
    pub(crate) fn bandwidth_binary(value: f64) -> Field {
        let mib = value / 1_048_576.0;
        Field::Number(mib, base::units::three_digits(mib))
    }

    /// Nanoseconds, shown in ms with three digits behind the point, as the PTS has it.
    pub(crate) fn millis(ns: Option<f64>) -> Field {
        ns.map_or_else(
            || Field::text("n/a"),
            |ns| Field::Number(ns / 1e6, format!("{:.3}", ns / 1e6)),
        )
    }

    pub(crate) fn percent(value: Option<f64>, digits: usize) -> Field {
        value.map_or_else(|| Field::text("n/a"), |v| Field::Number(v, format!("{v:.digits$}")))
    }
}

/// The report of one run.
///
/// # Errors
/// When its intervals or its telemetry cannot be read.
pub fn page(run: &RunFile) -> Result<Page, StoreError> {
    let (figures, found) = figures::sections(run)?;
    let mut sections = vec![summary::section(run, &figures, &found)];
    sections.extend(figures);
    sections.extend(disclosure::sections(run));
    let target = run.targets.first();
    let model = target.and_then(|t| t["facts"]["model"].as_str()).unwrap_or_default();
    let name = target.and_then(|t| t["name"].as_str()).unwrap_or("no target");
    let title = run.meta("plan_title");
    Ok(Page {
        title: if model.is_empty() { name.to_owned() } else { model.to_owned() },
        lead: format!("{}: {title}", run.meta("plan_name")),
        findings: found,
        sections,
    })
}
