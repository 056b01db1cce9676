//! System calls and memory shared with the kernel. The only place of this crate with `unsafe`.
#![allow(unsafe_code)]

pub(crate) mod command_ring;
pub(crate) mod memory;
pub(crate) mod ring;
pub(crate) mod thread;
