//! The report as a workbook: real cells, and charts over real cells.

use crate::chart::{Chart, Figure, Scale, Style, thin};
use crate::output::OutputError;
use crate::page::{Block, Field, Page, Section, Sheet};
use rust_xlsxwriter::{
    Chart as Drawing, ChartFormat, ChartLine, ChartMarker, ChartType, Format, Workbook, Worksheet,
    XlsxError,
};

/// Rows that a drawn chart covers.
const CHART_ROWS: u32 = 20;
/// Points of a series at most; more are thinned so that no extreme is lost.
const POINTS: usize = 800;
/// What a spreadsheet allows as the length of a sheet's name.
const NAME_MAX: usize = 31;

/// The workbook as bytes.
///
/// # Errors
/// When a value cannot be put in a cell.
pub fn xlsx(page: &Page) -> Result<Vec<u8>, OutputError> {
    build(page).map_err(|error| OutputError::Xlsx(error.to_string()))
}

fn build(page: &Page) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    let mut chapter: Vec<&Section> = Vec::new();
    let mut n = 0;
    for section in &page.sections {
        if section.level == 2 && !chapter.is_empty() {
            n += 1;
            add_chapter(&mut book, &chapter, n)?;
            chapter.clear();
        }
        chapter.push(section);
    }
    if !chapter.is_empty() {
        add_chapter(&mut book, &chapter, n + 1)?;
    }
    book.save_to_buffer()
}

/// A name that a spreadsheet takes: short, without its special characters.
fn sheet_name(n: usize, title: &str, end: &str) -> String {
    let plain: String = title
        .chars()
        .map(|c| if "[]:*?/\\'".contains(c) || c.is_control() { ' ' } else { c })
        .collect();
    let room = NAME_MAX - end.chars().count() - 4;
    let short: String = plain.chars().take(room).collect();
    format!("{n} {}{end}", short.trim())
}

fn add_chapter(book: &mut Workbook, sections: &[&Section], n: usize) -> Result<(), XlsxError> {
    let title = &sections[0].title;
    let tables = book.add_worksheet();
    tables.set_name(sheet_name(n, title, ""))?;
    let bold = Format::new().set_bold();
    let mut row = 0;
    for section in sections {
        tables.write_with_format(row, 0, &section.title, &bold)?;
        row += 2;
        for block in &section.blocks {
            row = add_block(tables, row, block, &bold)?;
        }
    }
    tables.set_column_width(0, 34)?;
    let charts = sections.iter().flat_map(|s| &s.blocks).filter_map(|block| match block {
        Block::Figure(figure) => match figure.as_ref() {
            Figure::Chart(chart) => Some(chart),
            _ => None,
        },
        _ => None,
    });
    let charts: Vec<&Chart> = charts.filter(|chart| !chart.series.is_empty()).collect();
    if charts.is_empty() {
        return Ok(());
    }
    let name = sheet_name(n, title, " figures");
    let sheet = book.add_worksheet();
    sheet.set_name(&name)?;
    let mut row = 0;
    for chart in charts {
        row = add_chart(sheet, &name, row, chart, &bold)?;
    }
    Ok(())
}

fn add_block(
    sheet: &mut Worksheet,
    mut row: u32,
    block: &Block,
    bold: &Format,
) -> Result<u32, XlsxError> {
    match block {
        Block::Text(text) => {
            for line in text.lines() {
                sheet.write(row, 0, line)?;
                row += 1;
            }
            row += 1;
        }
        Block::Facts(facts) => {
            for (name, value) in facts {
                sheet.write(row, 0, name)?;
                sheet.write(row, 1, value)?;
                row += 1;
            }
            row += 1;
        }
        Block::Notice(notice) => {
            sheet.write_with_format(row, 0, notice.weight.word(), bold)?;
            sheet.write(row, 1, format!("{}: {}", notice.title, notice.text))?;
            row += 1;
        }
        Block::Table(table) => row = add_table(sheet, row, table, bold)?,
        Block::Figure(_) => {}
    }
    Ok(row)
}

fn add_table(
    sheet: &mut Worksheet,
    mut row: u32,
    table: &Sheet,
    bold: &Format,
) -> Result<u32, XlsxError> {
    sheet.write_with_format(row, 0, &table.title, bold)?;
    row += 1;
    for (column, name) in table.head.iter().enumerate() {
        sheet.write_with_format(row, column as u16, name, bold)?;
    }
    row += 1;
    for line in &table.rows {
        for (column, field) in line.iter().enumerate() {
            match field {
                Field::Number(value, _) if value.is_finite() => {
                    sheet.write(row, column as u16, *value)?;
                }
                _ => {
                    sheet.write(row, column as u16, field.shown())?;
                }
            }
        }
        row += 1;
    }
    Ok(row + 1)
}

/// The values of a chart from column 11 on, two a series, and the drawing to their left. Gives the row
/// below both.
fn add_chart(
    sheet: &mut Worksheet,
    name: &str,
    row: u32,
    chart: &Chart,
    bold: &Format,
) -> Result<u32, XlsxError> {
    const DATA: u16 = 11;
    sheet.write_with_format(row, 0, &chart.title, bold)?;
    let bars = chart.series.iter().all(|s| s.style == Style::Bars);
    let kind = match (bars, chart.x.names.is_empty()) {
        (true, _) => ChartType::Column,
        (false, true) => ChartType::ScatterStraight,
        (false, false) => ChartType::Line,
    };
    let mut drawing = Drawing::new(kind);
    let mut longest = 0;
    for (n, series) in chart.series.iter().filter(|s| s.style != Style::Band).enumerate() {
        let column = DATA + n as u16 * 3;
        sheet.write(row, column, &chart.x.label)?;
        sheet.write(row, column + 1, &series.name)?;
        let (from, to) =
            (series.x.first().copied().unwrap_or(0.0), series.x.last().copied().unwrap_or(1.0));
        let points = thin(&series.x, &series.y, from, to, POINTS / 4);
        for (at, (x, y)) in points.iter().enumerate() {
            let place = row + 1 + at as u32;
            match chart.x.names.get(*x as usize) {
                Some(word) => sheet.write(place, column, word)?,
                None => sheet.write(place, column, *x)?,
            };
            if y.is_finite() {
                sheet.write(place, column + 1, *y)?;
            }
        }
        let last = row + (points.len() as u32).max(1);
        longest = longest.max(points.len() as u32);
        let drawn = drawing.add_series();
        drawn
            .set_name((name, row, column + 1))
            .set_categories((name, row + 1, column, last, column))
            .set_values((name, row + 1, column + 1, last, column + 1))
            .set_secondary_axis(series.right);
        if series.style == Style::Points {
            drawn.set_format(ChartFormat::new().set_line(ChartLine::new().set_hidden(true)));
            drawn.set_marker(ChartMarker::new().set_automatic());
        }
    }
    drawing.title().set_name(&chart.title);
    drawing.x_axis().set_name(&chart.x.label);
    drawing.y_axis().set_name(&chart.y.label);
    if chart.y.scale == Scale::Log {
        drawing.y_axis().set_log_base(10);
    }
    if chart.x.scale == Scale::Log && chart.x.names.is_empty() {
        drawing.x_axis().set_log_base(10);
    }
    drawing.set_width(680).set_height(CHART_ROWS * 18);
    sheet.insert_chart(row + 1, 0, &drawing)?;
    Ok(row + longest.max(CHART_ROWS + 1) + 3)
}
