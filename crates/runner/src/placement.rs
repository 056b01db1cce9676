//! Which CPUs the workers of each target run on.

use crate::error::RunError;
use crate::run::Runner;
use drive::{Topology, parse_cpus};
use plan::Placement;

impl Runner<'_> {
    /// Puts the workers on CPUs from now on.
    pub(crate) fn place(&mut self, placement: &Placement, tell: bool) -> Result<(), RunError> {
        if self.is_virtual {
            return Ok(());
        }
        let (topology, allowed) = (Topology::read(), engine::allowed_cpus());
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        for bed in &self.beds {
            let device = bed.subject.and_then(|subject| subject.device());
            let near = device.and_then(|d| d.local_cpus.as_deref()).map(parse_cpus);
            let (cpus, note) = choose(placement, near.as_deref(), &topology, &allowed);
            notes.extend(note.map(|note| format!("{}: {note}", bed.name)));
            all.push(cpus);
        }
        if tell {
            let cpus = |list: &Vec<usize>| match list.is_empty() {
                true => "all CPUs".to_owned(),
                false => Placement::Cores(list.clone()).to_string().replace("cores=", "CPUs "),
            };
            for (bed, list) in self.beds.iter().zip(&all) {
                let text = format!("{}: {placement}: {}", bed.name, cpus(list));
                self.event("placement", &text)?;
            }
            for note in notes {
                self.note(&note)?;
            }
        }
        self.cpus = all.clone();
        self.backend.place(all);
        Ok(())
    }
}

/// The CPUs in the order workers take them, and what could not be done as asked. `near` are those near
/// the device; none where the host does not say.
fn choose(
    placement: &Placement,
    near: Option<&[usize]>,
    topology: &Topology,
    allowed: &[usize],
) -> (Vec<usize>, Option<String>) {
    let ours = |cpu: &usize| allowed.contains(cpu);
    let near: Vec<usize> = near.unwrap_or(allowed).iter().copied().filter(ours).collect();
    let cores_first = |cpus: Vec<usize>| topology.cores_first(&cpus);
    match placement {
        Placement::Local if near.is_empty() => (
            cores_first(allowed.to_vec()),
            Some("none of the CPUs near it may be used: workers run on the others".into()),
        ),
        Placement::Local => (cores_first(near), None),
        Placement::Far => {
            let far: Vec<usize> =
                allowed.iter().copied().filter(|cpu| !near.contains(cpu)).collect();
            match far.is_empty() {
                true => {
                    (cores_first(near), Some("no CPU is far from it: placement is local".into()))
                }
                false => (cores_first(far), None),
            }
        }
        Placement::Spread => (topology.spread(allowed), None),
        Placement::Cores(cores) => {
            let (usable, missing): (Vec<usize>, Vec<usize>) =
                cores.iter().copied().partition(|cpu| ours(cpu));
            let list: Vec<String> = missing.iter().map(usize::to_string).collect();
            let note = (!missing.is_empty())
                .then(|| format!("CPUs {} may not be used here and are left out", list.join(", ")));
            (usable, note)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Topology {
        // Two nodes of two cores with two threads each; threads of a core are 4 apart.
        let node = |cpu: usize| (cpu % 4) / 2;
        Topology::of((0..8).map(|cpu| (cpu, node(cpu), cpu % 4)))
    }

    #[test]
    fn near_and_far_follow_the_device_and_cores_come_before_their_second_threads() {
        let all: Vec<usize> = (0..8).collect();
        let near = [0, 1, 4, 5];
        let cpus = |placement, near: Option<&[usize]>| choose(&placement, near, &host(), &all).0;
        assert_eq!(cpus(Placement::Local, Some(&near)), [0, 1, 4, 5]);
        assert_eq!(cpus(Placement::Far, Some(&near)), [2, 3, 6, 7]);
        assert_eq!(cpus(Placement::Local, None), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cpus(Placement::Spread, Some(&near)), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(cpus(Placement::Cores(vec![7, 0]), Some(&near)), [7, 0]);
    }

    #[test]
    fn what_cannot_be_done_as_asked_is_said() {
        let say = |placement, near: &[usize], allowed: &[usize]| {
            choose(&placement, Some(near), &host(), allowed)
        };
        let (cpus, note) = say(Placement::Far, &[0, 1], &[0, 1]);
        assert!(cpus == [0, 1] && note.unwrap().contains("no CPU is far"));
        let (cpus, note) = say(Placement::Local, &[0, 1], &[2, 3]);
        assert!(cpus == [2, 3] && note.unwrap().contains("none of the CPUs near"));
        let (cpus, note) = say(Placement::Cores(vec![1, 9]), &[0], &[0, 1]);
        assert!(cpus == [1] && note.unwrap().contains("9"));
    }
}
