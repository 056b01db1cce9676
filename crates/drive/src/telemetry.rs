//! What is sampled beside the I/O: CPU time, frequency and interrupts of the host, power, temperatures.

use crate::device::{Device, temperature};
use crate::nvme::{Nvme, Smart};
use crate::queue::parse_interrupts;
use crate::sysfs::{block_folder, names, number, text};
use std::collections::BTreeMap;
use std::path::Path;

/// CPU time since boot, in ticks of the kernel.
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

    /// What went by since `before`.
    pub fn since(&self, before: &CpuTimes) -> CpuTimes {
        CpuTimes {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupt: self.interrupt.saturating_sub(before.interrupt),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    /// Shares of the whole, by name; none when no time went by.
    pub fn shares(&self) -> Option<[(&'static str, f64); 4]> {
        let total = self.total() as f64;
        let share = |ticks: u64| ticks as f64 / total;
        (total > 0.0).then(|| {
            [
                ("cpu_user_share", share(self.user)),
                ("cpu_system_share", share(self.system)),
                ("cpu_interrupt_share", share(self.interrupt)),
                ("cpu_idle_share", share(self.idle)),
            ]
        })
    }
}

/// What the processors did since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// All together.
    pub all: CpuTimes,
    /// Each by its number.
    pub cores: Vec<(usize, CpuTimes)>,
    /// Context switches.
    pub context_switches: u64,
}

/// Reads the CPU times; none where /proc does not tell.
pub fn cpu_stat() -> Option<CpuStat> {
    parse_stat(&text("/proc/stat")?)
}

fn parse_stat(stat: &str) -> Option<CpuStat> {
    let mut found = CpuStat::default();
    for line in stat.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        if name == "cpu" {
            found.all = parse_times(rest)?;
        } else if let Some(number) = name.strip_prefix("cpu") {
            found.cores.push((number.parse().ok()?, parse_times(rest)?));
        } else if name == "ctxt" {
            found.context_switches = rest.trim().parse().unwrap_or(0);
        }
    }
    (found.all.total() > 0).then_some(found)
}

fn parse_times(rest: &str) -> Option<CpuTimes> {
    let fields: Vec<u64> = rest.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, wait, hard, soft, ..] = fields.as_slice() else { return None };
    Some(CpuTimes { user: user + nice, system: *system, interrupt: hard + soft, idle: idle + wait })
}

/// Frequency of a CPU now, in MHz; none where the kernel does not control it.
pub fn frequency_mhz(cpu: usize) -> Option<f64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    Some(number::<f64>(path)? / 1000.0)
}

/// How often each of a device's interrupts was taken, by name.
pub fn interrupt_counts(device: &Device) -> Vec<(String, u64)> {
    if device.interrupts.is_empty() {
        return Vec::new();
    }
    let lines = parse_interrupts(&text("/proc/interrupts").unwrap_or_default());
    let count = |number: u32| lines.get(&number).map_or(0, |line| line.count);
    device.interrupts.iter().map(|i| (i.name.clone(), count(i.number))).collect()
}

/// Energy that the processor packages used, in uJ, by name; empty where the host does not tell. The
/// counters start again at their ranges.
pub fn package_energy_uj() -> BTreeMap<String, u64> {
    let root = Path::new("/sys/class/powercap");
    let packages = names(root).into_iter().filter(|name| name.matches(':').count() == 1);
    packages
        .filter_map(|name| Some((name.clone(), number(root.join(&name).join("energy_uj"))?)))
        .collect()
}

/// What a drive is asked while I/O runs.
#[derive(Debug)]
pub struct Probe {
    nvme: Option<Nvme>,
    device: Device,
}

/// What a drive answered.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Composite temperature, or that of the only sensor, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// The health page of an NVMe drive.
    pub smart: Option<Smart>,
}

impl Probe {
    /// Prepares to ask a drive.
    pub fn new(device: &Device) -> Probe {
        // Without the right to send admin commands a sensor of the kernel is left.
        let nvme = Nvme::open(device).and_then(Result::ok).filter(|nvme| nvme.smart().is_ok());
        Probe { nvme, device: device.clone() }
    }

    /// Asks the drive.
    pub fn sample(&self) -> Sample {
        let smart = self.nvme.as_ref().and_then(|nvme| nvme.smart().ok());
        let kelvin = smart.as_ref().and_then(|smart| smart.temperature_k);
        let temperature_c = match kelvin {
            Some(kelvin) => Some(f64::from(crate::nvme::celsius(kelvin))),
            None if self.nvme.is_some() => None,
            None => {
                let disk = self.device.parent.as_deref().unwrap_or(&self.device.name);
                temperature(&block_folder(disk).join("device"))
            }
        };
        Sample { temperature_c, smart }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_only_grows() {
        let (first, second) = (cpu_stat().unwrap(), cpu_stat().unwrap());
        assert!(!first.cores.is_empty() && second.context_switches >= first.context_switches);
        assert!(second.all.total() >= first.all.total() && second.all.user >= first.all.user);
    }

    #[test]
    fn shares_add_up_and_odd_text_is_none() {
        let text = "cpu  10 0 20 60 0 4 6 0 0 0\ncpu0 10 0 20 60 0 4 6 0 0 0\nintr 5\nctxt 77\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.context_switches, stat.cores.len()), (77, 1));
        let shares = stat.all.since(&CpuTimes::default()).shares().unwrap();
        assert_eq!(shares.map(|(_, share)| share), [0.1, 0.2, 0.1, 0.6]);
        assert_eq!(CpuTimes::default().shares(), None);
        assert!(parse_stat("").is_none() && parse_stat("cpu 1 2").is_none());
    }
}
