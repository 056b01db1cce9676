//! Before and after a run: what the host and the drives look like, and what of it spoils figures.

use crate::error::RunError;
use crate::run::Runner;
use crate::telemetry::WARNS;
use analysis::{HostBefore, Status, TargetAfter, TargetBefore, Verdict, after_run, before_run};
use drive::{
    Device, Health, Topology, celsius, device_ios, host_readiness, link_errors, parse_cpus,
};
use engine::Fault;
use plan::{Step, Verb};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long others are watched before a run.
const WATCH: Duration = Duration::from_millis(100);

/// A drive at one moment.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Snapshot {
    /// Counters that only grow; as text, since JSON numbers end at 64 bits for many readers.
    counters: BTreeMap<String, String>,
    link: Option<String>,
    link_errors: Option<[u64; 3]>,
    temperature_c: Option<f64>,
    features: BTreeMap<String, u32>,
    warnings: Vec<String>,
    #[serde(skip)]
    warning_c: Option<f64>,
}

impl Snapshot {
    fn take(device: &Device) -> Snapshot {
        // The link is looked at anew: it may have been trained since the device was found.
        let now = drive::find(&device.path);
        let health = Health::read(device);
        let warnings = health.smart.as_ref().map(|smart| smart.warnings()).unwrap_or_default();
        let warning_k = health.controller.as_ref().and_then(|c| c.warning_temperature_k);
        Snapshot {
            counters: health
                .counters()
                .into_iter()
                .map(|(name, n)| (name.to_owned(), n.to_string()))
                .collect(),
            link: now.as_ref().and_then(|device| device.link.as_ref()?.now()),
            link_errors: link_errors(device),
            temperature_c: health.temperature_c().or(device.temperature_c),
            features: health.features.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            warnings: warnings.into_iter().map(str::to_owned).collect(),
            warning_c: warning_k.map(|kelvin| f64::from(celsius(kelvin))),
        }
    }

    fn numbers(&self) -> BTreeMap<String, u128> {
        let parse = |(name, text): (&String, &String)| Some((name.clone(), text.parse().ok()?));
        self.counters.iter().filter_map(parse).collect()
    }
}

impl Runner<'_> {
    fn snapshots(&self) -> Vec<Option<Snapshot>> {
        let device = |bed: &crate::bed::Bed<'_>| bed.subject?.device().map(Snapshot::take);
        self.beds.iter().map(device).collect()
    }

    /// Looks at host and drives before the first step, and says what would spoil the figures.
    pub(crate) fn preflight(&mut self, steps: &[Step]) -> Result<(), RunError> {
        if self.is_virtual {
            return Ok(());
        }
        let before = self.snapshots();
        let others = self.others();
        let (governors, idle_exit_us) = host_readiness();
        let cpus = engine::allowed_cpus();
        let workers = workers_max(steps, self.beds.len());
        let host = HostBefore { governors, idle_exit_us, cpus: cpus.len(), workers };
        let topology = Topology::read();
        let targets: Vec<TargetBefore> = self
            .beds
            .iter()
            .enumerate()
            .filter_map(|(index, bed)| {
                let device = bed.subject?.device()?;
                let snapshot = before[index].as_ref()?;
                let link = device.link.as_ref().filter(|link| link.is_downgraded());
                let is_nvme = device.transport.starts_with("nvme");
                let scheduler = device.scheduler.clone().filter(|name| is_nvme && name != "none");
                Some(TargetBefore {
                    name: bed.name.clone(),
                    scheduler,
                    downgraded: link.and_then(|link| Some((link.now()?, link.most()?))),
                    far: far(device, &self.cpus[index], &topology),
                    others: others[index],
                    temperature_c: snapshot.temperature_c.zip(snapshot.warning_c),
                    warnings: snapshot.warnings.clone(),
                })
            })
            .collect();
        self.writer
            .set_meta("drives_before", &serde_json::to_string(&before).unwrap_or_default())?;
        self.before = before;
        self.tell(&before_run(&host, &targets))
    }

    /// Looks at the drives again, and says what did spoil the figures.
    pub(crate) fn postflight(&mut self) -> Result<(), RunError> {
        if self.is_virtual {
            return Ok(());
        }
        let telemetry = self.sampler.as_json().to_string();
        self.writer.set_meta("telemetry", &telemetry)?;
        let after = self.snapshots();
        self.writer.set_meta("drives_after", &serde_json::to_string(&after).unwrap_or_default())?;
        let targets: Vec<TargetAfter> = self
            .beds
            .iter()
            .enumerate()
            .filter_map(|(index, bed)| {
                let (before, after) = (self.before.get(index)?.as_ref()?, after[index].as_ref()?);
                let errors = before.link_errors.zip(after.link_errors);
                let grown = errors.map_or([0; 3], |(from, to)| {
                    std::array::from_fn(|n| to[n].saturating_sub(from[n]))
                });
                let warns =
                    |(target, text): &&(usize, String)| *target == index && text.starts_with(WARNS);
                let health = self.health.iter().filter(warns);
                let told: Vec<String> = health.map(|(_, text)| text.clone()).collect();
                // A run too short for two samples, or without any, is judged by its end.
                let unseen = after.warnings.iter().filter(|warning| {
                    !before.warnings.contains(warning)
                        && !told.iter().any(|text| text.contains(warning.as_str()))
                });
                let unseen: Vec<String> = unseen.map(|text| format!("{WARNS}: {text}")).collect();
                Some(TargetAfter {
                    name: bed.name.clone(),
                    counters: (before.numbers(), after.numbers()),
                    link: (before.link.clone(), after.link.clone()),
                    health: [told, unseen].concat(),
                    link_errors: (grown[0], grown[1] + grown[2]),
                })
            })
            .collect();
        self.tell(&after_run(&targets))
    }

    /// The targets that are not there any more after an I/O failed: a drive that is pulled may answer
    /// with an error first.
    pub(crate) fn what_is_gone(&self, fault: &Fault) -> Option<String> {
        const LOOKS: u32 = 20;
        let is_device =
            |bed: &crate::bed::Bed<'_>| bed.subject.is_some_and(|s| s.device().is_some());
        if fault.of_the_medium() || !self.beds.iter().any(is_device) {
            return None;
        }
        let missing = |bed: &&crate::bed::Bed<'_>| {
            let device = bed.subject.and_then(|subject| subject.device());
            device.is_some_and(|device| {
                drive::find(&device.path).is_none_or(|now| now.identity() != device.identity())
            })
        };
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(WATCH);
            }
            if let Some(bed) = self.beds.iter().find(missing) {
                return Some(format!(
                    "; {} is not there any more: the drive was removed, or its controller failed; check \
                     its connection",
                    bed.name
                ));
            }
        }
        None
    }

    fn tell(&mut self, verdicts: &[Verdict]) -> Result<(), RunError> {
        for verdict in verdicts {
            let (name, word) = (verdict.name, verdict.status.word());
            self.writer.verdict(None, name, word, &verdict.text, &verdict.evidence)?;
            if verdict.status >= Status::Warning {
                self.observer.on(crate::Progress::Note(&format!("{word}: {}", verdict.text)));
            }
            self.worst = self.worst.max(verdict.status);
        }
        Ok(())
    }

    /// I/Os that others do on the targets in a moment.
    fn others(&self) -> Vec<u64> {
        let count = |bed: &crate::bed::Bed<'_>| device_ios(&bed.subject?.device()?.name);
        let before: Vec<Option<u64>> = self.beds.iter().map(count).collect();
        if before.iter().all(Option::is_none) {
            return vec![0; self.beds.len()];
        }
        std::thread::sleep(WATCH);
        let grown = |(bed, before): (&crate::bed::Bed<'_>, &Option<u64>)| {
            count(bed).zip(*before).map_or(0, |(now, before)| now.saturating_sub(before))
        };
        self.beds.iter().zip(&before).map(grown).collect()
    }
}

/// The CPUs near a device and those used, when none of the used ones is near.
fn far(device: &Device, used: &[usize], topology: &Topology) -> Option<(String, String)> {
    let near = device.local_cpus.as_deref()?;
    let cpus = parse_cpus(near);
    let apart = !used.is_empty() && !cpus.is_empty() && used.iter().all(|cpu| !cpus.contains(cpu));
    let nodes = used.iter().any(|cpu| topology.node(*cpu) != topology.node(cpus[0]));
    let list: Vec<String> = used.iter().map(usize::to_string).collect();
    (apart && nodes).then(|| (near.to_owned(), list.join(",")))
}

/// Most workers that run at a time in any cell.
fn workers_max(steps: &[Step], targets: usize) -> usize {
    let of_cell = |cell: &plan::Cell| {
        let of_load = |load: &plan::Load| {
            let on = if load.targets.is_empty() { targets } else { load.targets.len() };
            load.workers as usize * on
        };
        cell.loads.iter().map(of_load).sum::<usize>()
    };
    let of_step = |step: &Step| {
        let verb: &Verb = &step.verb;
        let own = verb.cells().map(of_cell).max().unwrap_or(0);
        own.max(workers_max(verb.children(), targets))
    };
    steps.iter().map(of_step).max().unwrap_or(0)
}
