//! `fathom export`.

use crate::args::{Export, Format, TableName};
use crate::exit::{Exit, usage};
use crate::print;
use report::{
    cells_table, document, fio_json, fio_text, flatfile, histogram_table, intervals_table,
    iometer_results, totals, write_file,
};
use std::io::{IsTerminal, Write};
use store::RunFile;

pub(crate) fn run(args: &Export) -> anyhow::Result<Exit> {
    let run = RunFile::open(&args.run)?;
    let bytes = match args.format {
        Format::Json => pretty(&document(&run))?,
        Format::FioJson => pretty(&fio_json(&run)?)?,
        Format::FioText => fio_text(&fio_json(&run)?).into_bytes(),
        Format::VdbenchFlatfile => flatfile(&run)?.into_bytes(),
        Format::VdbenchTotals => totals(&run).into_bytes(),
        Format::IometerCsv => iometer_results(&run).into_bytes(),
        Format::Csv => table(args, &run)?.csv().into_bytes(),
        Format::Parquet => table(args, &run)?.parquet()?,
    };
    match &args.output {
        Some(path) => {
            write_file(path, &bytes)?;
            eprintln!("fathom: wrote {}", path.display());
        }
        None if args.format == Format::Parquet && std::io::stdout().is_terminal() => {
            return Err(usage("parquet is not for terminals; give a file with -o"));
        }
        None => match String::from_utf8(bytes) {
            Ok(text) => print::out(&text)?,
            Err(error) => std::io::stdout().write_all(&error.into_bytes())?,
        },
    }
    Ok(Exit::Done)
}

fn pretty(value: &serde_json::Value) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn table(args: &Export, run: &RunFile) -> anyhow::Result<report::Table> {
    Ok(match args.table {
        TableName::Cells => cells_table(run),
        TableName::Intervals => intervals_table(run)?,
        TableName::Histogram => histogram_table(run),
    })
}
