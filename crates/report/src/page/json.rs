//! The report for programs: findings with their evidence, and every table.

use super::{Block, Field, Page};
use serde_json::{Value, json};

/// Version of the document.
const VERSION: u32 = 1;

/// The report without its figures.
pub fn json(page: &Page) -> Value {
    let findings = page.findings.iter().map(|finding| {
        json!({
            "kind": finding.kind.word(), "title": finding.title, "text": finding.text,
            "step": finding.place, "evidence": finding.evidence,
        })
    });
    let blocks = page.sections.iter().flat_map(|s| s.blocks.iter().map(move |b| (s, b)));
    let mut tables = Vec::new();
    let mut notices = Vec::new();
    for (section, block) in blocks {
        match block {
            Block::Table(sheet) => {
                let row = |row: &Vec<Field>| row.iter().map(value).collect::<Vec<Value>>();
                tables.push(json!({
                    "section": section.title, "title": sheet.title, "head": sheet.head,
                    "rows": sheet.rows.iter().map(row).collect::<Vec<_>>(),
                }));
            }
            Block::Notice(notice) => notices.push(json!({
                "section": section.title, "weight": notice.weight.word(), "title": notice.title,
                "text": notice.text,
            })),
            _ => {}
        }
    }
    json!({
        "fathom_report": VERSION, "title": page.title, "lead": page.lead,
        "findings": findings.collect::<Vec<_>>(), "notices": notices, "tables": tables,
    })
}

fn value(field: &Field) -> Value {
    match field {
        Field::Text(text) => json!(text),
        Field::Number(value, _) => json!(value),
    }
}
