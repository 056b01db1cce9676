//! One description of a chart, drawn as SVG: the same picture on paper and in the page, where a script
//! moves it about.

mod columns;
mod grid;
mod scale;
mod svg;
mod thin;

pub use columns::Columns;
pub use grid::{Grid, Lane, Side};
pub use scale::{Scale, Unit};
pub(crate) use svg::escape;
pub(crate) use thin::thin;

use serde::Serialize;

/// A picture with axes.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Under it: how to read it.
    pub note: String,
    /// Across.
    pub x: Axis,
    /// Up, to the left.
    pub y: Axis,
    /// Up, to the right.
    pub y2: Option<Axis>,
    /// What is drawn, in this order.
    pub series: Vec<Series>,
    /// Lines and bands with a word.
    pub marks: Vec<Mark>,
}

/// A direction of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Its name, with the unit where the unit of its labels does not say it.
    pub label: String,
    /// What its values are.
    pub unit: Unit,
    /// How they are spaced.
    pub scale: Scale,
    /// Names of the values 0, 1, 2 ...; empty for an axis of numbers.
    pub names: Vec<String>,
    /// Whether zero must be on it (linear scales only).
    pub zero: bool,
    /// From and to, where the data do not say it.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis from zero.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis {
            label: label.into(),
            unit,
            scale: Scale::Linear,
            names: Vec::new(),
            zero: true,
            range: None,
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str, unit: Unit) -> Axis {
        Axis { scale: Scale::Log, zero: false, ..Axis::linear(label, unit) }
    }

    /// An axis of names.
    pub fn named(label: &str, names: Vec<String>) -> Axis {
        let range = Some((-0.5, names.len() as f64 - 0.5));
        Axis { names, range, zero: false, ..Axis::linear(label, Unit::Plain) }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A line through its points.
    Line,
    /// A broken line.
    Dashed,
    /// Points alone.
    Points,
    /// A line, its points marked.
    Marked,
    /// Columns from zero, or from the lower edge.
    Bars,
    /// The surface between `low` and the points.
    Band,
}

/// Values of one name.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Number of its colour, see the style sheet.
    pub color: usize,
    /// Whether it belongs to the axis on the right.
    pub right: bool,
    /// Where they stand across; in order.
    pub x: Vec<f64>,
    /// The values; NaN is a gap.
    pub y: Vec<f64>,
    /// Lower edge of a band, or lower end of a whisker; empty: none.
    pub low: Vec<f64>,
    /// Upper end of a whisker; empty: none.
    pub high: Vec<f64>,
}

impl Series {
    /// A series of points.
    pub fn new(name: &str, style: Style, color: usize, points: Vec<(f64, f64)>) -> Series {
        let (x, y) = points.into_iter().unzip();
        Series {
            name: name.into(),
            style,
            color,
            right: false,
            x,
            y,
            low: Vec::new(),
            high: Vec::new(),
        }
    }

    /// The same, on the axis to the right.
    #[must_use]
    pub fn on_the_right(self) -> Series {
        Series { right: true, ..self }
    }
}

/// A line or a band with a word.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The word.
    pub text: String,
    /// Where.
    pub at: Place,
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A line up at this x.
    X(f64),
    /// A line across at this y.
    Y(f64),
    /// A band between two x.
    Span(f64, f64),
}

/// Anything that is drawn in a report.
#[derive(Clone, Debug)]
pub enum Figure {
    /// A picture with axes.
    Chart(Chart),
    /// A map of coloured fields.
    Grid(Grid),
    /// Columns over two axes.
    Columns(Columns),
}

impl Figure {
    /// What it shows.
    pub fn title(&self) -> &str {
        match self {
            Figure::Chart(chart) => &chart.title,
            Figure::Grid(grid) => &grid.title,
            Figure::Columns(columns) => &columns.title,
        }
    }

    /// How to read it.
    pub fn note(&self) -> &str {
        match self {
            Figure::Chart(chart) => &chart.note,
            Figure::Grid(grid) => &grid.note,
            Figure::Columns(columns) => &columns.note,
        }
    }

    /// The picture, as an element for a page; `id` is not used by another there.
    pub fn svg(&self, id: &str) -> String {
        match self {
            Figure::Chart(chart) => chart.svg(id),
            Figure::Grid(grid) => grid.svg(id),
            Figure::Columns(columns) => columns.svg(id),
        }
    }

    /// The picture as a file of its own, with its colours in it.
    pub fn svg_file(&self) -> String {
        let svg = self.svg("figure");
        let at = svg.find('>').map_or(0, |at| at + 1);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}<style>{}</style>{}\n",
            &svg[..at],
            include_str!("chart.css"),
            &svg[at..]
        )
    }
}

impl From<Chart> for Figure {
    fn from(chart: Chart) -> Figure {
        Figure::Chart(chart)
    }
}

impl From<Grid> for Figure {
    fn from(grid: Grid) -> Figure {
        Figure::Grid(grid)
    }
}

impl From<Columns> for Figure {
    fn from(columns: Columns) -> Figure {
        Figure::Columns(columns)
    }
}
