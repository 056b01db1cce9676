//! What was typed. Help, man page and completions come from here.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Measures storage devices, and states its own error.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "\
Examples:
  fathom run quick                           measure the disk under this folder
  fathom run depth-sweep /dev/nvme1n1        read-only plans need no permission to destroy
  fathom run four-corners /dev/nvme1n1 --destroy SERIAL
  fathom show RUN.fathom                     look at a run again

Exit codes: 0 done, 1 failed, 2 usage, 3 refused for safety, 4 finished but not valid,
130 interrupted.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List every block device and whether it can be measured
    Devices(Devices),
    /// List the built-in plans
    Plans(Json),
    /// Show or check a plan
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Run a plan
    Run(Run),
    /// Go on with a run that was cut: killed, interrupted, failed, without power
    Resume(Resume),
    /// Predict what a change of a drive's setup does to a plan, on a virtual drive
    Whatif(Whatif),
    /// Show a run in the terminal
    Show(Show),
    /// Export a run for other programs
    Export(Export),
    /// Measure the instrument itself on this host
    Calibrate(Calibrate),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the man page
    #[command(hide = true)]
    Man,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Show a plan: its steps, parameters, time and bytes written
    Show(PlanFile),
    /// Check a plan and name every mistake with file and line
    Check(PlanFile),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Devices {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanFile {
    /// Built-in name or plan file
    pub(crate) plan: String,
    /// Change a parameter of the plan
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// io_uring
    Uring,
    /// pread and pwrite, one I/O a thread
    Sync,
    /// The installed fio, for cross-checks
    Fio,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Built-in name (see `fathom plans`) or plan file
    pub(crate) plan: String,
    /// Devices, files, folders or virtual drives (sim:MODEL); a folder gets a scratch file.
    /// Default: this folder
    pub(crate) targets: Vec<PathBuf>,
    /// Change a parameter of the plan (see `fathom plan show`)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Run file to make, or the folder for it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Allow the plan to destroy what is on this drive: its serial number, as `fathom devices` shows
    #[arg(long, value_name = "SERIAL")]
    pub(crate) destroy: Vec<String>,
    /// Leave out every step that writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Take over purge and fills of an earlier run, where the plan allows it and nothing was written
    /// since
    #[arg(long)]
    pub(crate) reuse: bool,
    /// Keep no ledger of what is written to the drives
    #[arg(long)]
    pub(crate) no_ledger: bool,
    /// Engine
    #[arg(long, value_enum, default_value = "uring")]
    pub(crate) engine: EngineName,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// Run file
    pub(crate) run: PathBuf,
    /// Allow the plan to destroy what is on this drive: its serial number, as `fathom devices` shows
    #[arg(long, value_name = "SERIAL")]
    pub(crate) destroy: Vec<String>,
    /// Leave out every step that writes, from here on
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Keep no ledger of what is written to the drives
    #[arg(long)]
    pub(crate) no_ledger: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Whatif {
    /// Built-in name (see `fathom plans`) or plan file
    pub(crate) plan: String,
    /// Profile of the drive: d5-p5430, tlc-3dwpd, client, or a file
    #[arg(long)]
    pub(crate) profile: String,
    /// Capacity that stays usable; the rest becomes spare
    #[arg(long, value_name = "SIZE")]
    pub(crate) over_provision: Option<String>,
    /// Power cap, such as 15W
    #[arg(long, value_name = "WATT")]
    pub(crate) power: Option<String>,
    /// Change a parameter of the plan (see `fathom plan show`)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Run file
    pub(crate) run: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The whole run as one document
    Json,
    /// A table as comma-separated values
    Csv,
    /// A table as Apache Parquet
    Parquet,
    /// What fio would have printed with --output-format=json+
    FioJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// One row for each cell, stream and direction
    Cells,
    /// One row for each interval, stream and direction
    Intervals,
    /// One row for each bucket of each histogram
    Histogram,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// Run file
    pub(crate) run: PathBuf,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) format: Format,
    /// Which table, for csv and parquet
    #[arg(long, value_enum, default_value = "intervals")]
    pub(crate) table: TableName,
    /// File to write; standard output when left out
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Calibrate {
    /// Length of each measurement
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub(crate) time: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}
