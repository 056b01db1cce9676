//! Draws a chart. The picture is whole without a script; one may move what is in the group `plot`.

use super::scale::{Scale, Span};
use super::thin::thin;
use super::{Axis, Chart, Place, Series, Style};
use std::fmt::Write as _;

/// Size of a picture.
pub(super) const WIDTH: f64 = 900.0;
const PLOT_HEIGHT: f64 = 270.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 22.0;
const RIGHT_AXIS: f64 = 78.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;
const LEGEND_LINE: f64 = 20.0;
/// Width of a letter, roughly.
pub(super) const LETTER: f64 = 6.9;

/// Text for XML, so that nothing in it is markup. Characters that XML does not know are left out.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(' '),
            c if c < ' ' || matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// The head of a picture: size, name and description for those who do not see it.
pub(super) fn head(id: &str, height: f64, title: &str, note: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title>\
         <desc id=\"{id}-d\">{}</desc>",
        escape(title),
        escape(note)
    )
}

pub(super) fn text(x: f64, y: f64, class: &str, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>",
        escape(text)
    )
}

/// Where the plot stands on the picture, and what its axes span.
struct Layout {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Span,
    y: Span,
    y2: Option<Span>,
}

impl Layout {
    /// The ranges of the axes, for the script.
    fn spans(&self) -> String {
        let mut text = format!(
            " data-x=\"{} {}\" data-y=\"{} {}\"",
            self.x.from, self.x.to, self.y.from, self.y.to
        );
        if let Some(y2) = &self.y2 {
            let _ = write!(text, " data-y2=\"{} {}\"", y2.from, y2.to);
        }
        text
    }

    fn px(&self, x: f64) -> Option<f64> {
        Some(self.left + self.x.share(x)? * self.width)
    }

    fn py(&self, y: f64, right: bool) -> Option<f64> {
        let span = if right { self.y2.as_ref()? } else { &self.y };
        // What has no place on a logarithmic axis stands on its lower edge.
        let share = span.share(y).or((y <= 0.0 && span.scale == Scale::Log).then_some(0.0))?;
        Some(self.top + self.height * (1.0 - share.clamp(-4.0, 5.0)))
    }
}

/// The range that holds all of these values.
fn span_of(axis: &Axis, values: impl Iterator<Item = f64>, pad: f64) -> Span {
    let fits = |v: &f64| v.is_finite() && (axis.scale != Scale::Log || *v > 0.0);
    let (low, high) = values
        .filter(fits)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let (mut from, mut to) = match axis.range {
        Some(range) => range,
        None if low > high => (if axis.scale == Scale::Log { 1.0 } else { 0.0 }, 10.0),
        None => padded(axis, low, high, pad),
    };
    if to <= from {
        (from, to) = (from - 0.5, from + 0.5);
    }
    Span { scale: axis.scale, from, to }
}

fn padded(axis: &Axis, low: f64, high: f64, pad: f64) -> (f64, f64) {
    match axis.scale {
        Scale::Log if pad > 0.0 => {
            let more = ((high / low).log10() * pad).max(0.04);
            (low / 10f64.powf(more), high * 10f64.powf(more))
        }
        Scale::Log if low == high => (low / 2.0, high * 2.0),
        _ if axis.zero && low >= 0.0 => (0.0, if high > 0.0 { high * (1.0 + pad) } else { 1.0 }),
        _ if low == high => (low - low.abs().max(1.0) * 0.1, high + high.abs().max(1.0) * 0.1),
        _ => (low - (high - low) * pad, high + (high - low) * pad),
    }
}

impl Chart {
    /// The picture; `id` is not used by another in the same page.
    pub fn svg(&self, id: &str) -> String {
        let keys = self.keys();
        let lines = keys.last().map_or(0.0, |(_, y, _)| y / LEGEND_LINE + 1.0);
        let layout = self.layout(TOP + lines * LEGEND_LINE);
        let height = layout.top + PLOT_HEIGHT + BOTTOM;
        let mut out = head(id, height, &self.title, &self.note);
        out.push_str(&text(LEFT, 20.0, "title", "start", &self.title));
        self.legend(&mut out, &keys);
        self.axes(&mut out, &layout);
        let Layout { left, top, width, height, .. } = layout;
        let _ = write!(
            out,
            "<clipPath id=\"{id}-c\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/></clipPath><g clip-path=\"url(#{id}-c)\"><g class=\"plot\"{}>",
            layout.spans()
        );
        self.marks.iter().for_each(|mark| mark_line(&mut out, &layout, mark.at));
        let bars = self.series.iter().filter(|s| s.style == Style::Bars).count();
        let mut bar = 0;
        for (index, series) in self.series.iter().enumerate() {
            let _ = write!(out, "<g class=\"s c{}\" data-s=\"{index}\">", series.color % 8);
            draw(&mut out, &layout, series, (bar, bars), !self.x.names.is_empty());
            bar += usize::from(series.style == Style::Bars);
            out.push_str("</g>");
        }
        out.push_str("</g></g>");
        self.mark_words(&mut out, &layout);
        let _ = write!(
            out,
            "<rect class=\"frame\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/></svg>"
        );
        out
    }

    fn layout(&self, top: f64) -> Layout {
        let width = WIDTH - LEFT - if self.y2.is_some() { RIGHT_AXIS } else { RIGHT };
        let values = |right: bool| {
            let of = move |s: &&Series| s.right == right;
            let all = |s: &'_ Series| -> Vec<f64> { [&s.y[..], &s.low, &s.high].concat() };
            let mut list: Vec<f64> = self.series.iter().filter(of).flat_map(all).collect();
            if !right {
                list.extend(self.marks.iter().filter_map(|mark| match mark.at {
                    Place::Y(y) => Some(y),
                    _ => None,
                }));
            }
            list.into_iter()
        };
        let x = span_of(&self.x, self.series.iter().flat_map(|s| s.x.iter().copied()), 0.0);
        Layout {
            left: LEFT,
            top,
            width,
            height: PLOT_HEIGHT,
            x,
            y: span_of(&self.y, values(false), 0.05),
            y2: self.y2.as_ref().map(|axis| span_of(axis, values(true), 0.05)),
        }
    }

    /// Index, line and place of the names in the legend. One series needs none.
    fn keys(&self) -> Vec<(usize, f64, f64)> {
        if self.series.len() < 2 {
            return Vec::new();
        }
        let (mut x, mut y) = (LEFT, 0.0);
        let mut keys = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            let len = 42.0 + series.name.chars().count() as f64 * LETTER;
            if x + len > WIDTH - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            keys.push((index, y, x));
            x += len;
        }
        keys
    }

    fn legend(&self, out: &mut String, keys: &[(usize, f64, f64)]) {
        out.push_str("<g class=\"legend\">");
        for (index, line, x) in keys {
            let series = &self.series[*index];
            let y = TOP + line + 6.0;
            let _ = write!(
                out,
                "<g class=\"key s c{}\" data-s=\"{index}\"><path class=\"{}\" d=\"{}\"/>",
                series.color % 8,
                class_of(series.style),
                match series.style {
                    Style::Bars | Style::Band => format!("M{x:.1} {:.1}h18v8h-18z", y - 4.0),
                    Style::Points => format!("M{:.1} {y:.1}h0", x + 9.0),
                    _ => format!("M{x:.1} {y:.1}h18"),
                }
            );
            out.push_str(&text(x + 23.0, y + 4.0, "", "start", &series.name));
            out.push_str("</g>");
        }
        out.push_str("</g>");
    }

    fn axes(&self, out: &mut String, layout: &Layout) {
        let (bottom, right) = (layout.top + layout.height, layout.left + layout.width);
        out.push_str("<g class=\"axis-y\">");
        for (value, label) in layout.y.ticks(self.y.unit, 6) {
            let Some(y) = layout.py(value, false) else { continue };
            let _ =
                write!(out, "<path class=\"rule\" d=\"M{:.1} {y:.1}H{right:.1}\"/>", layout.left);
            out.push_str(&text(layout.left - 7.0, y + 4.0, "", "end", &label));
        }
        out.push_str("</g><g class=\"axis-y2\">");
        if let (Some(axis), Some(span)) = (&self.y2, &layout.y2) {
            for (value, label) in span.ticks(axis.unit, 6) {
                let Some(y) = layout.py(value, true) else { continue };
                out.push_str(&text(right + 7.0, y + 4.0, "", "start", &label));
            }
        }
        out.push_str("</g><g class=\"axis-x\">");
        for (value, label) in x_ticks(&self.x, &layout.x) {
            let Some(x) = layout.px(value) else { continue };
            let _ =
                write!(out, "<path class=\"rule\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", layout.top);
            out.push_str(&text(x, bottom + 17.0, "", "middle", &label));
        }
        out.push_str("</g>");
        let middle = layout.left + layout.width / 2.0;
        out.push_str(&text(middle, bottom + 38.0, "soft", "middle", &self.x.label));
        let upright = |out: &mut String, x: f64, label: &str| {
            let y = layout.top + layout.height / 2.0;
            let _ = write!(
                out,
                "<text class=\"soft\" text-anchor=\"middle\" transform=\"translate({x:.1} {y:.1}) \
                 rotate(-90)\">{}</text>",
                escape(label)
            );
        };
        upright(out, 14.0, &self.y.label);
        if let Some(axis) = &self.y2 {
            upright(out, WIDTH - 6.0, &axis.label);
        }
    }

    fn mark_words(&self, out: &mut String, layout: &Layout) {
        out.push_str("<g class=\"words\">");
        let mut up = 0.0;
        for mark in &self.marks {
            let right = layout.left + layout.width;
            let (x, y, data, anchor) = match mark.at {
                Place::X(x) | Place::Span(x, _) => {
                    up = up % 56.0 + 14.0;
                    let Some(at) = layout.px(x) else { continue };
                    let anchor =
                        if at > layout.left + layout.width * 0.8 { "end" } else { "start" };
                    let at_text = at + if anchor == "end" { -4.0 } else { 4.0 };
                    (at_text, layout.top + up, format!("data-x=\"{x}\""), anchor)
                }
                Place::Y(y) => {
                    let Some(at) = layout.py(y, false) else { continue };
                    (right - 5.0, at - 4.0, format!("data-y=\"{y}\""), "end")
                }
            };
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"soft\" text-anchor=\"{anchor}\" {data}>{}</text>",
                escape(&mark.text)
            );
        }
        out.push_str("</g>");
    }
}

/// Labels across; those of names are left out where they would touch.
fn x_ticks(axis: &Axis, span: &Span) -> Vec<(f64, String)> {
    if axis.names.is_empty() {
        return span.ticks(axis.unit, 9);
    }
    let longest = axis.names.iter().map(|name| name.chars().count()).max().unwrap_or(1) as f64;
    let room = ((WIDTH - LEFT - RIGHT) / (longest * LETTER + 8.0)).max(1.0);
    let every = (axis.names.len() as f64 / room).ceil().max(1.0) as usize;
    let named = axis.names.iter().enumerate().step_by(every);
    named.map(|(n, name)| (n as f64, name.clone())).collect()
}

fn class_of(style: Style) -> &'static str {
    match style {
        Style::Line | Style::Marked => "l",
        Style::Dashed => "d",
        Style::Points => "p",
        Style::Bars => "b",
        Style::Band => "a",
    }
}

fn mark_line(out: &mut String, layout: &Layout, at: Place) {
    let (bottom, right) = (layout.top + layout.height, layout.left + layout.width);
    let _ = match at {
        Place::X(x) => match layout.px(x) {
            Some(x) => {
                write!(out, "<path class=\"mark\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", layout.top)
            }
            None => Ok(()),
        },
        Place::Y(y) => match layout.py(y, false) {
            Some(y) => {
                write!(out, "<path class=\"mark\" d=\"M{:.1} {y:.1}H{right:.1}\"/>", layout.left)
            }
            None => Ok(()),
        },
        Place::Span(from, to) => match (layout.px(from), layout.px(to)) {
            (Some(a), Some(b)) => write!(
                out,
                "<path class=\"span\" d=\"M{a:.1} {:.1}H{b:.1}V{bottom:.1}H{a:.1}z\"/>",
                layout.top
            ),
            _ => Ok(()),
        },
    };
}

fn draw(out: &mut String, layout: &Layout, series: &Series, bar: (usize, usize), named: bool) {
    let columns = layout.width as usize;
    let thinned = |y: &[f64]| -> Vec<Option<(f64, f64)>> {
        let points = thin(&series.x, y, layout.x.from, layout.x.to, columns);
        let at = |(x, y): (f64, f64)| Some((layout.px(x)?, layout.py(y, series.right)?));
        points.into_iter().map(at).collect()
    };
    match series.style {
        Style::Line | Style::Dashed | Style::Marked => {
            path(out, class_of(series.style), &line(&thinned(&series.y)));
        }
        Style::Bars => path(out, "b", &bars(layout, series, bar, named)),
        Style::Band => {
            let upper = thinned(&series.y);
            let lower = thinned(&series.low);
            let all: Vec<_> = upper.into_iter().chain(lower.into_iter().rev()).flatten().collect();
            let points: Vec<_> = all.into_iter().map(Some).collect();
            path(out, "a", &(line(&points) + "z"));
        }
        Style::Points => {}
    }
    if matches!(series.style, Style::Points | Style::Marked) {
        let dot = |(x, y): (f64, f64)| format!("M{x:.1} {y:.1}h0");
        let dots: String = thinned(&series.y).into_iter().flatten().map(dot).collect();
        path(out, "p", &dots);
    }
    if !series.high.is_empty() {
        path(out, "w", &whiskers(layout, series, bar, named));
    }
}

fn path(out: &mut String, class: &str, d: &str) {
    if d.len() > 1 {
        let _ = write!(out, "<path class=\"{class}\" d=\"{d}\"/>");
    }
}

/// A line with gaps.
fn line(points: &[Option<(f64, f64)>]) -> String {
    let mut d = String::new();
    let mut pen = false;
    for point in points {
        match point {
            Some((x, y)) => {
                let _ = write!(d, "{}{x:.1} {y:.1}", if pen { "L" } else { "M" });
                pen = true;
            }
            None => pen = false,
        }
    }
    d
}

/// Left edge and width of a bar around `x`, in the axis' values.
fn bar_at(series: &Series, x: f64, (bar, bars): (usize, usize), named: bool) -> (f64, f64) {
    if named {
        let width = 0.8 / bars.max(1) as f64;
        return (x - 0.4 + width * bar as f64, width);
    }
    let steps = series.x.windows(2).map(|w| w[1] - w[0]);
    let width = steps.fold(f64::INFINITY, f64::min);
    let width = if width.is_finite() { width } else { 1.0 };
    (x - width / 2.0, width)
}

fn bars(layout: &Layout, series: &Series, bar: (usize, usize), named: bool) -> String {
    let bottom = layout.top + layout.height;
    let mut d = String::new();
    for (x, y) in series.x.iter().zip(&series.y) {
        let (from, width) = bar_at(series, *x, bar, named);
        if let (Some(a), Some(b), Some(y)) =
            (layout.px(from), layout.px(from + width), layout.py(*y, series.right))
            && y < bottom
        {
            let _ = write!(d, "M{a:.1} {bottom:.1}V{y:.1}H{b:.1}V{bottom:.1}z");
        }
    }
    d
}

fn whiskers(layout: &Layout, series: &Series, bar: (usize, usize), named: bool) -> String {
    let mut d = String::new();
    for ((x, low), high) in series.x.iter().zip(&series.low).zip(&series.high) {
        let (from, width) = match series.style {
            Style::Bars => bar_at(series, *x, bar, named),
            _ => (*x, 0.0),
        };
        let points = (
            layout.px(from + width / 2.0),
            layout.py(*low, series.right),
            layout.py(*high, series.right),
        );
        if let (Some(x), Some(a), Some(b)) = points {
            let _ =
                write!(d, "M{x:.1} {a:.1}V{b:.1}M{:.1} {a:.1}h8M{:.1} {b:.1}h8", x - 4.0, x - 4.0);
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "IOPS <over> time & more".into(),
            note: "each point is a second".into(),
            x: Axis::linear("time", Unit::Seconds),
            y: Axis::linear("IOPS", Unit::Plain),
            y2: None,
            series: vec![Series::new(
                "\"reads\"",
                Style::Line,
                0,
                vec![(0.0, 10.0), (1.0, f64::NAN), (2.0, 30.0), (3.0, 20.0)],
            )],
            marks: Vec::new(),
        }
    }

    #[test]
    fn a_gap_breaks_the_line_and_text_is_no_markup() {
        let svg = chart().svg("a");
        assert!(svg.contains("IOPS &lt;over&gt; time &amp; more"));
        let d = svg.split("class=\"l\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(d.matches('M').count(), 2, "{d}");
        assert_eq!(escape("a\u{0}\u{1b}b\nc"), "ab c");
    }

    #[test]
    fn values_stand_where_the_axis_says() {
        let chart = Chart {
            y: Axis { range: Some((0.0, 100.0)), ..Axis::linear("IOPS", Unit::Plain) },
            x: Axis { range: Some((0.0, 10.0)), ..Axis::linear("t", Unit::Plain) },
            series: vec![Series::new(
                "s",
                Style::Line,
                0,
                vec![(0.0, 0.0), (10.0, 100.0), (5.0, 50.0)],
            )],
            ..chart()
        };
        let svg = chart.svg("a");
        let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT_HEIGHT);
        let middle = ((LEFT + right) / 2.0, TOP + PLOT_HEIGHT / 2.0);
        let want = format!(
            "d=\"M{LEFT:.1} {bottom:.1}L{right:.1} {TOP:.1}L{:.1} {:.1}\"",
            middle.0, middle.1
        );
        assert!(svg.contains(&want), "{want} not in {svg}");
    }

    #[test]
    fn nothing_to_draw_is_a_picture_too() {
        let empty = Chart { series: Vec::new(), ..chart() };
        assert!(empty.svg("a").contains("</svg>"));
        let log = Chart {
            y: Axis::log("latency", Unit::Nanos),
            series: vec![Series::new("s", Style::Marked, 0, vec![(0.0, 0.0), (1.0, -1.0)])],
            ..chart()
        };
        assert!(!log.svg("a").contains("NaN"));
    }
}
