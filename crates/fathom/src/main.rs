//! The command line of Fathom: the only place that prints, reads the environment, or exits.

mod args;
mod commands;
mod exit;
mod live;
mod print;

use args::{Command, PlanCommand};
use clap::Parser;
use exit::Exit;

fn main() -> std::process::ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("fathom: internal error: {panic}");
        eprintln!(
            "This is a fault of Fathom, not of your drive. What was measured is in the run file."
        );
    }));
    let args = args::Args::parse();
    let result = std::panic::catch_unwind(|| match args.command {
        Command::Devices(args) => commands::devices::run(&args),
        Command::Plans(args) => commands::plans::list(&args),
        Command::Plan(PlanCommand::Show(args)) => commands::plans::show(&args),
        Command::Plan(PlanCommand::Check(args)) => commands::plans::check(&args),
        Command::Plan(PlanCommand::Convert(args)) => commands::import::convert(&args),
        Command::Plan(PlanCommand::Options(args)) => commands::import::options(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Fio(args) => commands::fio::run(&args),
        Command::Resume(args) => commands::resume::run(&args),
        Command::Placement(args) => commands::placement::run(&args),
        Command::Trace(command) => commands::trace::run(&command),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Whatif(args) => commands::whatif::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Completions(args) => commands::help::completions(&args),
        Command::Man => commands::help::man(),
    });
    let result = result.unwrap_or_else(|_| Ok(Exit::Failed));
    match result {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
