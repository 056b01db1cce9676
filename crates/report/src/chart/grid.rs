//! A map of coloured fields: latencies over time, or figures over two axes.

use super::scale::{Scale, Span, Unit};
use super::svg::{LETTER, WIDTH, escape, head, text};
use super::{Series, thin};
use serde::Serialize;
use std::fmt::Write as _;

/// A map. Rows go up, columns across.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Across.
    pub columns: Side,
    /// Up.
    pub rows: Side,
    /// `values[row][column]`; NaN is a field without a colour.
    pub values: Vec<Vec<f64>>,
    /// Text in each field, the same shape; empty: none.
    pub texts: Vec<Vec<String>>,
    /// Whether colours stand for the logarithm.
    pub log: bool,
    /// What a colour stands for.
    pub meaning: String,
    /// Points on top of it: name, and (x, y) in the axes' values.
    pub points: Option<(String, Vec<(f64, f64)>)>,
    /// Lines below it, on the same axis across.
    pub lanes: Vec<Lane>,
    /// Words below it, each at a place across.
    pub marks: Vec<(f64, String)>,
}

/// Lines on the axis across of a map, with a scale of their own.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// What their values are.
    pub unit: Unit,
    /// The lines.
    pub lines: Vec<Series>,
}

/// An axis of a map.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Its name.
    pub label: String,
    /// Names of the rows or columns; empty where they are a range.
    pub names: Vec<String>,
    /// The range that they divide evenly.
    pub range: (f64, f64),
    /// What its values are.
    pub unit: Unit,
    /// How they are spaced.
    pub scale: Scale,
}

const LEFT: f64 = 78.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 22.0;
const BOTTOM: f64 = 76.0;
/// Height of a lane, and between two.
const LANE: f64 = 46.0;
const GAP: f64 = 22.0;
/// Height of a line of words.
const WORDS: f64 = 15.0;
/// Lines of words at most.
const WORD_LINES: usize = 4;

/// From dark to light, even steps in lightness, readable without colours too.
pub(super) fn color(share: f64) -> String {
    const STOPS: [[f64; 3]; 5] = [
        [68.0, 1.0, 84.0],
        [59.0, 82.0, 139.0],
        [33.0, 145.0, 140.0],
        [94.0, 201.0, 98.0],
        [253.0, 231.0, 37.0],
    ];
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at.floor() as usize).min(STOPS.len() - 2);
    let mix = |i: usize| STOPS[low][i] + (STOPS[low + 1][i] - STOPS[low][i]) * (at - low as f64);
    format!("#{:02x}{:02x}{:02x}", mix(0) as u8, mix(1) as u8, mix(2) as u8)
}

impl Grid {
    /// The picture; `id` is not used by another in the same page.
    pub fn svg(&self, id: &str) -> String {
        let rows = self.values.len().max(1) as f64;
        let plot_height = if self.texts.is_empty() { 270.0 } else { (rows * 30.0).max(90.0) };
        let plot_width = WIDTH - LEFT - RIGHT;
        let below = self.lanes.len() as f64 * (LANE + GAP) + self.word_lines(plot_width) * WORDS;
        let height = TOP + plot_height + below + BOTTOM;
        let mut out = head(id, height, &self.title, &self.note);
        out.push_str(&text(LEFT, 20.0, "title", "start", &self.title));
        let _ = write!(
            out,
            "<clipPath id=\"{id}-c\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{plot_width}\" \
             height=\"{plot_height}\"/></clipPath><g clip-path=\"url(#{id}-c)\"><g class=\"plot\">"
        );
        let share = self.shares();
        self.fields(&mut out, plot_width, plot_height, &share);
        if let Some((_, points)) = &self.points {
            out.push_str("<g class=\"s c1\" data-s=\"0\">");
            let spans = (self.columns.span(), self.rows.span());
            let mut d = String::new();
            for (x, y) in points {
                if let (Some(x), Some(y)) = (spans.0.share(*x), spans.1.share(*y)) {
                    let _ = write!(
                        d,
                        "M{:.1} {:.1}h0",
                        LEFT + x * plot_width,
                        TOP + (1.0 - y) * plot_height
                    );
                }
            }
            let _ = write!(out, "<path class=\"p\" style=\"stroke-width:4\" d=\"{d}\"/></g>");
        }
        out.push_str("</g></g>");
        self.lanes(&mut out, id, (plot_width, TOP + plot_height));
        self.labels(&mut out, plot_width, plot_height, below);
        self.key(&mut out, height);
        out.push_str("</svg>");
        out
    }

    /// Gives the colour's place for a value.
    fn shares(&self) -> impl Fn(f64) -> f64 + use<> {
        let log = self.log;
        let place = move |v: f64| if log { v.max(1e-300).ln() } else { v };
        let all = self.values.iter().flatten().copied().filter(|v| v.is_finite());
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = (place(low), place(high));
        move |v| if high > low { (place(v) - low) / (high - low) } else { 0.5 }
    }

    fn fields(&self, out: &mut String, width: f64, height: f64, share: &dyn Fn(f64) -> f64) {
        let row_height = height / self.values.len().max(1) as f64;
        for (row, values) in self.values.iter().enumerate() {
            let column_width = width / values.len().max(1) as f64;
            let y = TOP + height - (row + 1) as f64 * row_height;
            let mut column = 0;
            while column < values.len() {
                let value = values[column];
                // Neighbours of one colour are one field.
                let fill = color(share(value));
                let mut end = column + 1;
                while self.texts.is_empty()
                    && end < values.len()
                    && (values[end].is_nan() == value.is_nan())
                    && (value.is_nan() || color(share(values[end])) == fill)
                {
                    end += 1;
                }
                if value.is_finite() {
                    let x = LEFT + column as f64 * column_width;
                    let w = (end - column) as f64 * column_width;
                    let _ = write!(
                        out,
                        "<path fill=\"{fill}\" d=\"M{x:.1} {y:.1}h{:.1}v{:.1}h-{:.1}z\"/>",
                        w + 0.1,
                        row_height + 0.1,
                        w + 0.1
                    );
                    if let Some(words) = self.texts.get(row).and_then(|r| r.get(column)) {
                        let dark = share(value) > 0.55;
                        let _ = write!(
                            out,
                            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                             style=\"fill:{}\">{}</text>",
                            x + w / 2.0,
                            y + row_height / 2.0 + 4.0,
                            if dark { "#111" } else { "#fff" },
                            escape(words)
                        );
                    }
                }
                column = end;
            }
        }
    }

    /// The lanes below the map, then the words, each with a line up through all of it.
    fn lanes(&self, out: &mut String, id: &str, (width, top): (f64, f64)) {
        let across = self.columns.span();
        let mut y = top;
        for lane in &self.lanes {
            y += GAP;
            let clip = format!("{id}-l{y:.0}");
            lane.draw(out, &across, (width, y), &clip);
            y += LANE;
        }
        for ((at, words), line) in self.marks.iter().zip(self.places(width)) {
            let (Some(share), Some(line)) = (across.share(*at), line) else { continue };
            let (x, line) = (LEFT + share * width, (line + 1) as f64 * WORDS);
            let (anchor, side) = if share > 0.7 { ("end", -4.0) } else { ("start", 4.0) };
            let _ = write!(
                out,
                "<g data-at=\"{at:.3}\"><path class=\"mark\" d=\"M{x:.1} {TOP}V{:.1}\"/>{}</g>",
                y + line,
                text(x + side, y + line, "soft", anchor, words)
            );
        }
    }

    /// In which line each word stands, so that none lies on another; none where there is no room.
    fn places(&self, width: f64) -> Vec<Option<usize>> {
        let across = self.columns.span();
        let mut ends = [(f64::INFINITY, f64::NEG_INFINITY); WORD_LINES];
        let mut place = |(at, words): &(f64, String)| {
            let share = across.share(*at)?;
            let (x, long) = (share * width, words.chars().count() as f64 * LETTER + 12.0);
            let (from, to) = if share > 0.7 { (x - long, x) } else { (x, x + long) };
            let free = |(low, high): &(f64, f64)| to <= *low || from >= *high;
            let line = ends.iter().position(free)?;
            ends[line] = (ends[line].0.min(from), ends[line].1.max(to));
            Some(line)
        };
        self.marks.iter().map(&mut place).collect()
    }

    fn word_lines(&self, width: f64) -> f64 {
        self.places(width).into_iter().flatten().max().map_or(0.0, |line| (line + 1) as f64)
    }

    fn labels(&self, out: &mut String, width: f64, height: f64, below: f64) {
        let bottom = TOP + height;
        out.push_str("<g class=\"axis-y\">");
        for (share, label) in self.rows.ticks(8) {
            out.push_str(&text(LEFT - 7.0, bottom - share * height + 4.0, "", "end", &label));
        }
        out.push_str("</g><g class=\"axis-x\">");
        let longest = self.columns.names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
        let most = (width / (longest as f64 * LETTER + 10.0)).clamp(2.0, 64.0) as usize;
        for (share, label) in self.columns.ticks(if longest > 0 { most } else { 9 }) {
            let y = bottom + below + 17.0;
            out.push_str(&text(LEFT + share * width, y, "", "middle", &label));
        }
        out.push_str("</g>");
        out.push_str(&text(
            LEFT + width / 2.0,
            bottom + below + 36.0,
            "soft",
            "middle",
            &self.columns.label,
        ));
        let _ = write!(
            out,
            "<rect class=\"frame map\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\"/>\
             <text class=\"soft\" text-anchor=\"middle\" transform=\"translate(14 {:.1}) \
             rotate(-90)\">{}</text>",
            TOP + height / 2.0,
            escape(&self.rows.label)
        );
    }

    /// What the colours mean.
    fn key(&self, out: &mut String, height: f64) {
        let y = height - 22.0;
        let all = self.values.iter().flatten().copied().filter(|v| v.is_finite());
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if low > high {
            return;
        }
        for n in 0..40 {
            let x = LEFT + f64::from(n) * 4.0;
            let fill = color(f64::from(n) / 39.0);
            let _ = write!(out, "<path fill=\"{fill}\" d=\"M{x:.1} {y:.1}h4.1v10h-4.1z\"/>");
        }
        let label = |v| Unit::Plain.label(v);
        let words = format!("{}: {} to {}", self.meaning, label(low), label(high));
        out.push_str(&text(LEFT + 168.0, y + 9.0, "soft", "start", &words));
        if let Some((name, _)) = &self.points {
            let x = LEFT + 184.0 + words.chars().count() as f64 * LETTER;
            let _ = write!(
                out,
                "<g class=\"s c1\"><path class=\"p\" d=\"M{x:.1} {:.1}h0\"/></g>",
                y + 5.0
            );
            out.push_str(&text(x + 8.0, y + 9.0, "soft", "start", name));
        }
    }
}

impl Lane {
    fn draw(&self, out: &mut String, across: &Span, (width, top): (f64, f64), clip: &str) {
        let all = self.lines.iter().flat_map(|line| &line.y).copied().filter(|v| v.is_finite());
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = if low < high { (low, high) } else { (low - 1.0, low + 1.0) };
        let up = |v: f64| top + LANE - 3.0 - (v - low) / (high - low) * (LANE - 6.0);
        let _ = write!(
            out,
            "<clipPath id=\"{clip}\"><rect x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" \
             height=\"{LANE}\"/></clipPath><g clip-path=\"url(#{clip})\"><g class=\"plot\">"
        );
        for line in &self.lines {
            let mut d = String::new();
            let (from, to) = (across.from, across.to);
            for (x, y) in thin(&line.x, &line.y, from, to, width as usize) {
                let x = across.share(x).filter(|x| y.is_finite() && (0.0..=1.0).contains(x));
                let Some(x) = x else { continue };
                let pen = if d.is_empty() { 'M' } else { 'L' };
                let _ = write!(d, "{pen}{:.1} {:.1}", LEFT + x * width, up(y));
            }
            let color = line.color;
            let _ = write!(out, "<g class=\"s c{color}\"><path class=\"l\" d=\"{d}\"/></g>");
        }
        out.push_str("</g></g>");
        let mut key = LEFT;
        for line in &self.lines {
            let (color, y) = (line.color, top - 8.0);
            let _ = write!(
                out,
                "<g class=\"s c{color}\"><path class=\"p\" d=\"M{:.1} {y:.1}h0\"/></g>",
                key + 4.0
            );
            out.push_str(&text(key + 12.0, y + 4.0, "soft", "start", &line.name));
            key += 30.0 + line.name.chars().count() as f64 * LETTER;
        }
        let _ = write!(
            out,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{LANE}\"/>"
        );
        out.push_str(&text(LEFT - 7.0, top + 11.0, "", "end", &self.unit.label(high)));
        out.push_str(&text(LEFT - 7.0, top + LANE - 2.0, "", "end", &self.unit.label(low)));
    }
}

impl Side {
    /// An axis of names.
    pub fn named(label: &str, names: Vec<String>) -> Side {
        let range = (0.0, names.len() as f64);
        Side { label: label.into(), names, range, unit: Unit::Plain, scale: Scale::Linear }
    }

    fn span(&self) -> Span {
        Span { scale: self.scale, from: self.range.0, to: self.range.1 }
    }

    /// Places as shares of the length, with labels.
    fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if self.names.is_empty() {
            let span = self.span();
            let ticks = span.ticks(self.unit, most).into_iter();
            return ticks.filter_map(|(v, label)| Some((span.share(v)?, label))).collect();
        }
        let n = self.names.len() as f64;
        let every = self.names.len().div_ceil(most.max(1)).max(1);
        let named = self.names.iter().enumerate().step_by(every);
        named.map(|(i, name)| ((i as f64 + 0.5) / n, name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_text_and_colours_go_from_dark_to_light() {
        let grid = Grid {
            title: "IOPS".into(),
            note: String::new(),
            columns: Side::named("depth", vec!["1".into(), "2".into()]),
            rows: Side::named("workers", vec!["1".into(), "4".into()]),
            values: vec![vec![1.0, 2.0], vec![3.0, f64::NAN]],
            texts: vec![vec!["one".into(), "two".into()], vec!["three".into(), String::new()]],
            log: false,
            meaning: "IOPS".into(),
            points: None,
            lanes: Vec::new(),
            marks: Vec::new(),
        };
        let svg = grid.svg("g");
        assert!(["one", "two", "three"].iter().all(|word| svg.contains(&format!(">{word}<"))));
        assert_eq!(color(0.0), "#440154");
        assert_eq!(color(1.0), "#fde725");
        assert!(!svg.contains("NaN"));
    }
}
