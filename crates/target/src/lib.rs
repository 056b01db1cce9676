//! A drive that exists in memory and speaks NVMe over TCP: the kernel's own driver connects to it.
//!
//! It has what emulators lack: power states that slow I/O down, thermal management, sanitize with
//! progress, namespaces that are deleted and made anew, a temperature that moves, the OCP health page,
//! and media errors on request. Implemented from the NVM Express base specification 2.0 and the TCP
//! transport specification 1.0.

mod admin;
mod identify;
mod io;
mod logs;
mod media;
mod model;
mod pace;
mod pdu;
mod server;

pub use model::{Model, ModelDrive};
pub use server::{Server, serve};
