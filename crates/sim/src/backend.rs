//! The engine's contract in virtual time: the runner cannot tell a virtual drive from a real one but
//! by how fast its hours go by.

use crate::device::Device;
use crate::exact::ExactCell;
use crate::host::Pointers;
use crate::interval::IntervalCell;
use crate::media::Flash;
use crate::table::Tables;
use crate::target::{Fidelity, VirtualTarget};
use crate::timing::Timing;
use base::clock::Clock;
use base::rng::{Rng, derive};
use base::sample::{CpuUse, IntervalSample, StreamSample};
use base::units::{Bytes, Nanos};
use engine::{
    Backend, CellEnd, CellFacts, CellSpec, Control, Direct, EngineError, Fault, FaultKind, Next,
    Outcome, Polling, Sink, Target, TargetCounts, Timeline, streams,
};
use plan::{Demand, Load, Pattern};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Virtual drives behind the engine's trait.
pub struct VirtualBackend {
    drives: Vec<Drive>,
    clock: Clock,
}

/// One virtual drive and all its state.
pub(crate) struct Drive {
    pub(crate) asked: VirtualTarget,
    pub(crate) target: Target,
    pub(crate) timing: Timing,
    pub(crate) flash: Flash,
    pub(crate) device: Device,
    pub(crate) tables: Tables,
    pub(crate) pointers: Pointers,
    pub(crate) counts: TargetCounts,
    pub(crate) noise: Noise,
    pub(crate) thermal: Thermal,
    write_cache: bool,
}

/// Noise of the rate from one interval to the next, correlated with the one before.
pub(crate) struct Noise {
    rng: Rng,
    sigma: f64,
    last: f64,
}

/// Correlation of two successive seconds.
const NOISE_MEMORY: f64 = 0.5;

impl Noise {
    /// The factor of the next interval.
    pub(crate) fn next(&mut self) -> f64 {
        if self.sigma == 0.0 {
            return 1.0;
        }
        // Near enough to normal, and the same on every machine: no logarithm of the platform's.
        let sum: f64 = (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0;
        let fresh = (1.0 - NOISE_MEMORY * NOISE_MEMORY).sqrt() * self.sigma * sum;
        self.last = NOISE_MEMORY * self.last + fresh;
        1.0 + self.last.clamp(-0.5, 0.5)
    }
}

/// Temperature by power, and what the drive does about it.
pub(crate) struct Thermal {
    pub(crate) celsius: f64,
    pub(crate) watts: f64,
    limit_c: Option<f64>,
    pub(crate) throttled: bool,
}

const AMBIENT_C: f64 = 35.0;
const KELVIN_PER_WATT: f64 = 1.8;
const THERMAL_SECONDS: f64 = 120.0;
/// Watts above idle that a hot drive allows itself, and how far it must cool down.
const HOT_BUDGET_W: f64 = 4.0;
const COOLED_BY_C: f64 = 5.0;

impl Thermal {
    /// `seconds` went by with this draw.
    fn pass(&mut self, seconds: f64, watts: f64) {
        self.watts = watts;
        let goal = AMBIENT_C + KELVIN_PER_WATT * watts;
        let share = 1.0 - (1.0 + seconds / THERMAL_SECONDS / 8.0).powi(-8);
        self.celsius += (goal - self.celsius) * share;
        if let Some(limit) = self.limit_c {
            let release = if self.throttled { limit - COOLED_BY_C } else { limit };
            self.throttled = self.celsius >= release;
        }
    }
}

impl Drive {
    fn new(asked: VirtualTarget) -> Drive {
        let timing = Timing::new(&asked.profile, asked.setup.power_w, true);
        let seed = asked.setup.seed;
        let target = Target {
            name: asked.name.clone(),
            path: PathBuf::from(&asked.name),
            file: None,
            size: asked.size(),
            block: asked.setup.block,
            direct: Direct::Yes,
            polling: Polling::Off,
            command: None,
        };
        let mut device = Device::new(timing.clone(), derive(seed, 1));
        device.stall = asked.setup.faults.stall;
        Drive {
            flash: Flash::new(&asked),
            device,
            target,
            timing,
            tables: Tables::default(),
            pointers: Pointers::new(),
            counts: TargetCounts::default(),
            noise: Noise {
                rng: Rng::new(derive(seed, 2)),
                sigma: asked.setup.noise.unwrap_or(asked.profile.noise),
                last: 0.0,
            },
            thermal: Thermal {
                celsius: AMBIENT_C,
                watts: 0.0,
                limit_c: asked.setup.faults.throttle_c,
                throttled: false,
            },
            write_cache: true,
            asked,
        }
    }

    /// Power and cache as they are now, in force for what comes.
    fn retime(&mut self) {
        let cap = self.asked.setup.power_w;
        self.timing = Timing::new(&self.asked.profile, cap, self.write_cache);
        if self.thermal.throttled {
            let budget = self.timing.power.budget_w.unwrap_or(f64::MAX);
            self.timing.power.budget_w = Some(budget.min(HOT_BUDGET_W));
        }
        self.device.timing = self.timing.clone();
    }

    /// An interval of this length ended, in which this energy above idle was used.
    pub(crate) fn warm(&mut self, seconds: f64, energy_uj: f64) {
        let idle = self.timing.power.idle_w;
        let before = self.thermal.throttled;
        self.thermal.pass(seconds, idle + energy_uj * 1e-6 / seconds.max(1e-9));
        if self.thermal.throttled != before {
            self.retime();
        }
    }

    /// The fault that is due at `at` for this direction, if one is.
    pub(crate) fn fault(&self, at: u64, write: bool) -> Option<i32> {
        let faults = &self.asked.setup.faults;
        if faults.gone.is_some_and(|gone| at >= gone.0) {
            return Some(ENODEV);
        }
        faults.error.filter(|(way, from)| *way == write && at >= from.0).map(|_| EIO)
    }

    /// What a fault looks like from the host.
    pub(crate) fn fault_of(
        &self,
        number: i32,
        write: bool,
        at: u64,
        offset: u64,
        len: u32,
    ) -> Fault {
        Fault {
            target: self.target.name.clone(),
            write,
            offset: Bytes(offset),
            len: Bytes(u64::from(len)),
            kind: FaultKind::Errno(number),
            at: Nanos(at),
        }
    }
}

const EIO: i32 = 5;
const ENODEV: i32 = 19;

/// One interval of one drive.
pub(crate) struct Piece {
    /// By stream of the cell; those of other targets stay empty.
    pub(crate) streams: Vec<StreamSample>,
    /// End of the last I/O when nothing is left to do.
    pub(crate) ended: Option<u64>,
    /// The first failed I/O.
    pub(crate) fault: Option<Fault>,
}

/// A cell in progress on one drive.
pub(crate) trait CellRun {
    /// Goes on to `until`; `last` when the cell's time ends there.
    fn go_on(&mut self, drive: &mut Drive, from: u64, until: u64, last: bool) -> Piece;

    /// Simulated I/Os behind the figures, in the interval with the fewest; none when nothing ran.
    fn simulated(&self) -> Option<u64>;
}

impl VirtualBackend {
    /// New drives on a virtual clock.
    pub fn new(targets: &[VirtualTarget], clock: Clock) -> VirtualBackend {
        VirtualBackend { drives: targets.iter().cloned().map(Drive::new).collect(), clock }
    }

    /// Programs for each unit written, now, of a drive; for tests and telemetry.
    pub fn amplification(&self, target: usize) -> f64 {
        use crate::device::Media;
        self.drives[target].flash.amplification()
    }

    /// Changes how a drive is simulated from now on, and how many I/Os stand behind an entry of a
    /// table; its flash stays as it is.
    pub fn set_fidelity(&mut self, target: usize, fidelity: Fidelity, samples: u32) {
        let setup = &mut self.drives[target].asked.setup;
        (setup.fidelity, setup.samples) = (fidelity, samples);
    }

    fn timeline(&self, cell: &CellSpec) -> Timeline {
        let start = self.clock.now().0;
        let ramp = cell.window.ramp.0;
        let end = cell.window.time.map_or(u64::MAX, |time| start + ramp + time.0);
        Timeline { start, ramp, interval: cell.interval.0, end }
    }

    fn start(&mut self, cell: &CellSpec, timeline: Timeline) -> Vec<Box<dyn CellRun>> {
        let targets = self.targets();
        let all = streams(&cell.loads, targets.len());
        let runs = self.drives.iter_mut().enumerate().map(|(index, drive)| {
            let loads: Vec<(usize, Load)> = all
                .iter()
                .enumerate()
                .filter(|(_, stream)| stream.target == index)
                .map(|(at, stream)| (at, cell.loads[stream.load].clone()))
                .collect();
            let seed = derive(cell.seed, index as u64);
            let exact = drive.asked.setup.fidelity == Fidelity::Exact
                || !tables_tell(drive, &loads, cell, timeline);
            match exact {
                true => {
                    let run = ExactCell::new(drive, loads, all.len(), cell, seed, timeline.start);
                    Box::new(run) as Box<dyn CellRun>
                }
                false => {
                    Box::new(IntervalCell::new(drive, loads, all.len(), cell, seed, timeline.start))
                }
            }
        });
        runs.collect()
    }

    /// What is known of the drives at the end of an interval.
    fn report(&self, sink: &mut dyn Sink, at: Nanos) {
        for (index, drive) in self.drives.iter().enumerate() {
            let source = format!("target{index}");
            sink.telemetry(at, &source, "write_amplification", self.amplification(index));
            if drive.asked.profile.power.is_some() {
                sink.telemetry(at, &source, "power_w", drive.thermal.watts);
                sink.telemetry(at, &source, "temperature_c", drive.thermal.celsius);
                let throttled = f64::from(u8::from(drive.thermal.throttled));
                sink.telemetry(at, &source, "throttled", throttled);
            }
        }
    }

    /// CPU time of the workers, where the host's cost of an I/O is set: all of it in the kernel, as nearly
    /// all of a real one's is.
    fn cpu(&self, streams: &[StreamSample]) -> CpuUse {
        let cost_ns = self.drives.iter().filter_map(|drive| drive.asked.setup.faults.host_ns);
        let cost_ns = cost_ns.fold(0.0, f64::max);
        let ios: u64 = streams.iter().map(StreamSample::ios).sum();
        CpuUse { user_ns: 0, system_ns: (ios as f64 * cost_ns) as u64 }
    }

    fn targets(&self) -> Vec<Target> {
        self.drives.iter().map(|drive| drive.target.clone()).collect()
    }
}

impl Backend for VirtualBackend {
    fn name(&self) -> &'static str {
        match self.drives.iter().any(|drive| drive.asked.setup.fidelity == Fidelity::Exact) {
            true => "virtual-exact",
            false => "virtual",
        }
    }

    fn run(
        &mut self,
        cell: &CellSpec,
        sink: &mut dyn Sink,
        interrupt: &AtomicBool,
    ) -> Result<CellEnd, EngineError> {
        cell.check(&self.targets())?;
        let timeline = self.timeline(cell);
        let n_streams = streams(&cell.loads, self.drives.len()).len();
        let mut runs = self.start(cell, timeline);
        let workers = cell.loads.iter().map(|load| load.workers).sum();
        let mut facts = CellFacts { workers, ..CellFacts::default() };
        let mut outcome = Outcome::Completed;
        for seq in 0.. {
            let (from, until) = (timeline.begin(seq), timeline.boundary(seq));
            let last = until >= timeline.end;
            let mut whole = vec![StreamSample::default(); n_streams];
            let mut ended: Option<u64> = Some(0);
            for (run, drive) in runs.iter_mut().zip(&mut self.drives) {
                let piece = run.go_on(drive, from, until, last);
                whole.iter_mut().zip(&piece.streams).for_each(|(sum, part)| sum.merge(part));
                ended = ended.zip(piece.ended).map(|(a, b)| a.max(b));
                if let Some(fault) = piece.fault {
                    ended = Some(fault.at.0);
                    outcome = Outcome::Faulted(fault);
                    break;
                }
            }
            let end =
                ended.map_or(until, |ended| if last { until } else { ended.clamp(from, until) });
            self.clock.advance_to(Nanos(end));
            if end > from {
                let sample = IntervalSample {
                    seq: seq as u32,
                    start: Nanos(from),
                    len: Nanos(end - from),
                    ramp: timeline.is_ramp(seq),
                    cpu: self.cpu(&whole),
                    streams: whole,
                };
                self.report(sink, Nanos(end));
                if sink.interval(sample) == Next::Stop && outcome == Outcome::Completed {
                    break;
                }
            }
            if last || ended.is_some() || outcome != Outcome::Completed {
                break;
            }
            if interrupt.load(Ordering::Relaxed) {
                outcome = Outcome::Interrupted;
                break;
            }
        }
        facts.simulated_ios = runs.iter().filter_map(|run| run.simulated()).min().unwrap_or(0);
        Ok(CellEnd { outcome, facts })
    }

    fn idle(&mut self, time: Nanos) -> bool {
        self.clock.advance_to(Nanos(self.clock.now().0 + time.0));
        for drive in &mut self.drives {
            drive.flash.idle(time.as_secs_f64());
            drive.warm(time.as_secs_f64(), 0.0);
        }
        true
    }

    fn control(&mut self, target: usize, control: Control) -> Option<Result<String, String>> {
        let drive = &mut self.drives[target];
        Some(Ok(match control {
            Control::Purge => {
                drive.flash.purge();
                "virtual drive formatted: nothing is on it any more".into()
            }
            Control::WriteCache(on) => {
                drive.write_cache = on;
                drive.retime();
                let what = match drive.asked.profile.controller.power_loss_protection {
                    true => {
                        "; the drive is protected against power loss, so it makes no difference"
                    }
                    false => "",
                };
                format!("write cache {}{what}", if on { "on" } else { "off" })
            }
            Control::PowerLimit { mw } => {
                let watts = f64::from(mw) / 1000.0;
                match &drive.asked.profile.power {
                    None => return Some(Err("this profile has no [power]".into())),
                    Some(power) if watts <= power.idle_w => {
                        let idle = power.idle_w;
                        let text = format!("power must be above the {idle} W of an idle drive");
                        return Some(Err(text));
                    }
                    Some(_) => {}
                }
                drive.asked.setup.power_w = Some(watts);
                drive.retime();
                format!("draws {watts} W at most")
            }
            Control::Thermal(..) => {
                let text = "a virtual drive has one limit, given with its name: throttle=70C";
                return Some(Err(text.into()));
            }
            Control::PowerState(_) => {
                let text = "a virtual drive has no numbered power states: use power = \"15W\"";
                return Some(Err(text.into()));
            }
        }))
    }

    fn counts(&self, target: usize) -> Option<TargetCounts> {
        Some(self.drives[target].counts)
    }
}

/// Whether tables can tell what a cell does. Not where a recording is replayed, not where loads end or
/// overflow each at its own time, and not where arrivals gather while the drive stands still.
fn tables_tell(
    drive: &Drive,
    loads: &[(usize, Load)],
    cell: &CellSpec,
    timeline: Timeline,
) -> bool {
    let open = is_open(loads);
    let several = loads.len() > 1 && (open || cell.window.amount.is_some());
    let stall = drive.asked.setup.faults.stall;
    let stalls =
        stall.is_some_and(|stall| stall.within(timeline.start, timeline.end).next().is_some());
    let replays = loads.iter().any(|(_, load)| matches!(load.pattern, Pattern::Trace(_)));
    !(several || replays || open && stalls)
}

/// Whether any load of a cell is open loop.
pub(crate) fn is_open(loads: &[(usize, Load)]) -> bool {
    loads.iter().any(|(_, load)| matches!(load.demand, Demand::Open { .. }))
}
