//! Long tidy tables: one observation a row, units in the column names. As CSV or Parquet.

use crate::output::OutputError;
use analysis::{NINES, claim_of, percentile_name, steady_groups, summarize, summarize_counts};
use base::hist::{Hist, Kind, bucket_low, bucket_mid, bucket_width};
use base::sample::{CpuUse, Side};
use base::units::Nanos;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::sync::Arc;
use store::{CellRecord, RunFile};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
}

/// A column with its unit in the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: ColumnKind,
}

/// A field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Not known.
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each as long as the columns.
    pub rows: Vec<Vec<Field>>,
}

impl Table {
    fn new(columns: Vec<(String, ColumnKind)>) -> Table {
        let columns = columns.into_iter().map(|(name, kind)| Column { name, kind }).collect();
        Table { columns, rows: Vec::new() }
    }

    /// As CSV after RFC 4180.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        let names: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        text.push_str(&names.join(","));
        text.push('\n');
        for row in &self.rows {
            let fields: Vec<String> = row.iter().map(csv_field).collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        text
    }

    /// As Parquet, compressed with zstd.
    ///
    /// # Errors
    /// When the writer refuses.
    pub fn parquet(&self) -> Result<Vec<u8>, OutputError> {
        self.write_parquet().map_err(|error| OutputError::Parquet(error.to_string()))
    }

    fn write_parquet(&self) -> parquet::errors::Result<Vec<u8>> {
        let mut fields = Vec::new();
        for column in &self.columns {
            let physical = match column.kind {
                ColumnKind::Text => PhysicalType::BYTE_ARRAY,
                ColumnKind::Integer => PhysicalType::INT64,
                ColumnKind::Number => PhysicalType::DOUBLE,
            };
            let logical = (column.kind == ColumnKind::Text).then_some(LogicalType::String);
            let field = Type::primitive_type_builder(&column.name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build()?;
            fields.push(Arc::new(field));
        }
        let schema = Arc::new(Type::group_type_builder("fathom").with_fields(fields).build()?);
        let level = ZstdLevel::try_new(3)?;
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for index in 0..self.columns.len() {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let levels: Vec<i16> =
                self.rows.iter().map(|row| i16::from(row[index] != Field::Null)).collect();
            let present = || self.rows.iter().map(|row| &row[index]).filter(|f| **f != Field::Null);
            match self.columns[index].kind {
                ColumnKind::Text => {
                    let values: Vec<ByteArray> =
                        present().map(|field| csv_text(field).into_bytes().into()).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
                ColumnKind::Integer => {
                    let values: Vec<i64> = present().map(|field| as_number(field) as i64).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                ColumnKind::Number => {
                    let values: Vec<f64> = present().map(as_number).collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        writer.into_inner()
    }
}

fn as_number(field: &Field) -> f64 {
    match field {
        Field::Integer(n) => *n as f64,
        Field::Number(n) => *n,
        Field::Null | Field::Text(_) => f64::NAN,
    }
}

fn csv_text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Text(text) => text.clone(),
        Field::Integer(n) => n.to_string(),
        Field::Number(n) => format!("{n}"),
    }
}

fn csv_field(field: &Field) -> String {
    match field {
        Field::Text(text) => quoted(text),
        other => csv_text(other),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

const WHO: [&str; 6] = ["step", "label", "iteration", "counted", "load", "target"];

fn who_columns() -> Vec<(String, ColumnKind)> {
    let kind = |name: &str| match name {
        "iteration" | "counted" | "target" => ColumnKind::Integer,
        _ => ColumnKind::Text,
    };
    WHO.iter().map(|name| ((*name).to_owned(), kind(name))).collect()
}

fn who(cell: &CellRecord, stream: usize) -> Vec<Field> {
    let record = cell.streams.get(stream);
    vec![
        Field::Text(cell.path.clone()),
        Field::Text(cell.label.clone()),
        Field::Integer(i64::from(cell.iteration)),
        Field::Integer(i64::from(cell.counted)),
        Field::Text(record.map(|s| s.describe.clone()).unwrap_or_default()),
        Field::Integer(record.map_or(0, |s| s.target as i64)),
    ]
}

/// Columns of the counts of one direction.
fn count_columns() -> Vec<(String, ColumnKind)> {
    let mut columns = vec![("direction".to_owned(), ColumnKind::Text)];
    for name in ["ios", "bytes", "errors"] {
        columns.push((name.into(), ColumnKind::Integer));
    }
    columns.push(("iops".into(), ColumnKind::Number));
    columns.push(("bandwidth_mb_s".into(), ColumnKind::Number));
    for time in ["service", "response"] {
        for name in ["mean", "min", "max"] {
            columns.push((format!("{time}_{name}_us"), ColumnKind::Number));
        }
        for percent in NINES.into_iter().filter(|percent| *percent >= 50.0) {
            columns.push((format!("{time}_{}_us", percentile_name(percent)), ColumnKind::Number));
        }
    }
    columns
}

fn count_fields(direction: &str, side: &Side, len: Nanos) -> Vec<Field> {
    let seconds = len.as_secs_f64().max(1e-12);
    let mut fields = vec![
        Field::Text(direction.into()),
        Field::Integer(side.ios() as i64),
        Field::Integer(side.bytes as i64),
        Field::Integer(side.errors as i64),
        Field::Number(side.ios() as f64 / seconds),
        Field::Number(side.bytes as f64 / seconds / 1e6),
    ];
    fields.extend(latency_fields(&side.service));
    fields.extend(latency_fields(&side.response));
    fields
}

fn latency_fields<K: Kind>(hist: &Hist<K>) -> Vec<Field> {
    let us = |ns: Option<f64>| ns.map_or(Field::Null, |ns| Field::Number(ns / 1000.0));
    let mut fields = vec![
        us(hist.mean_ns()),
        us(hist.min_ns().map(|ns| ns as f64)),
        us(hist.max_ns().map(|ns| ns as f64)),
    ];
    let nines = NINES.into_iter().filter(|percent| *percent >= 50.0);
    fields.extend(nines.map(|percent| us(hist.percentile_ns(percent).map(|ns| ns as f64))));
    fields
}

/// One row for each cell, stream and direction.
pub fn cells_table(run: &RunFile) -> Table {
    let mut columns = who_columns();
    columns.push(("status".into(), ColumnKind::Text));
    columns.push(("steady_state".into(), ColumnKind::Text));
    columns.push(("drive_fills_since_purge".into(), ColumnKind::Number));
    columns.push(("seconds".into(), ColumnKind::Number));
    columns.push(("cpu".into(), ColumnKind::Number));
    columns.extend(count_columns());
    let mut table = Table::new(columns);
    let groups = steady_groups(run);
    for cell in &run.cells {
        let cpu = summarize(cell).cpu;
        let steady = match claim_of(run, &groups, cell) {
            Some(group) if group.reached => Field::Text("reached".into()),
            Some(_) => Field::Text("not reached".into()),
            None => Field::Null,
        };
        let fills = cell.facts["fills_since_purge"].as_f64().map_or(Field::Null, Field::Number);
        for (index, stream) in cell.totals.iter().enumerate() {
            for (direction, side) in [("read", &stream.reads), ("write", &stream.writes)] {
                if side.ios() == 0 && side.errors == 0 {
                    continue;
                }
                let mut row = who(cell, index);
                row.push(Field::Text(cell.status.clone()));
                row.push(steady.clone());
                row.push(fills.clone());
                row.push(Field::Number(cell.len.as_secs_f64()));
                row.push(Field::Number(cpu));
                row.extend(count_fields(direction, side, cell.len));
                table.rows.push(row);
            }
        }
    }
    table
}

/// One row for each interval, stream and direction.
///
/// # Errors
/// When the run file is damaged.
pub fn intervals_table(run: &RunFile) -> Result<Table, OutputError> {
    let mut columns = who_columns();
    columns.push(("seq".into(), ColumnKind::Integer));
    columns.push(("ramp".into(), ColumnKind::Integer));
    columns.push(("start_s".into(), ColumnKind::Number));
    columns.push(("seconds".into(), ColumnKind::Number));
    columns.push(("cpu".into(), ColumnKind::Number));
    columns.extend(count_columns());
    let mut table = Table::new(columns);
    let origin = run.cells.first().map_or(0, |cell| cell.start.0);
    for cell in &run.cells {
        for sample in run.intervals(cell.id)? {
            for (index, stream) in sample.streams.iter().enumerate() {
                let all = summarize_counts(stream, sample.len, CpuUse::default());
                for (direction, side, used) in [
                    ("read", &stream.reads, all.reads.is_some()),
                    ("write", &stream.writes, all.writes.is_some()),
                ] {
                    // A silent interval is a fact too: it is kept for the direction that is meant.
                    let silent = all.reads.is_none() && all.writes.is_none() && direction == "read";
                    if !used && !silent {
                        continue;
                    }
                    let mut row = who(cell, index);
                    row.push(Field::Integer(i64::from(sample.seq)));
                    row.push(Field::Integer(i64::from(sample.ramp)));
                    row.push(Field::Number(sample.start.0.saturating_sub(origin) as f64 / 1e9));
                    row.push(Field::Number(sample.len.as_secs_f64()));
                    let cpu = sample.cpu.total_ns() as f64 / sample.len.0.max(1) as f64;
                    row.push(Field::Number(cpu));
                    row.extend(count_fields(direction, side, sample.len));
                    table.rows.push(row);
                }
            }
        }
    }
    Ok(table)
}

/// One row for each non-empty bucket of each cell, stream, direction and kind of time.
pub fn histogram_table(run: &RunFile) -> Table {
    let mut columns = who_columns();
    columns.push(("direction".into(), ColumnKind::Text));
    columns.push(("time".into(), ColumnKind::Text));
    for name in ["low_ns", "mid_ns", "high_ns", "count", "cumulative"] {
        columns.push((name.into(), ColumnKind::Integer));
    }
    let mut table = Table::new(columns);
    for cell in &run.cells {
        for (index, stream) in cell.totals.iter().enumerate() {
            for (direction, side) in [("read", &stream.reads), ("write", &stream.writes)] {
                let head = |time: &str| {
                    let mut row = who(cell, index);
                    row.push(Field::Text(direction.into()));
                    row.push(Field::Text(time.into()));
                    row
                };
                add_buckets(&mut table, &head("submission"), &side.submission);
                add_buckets(&mut table, &head("service"), &side.service);
                add_buckets(&mut table, &head("response"), &side.response);
            }
        }
    }
    table
}

fn add_buckets<K: Kind>(table: &mut Table, head: &[Field], hist: &Hist<K>) {
    let mut cumulative = 0;
    for (bucket, count) in hist.buckets() {
        cumulative += count;
        let high = bucket_low(bucket) + bucket_width(bucket) - 1;
        let mut row = head.to_vec();
        for value in [bucket_low(bucket), bucket_mid(bucket), high, count, cumulative] {
            row.push(Field::Integer(value as i64));
        }
        table.rows.push(row);
    }
}
