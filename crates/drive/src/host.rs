//! Facts about the host that a result needs beside it.

use crate::sysfs::{names, number, text};
use serde::Serialize;

/// The host a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostFacts {
    /// Host name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture.
    pub machine: String,
    /// Operating system.
    pub os: String,
    /// Processor model.
    pub cpu_model: String,
    /// Logical CPUs online.
    pub cpus: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether it runs under a hypervisor, as the processor says.
    pub virtual_machine: bool,
    /// What the kernel was told of processor mitigations; the rest of its command line is nobody's.
    pub mitigations: Option<String>,
}

/// Reads the facts of this host.
pub fn host_facts() -> HostFacts {
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let uname = rustix::system::uname();
    let memory = text("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1));
    let release = text("/etc/os-release").unwrap_or_default();
    let os = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    HostFacts {
        name: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        os: os.unwrap_or_default().trim_matches('"').to_owned(),
        cpu_model: field("model name").unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        numa_nodes: numa_nodes(),
        memory_bytes: total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtual_machine: field("flags").is_some_and(|flags| flags.contains("hypervisor")),
        mitigations: text("/proc/cmdline").and_then(|line| {
            let found = line.split(' ').find_map(|word| word.strip_prefix("mitigations="));
            found.map(str::to_owned)
        }),
    }
}

/// Frequency governors of the CPUs that are not `performance`, and the time in us that a CPU needs to
/// leave the deepest idle state it may enter; none where the kernel has none.
pub fn host_readiness() -> (Vec<String>, Option<u32>) {
    let cpus = std::path::Path::new("/sys/devices/system/cpu");
    let mut governors: Vec<String> = names(cpus)
        .iter()
        .filter_map(|cpu| text(cpus.join(cpu).join("cpufreq/scaling_governor")))
        .filter(|governor| governor != "performance")
        .collect();
    governors.sort();
    governors.dedup();
    let states = cpus.join("cpu0/cpuidle");
    let exit_us = |state: &String| {
        let folder = states.join(state);
        let disabled = number::<u8>(folder.join("disable")) == Some(1);
        number::<u32>(folder.join("latency")).filter(|_| !disabled)
    };
    (governors, names(&states).iter().filter_map(exit_us).max())
}

fn numa_nodes() -> usize {
    let nodes = crate::sysfs::names("/sys/devices/system/node");
    let is_node =
        |name: &&String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    nodes.iter().filter(is_node).count().max(1)
}
