//! `fathom show`.

use crate::args::Show;
use crate::exit::Exit;
use crate::print;
use store::RunFile;

pub(crate) fn run(args: &Show) -> anyhow::Result<Exit> {
    let run = RunFile::open(&args.run)?;
    if args.json {
        print::json(&report::document(&run))?;
    } else {
        print::out(&report::show(&run))?;
    }
    Ok(Exit::Done)
}
