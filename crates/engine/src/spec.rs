//! What a cell asks of a back end, and how its loads become workers.

use crate::error::EngineError;
use base::units::{Bytes, Nanos};
use plan::{Demand, Load, Pattern, Window};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether the page cache is bypassed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// I/O goes to the device.
    Yes,
    /// The file system refused; the page cache is measured.
    No,
}

/// Whether completions are polled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Interrupts.
    Off,
    /// Polled; the device said that it has poll queues.
    On,
}

/// An opened target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name for messages.
    pub name: String,
    /// Where it was opened, for external engines.
    pub path: PathBuf,
    /// The open file; none for the null target, whose I/Os are no-ops of the ring.
    pub file: Option<Arc<OwnedFd>>,
    /// Usable size.
    pub size: Bytes,
    /// Smallest unit of I/O.
    pub block: Bytes,
    /// Page cache or not.
    pub direct: Direct,
    /// Interrupts or polling.
    pub polling: Polling,
    /// The file is a generic NVMe device: I/O goes to it as commands.
    pub command: Option<CommandTarget>,
}

/// A namespace that is sent commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTarget {
    /// Its number.
    pub nsid: u32,
    /// Most bytes of a command.
    pub len_max: Bytes,
}

impl Target {
    /// A target without a device: what remains is the cost of the instrument and the ring.
    pub fn null() -> Target {
        Target {
            name: "null".into(),
            path: PathBuf::new(),
            file: None,
            size: Bytes(1 << 40),
            block: Bytes(512),
            direct: Direct::Yes,
            polling: Polling::Off,
            command: None,
        }
    }
}

/// One cell, ready to run.
#[derive(Clone, Debug)]
pub struct CellSpec {
    /// The loads, side by side.
    pub loads: Vec<Load>,
    /// When it counts and when it ends.
    pub window: Window,
    /// Length of an interval.
    pub interval: Nanos,
    /// Seed of this cell.
    pub seed: u64,
    /// Keep a record of up to this many I/Os of each worker (0: none).
    pub record_ios: usize,
}

/// A load on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Index of the load in its cell.
    pub load: usize,
    /// Index of the target.
    pub target: usize,
}

/// The streams of a cell in their fixed order: by load, then by target.
pub fn streams(loads: &[Load], n_targets: usize) -> Vec<Stream> {
    let mut streams = Vec::new();
    for (load, spec) in loads.iter().enumerate() {
        for target in 0..n_targets {
            if spec.targets.is_empty() || spec.targets.contains(&target) {
                streams.push(Stream { load, target });
            }
        }
    }
    streams
}

/// One worker to be started.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSpec {
    /// Which target.
    pub(crate) target: usize,
    /// Streams whose I/Os it issues, with weights.
    pub(crate) flows: Vec<(usize, f64)>,
    /// Number among the workers of its group.
    pub(crate) index: u32,
    /// Workers of its group.
    pub(crate) of: u32,
    /// Outstanding I/Os.
    pub(crate) depth: u32,
    /// With the rate of this worker alone.
    pub(crate) demand: Demand,
    /// Bytes it may issue.
    pub(crate) budget: u64,
    /// Seed of its choices.
    pub(crate) seed: u64,
}

/// Most worker threads of one cell.
const THREADS_MAX: usize = 8192;

impl CellSpec {
    /// Whether every load fits the unit and the size of each of its targets.
    ///
    /// # Errors
    /// The first load that does not.
    pub fn check(&self, targets: &[Target]) -> Result<(), EngineError> {
        let all = streams(&self.loads, targets.len());
        if all.is_empty() {
            return Err(EngineError::NoWorkers);
        }
        all.iter().try_for_each(|s| check_fit(&self.loads[s.load], &targets[s.target]))
    }

    /// The workers of this cell. With `one_at_a_time` each outstanding I/O becomes a worker.
    pub(crate) fn workers(
        &self,
        targets: &[Target],
        one_at_a_time: bool,
    ) -> Result<Vec<WorkerSpec>, EngineError> {
        let streams = streams(&self.loads, targets.len());
        let mut specs = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let here: Vec<(usize, &Load)> = streams
                .iter()
                .enumerate()
                .filter(|(_, stream)| stream.target == index)
                .map(|(at, stream)| (at, &self.loads[stream.load]))
                .collect();
            here.iter().try_for_each(|(_, load)| check_fit(load, target))?;
            let shared: Vec<(usize, &Load)> =
                here.iter().copied().filter(|(_, load)| load.weight.is_some()).collect();
            if !shared.is_empty() {
                self.add_group(&mut specs, index, target, &shared, one_at_a_time);
            }
            for alone in here.iter().filter(|(_, load)| load.weight.is_none()) {
                self.add_group(&mut specs, index, target, &[*alone], one_at_a_time);
            }
        }
        if specs.is_empty() {
            return Err(EngineError::NoWorkers);
        }
        if specs.len() > THREADS_MAX {
            return Err(EngineError::TooManyThreads { asked: specs.len(), most: THREADS_MAX });
        }
        Ok(specs)
    }

    fn add_group(
        &self,
        specs: &mut Vec<WorkerSpec>,
        target_idx: usize,
        target: &Target,
        group: &[(usize, &Load)],
        one_at_a_time: bool,
    ) {
        let (_, first) = group[0];
        let (of, depth) = match one_at_a_time {
            true => (first.workers * first.depth, 1),
            false => (first.workers, first.depth),
        };
        let budgets = self.budgets(first, target, of);
        for index in 0..of {
            let demand = match first.demand {
                Demand::Open { rate_iops, arrival, backlog } => Demand::Open {
                    rate_iops: rate_iops / f64::from(of),
                    arrival,
                    backlog: backlog.div_ceil(u64::from(of)),
                },
                Demand::Closed => Demand::Closed,
            };
            specs.push(WorkerSpec {
                target: target_idx,
                flows: group.iter().map(|(at, load)| (*at, load.weight.unwrap_or(1.0))).collect(),
                index,
                of,
                depth,
                demand,
                budget: budgets[index as usize],
                seed: base::rng::derive(self.seed, specs.len() as u64 + 1),
            });
        }
    }

    /// Splits the amount over the workers of a group in whole blocks.
    fn budgets(&self, load: &Load, target: &Target, of: u32) -> Vec<u64> {
        let (start, end) = extent(load, target);
        let total = match self.window.amount {
            None => return vec![u64::MAX; of as usize],
            Some(amount) => amount.on(end - start, target.size),
        };
        let block = load.block_max().0.max(1);
        // Only a stream has a tail; elsewhere an amount means whole blocks.
        let rest = match load.pattern {
            Pattern::Sequential(_) => total % block / target.block.0 * target.block.0,
            _ => 0,
        };
        let blocks = total / block;
        let n = u64::from(of);
        let share = |w: u64| (blocks / n + u64::from(w < blocks % n)) * block;
        let mut budgets: Vec<u64> = (0..n).map(share).collect();
        budgets[0] += rest;
        budgets
    }
}

/// First and last+1 byte of a load on a target, aligned to what its addresses are multiples of.
pub fn extent(load: &Load, target: &Target) -> (u64, u64) {
    let unit = load.align.unwrap_or(Bytes(load.block_max().0.min(4096))).0.max(target.block.0);
    let start = load.range.0.resolve(target.size).0.next_multiple_of(unit);
    let end = load.range.1.resolve(target.size).0 / target.block.0 * target.block.0;
    (start, end.max(start))
}

/// A load must fit the target's unit and size.
fn check_fit(load: &Load, target: &Target) -> Result<(), EngineError> {
    let unit = target.block.0;
    let sizes = load.read_blocks.0.iter().chain(&load.write_blocks.0).map(|&(block, _)| block);
    let aligned = load.align.is_none_or(|align| align.0 % unit == 0);
    if let Some(block) = sizes.clone().find(|block| block.0 % unit != 0) {
        return Err(EngineError::BlockTooSmall {
            block,
            unit: target.block,
            target: target.name.clone(),
        });
    }
    if !aligned {
        let block = load.align.unwrap_or_default();
        return Err(EngineError::BlockTooSmall {
            block,
            unit: target.block,
            target: target.name.clone(),
        });
    }
    let most = target.command.map_or(Bytes(u64::MAX), |command| command.len_max);
    if load.block_max() > most {
        return Err(EngineError::BlockTooLarge {
            block: load.block_max(),
            most,
            target: target.name.clone(),
        });
    }
    let (start, end) = extent(load, target);
    if end - start < load.block_max().0 {
        return Err(EngineError::RangeTooSmall {
            block: load.block_max(),
            range: Bytes(end - start),
            target: target.name.clone(),
        });
    }
    Ok(())
}
