//! A sweep over two axes: tables, 2D and 3D plots, and where the axes are workers and depth the figures of
//! demand.

use super::figure;
use super::points::Point;
use super::sweeps::{
    BANDWIDTH, CPU, FIVE_NINES, IOPS, LARGEST, MEAN, SYSTEM, Shown, axis_of, label_of, size, up,
    values,
};
use crate::chart::{Axis, Chart, Columns, Grid, Series, Side, Style, Unit};
use crate::page::{Block, Field, Section, Sheet};
use base::units::format_rate;

/// Points by the values of two axes: the outer one gives columns and series, the inner one lines and places.
pub(super) struct Crossed<'p> {
    points: &'p [Point],
    outer: String,
    inner: String,
    columns: Vec<String>,
    lines: Vec<String>,
}

impl<'p> Crossed<'p> {
    /// There is a point, and each has two axes.
    pub(super) fn of(points: &'p [Point]) -> Crossed<'p> {
        let [outer, inner] = [0, 1].map(|n| points[0].coordinates[n].0.clone());
        let (columns, lines) = (values(points, &outer), values(points, &inner));
        Crossed { points, outer, inner, columns, lines }
    }

    fn at(&self, column: &str, line: &str) -> Option<&'p Point> {
        let fits =
            |p: &&Point| p.at(&self.outer) == Some(column) && p.at(&self.inner) == Some(line);
        self.points.iter().find(fits)
    }

    /// All tables and figures.
    pub(super) fn add(&self, section: &mut Section, what: &str, latency: bool) {
        let is_demand = |axis: &String| ["depth", "workers"].contains(&axis.as_str());
        let demand = is_demand(&self.outer) && is_demand(&self.inner);
        let mut shown: Vec<&Shown> = vec![&IOPS];
        if self.points.iter().any(|p| p.bandwidth > 0.0) && !demand {
            shown.push(&BANDWIDTH);
        }
        if latency || demand {
            shown.extend([&MEAN, &FIVE_NINES, &LARGEST]);
        }
        if demand {
            let sampled = self.points.iter().any(|point| point.host_system.is_some());
            shown.push(if sampled { &SYSTEM } else { &CPU });
        }
        for shown in shown {
            section.add(Block::Table(self.table(shown, what)));
            if shown.unit != Unit::Percent {
                figure(section, self.plot(shown, what));
            }
            figure(section, self.solid(shown, what));
        }
        if demand {
            figure(section, self.intensity(what));
            figure(section, self.outstanding(what));
            figure(section, self.map(what));
        }
    }

    fn table(&self, shown: &Shown, what: &str) -> Sheet {
        let row = |line: &String| {
            let mut row = vec![Field::text(line)];
            let get = |column: &String| (shown.field)(self.at(column, line).and_then(shown.get));
            row.extend(self.columns.iter().map(get));
            row
        };
        let (inner, outer) = (&self.inner, &self.outer);
        Sheet {
            title: format!(
                "{}: {what}; {} down, {} across",
                shown.table,
                label_of(inner),
                label_of(outer)
            ),
            head: std::iter::once(format!("{inner} \\ {outer}"))
                .chain(self.columns.clone())
                .collect(),
            rows: self.lines.iter().map(row).collect(),
        }
    }

    fn title(&self, shown: &Shown, what: &str) -> String {
        format!("{} by {} and {}: {what}", shown.name, self.inner, self.outer)
    }

    fn plot(&self, shown: &Shown, what: &str) -> Chart {
        let (x, places) = axis_of(&self.inner, &self.lines);
        let series = self.columns.iter().enumerate().map(|(n, column)| {
            let point =
                |(x, line): (&f64, &String)| Some((*x, (shown.get)(self.at(column, line)?)?));
            let line = places.iter().zip(&self.lines).filter_map(point).collect();
            Series::new(&format!("{} {column}", self.outer), Style::Marked, n, line)
        });
        Chart {
            title: self.title(shown, what),
            note: String::new(),
            x,
            y: up(shown, self.points),
            y2: None,
            series: series.collect(),
            marks: Vec::new(),
        }
    }

    fn solid(&self, shown: &Shown, what: &str) -> Columns {
        let value = |back: &String, across: &String| {
            self.at(back, across).and_then(shown.get).unwrap_or(f64::NAN)
        };
        let row = |back: &String| self.lines.iter().map(|across| value(back, across)).collect();
        Columns {
            title: format!("3D: {}", self.title(shown, what)),
            note: "The table above has the values.".into(),
            across: (label_of(&self.inner).to_owned(), self.lines.clone()),
            back: (label_of(&self.outer).to_owned(), self.columns.clone()),
            height: shown.name.into(),
            unit: shown.unit,
            values: self.columns.iter().map(row).collect(),
        }
    }

    fn intensity(&self, what: &str) -> Chart {
        let series = self.columns.iter().enumerate().map(|(n, column)| {
            let point = |line: &String| {
                self.at(column, line).and_then(|point| Some((point.iops, point.mean_ns?)))
            };
            let line = self.lines.iter().filter_map(point).collect();
            Series::new(&format!("{} {column}", self.outer), Style::Marked, n, line)
        });
        Chart {
            title: format!("Demand intensity, mean latency against IOPS: {what}"),
            note: format!("Points of a line are values of {}, from small to large.", self.inner),
            x: Axis::linear("IOPS", Unit::Plain),
            y: Axis::log("mean latency (ART)", Unit::Nanos),
            y2: None,
            series: series.collect(),
            marks: Vec::new(),
        }
    }

    fn outstanding(&self, what: &str) -> Chart {
        let all = |p: &Point| Some(size(p.at("workers")?)? * size(p.at("depth")?)?);
        let of = |p: &Point| Some((all(p)?, p.iops, p.mean_ns.unwrap_or(f64::NAN)));
        let mut total: Vec<(f64, f64, f64)> = self.points.iter().filter_map(of).collect();
        total.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rates = total.iter().map(|t| (t.0, t.1)).collect();
        let latencies = total.iter().map(|t| (t.0, t.2)).collect();
        Chart {
            title: format!("IOPS and mean latency over all outstanding I/Os: {what}"),
            note: "Outstanding I/Os are workers x depth.".into(),
            x: Axis::log("outstanding I/Os", Unit::Plain),
            y: Axis::linear("IOPS", Unit::Plain),
            y2: Some(Axis::log("mean latency (ART)", Unit::Nanos)),
            series: vec![
                Series::new("IOPS", Style::Points, 0, rates),
                Series::new("mean latency", Style::Points, 1, latencies).on_the_right(),
            ],
            marks: Vec::new(),
        }
    }

    fn map(&self, what: &str) -> Grid {
        let rate = |column: &String, line: &String| self.at(column, line).map(|point| point.iops);
        let value = |c: &String, l: &String| rate(c, l).unwrap_or(f64::NAN);
        let words = |c: &String, l: &String| rate(c, l).map_or_else(String::new, format_rate);
        let columns = self.columns.iter();
        Grid {
            title: format!("Map of IOPS: {what}"),
            note: String::new(),
            columns: Side::named(label_of(&self.inner), self.lines.clone()),
            rows: Side::named(label_of(&self.outer), self.columns.clone()),
            values: columns
                .clone()
                .map(|c| self.lines.iter().map(|l| value(c, l)).collect())
                .collect(),
            texts: columns.map(|c| self.lines.iter().map(|l| words(c, l)).collect()).collect(),
            log: false,
            meaning: "IOPS".into(),
            points: None,
            lanes: Vec::new(),
            marks: Vec::new(),
        }
    }
}
