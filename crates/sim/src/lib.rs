//! The virtual drive: a deterministic simulated SSD behind the engine's trait, in virtual time.
//!
//! Two layers: a page-mapped flash translation layer at a reduced scale says what the write
//! amplification is now ([`Ftl`]); a closed queueing network of controller, link, buffer and dies says
//! what rate and latency look like at that amplification. In *exact* mode every I/O goes through
//! both; in *interval* mode the second layer becomes tables, and hours take seconds.
//!
//! Not modelled: read disturb, retention, background cleaning of an idle drive, compression, several
//! namespaces, and what one firmware does at certain rates.

mod backend;
mod device;
mod die;
mod exact;
mod ftl;
mod host;
mod interval;
mod media;
mod paced;
mod profile;
mod table;
mod target;
pub mod theory;
mod timing;

pub use backend::VirtualBackend;
pub use ftl::{FlashCounts, Ftl};
pub use paced::PacedDrive;
pub use profile::{Profile, Published, Standing, Variant, profile_names};
pub use target::{Faults, Fidelity, Setup, VirtualTarget};
