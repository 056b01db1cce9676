//! What the instrument itself costs on this host: the same loop without a device under it, with the
//! ring's no-op, and with a queue in user space that involves no kernel at all.

use crate::address::{Cursor, CursorPlace, choices};
use crate::backend::{Engine, Next, Sink, host_backend};
use crate::core::{ALWAYS, Core, CoreParts, Flow, Timeline, Wires};
use crate::error::EngineError;
use crate::ledger::{BookKind, SidePlace};
use crate::spec::{CellSpec, Target};
use crate::sys::memory::Arena;
use crate::sys::ring::{Cqe, Queue, Request, Sqe};
use crate::uring::UringWorker;
use base::clock::Clock;
use base::sample::IntervalSample;
use base::units::{Bytes, Nanos};
use plan::{BlockMix, Load, Window};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

/// Costs at one depth, one worker, in ns per I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnCost {
    /// Depth.
    pub depth: u32,
    /// Fathom's own share: everything in user space, with every latency counted.
    pub own_ns: f64,
    /// The whole path through the ring with a request that does nothing.
    pub noop_ns: f64,
}

/// A queue that completes everything at once without a kernel.
struct Mirror {
    queued: Vec<Cqe>,
    done: Vec<Cqe>,
}

impl Queue for Mirror {
    #[inline(always)]
    fn push(&mut self, sqe: &Sqe) {
        self.queued.push(Cqe::new(sqe.user_data, sqe.len as i32));
    }

    #[inline(always)]
    fn push_all(&mut self, slots: &[u32], requests: &mut [Request], start: u64) {
        for &slot in slots {
            let request = &mut requests[slot as usize];
            request.start = start;
            let Sqe { user_data, len, .. } = request.sqe;
            self.queued.push(Cqe::new(user_data, len as i32));
        }
    }

    #[inline(always)]
    fn drain(
        &mut self,
        _n: u32,
        list: &mut [u32],
        mut keep: impl FnMut(u64, i32) -> bool,
    ) -> usize {
        let mut listed = 0;
        for done in self.done.drain(..) {
            if keep(done.user_data, done.res) {
                list[listed] = done.user_data as u32;
                listed += 1;
            }
        }
        listed
    }

    #[inline(always)]
    fn enter(&mut self, submit: u32, _wait: u32) -> i64 {
        std::mem::swap(&mut self.queued, &mut self.done);
        self.queued.clear();
        i64::from(submit)
    }

    fn wait_for(&mut self, _timeout_ns: u64) -> i64 {
        0
    }

    #[inline(always)]
    fn ready(&self) -> u32 {
        self.done.len() as u32
    }

    #[inline(always)]
    fn completion(&self, index: u32) -> Cqe {
        self.done[index as usize]
    }

    #[inline(always)]
    fn advance(&mut self, _n: u32) {
        self.done.clear();
    }

    fn needs_enter(&self) -> bool {
        false
    }

    fn can_wait_timed(&self) -> bool {
        false
    }
}

/// Counts I/Os and time of the intervals it is given.
#[derive(Default)]
struct Tally {
    ios: u64,
    ns: u64,
}

impl Sink for Tally {
    fn interval(&mut self, sample: IntervalSample) -> Next {
        if !sample.ramp {
            self.ios += sample.streams.iter().map(|stream| stream.ios()).sum::<u64>();
            self.ns += sample.len.0;
        }
        Next::Continue
    }
}

/// Measures the instrument's cost at a depth; takes about twice `time`.
///
/// # Errors
/// When the ring cannot be set up.
pub fn measure_own_cost(clock: &Clock, depth: u32, time: Nanos) -> Result<OwnCost, EngineError> {
    let load = null_load(depth);
    let mut backend = host_backend(Engine::Uring, vec![Target::null()], clock.clone());
    let window = Window { ramp: Nanos(time.0 / 10), time: Some(time), amount: None };
    let cell =
        CellSpec { loads: vec![load.clone()], window, interval: time, seed: 1, record_ios: 0 };
    let mut tally = Tally::default();
    backend.run(&cell, &mut tally, &AtomicBool::new(false))?;
    let noop_ns = tally.ns as f64 / tally.ios.max(1) as f64;
    let own_ns = user_space_cost(clock, &load, time).map_err(EngineError::SetUp)?;
    Ok(OwnCost { depth, own_ns, noop_ns })
}

/// 4 KiB random reads, as in the benchmarks.
fn null_load(depth: u32) -> Load {
    let block = BlockMix::one(Bytes(4096));
    Load {
        name: "null".into(),
        pattern: plan::Pattern::Random,
        read_blocks: block.clone(),
        write_blocks: block,
        read_percent: 100.0,
        range: (plan::Extent::Percent(0.0), plan::Extent::Percent(100.0)),
        align: None,
        depth,
        workers: 1,
        demand: plan::Demand::Closed,
        data: plan::Data::default(),
        weight: None,
        targets: Vec::new(),
        verify: None,
    }
}

/// The worker's loop over the mirror, on this thread.
fn user_space_cost(clock: &Clock, load: &Load, time: Nanos) -> std::io::Result<f64> {
    let start = clock.now().0 + 1000;
    let timeline = Timeline { start, ramp: 0, interval: time.0, end: start + time.0 };
    let (out, reports) = channel();
    let (pool_in, pool) = channel();
    let span = Target::null().size.0;
    let place = CursorPlace {
        start: 0,
        end: span,
        index: 0,
        of: 1,
        load_seed: 1,
        pointer: std::sync::Arc::default(),
    };
    let flow = Flow {
        below: ALWAYS,
        cursor: Cursor::new(load, &place),
        read_below: ALWAYS,
        reads: choices(&load.read_blocks, None, span),
        writes: Vec::new(),
        filler: None,
        read_side: 0,
        write_side: 0,
        stream: 0,
        script: None,
    };
    let parts = CoreParts {
        clock: clock.clone(),
        seed: 1,
        flows: vec![flow],
        places: [SidePlace { stream: 0, write: false }].into(),
        budget: u64::MAX,
        timeline,
        target_name: "null".into(),
        worker: 0,
        kind: BookKind { open_loop: false, one_call: false },
        record_max: 0,
        checker: None,
    };
    let core = Core::new(parts, Wires { out, pool, stop: std::sync::Arc::default() });
    let arena = Arena::new(load.depth as usize, 4096)?;
    let capacity = load.depth as usize + 1;
    let mirror =
        Mirror { queued: Vec::with_capacity(capacity), done: Vec::with_capacity(capacity) };
    let worker = UringWorker::new(core, mirror, arena, load.depth, true, false);
    let (core, end) = worker.run_closed();
    core.finish(end);
    drop(pool_in);
    let mut streams = [base::sample::StreamSample::default()];
    for report in reports {
        let (crate::core::Report::Interval { mut book, .. }
        | crate::core::Report::Done { mut book, .. }) = report;
        book.drain_into(&[SidePlace { stream: 0, write: false }], &mut streams);
    }
    Ok((end - start) as f64 / streams[0].ios().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cost_is_part_of_the_whole_path() {
        let cost = measure_own_cost(&Clock::host(), 32, Nanos(30_000_000)).unwrap();
        assert!(cost.own_ns > 0.5, "{cost:?}");
        assert!(cost.noop_ns > cost.own_ns, "{cost:?}");
    }
}
