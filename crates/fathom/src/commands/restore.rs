//! `fathom devices --restore`: settings that a run changed and could not put back.

use crate::commands::run::settings_folder;
use crate::exit::Exit;
use crate::print;
use drive::Settings;

pub(crate) fn run() -> anyhow::Result<Exit> {
    let all = Settings::new(&settings_folder()).restore_all();
    if all.is_empty() {
        print::out("Nothing is to be put back.\n")?;
    }
    let mut failed = false;
    for (identity, done) in all {
        match done {
            Ok(done) => print::out(&format!("{identity}: {}\n", done.join(", ")))?,
            Err(error) => {
                failed = true;
                eprintln!("fathom: {identity}: {error}");
            }
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}
