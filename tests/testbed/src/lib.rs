//! Boots a Debian kernel in QEMU and runs Fathom's own static program in it, against the kernel's real
//! NVMe driver. Everything is emulated without help of the host's processor: this is for behaviour,
//! never for speed.

mod machine;
mod qmp;

pub use machine::{Boot, Check, Drive, Machine, Report, ready};
