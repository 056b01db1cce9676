//! Discovery, identity, use checks, and the permit to write.
//!
//! Nothing in the workspace can open a target for writing but through [`Permit`]. Missing facts are
//! none, never an error: a device with partial information is still listed.

mod counters;
mod device;
mod host;
mod permit;
mod signature;
mod sysfs;
mod target;
mod telemetry;
mod usage;

pub use counters::{WriteState, device_bytes, holes, write_cache, write_state};
pub use device::{Device, Link, discover, find};
pub use host::{HostFacts, host_facts};
pub use permit::{Deallocator, Opened, Permit, Refusal, open_for_reading};
pub use signature::{Found, FoundKind, scan};
pub use target::{Kind, Scratch, Subject, TargetError, resolve};
pub use telemetry::{CpuTimes, cpu_times, temperature_c};
pub use usage::{Usage, UsageReason, usage_of_device, usage_of_file};
