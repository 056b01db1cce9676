//! What a drive says of itself: identity, health and settings by admin commands, for SATA and SAS by
//! smartctl where it is installed. What cannot be had is told and never an error.

use crate::device::Device;
use crate::nvme::{
    Controller, Endurance, ErrorEntry, Feature, Namespace, Nvme, NvmeError, Ocp, SanitizeStatus,
    Smart, celsius,
};
use crate::smartctl;
use crate::sysfs::text;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything a drive tells. Fields it does not have are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Health {
    /// Identify Controller.
    pub controller: Option<Controller>,
    /// Identify Namespace.
    pub namespace: Option<Namespace>,
    /// SMART / health information.
    pub smart: Option<Smart>,
    /// Endurance group of the namespace.
    pub endurance: Option<Endurance>,
    /// OCP extended health.
    pub ocp: Option<Ocp>,
    /// Current values of features, by [`Feature::word`].
    pub features: BTreeMap<&'static str, u32>,
    /// The error log, newest first.
    pub errors: Vec<ErrorEntry>,
    /// How the last sanitize went.
    pub sanitize: Option<SanitizeStatus>,
    /// What smartctl says of a SATA or SAS drive.
    pub smartctl: Option<Value>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

/// Entries of the error log that are read at most.
const ERRORS_MAX: u16 = 16;

impl Health {
    /// Asks the drive.
    pub fn read(device: &Device) -> Health {
        let mut health = Health::default();
        match Nvme::open(device) {
            Some(Ok(nvme)) => health.ask(&nvme),
            Some(Err(error)) => health.problems.push(error.to_string()),
            None if smartctl::is_for(device) => {
                health.smartctl = smartctl::all(&device.path);
            }
            None => {}
        }
        health
    }

    fn ask(&mut self, nvme: &Nvme) {
        self.controller = self.keep(nvme.controller());
        self.namespace = self.keep(nvme.namespace());
        self.smart = self.keep(nvme.smart());
        self.ocp = self.keep(nvme.ocp()).flatten();
        let (mut error_entries, mut sanitizes) = (1, false);
        if let Some(controller) = &self.controller {
            (error_entries, sanitizes) = (controller.error_entries, controller.sanitize.any());
        }
        self.errors = self.keep(nvme.errors(error_entries.min(ERRORS_MAX))).unwrap_or_default();
        if sanitizes {
            self.sanitize = self.keep(nvme.sanitize_status());
        }
        if let Some(group) = self.namespace.as_ref().and_then(|n| n.endurance_group) {
            self.endurance = self.keep(nvme.endurance(group));
        }
        for feature in Feature::ALL {
            if let Some(value) = self.keep(nvme.feature(feature)) {
                self.features.insert(feature.word(), value);
            }
        }
    }

    /// A value, or a problem; what a drive simply does not have is neither.
    fn keep<T>(&mut self, result: Result<T, NvmeError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !error.is_unsupported() {
                    self.problems.push(error.to_string());
                }
                None
            }
        }
    }

    /// Temperature in degrees Celsius.
    pub fn temperature_c(&self) -> Option<f64> {
        if let Some(smart) = &self.smart {
            return smart.temperature_k.map(|k| f64::from(celsius(k)));
        }
        // 0 stands for a sensor that is not there.
        self.smartctl.as_ref()?["temperature"]["current"].as_f64().filter(|c| *c != 0.0)
    }

    /// Endurance used, in percent.
    pub fn used_percent(&self) -> Option<f64> {
        if let Some(smart) = &self.smart {
            return Some(f64::from(smart.used_percent));
        }
        self.smartctl.as_ref()?["endurance_used"]["current_percent"].as_f64()
    }

    /// Whether the volatile write cache is on; none when there is none, or nobody knows.
    pub fn write_cache(&self) -> Option<bool> {
        if let Some(answer) = &self.smartctl {
            return answer["write_cache"]["enabled"].as_bool();
        }
        let value = self.features.get(Feature::WriteCache.word())?;
        self.controller.as_ref()?.volatile_write_cache.then_some(value & 1 == 1)
    }

    /// Counters that only grow, by name, to be compared before and after a run.
    pub fn counters(&self) -> BTreeMap<&'static str, u128> {
        let mut all = BTreeMap::new();
        if let Some(smart) = &self.smart {
            all.extend([
                ("units_read", smart.units_read),
                ("units_written", smart.units_written),
                ("read_commands", smart.read_commands),
                ("write_commands", smart.write_commands),
                ("power_cycles", smart.power_cycles),
                ("unsafe_shutdowns", smart.unsafe_shutdowns),
                ("media_errors", smart.media_errors),
                ("error_entries", smart.error_entries),
                ("warning_minutes", smart.warning_minutes.into()),
                ("critical_minutes", smart.critical_minutes.into()),
                ("light_throttles", smart.light_throttles.into()),
                ("heavy_throttles", smart.heavy_throttles.into()),
                ("light_throttle_s", smart.light_throttle_s.into()),
                ("heavy_throttle_s", smart.heavy_throttle_s.into()),
                ("used_percent", smart.used_percent.into()),
            ]);
        }
        if let Some(ocp) = &self.ocp {
            all.extend([
                ("ocp_media_written_bytes", ocp.media_written_bytes),
                ("ocp_media_read_bytes", ocp.media_read_bytes),
                ("ocp_uncorrectable_reads", ocp.uncorrectable_reads.into()),
                ("ocp_soft_ecc_errors", ocp.soft_ecc_errors.into()),
                ("ocp_xor_recoveries", ocp.xor_recoveries.into()),
                ("ocp_throttle_events", ocp.throttle_events.into()),
                ("ocp_pcie_correctable", ocp.pcie_correctable.into()),
                ("ocp_link_retrains", ocp.link_retrains.into()),
                ("ocp_power_state_changes", ocp.power_state_changes.into()),
                ("ocp_unaligned_ios", ocp.unaligned_ios.into()),
            ]);
        }
        all
    }
}

/// Correctable, non-fatal and fatal errors that the kernel counted on the links of a device, the device
/// and all bridges above it; none where it does not count.
pub fn link_errors(device: &Device) -> Option<[u64; 3]> {
    let link = device.link.as_ref()?;
    let mut sum: Option<[u64; 3]> = None;
    for hop in &link.hops {
        let folder = Path::new("/sys/bus/pci/devices").join(&hop.address);
        let counts = ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"]
            .map(|name| text(folder.join(name)).and_then(|lines| total(&lines)));
        if counts.iter().any(Option::is_some) {
            let all = sum.get_or_insert_default();
            all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n.unwrap_or(0));
        }
    }
    sum
}

/// The number in the line of the total.
fn total(lines: &str) -> Option<u64> {
    let line = lines.lines().find(|line| line.starts_with("TOTAL_ERR"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_link_errors_are_found() {
        assert_eq!(total("RxErr 0\nBadTLP 3\nTOTAL_ERR_COR 3"), Some(3));
        assert_eq!(total("RxErr 0"), None);
    }

    #[test]
    fn a_device_without_admin_commands_tells_nothing_and_fails_nowhere() {
        let device =
            Device { name: "loop99".into(), transport: "loop".into(), ..Device::default() };
        let health = Health::read(&device);
        assert_eq!(health, Health::default());
        assert_eq!((health.temperature_c(), health.write_cache()), (None, None));
        assert!(health.counters().is_empty() && link_errors(&device).is_none());
    }
}
