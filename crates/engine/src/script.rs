//! Replay of a recording: which request a worker issues when, and where on the target.

use plan::{Fit, Load, Pattern, TraceUse};
use std::sync::Arc;
use trace::{Request, Trace};

/// Pieces that are kept together when addresses are scaled, in bytes; smaller on small targets.
const PIECE: u64 = 1 << 20;

/// The requests of one worker, in order: every `step`-th of those that are replayed.
#[derive(Clone, Debug)]
pub struct Recorded {
    trace: Arc<Trace>,
    /// Index of the next one; the number of requests behind the last one.
    pub(crate) at: usize,
    step: usize,
    speed: f64,
    reads: bool,
    writes: bool,
}

impl Recorded {
    /// Of worker `index` of `of`; none where the load replays nothing.
    pub fn new(load: &Load, index: u32, of: u32) -> Option<Recorded> {
        let Pattern::Trace(TraceUse { speed, trace: Some(trace), .. }) = &load.pattern else {
            return None;
        };
        let mut recorded = Recorded {
            trace: trace.clone(),
            at: 0,
            step: 1,
            speed: speed.unwrap_or(1.0),
            reads: load.reads(),
            writes: load.writes(),
        };
        recorded.skip_others();
        for _ in 0..index {
            recorded.advance();
        }
        recorded.step = of.max(1) as usize;
        Some(recorded)
    }

    fn skip_others(&mut self) {
        let wanted = |request: &Request| if request.write { self.writes } else { self.reads };
        let rest = self.trace.requests.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(wanted).unwrap_or(rest.len());
    }

    /// Goes on to this worker's next request.
    pub(crate) fn advance(&mut self) {
        for _ in 0..self.step {
            if self.at >= self.trace.requests.len() {
                return;
            }
            self.at += 1;
            self.skip_others();
        }
    }

    fn scaled(&self, request: &Request) -> u64 {
        (request.time as f64 / self.speed) as u64
    }

    /// When the next request is due, from the start of the replay in ns.
    pub(crate) fn time(&self) -> Option<u64> {
        self.trace.requests.get(self.at).map(|request| self.scaled(request))
    }

    /// Requests of this worker that are due by `time`, counted from the next one.
    pub(crate) fn overdue(&self, time: u64) -> u64 {
        let rest = self.trace.requests.get(self.at..).unwrap_or_default();
        (rest.partition_point(|request| self.scaled(request) <= time) / self.step) as u64
    }
}

/// Where the requests of a recording go on a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    start: u64,
    span: u64,
    unit: u64,
    piece: u64,
    /// Pieces of the recording and of the target, where addresses are scaled.
    scale: Option<(u64, u64)>,
}

impl Mapping {
    fn new(fit: Fit, end: u64, range: (u64, u64), unit: u64) -> Mapping {
        let span = (range.1 - range.0) / unit * unit;
        let piece = PIECE.min((span / 64).next_power_of_two()).max(unit);
        let scale = match fit {
            Fit::Wrap => false,
            Fit::Auto => end > span,
            Fit::Scale => true,
        };
        let scale = scale.then(|| (end.div_ceil(piece).max(1), (span / piece).max(1)));
        Mapping { start: range.0, span, unit, piece, scale }
    }

    /// Address and length on the target: whole blocks, inside of the range.
    pub(crate) fn place(&self, request: &Request) -> (u64, u32) {
        let shift = request.offset % self.unit;
        let len = (u64::from(request.len) + shift).next_multiple_of(self.unit).min(self.span);
        let offset = request.offset - shift;
        let offset = match self.scale {
            Some((from, to)) => {
                let piece = u128::from(offset / self.piece) * u128::from(to) / u128::from(from);
                piece as u64 * self.piece + offset % self.piece
            }
            None => offset,
        };
        let room = self.span - len;
        let inside = match (offset > room, self.scale) {
            (false, _) => offset,
            // What reaches over the end of the last piece ends with the range.
            (true, Some(_)) => room,
            (true, None) => offset % (room + self.unit) / self.unit * self.unit,
        };
        (self.start + inside, len as u32)
    }
}

/// A recording as one worker replays it.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) recorded: Recorded,
    mapping: Mapping,
}

/// One I/O of a recording on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// Address in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// Write or read.
    pub write: bool,
}

impl Script {
    /// For worker `index` of `of`, on bytes `range` of a target with blocks of `unit`; none where the load
    /// replays nothing.
    pub fn new(load: &Load, range: (u64, u64), unit: u64, index: u32, of: u32) -> Option<Script> {
        let recorded = Recorded::new(load, index, of)?;
        let Pattern::Trace(TraceUse { fit, .. }) = &load.pattern else { return None };
        let mapping = Mapping::new(*fit, recorded.trace.end(), range, unit);
        Some(Script { recorded, mapping })
    }

    /// Its schedule's part.
    pub fn recorded(&self) -> Recorded {
        self.recorded.clone()
    }

    /// Goes to a request that a schedule chose.
    #[inline]
    pub fn seek(&mut self, position: usize) {
        self.recorded.at = position;
    }

    /// The next I/O; none behind the last one.
    pub fn take(&mut self) -> Option<Act> {
        let request = *self.recorded.trace.requests.get(self.recorded.at)?;
        self.recorded.advance();
        let (offset, len) = self.mapping.place(&request);
        Some(Act { offset, len, write: request.write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(read: f64, requests: Vec<Request>) -> Load {
        let text = "name=\"t\"\n[[step]]\nload={trace=\"x\", speed=2}";
        let plan = plan::parse("t", text, &[]).unwrap();
        let plan::Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
        let mut load = cell.loads[0].clone();
        load.read_percent = read;
        let Pattern::Trace(source) = &mut load.pattern else { panic!("a trace") };
        source.trace = Some(Arc::new(Trace { requests, ..Trace::default() }));
        load
    }

    fn requests(n: u64) -> Vec<Request> {
        let request =
            |n| Request { time: n * 1000, offset: n * 4096, len: 4096, write: n % 3 == 0 };
        (0..n).map(request).collect()
    }

    #[test]
    fn workers_share_a_recording_without_gap_or_double() {
        let load = load(50.0, requests(100));
        let mut seen = Vec::new();
        for worker in 0..3 {
            let mut script = Script::new(&load, (0, 1 << 30), 512, worker, 3).unwrap();
            while let Some(act) = script.take() {
                seen.push(act.offset / 4096);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn one_direction_keeps_its_times() {
        let load = load(100.0, requests(10));
        let mut recorded = Recorded::new(&load, 0, 1).unwrap();
        let mut times = Vec::new();
        while let Some(time) = recorded.time() {
            times.push(time);
            recorded.advance();
        }
        assert_eq!(times, [500, 1000, 2000, 2500, 3500, 4000], "reads only, at twice the speed");
    }

    #[test]
    fn what_is_due_is_counted() {
        let recorded = Recorded::new(&load(50.0, requests(100)), 0, 1).unwrap();
        assert_eq!(recorded.overdue(0), 1);
        assert_eq!(recorded.overdue(4999), 10);
        assert_eq!(recorded.overdue(u64::MAX), 100);
    }

    #[test]
    fn a_stream_stays_one_when_addresses_are_scaled() {
        let requests: Vec<Request> = (0..4096)
            .map(|n| Request { time: n, offset: n * 4096, len: 4096, write: false })
            .collect();
        let mapping =
            Mapping::new(Fit::Scale, 4096 * 4096, (1 << 30, (1 << 30) + (256 << 20)), 4096);
        let places: Vec<u64> = requests.iter().map(|r| mapping.place(r).0).collect();
        let on = places.windows(2).filter(|w| w[1] == w[0] + 4096).count();
        assert!(on >= 4096 - 16, "{on}");
        assert!(*places.last().unwrap() > (1 << 30) + (230 << 20), "spread over the range");
        assert_eq!(Mapping::new(Fit::Auto, 1 << 20, (0, 1 << 30), 512).scale, None);
    }

    proptest! {
        #[test]
        fn every_place_is_whole_and_inside(
            offset in 0u64..1 << 50, len in 1u32..1 << 26, start in 0u64..1 << 20, span in 1u64..1 << 30,
            unit_log2 in 9u32..13, fit in prop::sample::select(vec![Fit::Auto, Fit::Scale, Fit::Wrap]),
        ) {
            let unit = 1u64 << unit_log2;
            let (start, span) = (start * unit, span * unit);
            let request = Request { time: 0, offset, len, write: false };
            let mapping = Mapping::new(fit, offset + u64::from(len), (start, start + span), unit);
            let (at, bytes) = mapping.place(&request);
            prop_assert!(at.is_multiple_of(unit) && u64::from(bytes).is_multiple_of(unit));
            prop_assert!(bytes > 0 && at >= start && at + u64::from(bytes) <= start + span);
        }
    }
}
