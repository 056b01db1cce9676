//! Processors of this host: nodes, cores, threads.

use crate::queue::parse_cpus;
use crate::sysfs::{names, number, text};
use std::path::Path;

/// A logical processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpu {
    number: usize,
    node: usize,
    /// The same for threads of one core.
    core: usize,
    /// The same for cores that share their last cache.
    complex: usize,
}

/// Logical processors and how they hang together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
}

impl Topology {
    /// Of this host. Where the kernel does not say, each CPU is a core of its own.
    pub fn read() -> Topology {
        let nodes = Path::new("/sys/devices/system/node");
        let node_of = |cpu: usize| {
            let has = |name: &String| {
                text(nodes.join(name).join("cpulist"))
                    .is_some_and(|list| parse_cpus(&list).contains(&cpu))
            };
            let node = names(nodes).into_iter().filter(|n| n.starts_with("node")).find(has);
            node.and_then(|name| name.strip_prefix("node")?.parse().ok()).unwrap_or(0)
        };
        let online = text("/sys/devices/system/cpu/online").unwrap_or_else(|| "0".into());
        let cpus = parse_cpus(&online).into_iter().map(|cpu| {
            let folder = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}"));
            // The first thread of a core stands for it, and the first CPU of a cache for its complex.
            let first = |list: Option<String>| list.and_then(|l| parse_cpus(&l).first().copied());
            let core = first(text(folder.join("topology/thread_siblings_list")));
            let last = (2..=4).rev().map(|n| folder.join(format!("cache/index{n}")));
            let cache = last.into_iter().find(|f| number::<u8>(f.join("level")).is_some());
            let complex = cache.and_then(|f| first(text(f.join("shared_cpu_list"))));
            Cpu {
                number: cpu,
                node: node_of(cpu),
                core: core.unwrap_or(cpu),
                complex: complex.unwrap_or(0),
            }
        });
        Topology { cpus: cpus.collect() }
    }

    /// Made of (CPU, node, core).
    pub fn of(cpus: impl IntoIterator<Item = (usize, usize, usize)>) -> Topology {
        let cpu = |(number, node, core)| Cpu { number, node, core, complex: node };
        Topology { cpus: cpus.into_iter().map(cpu).collect() }
    }

    fn find(&self, number: usize) -> Cpu {
        let alone = Cpu { number, node: 0, core: number, complex: 0 };
        self.cpus.iter().copied().find(|cpu| cpu.number == number).unwrap_or(alone)
    }

    /// How many threads of the core come before this one.
    fn thread(&self, cpu: Cpu) -> usize {
        self.cpus.iter().filter(|other| other.core == cpu.core && other.number < cpu.number).count()
    }

    /// These CPUs, with a thread of each core before the second of any.
    pub fn cores_first(&self, cpus: &[usize]) -> Vec<usize> {
        let mut all = cpus.to_vec();
        all.sort_by_key(|&cpu| (self.thread(self.find(cpu)), cpu));
        all
    }

    /// These CPUs, taking a core of each node in turns.
    pub fn spread(&self, cpus: &[usize]) -> Vec<usize> {
        let ordered = self.cores_first(cpus);
        let mut seen: Vec<(usize, usize)> = Vec::new();
        let mut placed: Vec<((usize, usize), usize)> = Vec::new();
        for cpu in ordered {
            let node = self.find(cpu).node;
            let turn = seen.iter().filter(|(other, _)| *other == node).count();
            seen.push((node, cpu));
            placed.push(((turn, node), cpu));
        }
        placed.sort_unstable();
        placed.into_iter().map(|(_, cpu)| cpu).collect()
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: usize) -> usize {
        self.find(cpu).node
    }

    /// Groups of these CPUs that share their last cache, by their first CPU.
    pub fn complexes(&self, cpus: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        for &cpu in cpus {
            let complex = self.find(cpu).complex;
            match groups.iter_mut().find(|(other, _)| *other == complex) {
                Some((_, group)) => group.push(cpu),
                None => groups.push((complex, vec![cpu])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_processors() {
        let topology = Topology::read();
        assert!(!topology.cpus.is_empty());
        let all: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.number).collect();
        let mut sorted = topology.cores_first(&all);
        assert_eq!(topology.spread(&all).len(), all.len());
        assert_eq!(topology.complexes(&all).iter().map(Vec::len).sum::<usize>(), all.len());
        sorted.sort_unstable();
        assert_eq!(sorted, all);
    }
}
