//! Columns over two axes, seen from above: the 3D plot of the PTS.

use super::scale::{Scale, Span, Unit};
use super::svg::{WIDTH, escape, head, text};
use serde::Serialize;
use std::fmt::Write as _;

/// Columns on a floor of fields.
#[derive(Clone, Debug, Serialize)]
pub struct Columns {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Name of the axis to the right, and its values from the left.
    pub across: (String, Vec<String>),
    /// Name of the axis to the back, and its values from the front.
    pub back: (String, Vec<String>),
    /// Name of the height.
    pub height: String,
    /// What heights are.
    pub unit: Unit,
    /// `values[back][across]`; NaN is a field without a column.
    pub values: Vec<Vec<f64>>,
}

const HEIGHT: f64 = 470.0;
const FRONT: (f64, f64) = (96.0, 385.0);
const ACROSS: (f64, f64) = (500.0, 26.0);
const BACK: (f64, f64) = (200.0, -120.0);
const UP: f64 = 210.0;

impl Columns {
    /// The picture; `id` is not used by another in the same page.
    pub fn svg(&self, id: &str) -> String {
        let mut out = head(id, HEIGHT, &self.title, &self.note);
        out.push_str(&text(24.0, 20.0, "title", "start", &self.title));
        let highest = self.values.iter().flatten().copied().filter(|v| v.is_finite());
        let top = highest.fold(0.0, f64::max).max(1e-9);
        let up = Span { scale: Scale::Linear, from: 0.0, to: top * 1.05 };
        self.walls(&mut out, &up);
        self.floor(&mut out);
        // From the back to the front, so that what is near hides what is far.
        for back in (0..self.values.len()).rev() {
            for across in 0..self.values[back].len() {
                self.column(&mut out, across, back, &up);
            }
        }
        out.push_str("</svg>");
        out
    }

    fn counts(&self) -> (f64, f64) {
        (self.across.1.len().max(1) as f64, self.back.1.len().max(1) as f64)
    }

    /// A place on the picture from shares of the axes.
    fn at(across: f64, back: f64, up: f64) -> (f64, f64) {
        (
            FRONT.0 + across * ACROSS.0 + back * BACK.0,
            FRONT.1 + across * ACROSS.1 + back * BACK.1 - up * UP,
        )
    }

    fn walls(&self, out: &mut String, up: &Span) {
        for (value, label) in up.ticks(self.unit, 6) {
            let Some(share) = up.share(value) else { continue };
            let [a, b, c] =
                [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)].map(|(x, z)| Columns::at(x, z, share));
            let _ = write!(
                out,
                "<path class=\"rule\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}\"/>",
                a.0, a.1, b.0, b.1, c.0, c.1
            );
            out.push_str(&text(a.0 - 7.0, a.1 + 4.0, "", "end", &label));
        }
        let middle = Columns::at(0.0, 0.0, 0.5);
        let _ = write!(
            out,
            "<text class=\"soft\" text-anchor=\"middle\" transform=\"translate(14 {:.1}) \
             rotate(-90)\">{}</text>",
            middle.1,
            escape(&self.height)
        );
    }

    fn floor(&self, out: &mut String) {
        let (across, back) = self.counts();
        let [a, b, c, d] =
            [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)].map(|(x, z)| Columns::at(x, z, 0.0));
        let _ = write!(
            out,
            "<path class=\"frame\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z\"/>",
            a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1
        );
        for (n, name) in self.across.1.iter().enumerate() {
            let (x, y) = Columns::at((n as f64 + 0.5) / across, 0.0, 0.0);
            out.push_str(&text(x, y + 18.0, "", "middle", name));
        }
        for (n, name) in self.back.1.iter().enumerate() {
            let (x, y) = Columns::at(1.0, (n as f64 + 0.5) / back, 0.0);
            out.push_str(&text(x + 9.0, y + 5.0, "", "start", name));
        }
        let (x, y) = Columns::at(0.5, 0.0, 0.0);
        out.push_str(&text(x, y + 44.0, "soft", "middle", &self.across.0));
        let (x, y) = Columns::at(1.0, 0.5, 0.0);
        out.push_str(&text(x + 70.0, y + 24.0, "soft", "start", &self.back.0));
    }

    fn column(&self, out: &mut String, across: usize, back: usize, up: &Span) {
        const SIDE: f64 = 0.7;
        let value = self.values[back][across];
        let Some(share) = up.share(value).filter(|_| value.is_finite()) else { return };
        let (n, m) = self.counts();
        let edge = (1.0 - SIDE) / 2.0;
        let (x0, x1) = ((across as f64 + edge) / n, (across as f64 + edge + SIDE) / n);
        let (z0, z1) = ((back as f64 + edge) / m, (back as f64 + edge + SIDE) / m);
        let face = |points: [(f64, f64, f64); 4], shade: f64| {
            let [a, b, c, d] = points.map(|(x, z, y)| Columns::at(x, z, y));
            format!(
                "<path style=\"opacity:{shade}\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}z\"/>",
                a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1
            )
        };
        let _ = write!(
            out,
            "<g class=\"c{}\" fill=\"currentColor\" stroke=\"var(--bg)\" stroke-width=\".5\"><title>{}</title>",
            back % 8,
            escape(&format!(
                "{} {}, {} {}: {}",
                self.across.0,
                self.across.1[across],
                self.back.0,
                self.back.1[back],
                self.unit.label(value)
            ))
        );
        // The faces that are seen: right, front, top. A white ground under them lets shades be shades.
        let right = [(x1, z0, 0.0), (x1, z1, 0.0), (x1, z1, share), (x1, z0, share)];
        let front = [(x0, z0, 0.0), (x1, z0, 0.0), (x1, z0, share), (x0, z0, share)];
        let top = [(x0, z0, share), (x1, z0, share), (x1, z1, share), (x0, z1, share)];
        for (points, shade) in [(right, 0.62), (front, 0.85), (top, 1.0)] {
            out.push_str(&face(points, 1.0).replace("<path", "<path fill=\"var(--bg)\""));
            out.push_str(&face(points, shade));
        }
        out.push_str("</g>");
    }
}

/// Room for the labels must be left on the picture.
const _: () = assert!(FRONT.0 + ACROSS.0 + BACK.0 < WIDTH - 80.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_column_with_its_name() {
        let columns = Columns {
            title: "t".into(),
            note: String::new(),
            across: ("block".into(), vec!["4k".into(), "8k".into()]),
            back: ("read".into(), vec!["0".into(), "100".into()]),
            height: "IOPS".into(),
            unit: Unit::Plain,
            values: vec![vec![1000.0, 500.0], vec![f64::NAN, 250.0]],
        };
        let svg = columns.svg("c");
        assert!(svg.contains("<title>block 4k, read 0: 1k</title>"));
        assert_eq!(svg.matches("<title>block").count(), 3);
        assert!(!svg.contains("NaN"));
    }
}
