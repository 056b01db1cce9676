//! What is done to targets between measurements: purge, settings, and settings put back.

use crate::cell::Place;
use crate::error::RunError;
use crate::history::note_states;
use crate::observe::Progress;
use crate::run::Runner;
use analysis::Status;
use base::clock::unix_ms;
use drive::{Device, Eraser, Feature, Nvme};
use engine::{Control, Outcome};
use plan::{Purge, Setting};
use serde_json::json;
use std::sync::atomic::Ordering;

/// Name of the verdict on a drive that lost what it was set to.
pub(crate) const SETTING_LOST: &str = "setting-lost";

fn said(name: &str, done: Result<String, String>) -> Result<(String, bool), String> {
    match done {
        Ok(how) => Ok((format!("{name}: {how}"), true)),
        Err(error) => Err(format!("{name}: the purge failed: {error}")),
    }
}

/// Whether a target can be purged in this way; otherwise why not.
pub(crate) fn can(eraser: &Eraser, purge: Purge) -> Result<(), String> {
    match purge {
        Purge::Sanitize => eraser.can_sanitize(),
        Purge::Format | Purge::Auto => eraser.can_format(),
        Purge::Discard | Purge::None => Ok(()),
    }
}

impl Runner<'_> {
    /// Brings the media of all targets into the state of never having been written.
    pub(crate) fn purge(&mut self, purge: Purge, place: &Place) -> Result<Outcome, RunError> {
        if purge == Purge::None {
            self.deviate("no purge")?;
            self.event("purge", "none: the plan says so")?;
            return Ok(Outcome::Completed);
        }
        let again = self.replaying(&place.path);
        let refused = format!("{}/not-purged", place.path);
        let (mut how, mut worked) = (Vec::new(), !self.replaying(&refused));
        for index in 0..self.beds.len() {
            let done = match self.backend.control(index, Control::Purge) {
                Some(done) => done.map(|text| (text, true)),
                None if again => continue,
                None => self.purge_host(index, purge),
            };
            match done {
                Ok((text, purged)) => {
                    how.push(text);
                    worked &= purged;
                }
                Err(error) => return Ok(Outcome::Failed(error)),
            }
        }
        if !again {
            let text = how.join("; ");
            self.event("purge", &text)?;
            self.observer.on(Progress::Note(&format!("purge: {text}")));
            note_states(&self.writer, &self.beds)?;
            // What superseded cells wrote is gone with everything else.
            self.superseded.clear();
        }
        if worked {
            self.histories.retold = again;
            self.histories.purged(&self.beds, purge.word(), unix_ms());
            self.histories.retold = false;
        } else {
            self.mark_done(&refused)?;
        }
        self.mark_done(&place.path)?;
        Ok(Outcome::Completed)
    }

    /// Purges a target of this host. Gives what was done, and whether it was a purge.
    fn purge_host(&mut self, index: usize, purge: Purge) -> Result<(String, bool), String> {
        let bed = &self.beds[index];
        let name = bed.name.clone();
        let Some(eraser) = &bed.eraser else {
            return Err(format!("{name}: was not opened for writing"));
        };
        let mut refused = String::new();
        match purge {
            Purge::Format => return said(&name, eraser.format()),
            Purge::Sanitize => {
                let (interrupt, observer) = (self.interrupt, &mut *self.observer);
                let mut told = 0.0;
                let mut each = |percent: f64| {
                    if percent >= told {
                        told = (percent / 10.0).floor() * 10.0 + 10.0;
                        let text = format!("{name}: sanitize, {percent:.0} % done");
                        observer.on(Progress::Note(&text));
                    }
                    !interrupt.load(Ordering::Relaxed)
                };
                let done = eraser.sanitize(&mut each);
                return said(&name, done);
            }
            // What the PTS names first; a drive that has none or refuses it may still deallocate.
            Purge::Auto => match can(eraser, purge).and_then(|()| eraser.format()) {
                Ok(how) => return Ok((format!("{name}: {how}"), true)),
                Err(error) => refused = format!(" (no format: {error})"),
            },
            _ => {}
        }
        match eraser.deallocate() {
            Ok(()) => {
                let _ = self.deviate("purge by deallocation, which the PTS does not list");
                Ok((format!("{name}: all blocks deallocated{refused}"), true))
            }
            Err(error) if purge == Purge::Auto => {
                let _ = self.deviate("no purge: the target cannot deallocate");
                Ok((format!("{name}: not purged, it cannot deallocate ({error})"), false))
            }
            Err(error) => Err(format!(
                "{name}: purge by deallocation failed: {error}; use purge = \"auto\" or \"none\""
            )),
        }
    }

    /// Sets targets up.
    pub(crate) fn set(&mut self, setting: &Setting, place: &Place) -> Result<Outcome, RunError> {
        if let Some(placement) = &setting.placement {
            self.place(placement, !self.replaying(&place.path))?;
        }
        for index in 0..self.beds.len() {
            for change in changes(setting) {
                let name = self.beds[index].name.clone();
                match self.change(index, change) {
                    Ok(text) if self.replaying(&place.path) => drop(text),
                    Ok(text) => self.event("set", &format!("{name}: {text}"))?,
                    Err(error) => return Ok(Outcome::Failed(format!("{name}: {error}"))),
                }
            }
        }
        self.mark_done(&place.path)?;
        Ok(Outcome::Completed)
    }

    /// Makes one change of one target. Gives what was done.
    fn change(&mut self, index: usize, change: Control) -> Result<String, String> {
        if let Some(done) = self.backend.control(index, change) {
            return done;
        }
        let device = self.beds[index].subject.and_then(|subject| subject.device()).cloned();
        match (change, device) {
            (Control::WriteCache(on), device) => Ok(self.switch_cache(device.as_ref(), on)),
            (Control::PowerState(state), Some(device)) => self.set_power(&device, state),
            (Control::PowerLimit { mw }, Some(device)) => {
                let state = state_for(&device, mw)?;
                self.set_power(&device, state)
            }
            (Control::Thermal(light, heavy), Some(device)) => {
                self.set_thermal(&device, light, heavy)
            }
            _ => Err("is no drive whose power or heat can be set".into()),
        }
    }

    /// Switches the write cache where the drive has one. Where it cannot be switched, that is a
    /// deviation, not a failure: the method says in which state it was measured.
    fn switch_cache(&mut self, device: Option<&Device>, on: bool) -> String {
        let word = if on { "on" } else { "off" };
        let Some(device) = device else {
            let _ = self.deviate("write cache is not known");
            return "has no write cache setting that can be read".into();
        };
        let nvme = Nvme::open(device);
        if let Some(Ok(nvme)) = &nvme
            && nvme.controller().is_ok_and(|controller| !controller.volatile_write_cache)
        {
            return format!("has no volatile write cache, so {word} means nothing to it");
        }
        match self.settings.switch_cache(device, on) {
            Ok(before) if before == on => return format!("write cache is {word}, as wanted"),
            Ok(_) => return format!("write cache switched {word}"),
            Err(error) if nvme.is_some() => {
                let _ = self.deviate(&format!("write cache is not {word}"));
                return format!("write cache cannot be switched {word}: {error}");
            }
            Err(_) => {}
        }
        let disk = device.parent.as_deref().unwrap_or(&device.name);
        match drive::write_cache(disk) {
            Some(now) if now == on => format!("write cache is {word}, as wanted"),
            Some(_) => {
                let _ = self.deviate(&format!("write cache is not {word}"));
                format!(
                    "write cache should be {word} and is not, and cannot be switched here; on SATA and SAS \
                     drives that needs smartctl (apt-get install smartmontools)"
                )
            }
            None => {
                let _ = self.deviate("write cache is not known");
                "has no write cache setting that can be read".into()
            }
        }
    }

    fn set_power(&mut self, device: &Device, state: u8) -> Result<String, String> {
        let nvme = Nvme::open(device).ok_or("has no power states")?.map_err(|e| e.to_string())?;
        let controller = nvme.controller().map_err(|error| error.to_string())?;
        let known = controller.power_states.get(usize::from(state));
        let most = controller.power_states.len() - 1;
        let known = known.ok_or(format!("has no power state {state}, only 0 to {most}"))?;
        if !known.operational {
            return Err(format!("does no I/O in power state {state}"));
        }
        let before = self.settings.change(device, Feature::PowerState, u32::from(state))?;
        let watts = known
            .max_mw
            .map_or_else(String::new, |mw| format!(", {} W at most", f64::from(mw) / 1000.0));
        Ok(format!("power state {state}{watts} (was {})", before & 31))
    }

    fn set_thermal(&mut self, device: &Device, light: u16, heavy: u16) -> Result<String, String> {
        const ZERO_C: u16 = 273;
        let nvme = Nvme::open(device).ok_or("has no thermal management")?;
        let controller = nvme.and_then(|nvme| nvme.controller()).map_err(|e| e.to_string())?;
        let (least, most) =
            controller.thermal_management_k.ok_or("has no host-controlled thermal management")?;
        let (light_k, heavy_k) = (light + ZERO_C, heavy + ZERO_C);
        if light_k < least || heavy_k > most {
            return Err(format!(
                "takes thermal limits from {} C to {} C",
                least.saturating_sub(ZERO_C),
                most.saturating_sub(ZERO_C)
            ));
        }
        let value = u32::from(light_k) << 16 | u32::from(heavy_k);
        self.settings.change(device, Feature::ThermalManagement, value)?;
        Ok(format!("throttles lightly from {light} C, heavily from {heavy} C"))
    }

    /// Puts every setting back that this run changed.
    pub(crate) fn restore_settings(&mut self) -> Result<(), RunError> {
        for index in 0..self.beds.len() {
            let Some(device) = self.beds[index].subject.and_then(|subject| subject.device()) else {
                continue;
            };
            let name = self.beds[index].name.clone();
            let lost = self.settings.lost(device);
            let restored = self.settings.restore(device);
            if !lost.is_empty() && self.last_end.is_some() {
                let text =
                    format!("{name}: the drive lost a setting during the run: {}", lost.join(", "));
                let word = Status::Fail.word();
                self.writer.verdict(None, SETTING_LOST, word, &text, &json!({"lost": lost}))?;
                self.worst = Status::Fail;
            }
            match restored {
                Ok(done) if done.is_empty() => {}
                Ok(done) => self.event("restore", &format!("{name}: {}", done.join(", ")))?,
                Err(error) => {
                    let text = format!(
                        "{name}: settings could not be put back ({error}); `fathom devices --restore` \
                         tries again"
                    );
                    self.note(&text)?;
                }
            }
        }
        Ok(())
    }
}

/// The changes of a `set` step, one by one.
fn changes(setting: &Setting) -> Vec<Control> {
    let milliwatts = |watts: f64| (watts * 1000.0).round() as u32;
    [
        setting.write_cache.map(Control::WriteCache),
        setting.thermal_c.map(|(light, heavy)| Control::Thermal(light, heavy)),
        setting.power_state.map(Control::PowerState),
        setting.power_w.map(|watts| Control::PowerLimit { mw: milliwatts(watts) }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The strongest power state that draws no more than this.
fn state_for(device: &Device, mw: u32) -> Result<u8, String> {
    let nvme = Nvme::open(device).ok_or("has no power states")?.map_err(|e| e.to_string())?;
    let states = nvme.controller().map_err(|error| error.to_string())?.power_states;
    let fits = states.iter().filter(|s| s.operational && s.max_mw.is_some_and(|most| most <= mw));
    let best = fits.max_by_key(|state| state.max_mw).map(|state| state.state);
    best.ok_or_else(|| {
        let known: Vec<String> = states
            .iter()
            .filter_map(|s| Some(format!("{}: {} W", s.state, f64::from(s.max_mw?) / 1000.0)))
            .collect();
        format!("no power state draws {} W or less ({})", f64::from(mw) / 1000.0, known.join(", "))
    })
}
