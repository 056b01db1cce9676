//! What is sampled beside the I/O, on the run's clock.

use crate::bed::Bed;
use base::clock::Clock;
use base::units::Nanos;
use drive::{
    CpuStat, Device, Probe, Sample, cpu_stat, frequency_mhz, interrupt_counts, link_errors,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use store::{RunWriter, StoreError};

/// The shortest time between two samples: a drive is asked for its health no more often.
pub(crate) const EVERY: Nanos = Nanos::SECOND;

/// How a text begins that tells of a warning, not of its end.
pub(crate) const WARNS: &str = "the drive warns";

/// A change in what a drive says of its health.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HealthChange {
    pub(crate) target: usize,
    pub(crate) text: String,
}

/// Samples host and drives, not more often than asked for.
pub(crate) struct Sampler {
    /// Time between two samples; none switches it off.
    every: Option<Nanos>,
    clock: Clock,
    next: Nanos,
    probes: Vec<Option<Probe>>,
    cpu: Option<CpuStat>,
    at: Nanos,
    interrupts: HashMap<(usize, String), u64>,
    energy: std::collections::BTreeMap<String, u64>,
    /// To be stored at the end of the sample.
    rows: Vec<(String, String, f64)>,
    /// Last stored value of series that are stored when they change.
    stored: HashMap<(String, String), f64>,
    critical: Vec<Option<u8>>,
    samples: u64,
    cost_ns: u64,
    cost_max_ns: u64,
}

impl Sampler {
    pub(crate) fn new(clock: Clock, beds: &[Bed<'_>], every: Option<Nanos>) -> Sampler {
        let probe = |bed: &Bed<'_>| Some(Probe::new(bed.subject?.device()?));
        let probes = if every.is_some() { beds.iter().map(probe).collect() } else { Vec::new() };
        Sampler {
            every: every.map(|every| every.max(EVERY)),
            next: Nanos(0),
            at: clock.now(),
            clock,
            cpu: cpu_stat(),
            interrupts: HashMap::new(),
            energy: drive::package_energy_uj(),
            rows: Vec::new(),
            stored: HashMap::new(),
            critical: vec![None; beds.len()],
            probes,
            samples: 0,
            cost_ns: 0,
            cost_max_ns: 0,
        }
    }

    /// A cell begins: rates and shares count from here on, not from the end of the cell before.
    pub(crate) fn begin(&mut self) {
        if self.every.is_none() {
            return;
        }
        self.at = self.clock.now();
        self.cpu = cpu_stat();
        self.energy = drive::package_energy_uj();
        for (target, probe) in self.probes.iter().enumerate() {
            let counts = probe.as_ref().map(|probe| interrupt_counts(probe.device()));
            for (name, count) in counts.unwrap_or_default() {
                self.interrupts.insert((target, name), count);
            }
        }
    }

    /// Takes a sample when one is due. Gives what changed in the health of drives.
    pub(crate) fn sample(
        &mut self,
        writer: &mut RunWriter,
        at: Nanos,
    ) -> Result<Vec<HealthChange>, StoreError> {
        let Some(every) = self.every.filter(|_| at >= self.next) else { return Ok(Vec::new()) };
        // A sample at each interval's end, also where that comes a moment early.
        self.next = Nanos(at.0 + every.0 - every.0 / 10);
        let began = self.clock.now();
        self.host(at);
        let mut changes = Vec::new();
        for target in 0..self.probes.len() {
            let Some(probe) = &self.probes[target] else { continue };
            let (sample, device) = (probe.sample(), probe.device().clone());
            self.queues(at, target, &device);
            changes.extend(self.drive(target, &sample));
        }
        self.at = at;
        writer.telemetry_rows(at, &std::mem::take(&mut self.rows))?;
        let cost = self.clock.now().0 - began.0;
        self.samples += 1;
        self.cost_ns += cost;
        self.cost_max_ns = self.cost_max_ns.max(cost);
        Ok(changes)
    }

    /// What sampling cost, for the run file.
    pub(crate) fn as_json(&self) -> Value {
        json!({
            "every_ns": self.every.map(|every| every.0),
            "samples": self.samples,
            "cost_mean_us": self.cost_ns as f64 / 1000.0 / self.samples.max(1) as f64,
            "cost_max_us": self.cost_max_ns as f64 / 1000.0,
        })
    }

    fn host(&mut self, at: Nanos) {
        let now = cpu_stat();
        let seconds = Nanos(at.0.saturating_sub(self.at.0)).as_secs_f64();
        if let (Some(before), Some(now)) = (self.cpu.take(), &now) {
            for (name, share) in now.all.since(&before.all).shares().into_iter().flatten() {
                self.row("host", name, share);
            }
            if seconds > 0.0 {
                let switches = now.context_switches.saturating_sub(before.context_switches);
                let rate = switches as f64 / seconds;
                self.row("host", "context_switches_per_s", rate);
            }
            for ((cpu, times), (_, before)) in now.cores.iter().zip(&before.cores) {
                let source = format!("cpu{cpu}");
                for (name, share) in times.since(before).shares().into_iter().flatten() {
                    self.changed(&source, name, (share * 100.0).round() / 100.0);
                }
                if let Some(mhz) = frequency_mhz(*cpu) {
                    self.changed(&source, "frequency_mhz", (mhz / 10.0).round() * 10.0);
                }
            }
        }
        self.cpu = now;
        let energy = drive::package_energy_uj();
        for (name, uj) in &energy {
            let before = self.energy.get(name).copied().unwrap_or(u64::MAX);
            if seconds > 0.0 && *uj >= before {
                let watts = (uj - before) as f64 * 1e-6 / seconds;
                self.row(name, "power_w", watts);
            }
        }
        self.energy = energy;
    }

    /// Interrupts of a device's queues, and errors of its link.
    fn queues(&mut self, at: Nanos, target: usize, device: &Device) {
        let seconds = Nanos(at.0.saturating_sub(self.at.0)).as_secs_f64();
        for (name, count) in interrupt_counts(device) {
            let before = self.interrupts.insert((target, name.clone()), count);
            if let (Some(before), true) = (before, seconds > 0.0) {
                let rate = count.saturating_sub(before) as f64 / seconds;
                self.changed(&name, "interrupts_per_s", rate.round());
            }
        }
        if let Some(errors) = link_errors(device) {
            let source = format!("target{target}");
            let names = ["link_correctable", "link_nonfatal", "link_fatal"];
            for (name, n) in names.into_iter().zip(errors) {
                self.changed(&source, name, n as f64);
            }
        }
    }

    fn drive(&mut self, target: usize, sample: &Sample) -> Option<HealthChange> {
        let source = format!("target{target}");
        if let Some(celsius) = sample.temperature_c {
            self.row(&source, "temperature_c", celsius);
        }
        let smart = sample.smart.as_ref()?;
        for (n, kelvin) in smart.sensors_k.iter().enumerate() {
            if let Some(kelvin) = kelvin {
                let name = format!("temperature_{}_c", n + 1);
                self.changed(&source, &name, f64::from(drive::celsius(*kelvin)));
            }
        }
        let counters = [
            ("media_errors", smart.media_errors as f64),
            ("error_entries", smart.error_entries as f64),
            ("light_throttles", f64::from(smart.light_throttles)),
            ("heavy_throttles", f64::from(smart.heavy_throttles)),
            ("light_throttle_s", f64::from(smart.light_throttle_s)),
            ("heavy_throttle_s", f64::from(smart.heavy_throttle_s)),
            ("critical_warning", f64::from(smart.critical_warning)),
        ];
        for (name, value) in counters {
            self.changed(&source, name, value);
        }
        // What it warned of before the run was said before the run.
        let before = self.critical[target].replace(smart.critical_warning);
        if before.is_none_or(|before| before == smart.critical_warning) {
            return None;
        }
        let text = match smart.warnings() {
            warnings if warnings.is_empty() => "the drive's health is good again".to_owned(),
            warnings => {
                let heat =
                    sample.temperature_c.map_or_else(String::new, |c| format!(" ({c:.0} C)"));
                format!("{WARNS}: {}{heat}", warnings.join("; "))
            }
        };
        Some(HealthChange { target, text })
    }

    fn row(&mut self, source: &str, name: &str, value: f64) {
        self.rows.push((source.to_owned(), name.to_owned(), value));
    }

    /// Stores a value when it is another than the last one: it holds until the next.
    fn changed(&mut self, source: &str, name: &str, value: f64) {
        let last = self.stored.insert((source.to_owned(), name.to_owned()), value);
        if last != Some(value) {
            self.row(source, name, value);
        }
    }
}
