//! What was typed. Help, man page and completions come from here.

use base::units::{Nanos, parse_span};
use clap::{Parser, Subcommand, ValueEnum};
use plan::Placement;
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
  fathom report RUN.fathom                   a page with figures and findings
  fathom serve                               the live page of runs in this folder

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
    /// Run options of fio's command line, and print what fio would: fathom fio -- --name=a --rw=randread ...
    Fio(Fio),
    /// Go on with a run that was cut: killed, interrupted, failed, without power
    Resume(Resume),
    /// Tell what a recording of I/O is like, model it as a plan, or record one
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Check what verified writes left on a target, from stamps alone or against a run's journal
    Verify(Verify),
    /// Predict what a change of a drive's setup does to a plan, on a virtual drive
    Whatif(Whatif),
    /// Measure what workers on each group of CPUs get from a drive: near and far, by cache, by core
    Placement(PlacementScan),
    /// Show a run in the terminal
    Show(Show),
    /// Make a report of runs: a page, a PDF, a workbook, a text
    Report(Report),
    /// Compare runs: ratios with confidence intervals, and what can be said of each
    Compare(Compare),
    /// Serve the live page of running runs, and a folder of run files, to a browser
    Serve(Serve),
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
    /// Print a file of fio, VDBench or Iometer as a plan, and what becomes of each option
    Convert(Convert),
    /// Show what becomes of every option of fio and every keyword of VDBench
    Options(Json),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Convert {
    /// Job file of fio (.fio, .job, .ini), parameter file of VDBench (.vdb, .parm), configuration of
    /// Iometer (.icf)
    #[arg(required_unless_present = "fio")]
    pub(crate) file: Option<String>,
    /// Give a variable of the parameter file its value
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Options of fio's command line instead: -- --name=a --rw=randread ...
    #[arg(last = true, conflicts_with = "file")]
    pub(crate) fio: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Devices {
    /// Tell all of these devices instead of listing every one
    pub(crate) devices: Vec<PathBuf>,
    /// Put settings of drives back that a run changed and, being killed, left behind
    #[arg(long, conflicts_with_all = ["devices", "json"])]
    pub(crate) restore: bool,
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
    /// Keep a journal of acknowledged writes of loads that verify, for `fathom verify` after a cut; on
    /// another device than the targets
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// When the journal goes to its medium
    #[arg(long, value_enum, default_value = "batch", requires = "journal")]
    pub(crate) journal_flush: JournalFlush,
    /// Keep no ledger of what is written to the drives
    #[arg(long)]
    pub(crate) no_ledger: bool,
    /// Time between two samples of host and drives, from 1s on, or off
    #[arg(long, default_value = "1s")]
    pub(crate) telemetry: Telemetry,
    /// CPUs of the workers: local (near the device), far, spread, or cores=0-3,8
    #[arg(long, default_value = "local")]
    pub(crate) placement: Placement,
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

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Tell what a recording is like: mix, sizes, order, places, arrivals
    Show(TraceFile),
    /// Print a plan that behaves like a recording
    Model(TraceModel),
    /// Print a recording as comma-separated values: time_ns,type,offset,size
    Convert(TraceFile),
    /// Record what is done to a device, from the kernel's block events
    Record(TraceRecord),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TraceFile {
    /// Recording: blktrace, blkparse, ftrace, fio iolog, MSR Cambridge, FIU, SPC, or CSV with a header;
    /// several files of one recording with commas between
    pub(crate) file: String,
    /// Only requests of this disk of the recording
    #[arg(long)]
    pub(crate) disk: Option<String>,
    /// Unit of its times, where the format does not say
    #[arg(long, value_enum)]
    pub(crate) time_unit: Option<TimeUnitName>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TraceModel {
    #[command(flatten)]
    pub(crate) file: TraceFile,
    /// Cut the recording into this many parts of equal time, each a step of the plan
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) phases: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TraceRecord {
    /// Device
    pub(crate) device: PathBuf,
    /// How long; Ctrl-C ends it earlier
    #[arg(long, default_value = "60s")]
    pub(crate) time: String,
    /// File to make
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeUnitName {
    /// Nanoseconds
    Ns,
    /// 100 ns, as Windows counts
    Filetime,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalFlush {
    /// Before more is issued: survives power loss
    Batch,
    /// When the system likes: survives a killed run only, and costs nearly nothing
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Devices or files; they are only read
    #[arg(required = true)]
    pub(crate) targets: Vec<PathBuf>,
    /// Journal of the run that wrote them: tells lost and stale blocks too
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Run file to make, or the folder for it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
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
pub(crate) struct Fio {
    /// Run file to make, or the folder for it
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) run_file: Option<PathBuf>,
    /// Allow the jobs to destroy what is on this drive or in this file
    #[arg(long, value_name = "SERIAL")]
    pub(crate) destroy: Vec<String>,
    /// Options of fio, and job files: --name=a --rw=randread --output-format=json ...
    #[arg(last = true, required = true)]
    pub(crate) fio: Vec<String>,
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
    /// Time between two samples of host and drives, from 1s on, or off
    #[arg(long, default_value = "1s")]
    pub(crate) telemetry: Telemetry,
    /// CPUs of the workers: local (near the device), far, spread, or cores=0-3,8
    /// [default: as the run had it]
    #[arg(long)]
    pub(crate) placement: Option<Placement>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlacementScan {
    /// Devices or files; they are only read
    #[arg(required = true)]
    pub(crate) targets: Vec<PathBuf>,
    /// How CPUs are grouped [default: the widest groups of which there are several]
    #[arg(long, value_enum)]
    pub(crate) by: Option<By>,
    /// Block of the random reads
    #[arg(long, default_value = "4k")]
    pub(crate) block: String,
    /// Depths that are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pub(crate) depth: Vec<u32>,
    /// Workers, no more than a group has CPUs
    #[arg(long, default_value = "1")]
    pub(crate) workers: u32,
    /// Length of one measurement
    #[arg(long, default_value = "200ms")]
    pub(crate) time: String,
    /// Difference that is to be resolved
    #[arg(long, default_value = "0.5%")]
    pub(crate) resolution: String,
    /// Blocks at most
    #[arg(long, default_value = "200")]
    pub(crate) blocks: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How CPUs are grouped.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum By {
    /// By NUMA node
    Node,
    /// By last cache
    Complex,
    /// Each alone
    Core,
}

impl From<By> for runner::Level {
    fn from(by: By) -> runner::Level {
        match by {
            By::Node => runner::Level::Node,
            By::Complex => runner::Level::Complex,
            By::Core => runner::Level::Core,
        }
    }
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

#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    /// Run files
    #[arg(required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// File to write; what it is follows from its ending: .html, .pdf, .xlsx, .csv, .md or .json
    /// [default: the first run's name with .html, in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// What is compared with the first: a run, several runs of one configuration (a.fathom,b.fathom), or
    /// those with a name (new=a.fathom,b.fathom)
    #[arg(required = true, value_name = "RUNS")]
    pub(crate) runs: Vec<String>,
    /// Differences below this do not matter
    #[arg(long, default_value = "2%")]
    pub(crate) same_within: String,
    /// Chance of one false difference in the whole comparison
    #[arg(long, default_value = "5%")]
    pub(crate) level: String,
    /// What this host can resolve [default: as fathom calibrate --resolution found]
    #[arg(long)]
    pub(crate) resolution: Option<String>,
    /// Run n of one was made beside run n of the other
    #[arg(long)]
    pub(crate) paired: bool,
    /// Compare what the method forbids too: not steady, not valid, other preconditioning
    #[arg(long)]
    pub(crate) force: bool,
    /// Limits to keep, one a line, such as `p99.99 of 4k-read <= 200us`; exit 4 when one is missed
    #[arg(long, value_name = "FILE")]
    pub(crate) limits: Option<PathBuf>,
    /// Lay figures that others published of a drive beside it; the words are part of its name
    #[arg(long, value_name = "DRIVE")]
    pub(crate) published: Option<String>,
    /// Page, text or workbook to write: .html, .md, .xlsx or .json
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Folder of run files
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Address and port, or the port alone for this machine only
    #[arg(long, default_value = "127.0.0.1:7117", value_name = "ADDRESS:PORT")]
    pub(crate) listen: String,
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
    /// What fio would have printed with --output-format=normal
    FioText,
    /// A flatfile with VDBench's columns, one line for each interval and one for the mean
    VdbenchFlatfile,
    /// A table as VDBench's totals: one line for each cell
    VdbenchTotals,
    /// A results file with Iometer's columns
    IometerCsv,
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
    /// Measure what this host can resolve instead: pairs of equal measurements of this target, or of a
    /// scratch file in this folder
    #[arg(long, value_name = "TARGET", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) resolution: Option<PathBuf>,
    /// Pairs, for --resolution
    #[arg(long, default_value = "20")]
    pub(crate) pairs: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

/// Time between two samples of host and drives; none when it is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telemetry(pub(crate) Option<Nanos>);

impl std::str::FromStr for Telemetry {
    type Err = String;

    fn from_str(text: &str) -> Result<Telemetry, String> {
        if text == "off" {
            return Ok(Telemetry(None));
        }
        match parse_span(text) {
            Ok(span) if span >= Nanos::SECOND => Ok(Telemetry(Some(span))),
            _ => Err("it is off, or a time of 1s or more".into()),
        }
    }
}
