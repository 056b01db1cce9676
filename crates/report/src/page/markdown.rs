//! The report as Markdown: text and tables, figures by their titles.

use super::{Block, Page, Sheet};
use std::fmt::Write as _;

/// The whole report.
pub fn markdown(page: &Page) -> String {
    let mut out = format!("# {}\n\n{}\n", plain(&page.title), plain(&page.lead));
    for section in &page.sections {
        let _ = write!(out, "\n{} {}\n", "#".repeat(section.level.into()), plain(&section.title));
        for block in &section.blocks {
            match block {
                Block::Text(text) if text.contains('\n') => {
                    let _ =
                        write!(out, "\n~~~~\n{}\n~~~~\n", text.trim_end().replace("~~~~", "~~~"));
                }
                Block::Text(text) => {
                    let _ = write!(out, "\n{}\n", plain(text));
                }
                Block::Facts(facts) => {
                    out.push('\n');
                    for (name, value) in facts {
                        let _ = writeln!(out, "- {}: {}", plain(name), plain(value));
                    }
                }
                Block::Table(sheet) => out.push_str(&table(sheet)),
                Block::Figure(figure) => {
                    let _ = write!(
                        out,
                        "\n*Figure: {}. {}*\n",
                        plain(figure.title()),
                        plain(figure.note())
                    );
                }
                Block::Notice(notice) => {
                    let (word, title) = (notice.weight.word(), plain(&notice.title));
                    let _ = write!(out, "\n> **{word}: {title}.** {}\n", plain(&notice.text));
                }
            }
        }
    }
    out
}

/// Text in which nothing is markup.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

fn table(sheet: &Sheet) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut out = format!("\n{}:\n\n", plain(&sheet.title));
    out.push_str(&line(&mut sheet.head.iter().map(|name| plain(name))));
    out.push_str(&line(&mut sheet.head.iter().map(|_| "---".to_owned())));
    for row in &sheet.rows {
        out.push_str(&line(&mut row.iter().map(|field| plain(field.shown()))));
    }
    out
}
