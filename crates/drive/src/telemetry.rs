//! What is sampled beside the I/O: CPU time of the whole host, temperature of a drive.

use crate::device::{Device, temperature};
use crate::sysfs::{block_folder, text};

/// CPU time of all CPUs since boot, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode, nice included.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// In interrupts.
    pub interrupt: u64,
    /// Idle, waiting for I/O included.
    pub idle: u64,
}

impl CpuTimes {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.user + self.system + self.interrupt + self.idle
    }
}

/// Reads the CPU time; none where /proc does not tell.
pub fn cpu_times() -> Option<CpuTimes> {
    let stat = text("/proc/stat")?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, wait, hard, soft, ..] = fields.as_slice() else { return None };
    Some(CpuTimes { user: user + nice, system: *system, interrupt: hard + soft, idle: idle + wait })
}

/// Temperature of a drive now, in degrees Celsius; none where it has no sensor the kernel reads.
pub fn temperature_c(device: &Device) -> Option<f64> {
    let disk = device.parent.as_deref().unwrap_or(&device.name);
    temperature(&block_folder(disk).join("device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_only_grows() {
        let first = cpu_times().unwrap();
        let second = cpu_times().unwrap();
        assert!(first.total() > 0 && second.total() >= first.total());
        assert!(second.user >= first.user && second.system >= first.system);
    }
}
