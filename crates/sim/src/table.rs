//! What a workload does at a given write amplification, from a simulation of some ten thousand I/Os.
//!
//! Entries stand on a geometric grid of amplifications. Between two of them the time of an I/O is
//! linear in the amplification (work is conserved: `1/X` is linear in it), and latencies are
//! interpolated quantile by quantile.

use crate::device::Device;
use crate::host::{Bed, Count, Counted, Host, Pointers};
use crate::media::Fixed;
use crate::timing::Timing;
use base::hist::{Hist, Kind, bucket_of};
use base::rng::derive;
use base::units::Nanos;
use engine::Target;
use plan::{Demand, Load, Window};
use std::collections::HashMap;

/// Ratio of neighbouring amplifications.
const GRID: f64 = 1.08;
/// Steps of interpolation between neighbours.
const STEPS: u32 = 64;
/// Part operations simulated for one entry, at most: large requests have many.
const PARTS_MAX: u64 = 600_000;

/// Tables of all workloads seen by one drive in one state of power and cache.
#[derive(Default)]
pub(crate) struct Tables {
    workloads: HashMap<String, usize>,
    entries: HashMap<(usize, u32), Entry>,
    shapes: HashMap<(usize, u32, u32), Mixture>,
}

/// What was found at one amplification.
struct Entry {
    /// I/Os per second of all streams.
    rate: f64,
    sides: Vec<SideEntry>,
    /// I/Os simulated.
    samples: u64,
    /// Arrivals came faster than they could be served.
    overloaded: bool,
}

/// One direction of one stream.
#[derive(Clone)]
struct SideEntry {
    stream: usize,
    write: bool,
    /// Share of all I/Os.
    share: f64,
    mean_bytes: f64,
    service: Vec<u64>,
    response: Vec<u64>,
    lateness: Vec<u64>,
}

/// What a workload does at one amplification, ready to be scaled.
pub(crate) struct Mixture {
    pub(crate) rate: f64,
    pub(crate) overloaded: bool,
    pub(crate) sides: Vec<SideShape>,
    /// Bytes written by one I/O on average, in whole units as the flash sees them.
    pub(crate) written_per_io: f64,
    /// Energy of one I/O in uJ.
    pub(crate) energy_uj: f64,
    /// Simulated I/Os behind it.
    pub(crate) samples: u64,
}

/// One direction of one stream.
pub(crate) struct SideShape {
    pub(crate) stream: usize,
    pub(crate) write: bool,
    pub(crate) share: f64,
    pub(crate) mean_bytes: f64,
    pub(crate) service: Shape,
    pub(crate) response: Option<(Shape, Shape)>,
}

/// A distribution, as counts of a histogram with the mean of each bucket.
pub(crate) struct Shape {
    /// Mean of the bucket in ns, and I/Os up to and with it.
    steps: Vec<(u64, u64)>,
    total: u64,
}

impl Shape {
    fn of(sorted: &[u64]) -> Shape {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        let mut at = 0;
        while at < sorted.len() {
            let bucket = bucket_of(sorted[at]);
            let end = at + sorted[at..].partition_point(|&value| bucket_of(value) == bucket);
            let sum: u128 = sorted[at..end].iter().map(|&value| u128::from(value)).sum();
            steps.push(((sum / (end - at) as u128) as u64, end as u64));
            at = end;
        }
        Shape { steps, total: sorted.len() as u64 }
    }

    /// Counts `n` values in this proportion into `hist`, `extra_ns` later. `phase` in 0..1 decides
    /// which way fractions fall, so that over many intervals nothing is lost.
    pub(crate) fn spread<K: Kind>(&self, hist: &mut Hist<K>, n: u64, phase: f64, extra_ns: u64) {
        let mut before = 0;
        let scale = n as f64 / self.total.max(1) as f64;
        for &(value, upto) in &self.steps {
            let now = match upto == self.total {
                true => n,
                false => ((upto as f64 * scale + phase) as u64).min(n),
            };
            hist.record_n(value + extra_ns, now.saturating_sub(before));
            before = now.max(before);
        }
    }
}

/// A workload to look up.
pub(crate) struct Workload<'a> {
    pub(crate) loads: &'a [(usize, &'a Load)],
    pub(crate) target: &'a Target,
    pub(crate) timing: &'a Timing,
    pub(crate) cached: bool,
    pub(crate) samples: u32,
    pub(crate) seed: u64,
}

impl Tables {
    /// What the workload does when `amplification` pages are programmed for each one written.
    pub(crate) fn at(&mut self, work: &Workload<'_>, amplification: f64) -> &Mixture {
        let n = self.workloads.len();
        let id = *self.workloads.entry(key_of(work)).or_insert(n);
        let writes = work.loads.iter().any(|(_, load)| load.writes());
        let place = match writes && !work.cached {
            true => amplification.max(1.0).ln() / GRID.ln(),
            false => 0.0,
        };
        let mut node = place.floor() as u32;
        let mut step = ((place - f64::from(node)) * f64::from(STEPS)).round() as u32;
        if step == STEPS {
            (node, step) = (node + 1, 0);
        }
        if !self.shapes.contains_key(&(id, node, step)) {
            self.need(id, node, work);
            if step > 0 {
                self.need(id, node + 1, work);
            }
            let mixture = self.mix(id, node, step, work);
            self.shapes.insert((id, node, step), mixture);
        }
        &self.shapes[&(id, node, step)]
    }

    fn need(&mut self, id: usize, node: u32, work: &Workload<'_>) {
        self.entries.entry((id, node)).or_insert_with(|| {
            simulate(work, GRID.powi(node as i32), derive(work.seed, u64::from(node)))
        });
    }

    fn mix(&self, id: usize, node: u32, step: u32, work: &Workload<'_>) -> Mixture {
        let low = &self.entries[&(id, node)];
        let high = self.entries.get(&(id, node + 1)).filter(|_| step > 0).unwrap_or(low);
        let (from, to) = (GRID.powi(node as i32), GRID.powi(node as i32 + 1));
        let amplification = GRID.powf(f64::from(node) + f64::from(step) / f64::from(STEPS));
        let weight = (amplification - from) / (to - from);
        let between = |a: f64, b: f64| a + (b - a) * weight;
        let rate = 1.0 / between(1.0 / low.rate.max(1e-9), 1.0 / high.rate.max(1e-9));
        let unit = work.timing.unit as f64;
        let power = work.timing.power;
        let (mut written_per_io, mut energy_uj) = (0.0, 0.0);
        let sides = low.sides.iter().zip(&high.sides).map(|(a, b)| {
            let share = between(a.share, b.share);
            let units = (a.mean_bytes / unit).max(1.0);
            if a.write {
                written_per_io += share * units * unit;
                energy_uj += share * power.write_uj(units, amplification);
            } else {
                energy_uj += share * power.read_uj * units;
            }
            let shape = |a: &[u64], b: &[u64]| Shape::of(&blend(a, b, weight));
            let open = !a.response.is_empty();
            SideShape {
                stream: a.stream,
                write: a.write,
                share,
                mean_bytes: a.mean_bytes,
                service: shape(&a.service, &b.service),
                response: open
                    .then(|| (shape(&a.response, &b.response), shape(&a.lateness, &b.lateness))),
            }
        });
        let sides = sides.collect();
        let overloaded = low.overloaded || high.overloaded;
        let samples = low.samples.min(high.samples);
        Mixture { rate, overloaded, sides, written_per_io, energy_uj, samples }
    }
}

/// Quantile by quantile between two sorted samples.
fn blend(a: &[u64], b: &[u64], weight: f64) -> Vec<u64> {
    if a.is_empty() || b.is_empty() || weight <= 0.0 {
        return a.to_vec();
    }
    let n = a.len();
    let other = |i: usize| b[((2 * i + 1) * b.len() / (2 * n)).min(b.len() - 1)] as f64;
    // Both samples rise, so what lies between them rises too.
    (0..n).map(|i| (a[i] as f64 + (other(i) - a[i] as f64) * weight) as u64).collect()
}

fn key_of(work: &Workload<'_>) -> String {
    let loads: Vec<_> = work
        .loads
        .iter()
        .map(|(stream, load)| (stream, Load { name: String::new(), ..(*load).clone() }))
        .collect();
    let Timing { write_through, power, .. } = work.timing;
    format!("{loads:?} {} {write_through} {power:?} {}", work.cached, work.samples)
}

/// Gathers latencies by stream and direction.
struct Gather {
    sides: Vec<(SideEntry, f64)>,
    ios: u64,
    on: bool,
    waited: u64,
}

impl Count for Gather {
    fn io(&mut self, io: &Counted) {
        if !self.on {
            self.ios += 1;
            return;
        }
        self.ios += 1;
        let same = |side: &SideEntry| side.stream == io.stream && side.write == io.write;
        let at = match self.sides.iter().position(|(side, _)| same(side)) {
            Some(at) => at,
            None => {
                let side = SideEntry {
                    stream: io.stream,
                    write: io.write,
                    share: 0.0,
                    mean_bytes: 0.0,
                    service: Vec::new(),
                    response: Vec::new(),
                    lateness: Vec::new(),
                };
                self.sides.push((side, 0.0));
                self.sides.len() - 1
            }
        };
        let (side, bytes) = &mut self.sides[at];
        side.service.push(io.service_ns);
        *bytes += f64::from(io.len);
        if let Some((response, lateness)) = io.open {
            side.response.push(response);
            side.lateness.push(lateness);
        }
    }

    fn waited(&mut self, _stream: usize) {
        self.waited += 1;
    }

    fn shed(&mut self, _stream: usize, _n: u64) {}
}

/// Steps without an I/O after which a simulation is given up.
const IDLE_STEPS_MAX: u32 = 100_000;

fn rate_of(load: &Load) -> Option<f64> {
    match load.demand {
        Demand::Open { rate_iops, .. } => Some(rate_iops),
        Demand::Closed => None,
    }
}

/// More samples than usual were asked for: more parts go with them.
fn parts_max(work: &Workload<'_>) -> u64 {
    PARTS_MAX.max(u64::from(work.samples) * 4)
}

/// Runs the workload at a fixed amplification until it is even, then for its samples.
fn simulate(work: &Workload<'_>, amplification: f64, seed: u64) -> Entry {
    let window = Window { ramp: Nanos(0), time: None, amount: None };
    let bed = Bed { loads: work.loads.to_vec(), target: work.target, window, seed, start: 0 };
    let mut host = Host::new(&bed, &mut Pointers::new());
    let mut device = Device::new(work.timing.clone(), derive(seed, 77));
    let mut media = Fixed { moves: amplification - 1.0, cached: work.cached };
    let mut gather = Gather { sides: Vec::new(), ios: 0, on: false, waited: 0 };
    host.start(0, &mut device, &media);
    let writes = work.loads.iter().any(|(_, load)| load.writes());
    let block = work.loads.iter().map(|(_, load)| load.block_max().0).max().unwrap_or(1);
    let parts = block.div_ceil(work.timing.page.min(work.timing.unit * 4)).max(1);
    let samples = u64::from(work.samples).min((parts_max(work) / parts).max(1000));
    // Writes are even when the buffer is full and the dies' queues with it, or clearly never.
    let even_ns = if writes { 25 * work.timing.program_ns } else { 0 };
    let warm = 2 * host.slots() as u64 + 1000;
    // At a low rate the time between two looks must hold some arrivals.
    let slowest = work.loads.iter().filter_map(|(_, load)| rate_of(load)).fold(f64::MAX, f64::min);
    let step = (work.timing.program_ns / 4).max(100_000).max((20e9 / slowest) as u64);
    let (mut now, mut started, mut idle_steps) = (0, None, 0);
    loop {
        now += step;
        let done = gather.ios;
        host.run(now, &mut device, &mut media, &mut gather);
        idle_steps = if gather.ios == done { idle_steps + 1 } else { 0 };
        match started {
            None if now >= even_ns && gather.ios >= warm => {
                gather.on = true;
                started = Some((now, gather.ios));
                gather.waited = 0;
            }
            Some((_, from)) if gather.ios - from >= samples => break,
            // Nothing comes any more: no workload is known that does this, and none may hang here.
            _ if idle_steps > IDLE_STEPS_MAX => break,
            _ => {}
        }
    }
    let (from_ns, from_ios) = started.unwrap_or((0, 0));
    let ios = gather.ios - from_ios;
    let rate = ios as f64 * 1e9 / (now - from_ns).max(1) as f64;
    finish(work, gather, rate)
}

fn finish(work: &Workload<'_>, gather: Gather, rate: f64) -> Entry {
    let counted: u64 = gather.sides.iter().map(|(side, _)| side.service.len() as u64).sum();
    let asked: f64 = work.loads.iter().filter_map(|(_, load)| rate_of(load)).sum();
    let overloaded = gather.waited * 2 > counted;
    let single = work.loads.len() == 1;
    let mut sides: Vec<SideEntry> = gather
        .sides
        .into_iter()
        .map(|(mut side, bytes)| {
            let n = side.service.len() as f64;
            // One load has the shares it was given; a sample of them would only add noise.
            let read = work.loads[0].1.read_percent / 100.0;
            side.share = match (single, side.write) {
                (true, true) => 1.0 - read,
                (true, false) => read,
                _ => n / counted.max(1) as f64,
            };
            side.mean_bytes = bytes / n.max(1.0);
            for values in [&mut side.service, &mut side.response, &mut side.lateness] {
                values.sort_unstable();
            }
            side
        })
        .collect();
    sides.sort_by_key(|side| (side.stream, side.write));
    let rate = if asked > 0.0 && !overloaded && single { asked } else { rate };
    Entry { rate, sides, samples: counted, overloaded }
}
