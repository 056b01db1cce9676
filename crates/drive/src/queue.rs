//! The block layer's queue of a device: settings, hardware queues, interrupts.

use crate::sysfs::{names, text};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Settings that change results, by the kernel's names.
const SETTINGS: [&str; 18] = [
    "discard_granularity",
    "discard_max_bytes",
    "fua",
    "io_poll",
    "io_timeout",
    "iostats",
    "max_hw_sectors_kb",
    "max_sectors_kb",
    "minimum_io_size",
    "nomerges",
    "nr_requests",
    "optimal_io_size",
    "read_ahead_kb",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
    "write_cache",
    "zoned",
];

/// An interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its name, such as `nvme0q1`.
    pub name: String,
    /// CPUs that it is delivered to.
    pub cpus: Option<String>,
}

/// Settings of a queue folder.
pub(crate) fn settings(queue: &Path) -> BTreeMap<&'static str, String> {
    SETTINGS.iter().filter_map(|&name| Some((name, text(queue.join(name))?))).collect()
}

/// CPUs of each hardware queue, in order.
pub(crate) fn hardware_queues(disk: &Path) -> Vec<String> {
    let folder = disk.join("mq");
    let mut numbers: Vec<u32> = names(&folder).iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    let cpus = |n: u32| text(folder.join(n.to_string()).join("cpu_list"));
    numbers.into_iter().filter_map(cpus).map(|list| list.replace(", ", ",")).collect()
}

/// Interrupts of the PCI function that a device hangs on.
pub(crate) fn interrupts(device: &Path) -> Vec<Interrupt> {
    let Some(mut at) = std::fs::canonicalize(device).ok() else { return Vec::new() };
    let mut numbers: Vec<u32> = Vec::new();
    for _ in 0..6 {
        numbers = names(at.join("msi_irqs")).iter().filter_map(|n| n.parse().ok()).collect();
        match at.parent() {
            Some(up) if numbers.is_empty() => at = up.to_owned(),
            _ => break,
        }
    }
    if numbers.is_empty() {
        return Vec::new();
    }
    numbers.sort_unstable();
    let all = text("/proc/interrupts").unwrap_or_default();
    let lines = parse_interrupts(&all);
    let found = numbers.into_iter().filter_map(|number| {
        let line = lines.get(&number)?;
        let folder = Path::new("/proc/irq").join(number.to_string());
        let cpus = text(folder.join("effective_affinity_list"))
            .or_else(|| text(folder.join("smp_affinity_list")));
        Some(Interrupt { number, name: line.name.clone(), cpus })
    });
    found.collect()
}

/// A line of /proc/interrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterruptLine {
    pub(crate) name: String,
    /// How often it was taken, on all CPUs.
    pub(crate) count: u64,
}

/// Lines of /proc/interrupts by number; those with letters are left out.
pub(crate) fn parse_interrupts(text: &str) -> BTreeMap<u32, InterruptLine> {
    let cpus = text.lines().next().map_or(0, |head| head.split_whitespace().count());
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number: u32 = number.trim().parse().ok()?;
        let counts = rest.split_whitespace().take(cpus).filter_map(|n| n.parse::<u64>().ok());
        let name = rest.split_whitespace().next_back().unwrap_or_default().to_owned();
        Some((number, InterruptLine { name, count: counts.fold(0, u64::wrapping_add) }))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// The numbers in a list such as `0-3,8,10-11`; what cannot be read is left out.
pub fn parse_cpus(list: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<usize>(), to.trim().parse::<usize>())
            && from <= to
            && to < 1 << 16
        {
            cpus.extend(from..=to);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_counted_over_all_cpus() {
        let text = "            CPU0       CPU1\n  9:          1          2  IO-APIC   9-fasteoi   acpi\n\
                    24:  7  0  PCI-MSI 524288-edge      nvme0q0\nNMI:  1  1  Non-maskable interrupts\n";
        let lines = parse_interrupts(text);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[&24], InterruptLine { name: "nvme0q0".into(), count: 7 });
        assert_eq!(lines[&9].count, 3);
        assert!(parse_interrupts("").is_empty());
    }

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(parse_cpus("0-2,5, 7-7"), [0, 1, 2, 5, 7]);
        assert!(parse_cpus("").is_empty() && parse_cpus("x,3-1,0-99999999").is_empty());
    }
}
