//! Completions and man page, from the same table as the help.

use crate::args::{Args, Completions};
use crate::exit::Exit;
use crate::print;
use clap::CommandFactory;

pub(crate) fn completions(args: &Completions) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "fathom", &mut text);
    print::out(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

pub(crate) fn man() -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    let command = Args::command();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let title = format!("\n.SH FATHOM {}\n", sub.get_name().to_uppercase());
        text.extend_from_slice(title.as_bytes());
        let man = clap_mangen::Man::new(sub.clone());
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
    }
    print::out(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}
