//! NVMe admin commands by the kernel's pass-through: no other program is needed.
//!
//! Everything here reads, or sets what a power cycle resets. What destroys data is in [`erase`] and
//! needs the right that only a [`crate::Permit`] grants.

mod bytes;
mod command;
pub(crate) mod erase;
mod identify;
mod logs;
mod sys;

use crate::device::Device;
use crate::sysfs::{block_folder, names, number, text};
pub use command::status_name;
use command::{Command, status_text};
pub use identify::{AdminCommands, Controller, LbaFormat, Namespace, PowerState, SanitizeWays};
use logs::parse_errors;
pub use logs::{Endurance, ErrorEntry, Ocp, SanitizeState, SanitizeStatus, Smart, celsius};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Why an admin command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum NvmeError {
    /// The drive refused.
    #[error("{path}: {command} failed: {}", status_text(*status))]
    Status {
        /// The controller.
        path: PathBuf,
        /// The command.
        command: &'static str,
        /// NVMe status.
        status: u16,
    },
    /// The kernel refused.
    #[error("{path}: {command} cannot be sent: {error}{}", advice(error))]
    System {
        /// The controller.
        path: PathBuf,
        /// The command.
        command: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The drive answered something that cannot be.
    #[error("{path}: {what}")]
    Answer {
        /// The controller.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl NvmeError {
    /// Whether the drive does not have what was asked for, rather than failing at it.
    pub fn is_unsupported(&self) -> bool {
        let NvmeError::Status { status, .. } = self else { return false };
        // Invalid opcode, field, log page; feature not changeable.
        matches!(status & 0x7ff, 0x001 | 0x002 | 0x109 | 0x10e)
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; admin commands need root (sudo)",
        Some(libc::ENODEV | libc::ENXIO) => "; the drive is gone",
        _ => "",
    }
}

fn long_enough(page: &str, bytes: &[u8], least: usize) -> Result<(), String> {
    match bytes.len() {
        len if len < least => {
            Err(format!("{page}: the page has {len} bytes, {least} are expected"))
        }
        _ => Ok(()),
    }
}

/// Features that are read and set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Power state, in bits 4:0.
    PowerState,
    /// Over-temperature threshold of the composite temperature, in kelvin.
    OverTemperature,
    /// Volatile write cache, in bit 0.
    WriteCache,
    /// Host-controlled thermal management: light limit in bits 31:16, heavy in 15:0, in kelvin.
    ThermalManagement,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 4] = [
        Feature::PowerState,
        Feature::OverTemperature,
        Feature::WriteCache,
        Feature::ThermalManagement,
    ];

    fn id(self) -> u8 {
        match self {
            Feature::PowerState => 0x02,
            Feature::OverTemperature => 0x04,
            Feature::WriteCache => 0x06,
            Feature::ThermalManagement => 0x10,
        }
    }

    /// Name in files and messages.
    pub fn word(self) -> &'static str {
        match self {
            Feature::PowerState => "power_state",
            Feature::OverTemperature => "over_temperature_k",
            Feature::WriteCache => "write_cache",
            Feature::ThermalManagement => "thermal_management",
        }
    }
}

/// An NVMe drive, by the character device of its controller.
#[derive(Debug)]
pub struct Nvme {
    file: File,
    path: PathBuf,
    nsid: u32,
}

impl Nvme {
    /// Opens the controller of a namespace's block device; none when it is no NVMe drive.
    ///
    /// # Errors
    /// When the controller cannot be opened.
    pub fn open(device: &Device) -> Option<Result<Nvme, NvmeError>> {
        let disk = device.parent.as_deref().unwrap_or(&device.name);
        let controller = controller_of(disk)?;
        let nsid = number(block_folder(disk).join("nsid"))?;
        let path = Path::new("/dev").join(controller);
        Some(match File::open(&path) {
            Ok(file) => Ok(Nvme { file, path, nsid }),
            Err(error) => Err(NvmeError::System { path, command: "opening", error }),
        })
    }

    /// Number of the namespace.
    pub fn nsid(&self) -> u32 {
        self.nsid
    }

    /// The controller's node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn send(&self, command: &Command, data: &mut [u8]) -> Result<u32, NvmeError> {
        let (path, name) = (self.path.clone(), command.name);
        match sys::admin(self.file.as_fd(), command, data) {
            Ok((0, result)) => Ok(result),
            Ok((status, _)) => Err(NvmeError::Status { path, command: name, status }),
            Err(error) => Err(NvmeError::System { path, command: name, error }),
        }
    }

    fn page(&self, command: &Command, bytes: usize) -> Result<Vec<u8>, NvmeError> {
        let mut data = vec![0; bytes];
        self.send(command, &mut data).map(|_| data)
    }

    fn parsed<T>(&self, result: Result<T, String>) -> Result<T, NvmeError> {
        result.map_err(|what| NvmeError::Answer { path: self.path.clone(), what })
    }

    /// Identify Controller.
    ///
    /// # Errors
    /// When the drive or the kernel refuses.
    pub fn controller(&self) -> Result<Controller, NvmeError> {
        self.parsed(Controller::parse(&self.page(&Command::identify(1, 0), 4096)?))
    }

    /// Identify Namespace.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn namespace(&self) -> Result<Namespace, NvmeError> {
        self.parsed(Namespace::parse(&self.page(&Command::identify(0, self.nsid), 4096)?))
    }

    /// Numbers of the namespaces that are attached to this controller.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn attached(&self) -> Result<Vec<u32>, NvmeError> {
        Ok(identify::namespace_list(&self.page(&Command::identify(2, 0), 4096)?))
    }

    /// Numbers of all namespaces of the drive, attached or not; where it cannot list them, those that
    /// are attached.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn namespaces(&self) -> Result<Vec<u32>, NvmeError> {
        match self.page(&Command::identify(0x10, 0), 4096) {
            Ok(page) => Ok(identify::namespace_list(&page)),
            Err(error) if error.is_unsupported() => self.attached(),
            Err(error) => Err(error),
        }
    }

    /// Health.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn smart(&self) -> Result<Smart, NvmeError> {
        self.parsed(Smart::parse(&self.page(&Command::log(0x02, 512), 512)?))
    }

    /// Entries of the error log, newest first. It is read in one piece: some drives fail at parts.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn errors(&self, entries: u16) -> Result<Vec<ErrorEntry>, NvmeError> {
        let bytes = usize::from(entries.clamp(1, 64)) * 64;
        Ok(parse_errors(&self.page(&Command::log(0x01, bytes), bytes)?))
    }

    /// Progress of a sanitize.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn sanitize_status(&self) -> Result<SanitizeStatus, NvmeError> {
        self.parsed(SanitizeStatus::parse(&self.page(&Command::log(0x81, 512), 512)?))
    }

    /// OCP extended health; none when the drive has none.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn ocp(&self) -> Result<Option<Ocp>, NvmeError> {
        match self.page(&Command::log(0xC0, 512), 512) {
            Ok(page) => self.parsed(Ocp::parse(&page)),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Endurance of the namespace's group.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn endurance(&self, group: u16) -> Result<Endurance, NvmeError> {
        let mut command = Command::log(0x09, 512);
        command.cdw10[1] |= u32::from(group) << 16;
        self.parsed(Endurance::parse(&self.page(&command, 512)?))
    }

    /// Current value of a feature.
    ///
    /// # Errors
    /// As [`Nvme::controller`].
    pub fn feature(&self, feature: Feature) -> Result<u32, NvmeError> {
        self.send(&Command::feature(feature.id(), 0), &mut [])
    }

    /// Sets a feature, and reads it back: some drives accept what they do not do.
    ///
    /// # Errors
    /// As [`Nvme::controller`], and when the drive has another value afterwards.
    pub fn set_feature(&self, feature: Feature, value: u32) -> Result<(), NvmeError> {
        self.send(&Command::set_feature(feature.id(), value), &mut [])?;
        let now = self.feature(feature)?;
        if now != value {
            let what = format!("{} was set to {value} and is {now}", feature.word());
            return Err(NvmeError::Answer { path: self.path.clone(), what });
        }
        Ok(())
    }
}

/// Kernel name of the controller of a namespace's disk, such as `nvme0`. The numbers in both names need
/// not be equal, so the folders decide.
pub(crate) fn controller_of(disk: &str) -> Option<String> {
    let real = std::fs::canonicalize(block_folder(disk).join("device")).ok()?;
    let name = real.file_name()?.to_str()?;
    if !name.starts_with("nvme-subsys") {
        return name.starts_with("nvme").then(|| name.to_owned());
    }
    // The head of several paths: any controller that is there will do.
    let all = names(&real);
    let is_controller = |name: &&String| {
        name.strip_prefix("nvme").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut controllers = all.iter().filter(is_controller);
    let live = |name: &&String| text(real.join(name).join("state")).as_deref() == Some("live");
    controllers.clone().find(live).or_else(|| controllers.next()).cloned()
}

#[cfg(test)]
mod tests;
