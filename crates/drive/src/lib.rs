//! Discovery, identity, use checks, and the permit to write.
//!
//! Nothing in the workspace can open a target for writing but through [`Permit`]. Missing facts are
//! none, never an error: a device with partial information is still listed.

mod ata_scsi;
mod counters;
mod device;
mod health;
mod host;
mod link;
mod nvme;
mod permit;
mod queue;
mod recorder;
mod settings;
mod signature;
mod smartctl;
mod sysfs;
mod target;
mod telemetry;
mod topology;
mod usage;

pub use counters::{WriteState, device_bytes, device_ios, holes, write_cache, write_state};
pub use device::{Device, discover, find};
pub use health::{Health, link_errors};
pub use host::{HostFacts, host_facts, host_readiness};
pub use link::{Hop, Link};
pub use nvme::{
    AdminCommands, Controller, Endurance, ErrorEntry, Feature, LbaFormat, Namespace, Nvme,
    NvmeError, Ocp, PowerState, SanitizeState, SanitizeStatus, SanitizeWays, Smart, celsius,
    status_name,
};
pub use permit::{Eraser, Opened, Permit, Refusal, open_for_reading};
pub use queue::{Interrupt, parse_cpus};
pub use recorder::{Recorder, device_number};
pub use settings::Settings;
pub use signature::{Found, FoundKind, scan};
pub use target::{Kind, Scratch, Subject, TargetError, resolve};
pub use telemetry::{
    CpuStat, CpuTimes, Probe, Sample, cpu_stat, frequency_mhz, interrupt_counts, package_energy_uj,
};
pub use topology::Topology;
pub use usage::{Usage, UsageReason, usage_of_device, usage_of_file};
