//! `fathom whatif`.

use crate::args::Whatif;
use crate::exit::Exit;

pub(crate) fn run(_args: &Whatif) -> anyhow::Result<Exit> {
    unreachable!()
}
