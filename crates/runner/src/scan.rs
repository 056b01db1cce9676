//! Placement: how much a drive gives to workers on each group of CPUs, in randomised blocks around a
//! fixed reference.

use crate::error::RunError;
use crate::setup::open;
use analysis::{Block, Finding, Ratio};
use base::clock::Clock;
use base::rng::{Rng, derive};
use base::sample::{IntervalSample, StreamSample};
use base::units::Nanos;
use drive::{Subject, Topology, parse_cpus};
use engine::{Backend, CellSpec, Engine, Next, Outcome, Sink, host_backend};
use plan::{Load, Window};
use std::sync::atomic::AtomicBool;

/// CPUs that are measured together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// For people: `node 0 (near)`, `CPUs 0-3`.
    pub name: String,
    /// In the order workers take them.
    pub cpus: Vec<usize>,
}

/// How CPUs are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// By NUMA node.
    Node,
    /// By last cache.
    Complex,
    /// Each core alone.
    Core,
}

/// What is asked of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanRules {
    /// Difference to be resolved, as a share: 0.005 is 0.5 %.
    pub resolution: f64,
    /// Confidence of all intervals together.
    pub confidence: f64,
    /// Blocks at least and at most.
    pub blocks: (u32, u32),
    /// Seed of the order.
    pub seed: u64,
}

impl Default for ScanRules {
    fn default() -> ScanRules {
        ScanRules { resolution: 0.005, confidence: 0.95, blocks: (10, 200), seed: 1 }
    }
}

/// What a scan found of one domain.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The domain.
    pub domain: Domain,
    /// Its rate to that of the reference.
    pub ratio: Option<Ratio>,
    /// What can be said.
    pub finding: Finding,
    /// Mean rate in I/Os per second.
    pub iops: f64,
}

/// A finished scan.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The reference.
    pub reference: Domain,
    /// Mean rate of the reference.
    pub reference_iops: f64,
    /// All other domains.
    pub arms: Vec<Arm>,
    /// Blocks that were measured.
    pub blocks: Vec<Block>,
    /// Whether every interval is as narrow as was asked for.
    pub resolved: bool,
}

/// Groups of the CPUs that may be used, the one nearest to the device first; that is the reference.
pub fn domains(level: Level, subject: &Subject) -> Vec<Domain> {
    let (topology, allowed) = (Topology::read(), engine::allowed_cpus());
    let near = subject.device().and_then(|d| d.local_cpus.as_deref()).map(parse_cpus);
    group(level, &topology, &allowed, near.as_deref())
}

fn group(
    level: Level,
    topology: &Topology,
    allowed: &[usize],
    near: Option<&[usize]>,
) -> Vec<Domain> {
    let groups: Vec<Vec<usize>> = match level {
        Level::Core => topology.cores_first(allowed).into_iter().map(|cpu| vec![cpu]).collect(),
        Level::Complex => topology.complexes(allowed),
        Level::Node => {
            let mut nodes: Vec<usize> = allowed.iter().map(|&cpu| topology.node(cpu)).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let of = |node: &usize| {
                allowed.iter().copied().filter(|&cpu| topology.node(cpu) == *node).collect()
            };
            nodes.iter().map(of).collect()
        }
    };
    let is_near = |cpus: &[usize]| near.is_some_and(|near| cpus.iter().any(|c| near.contains(c)));
    let several = near.is_some_and(|near| allowed.iter().any(|cpu| !near.contains(cpu)));
    let name = |cpus: &[usize]| {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let list = list.join(",");
        let place = match (several, is_near(cpus)) {
            (true, true) => ", near",
            (true, false) => ", far",
            _ => "",
        };
        match level {
            Level::Node => format!("node {} (CPUs {list}{place})", topology.node(cpus[0])),
            Level::Complex => format!("complex of CPUs {list}{place}"),
            Level::Core => format!("CPU {list}{place}"),
        }
    };
    let mut found: Vec<Domain> = groups
        .into_iter()
        .filter(|cpus: &Vec<usize>| !cpus.is_empty())
        .map(|cpus| Domain { name: name(&cpus), cpus: topology.cores_first(&cpus) })
        .collect();
    found.sort_by_key(|domain| !is_near(&domain.cpus));
    found
}

/// Measures all domains, the first being the reference, until every interval is as narrow as asked for
/// or the most blocks are done. `measure` gives the rate on a domain; `each` is told of every block and
/// ends the scan by saying false.
///
/// # Errors
/// Those of `measure`.
pub fn scan(
    domains: &[Domain],
    rules: ScanRules,
    measure: &mut dyn FnMut(&Domain) -> Result<f64, RunError>,
    each: &mut dyn FnMut(&Scan) -> bool,
) -> Result<Scan, RunError> {
    let Some((reference, others)) = domains.split_first() else {
        return Err(RunError::NotHere("no CPU may be used".into()));
    };
    // The first measurement of all is slower or faster than any after it: it counts for nothing.
    measure(reference)?;
    let mut blocks: Vec<Block> = Vec::new();
    loop {
        let mut rng = Rng::new(derive(rules.seed, blocks.len() as u64));
        let mut order: Vec<usize> = (0..others.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let first = measure(reference)?;
        let mut values = Vec::new();
        for arm in order {
            values.push((arm, measure(&others[arm])?));
        }
        blocks.push(Block { reference: [first, measure(reference)?], values });
        let found = judge(reference, others, &blocks, rules);
        let n = blocks.len() as u32;
        let enough = found.resolved && n >= rules.blocks.0;
        if !each(&found) || enough || n >= rules.blocks.1 || others.is_empty() {
            return Ok(found);
        }
    }
}

fn judge(reference: &Domain, others: &[Domain], blocks: &[Block], rules: ScanRules) -> Scan {
    let mut logs: Vec<Vec<f64>> = vec![Vec::new(); others.len()];
    let mut sums = vec![0.0; others.len()];
    for block in blocks {
        for (arm, log) in block.log_ratios().unwrap_or_default() {
            logs[arm].push(log);
        }
        block.values.iter().for_each(|(arm, value)| sums[*arm] += value);
    }
    let n = blocks.len().max(1) as f64;
    let arms: Vec<Arm> = others
        .iter()
        .zip(logs)
        .zip(sums)
        .map(|((domain, logs), sum)| {
            let ratio = Ratio::of(&logs, rules.confidence, others.len());
            let finding = ratio.map_or(Finding::Open, |ratio| ratio.finding(rules.resolution));
            Arm { domain: domain.clone(), ratio, finding, iops: sum / n }
        })
        .collect();
    let narrow = |arm: &Arm| arm.ratio.is_some_and(|r| r.half_width() <= rules.resolution);
    let resolved = arms.iter().all(narrow);
    let reference_iops =
        blocks.iter().map(|b| (b.reference[0] + b.reference[1]) / 2.0).sum::<f64>();
    Scan {
        reference: reference.clone(),
        reference_iops: reference_iops / n,
        arms,
        blocks: blocks.to_vec(),
        resolved,
    }
}

/// A target that is read on any CPUs.
pub struct Bench {
    backend: Box<dyn Backend>,
    load: Load,
    time: Nanos,
    seed: u64,
}

impl Bench {
    /// Opens a target for reading.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(subject: &Subject, load: Load, time: Nanos) -> Result<Bench, RunError> {
        let ready = open(subject, false, &[])?;
        let backend = host_backend(Engine::Uring, vec![ready.target], Clock::host());
        Ok(Bench { backend, load, time, seed: 0 })
    }

    /// The null target: what is measured is the CPU.
    pub fn null(load: Load, time: Nanos) -> Bench {
        let backend = host_backend(Engine::Uring, vec![engine::Target::null()], Clock::host());
        Bench { backend, load, time, seed: 0 }
    }

    /// The rate of reads on these CPUs, in I/Os per second.
    ///
    /// # Errors
    /// When the load cannot run, or an I/O fails.
    pub fn rate(&mut self, cpus: &[usize]) -> Result<f64, RunError> {
        self.backend.place(vec![cpus.to_vec()]);
        self.seed += 1;
        let window = Window { ramp: Nanos(self.time.0 / 5), time: Some(self.time), amount: None };
        let load = Load { workers: self.load.workers.min(cpus.len() as u32), ..self.load.clone() };
        let spec =
            CellSpec { loads: vec![load], window, interval: self.time, seed: 1, record_ios: 0 };
        let mut sum = Sum::default();
        let end = self.backend.run(&spec, &mut sum, &AtomicBool::new(false));
        let end = end.map_err(|error| RunError::Engine { step: "placement".into(), error })?;
        match end.outcome {
            Outcome::Completed => Ok(sum.ios as f64 / sum.len.as_secs_f64().max(1e-9)),
            Outcome::Faulted(fault) => Err(RunError::NotHere(fault.to_string())),
            outcome => Err(RunError::NotHere(format!("{outcome:?}"))),
        }
    }
}

#[derive(Default)]
struct Sum {
    ios: u64,
    len: Nanos,
}

impl Sink for Sum {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        if !sample.ramp {
            self.ios += sample.streams.iter().map(StreamSample::ios).sum::<u64>();
            self.len.0 += sample.len.0;
        }
        Next::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(level: Level, near: Option<&[usize]>) -> Vec<String> {
        let host = Topology::of((0..4).map(|cpu| (cpu, cpu / 2, cpu)));
        group(level, &host, &[0, 1, 2, 3], near).into_iter().map(|domain| domain.name).collect()
    }

    #[test]
    fn the_nearest_group_is_the_reference() {
        let nodes = names(Level::Node, Some(&[2, 3]));
        assert_eq!(nodes, ["node 1 (CPUs 2,3, near)", "node 0 (CPUs 0,1, far)"]);
        assert_eq!(names(Level::Core, None), ["CPU 0", "CPU 1", "CPU 2", "CPU 3"]);
        assert_eq!(names(Level::Complex, None).len(), 2);
    }

    /// A virtual drive with 1 % of noise, with and without a group of CPUs that is 1 % slower.
    #[test]
    fn a_planted_percent_is_found_with_its_sign_and_none_where_there_is_none() {
        use sim::{VirtualBackend, VirtualTarget};
        let domain = |n: usize| Domain { name: n.to_string(), cpus: vec![n] };
        let all = [domain(0), domain(1), domain(2)];
        let (mut wrong, mut found, mut blocks) = (0, 0, 0);
        for seed in 1..=20u64 {
            let text = format!("sim:d5-p5430,noise=1%,seed={seed}");
            let target = VirtualTarget::parse(&text).unwrap();
            let mut drive = VirtualBackend::new(&[target], Clock::virtual_at(0));
            let load = plan::parse("t", "name=\"t\"\n[[step]]\nload={depth=32, time=\"20s\"}", &[]);
            let plan::Verb::Load(cell) = load.unwrap().steps.remove(0).verb else {
                panic!("a load")
            };
            let spec = CellSpec {
                loads: cell.loads,
                window: cell.window,
                interval: Nanos::SECOND,
                seed,
                record_ios: 0,
            };
            let mut measure = |domain: &Domain| {
                let mut sum = Sum::default();
                drive.run(&spec, &mut sum, &AtomicBool::new(false)).unwrap();
                let slower = if domain.cpus == [2] { 0.99 } else { 1.0 };
                Ok(sum.ios as f64 / sum.len.as_secs_f64() * slower)
            };
            let rules = ScanRules { seed, ..ScanRules::default() };
            let scan = scan(&all, rules, &mut measure, &mut |_| true).unwrap();
            assert!(scan.resolved, "{:?}", scan.arms);
            blocks += scan.blocks.len();
            wrong += usize::from(matches!(scan.arms[0].finding, Finding::Higher | Finding::Lower));
            found += usize::from(scan.arms[1].finding == Finding::Lower);
        }
        println!(
            "20 scans, {} blocks on average: planted 1 % found in {found}, false findings {wrong}",
            blocks / 20
        );
        assert!(found == 20, "{found} of 20");
        assert!(wrong <= 3, "{wrong} of 20 where 1 is expected");
    }
}
