//! The report as one page that needs nothing else: style, figures and the script that moves them are in
//! it. Nothing that stands in a run file is markup here.

use super::{Block, Field, Notice, Page, Section, Sheet, Weight};
use crate::chart::{Figure, Grid, Lane, Series, Side, escape};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Points from which a figure's values are packed.
const PACKED_FROM: usize = 64;

/// The whole page.
pub fn html(page: &Page) -> String {
    let mut out = String::with_capacity(1 << 20);
    let title = escape(&format!("{}: {}", page.title, page.lead));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\">\n\
         <meta name=\"generator\" content=\"fathom {}\">\n<title>{title}</title>\n\
         <style id=\"chart-css\">{}</style>\n<style>{}</style>\n</head>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("../chart/chart.css"),
        include_str!("page.css"),
    );
    let _ = write!(
        out,
        "<a class=\"skip\" href=\"#main\">To the results</a>\n<header><h1>{}</h1><p>{}</p></header>\n",
        escape(&page.title),
        escape(&page.lead)
    );
    contents(&mut out, page);
    out.push_str("<main id=\"main\">\n");
    let figures = figure_ids(page);
    let mut counters = Counters::default();
    let mut open = false;
    for (index, section) in page.sections.iter().enumerate() {
        if section.level == 2 {
            out.push_str(if open { "</section>\n" } else { "" });
            let _ = write!(out, "<section aria-labelledby=\"s{index}\">");
            open = true;
        }
        let _ = writeln!(
            out,
            "<h{level} id=\"s{index}\">{}</h{level}>",
            escape(&section.title),
            level = section.level.clamp(2, 6)
        );
        for block in &section.blocks {
            block_html(&mut out, block, &figures, &mut counters);
        }
    }
    out.push_str(if open { "</section>\n" } else { "" });
    let _ = write!(
        out,
        "</main>\n<footer><p>Made by fathom {} from the run file alone.</p></footer>\n\
         <script>{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("../../../../web/dist/report.js")
    );
    out
}

#[derive(Default)]
struct Counters {
    figures: usize,
    tables: usize,
}

/// Number of each figure by its title, for links to it.
fn figure_ids(page: &Page) -> HashMap<&str, usize> {
    let figures = page.sections.iter().flat_map(|s| &s.blocks).filter_map(|block| match block {
        Block::Figure(figure) => Some(figure.title()),
        _ => None,
    });
    let mut ids = HashMap::new();
    for (n, title) in figures.enumerate() {
        ids.entry(title).or_insert(n);
    }
    ids
}

fn contents(out: &mut String, page: &Page) {
    out.push_str("<nav aria-label=\"Contents\"><ul>");
    let sections: Vec<(usize, &Section)> = page.sections.iter().enumerate().collect();
    for (index, section) in sections.iter().filter(|(_, s)| s.level == 2) {
        let _ = write!(out, "<li><a href=\"#s{index}\">{}</a></li>", escape(&section.title));
    }
    out.push_str("</ul></nav>\n");
}

fn block_html(
    out: &mut String,
    block: &Block,
    figures: &HashMap<&str, usize>,
    counters: &mut Counters,
) {
    match block {
        Block::Text(text) if text.contains('\n') => {
            let lines: Vec<String> = text.lines().map(escape).collect();
            let _ = writeln!(out, "<pre tabindex=\"0\">{}</pre>", lines.join("\n"));
        }
        Block::Text(text) => {
            let _ = writeln!(out, "<p>{}</p>", escape(text));
        }
        Block::Facts(facts) => {
            out.push_str("<dl>");
            for (name, value) in facts {
                let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
            }
            out.push_str("</dl>\n");
        }
        Block::Table(sheet) => {
            table(out, sheet, counters.tables);
            counters.tables += 1;
        }
        Block::Figure(figure) => {
            figure_html(out, figure, counters.figures);
            counters.figures += 1;
        }
        Block::Notice(notice) => notice_html(out, notice, figures),
    }
}

fn notice_html(out: &mut String, notice: &Notice, figures: &HashMap<&str, usize>) {
    let class = match notice.weight {
        Weight::Good => "good",
        Weight::Note => "note",
        Weight::Warning => "warning",
        Weight::Invalid => "invalid",
    };
    let _ = write!(
        out,
        "<div class=\"notice {class}\"><p><strong>{}: {}.</strong> {}",
        notice.weight.word(),
        escape(&notice.title),
        escape(&notice.text)
    );
    if let Some(n) = notice.figure.as_deref().and_then(|title| figures.get(title)) {
        let _ = write!(out, " <a href=\"#f{n}\">See the figure</a>");
    }
    out.push_str("</p></div>\n");
}

fn table(out: &mut String, sheet: &Sheet, n: usize) {
    let _ = write!(
        out,
        "<div class=\"table\"><table id=\"t{n}\"><caption>{} <button type=\"button\" class=\"copy\" \
         data-table=\"t{n}\">Copy as text</button></caption><thead><tr>",
        escape(&sheet.title)
    );
    for name in &sheet.head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &sheet.rows {
        out.push_str("<tr>");
        for (column, field) in row.iter().enumerate() {
            let text = escape(field.shown());
            let _ = match field {
                _ if column == 0 => write!(out, "<th scope=\"row\">{text}</th>"),
                // What is not available stands where the number would.
                _ if field.shown() == "n/a" => write!(out, "<td class=\"n\">{text}</td>"),
                Field::Number(..) => write!(out, "<td class=\"n\">{text}</td>"),
                Field::Text(_) => write!(out, "<td>{text}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn figure_html(out: &mut String, figure: &Figure, n: usize) {
    let _ = write!(
        out,
        "<figure id=\"f{n}\"><div class=\"picture\">{}</div>",
        figure.svg(&format!("f{n}"))
    );
    if !figure.note().is_empty() {
        let _ = write!(out, "<figcaption>{}</figcaption>", escape(figure.note()));
    }
    let data = match figure {
        Figure::Chart(chart) => Some(data_of(chart)),
        Figure::Grid(grid) => map_of(grid),
        Figure::Columns(_) => None,
    };
    if let Some(data) = data {
        let data = data.to_string();
        // A closing tag inside would end the script.
        let data = data.replace('<', "\\u003c");
        let _ = write!(out, "<script type=\"application/json\" class=\"data\">{data}</script>");
    }
    out.push_str("</figure>\n");
}

/// What the script needs to move a chart: its axes and values.
fn data_of(chart: &crate::chart::Chart) -> serde_json::Value {
    let mut value = serde_json::to_value(chart).unwrap_or_default();
    for (at, series) in chart.series.iter().enumerate() {
        for (key, list) in
            [("x", &series.x), ("y", &series.y), ("low", &series.low), ("high", &series.high)]
        {
            value["series"][at][key] = numbers(list);
        }
        // Most series of a chart have one axis of time.
        if at > 0 && series.x == chart.series[0].x && series.x.len() >= PACKED_FROM {
            value["series"][at]["x"] = serde_json::Value::Null;
        }
    }
    value
}

/// What the script needs to move a map; none for one whose columns have names.
fn map_of(grid: &Grid) -> Option<serde_json::Value> {
    let side = |side: &Side| {
        json!({
            "label": side.label, "unit": side.unit, "scale": side.scale,
            "from": side.range.0, "to": side.range.1,
        })
    };
    let values: Vec<f64> = grid.values.iter().flatten().copied().collect();
    let lane = |lane: &Lane| {
        let line = |line: &Series| json!({ "name": line.name, "x": numbers(&line.x), "y": numbers(&line.y) });
        json!({ "unit": lane.unit, "lines": lane.lines.iter().map(line).collect::<Vec<_>>() })
    };
    grid.columns.names.is_empty().then(|| {
        json!({ "map": {
            "title": grid.title, "x": side(&grid.columns), "y": side(&grid.rows),
            "meaning": grid.meaning, "rows": grid.values.len(),
            "columns": grid.values.first().map_or(0, Vec::len), "values": numbers(&values),
            "lanes": grid.lanes.iter().map(lane).collect::<Vec<_>>(),
        }})
    })
}

/// Short lists as they are, long ones as base64 of little-endian 32-bit floats.
fn numbers(list: &[f64]) -> serde_json::Value {
    if list.len() < PACKED_FROM {
        return list
            .iter()
            .map(|v| if v.is_finite() { Some(*v) } else { None })
            .collect::<Vec<_>>()
            .into();
    }
    if let Some(even) = even(list) {
        return even;
    }
    let bytes: Vec<u8> = list.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
    serde_json::json!({ "f32": base64(&bytes) })
}

/// A list with equal steps, as most axes of time are; none when it is another.
fn even(list: &[f64]) -> Option<serde_json::Value> {
    let step = (list[list.len() - 1] - list[0]) / (list.len() - 1) as f64;
    let fits = |(n, v): (usize, &f64)| (list[0] + step * n as f64 - v).abs() <= step.abs() * 0.01;
    let all = step.is_finite() && step != 0.0 && list.iter().enumerate().all(fits);
    all.then(|| serde_json::json!({ "from": list[0], "step": step, "n": list.len() }))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * n) & 63) as usize] as char;
            out.push(if n <= chunk.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        let all = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (n, want) in all.iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..n]), *want);
        }
    }

    #[test]
    fn what_stands_in_a_run_is_no_markup() {
        let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
        let chart = crate::chart::Chart {
            title: evil.into(),
            note: evil.into(),
            x: crate::chart::Axis::linear(evil, crate::chart::Unit::Plain),
            y: crate::chart::Axis::linear(evil, crate::chart::Unit::Plain),
            y2: None,
            series: vec![crate::chart::Series::new(
                evil,
                crate::chart::Style::Line,
                0,
                vec![(0.0, 1.0)],
            )],
            marks: vec![crate::chart::Mark { text: evil.into(), at: crate::chart::Place::X(0.0) }],
        };
        let section = Section {
            title: evil.into(),
            level: 2,
            blocks: vec![
                Block::Text(evil.into()),
                Block::Text(format!("{evil}\n{evil}")),
                Block::Facts(vec![(evil.into(), evil.into())]),
                Block::Table(Sheet {
                    title: evil.into(),
                    head: vec![evil.into()],
                    rows: vec![vec![Field::text(evil)]],
                }),
                Block::Figure(Box::new(chart.into())),
                Block::Notice(Notice {
                    weight: Weight::Note,
                    title: evil.into(),
                    text: evil.into(),
                    figure: Some(evil.into()),
                }),
            ],
        };
        let page = Page {
            title: evil.into(),
            lead: evil.into(),
            findings: Vec::new(),
            sections: vec![section],
        };
        let html = html(&page);
        assert!(!html.contains("<img"), "an element came from the run");
        assert_eq!(html.matches("<script").count(), 2, "the data of the figure and the page's own");
        assert_eq!(html.matches("</script").count(), 2);
    }
}
