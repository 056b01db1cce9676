//! Tables and exports made from run files. Reads run files only, decides no verdict, prints nothing.

mod fio;
mod json;
mod output;
mod steady;
mod table;
mod text;

pub use fio::fio_json;
pub use json::{JSON_VERSION, document};
pub use output::{OutputError, write_file};
pub use table::{Column, ColumnKind, Field, Table, cells_table, histogram_table, intervals_table};
pub use text::{cell_line, show, state_line, table_of};
