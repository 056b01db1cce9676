//! Tables and exports made from run files. Reads run files only, decides no verdict, prints nothing.

pub mod chart;
mod compare;
mod figures;
mod fio;
mod fio_text;
mod iometer;
mod json;
mod output;
pub mod page;
mod pdf;
mod published;
mod steady;
mod table;
mod text;
mod vdbench;
mod xlsx;

pub use compare::{
    compare_json, compare_notes, compare_page, compare_sheet, compare_summary, judgement_words,
};
pub use fio::fio_json;
pub use fio_text::fio_text;
pub use iometer::iometer_results;
pub use json::{JSON_VERSION, document};
pub use output::{OutputError, write_file};
pub use pdf::pdf;
pub use published::Published;
pub use table::{Column, ColumnKind, Field, Table, cells_table, histogram_table, intervals_table};
pub use text::{cell_line, interval_line, show, state_line, table_of};
pub use vdbench::{flatfile, totals};
pub use xlsx::xlsx;
