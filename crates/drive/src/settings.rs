//! Settings of drives that a run changes, and what they were before: remembered in a file before they
//! are changed, so that they can be put back even after a crash.

use crate::device::{Device, discover};
use crate::nvme::{Feature, Nvme};
use crate::smartctl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A drive's settings as they were before Fathom changed them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
struct Before {
    /// Identity of the drive.
    identity: String,
    /// Number of the namespace that was the target.
    nsid: Option<u32>,
    /// Values by [`Feature::word`].
    features: BTreeMap<String, u32>,
    /// Values they were set to.
    #[serde(default)]
    set: BTreeMap<String, u32>,
    /// Write cache of a drive that is no NVMe drive.
    #[serde(default)]
    write_cache: Option<bool>,
}

/// The folder with one file for each drive whose settings are changed.
#[derive(Clone, Debug)]
pub struct Settings {
    folder: PathBuf,
}

impl Settings {
    /// Settings remembered in this folder; it is made when needed.
    pub fn new(folder: &Path) -> Settings {
        Settings { folder: folder.to_owned() }
    }

    fn file(&self, identity: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = identity.chars().map(plain).take(120).collect();
        self.folder.join(format!("{name}.json"))
    }

    fn before(&self, identity: &str) -> Option<Before> {
        let before: Before = serde_json::from_slice(&fs::read(self.file(identity)).ok()?).ok()?;
        (before.identity == identity).then_some(before)
    }

    /// Writes a file whole or not at all, and to the disk.
    fn remember(&self, before: &Before) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.file(&before.identity);
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(before)?)?;
        file.sync_all()?;
        fs::rename(fresh, path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Changes a feature of the drive behind `device` for the time of a run. Gives the value before.
    ///
    /// # Errors
    /// When the drive refuses, or what it was cannot be remembered; nothing is changed then.
    pub fn change(&self, device: &Device, feature: Feature, value: u32) -> Result<u32, String> {
        let nvme = Nvme::open(device).ok_or("it is no NVMe drive")?.map_err(|e| e.to_string())?;
        let now = nvme.feature(feature).map_err(|error| error.to_string())?;
        let identity = device.identity();
        let known = self.before(&identity);
        let set = known.as_ref().and_then(|before| before.set.get(feature.word()));
        if now == value && set.is_none_or(|set| *set == value) {
            return Ok(now);
        }
        let mut before =
            known.unwrap_or_else(|| Before { identity, nsid: device.nsid, ..Before::default() });
        before.features.entry(feature.word().to_owned()).or_insert(now);
        before.set.insert(feature.word().to_owned(), value);
        self.remember(&before).map_err(|error| self.unremembered(&error))?;
        nvme.set_feature(feature, value).map_err(|error| error.to_string())?;
        Ok(now)
    }

    /// Switches the volatile write cache for the time of a run. Gives whether it was on.
    ///
    /// # Errors
    /// As [`Settings::change`].
    pub fn switch_cache(&self, device: &Device, on: bool) -> Result<bool, String> {
        if Nvme::open(device).is_some() {
            return Ok(self.change(device, Feature::WriteCache, u32::from(on))? & 1 == 1);
        }
        let node = &device.path;
        let now = smartctl::write_cache(node).filter(|_| smartctl::is_for(device));
        let now = now.ok_or("smartctl is missing, or cannot read the setting")?;
        if now == on {
            return Ok(now);
        }
        let identity = device.identity();
        let mut before =
            self.before(&identity).unwrap_or_else(|| Before { identity, ..Before::default() });
        before.write_cache.get_or_insert(now);
        self.remember(&before).map_err(|error| self.unremembered(&error))?;
        smartctl::set_write_cache(node, on).map(|()| now)
    }

    fn unremembered(&self, error: &std::io::Error) -> String {
        let folder = self.folder.display();
        format!("what it was cannot be remembered in {folder} ({error}), so it is not changed")
    }

    /// Settings that the drive does not have any more, though nobody put them back: a reset, such as after
    /// a command that timed out, takes them away. The figures since then are of another setting.
    pub fn lost(&self, device: &Device) -> Vec<String> {
        let Some(before) = self.before(&device.identity()) else { return Vec::new() };
        let Some(Ok(nvme)) = Nvme::open(device) else { return Vec::new() };
        let lost = |feature: &Feature| {
            let set = *before.set.get(feature.word())?;
            let now = nvme.feature(*feature).ok().filter(|now| *now != set)?;
            Some(format!("{} was set to {set} and is {now}", feature.word()))
        };
        Feature::ALL.iter().filter_map(lost).collect()
    }

    /// Puts everything back on this drive. Gives what was put back; empty when there was nothing.
    ///
    /// # Errors
    /// When the drive refuses; what it was stays remembered.
    pub fn restore(&self, device: &Device) -> Result<Vec<String>, String> {
        let Some(before) = self.before(&device.identity()) else { return Ok(Vec::new()) };
        let mut done = Vec::new();
        if let Some(on) = before.write_cache {
            smartctl::set_write_cache(&device.path, on)?;
            done.push(format!("write_cache is {} again", u32::from(on)));
        }
        for feature in Feature::ALL {
            let Some(&value) = before.features.get(feature.word()) else { continue };
            let nvme =
                Nvme::open(device).ok_or("it is no NVMe drive")?.map_err(|e| e.to_string())?;
            nvme.set_feature(feature, value).map_err(|error| error.to_string())?;
            done.push(format!("{} is {value} again", feature.word()));
        }
        let path = self.file(&before.identity);
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(done)
    }

    /// Puts everything back on all drives that are remembered. Gives the identity of each, with what
    /// was done or why not.
    pub fn restore_all(&self) -> Vec<(String, Result<Vec<String>, String>)> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let devices = discover();
        let read = |path: &Path| serde_json::from_slice::<Before>(&fs::read(path).ok()?).ok();
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let Some(before) = read(&entry.path()) else { continue };
            let is_it = |device: &&Device| {
                device.identity() == before.identity && device.nsid == before.nsid
            };
            let done = match devices.iter().find(is_it) {
                Some(device) => self.restore(device),
                None => Err("the drive is not here; what it was stays remembered".into()),
            };
            all.push((before.identity, done));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_not_here_stays_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::new(&folder.path().join("settings"));
        assert!(settings.restore_all().is_empty());
        let features = [("write_cache".to_owned(), 1)].into();
        let before =
            Before { identity: "S/N 1".into(), nsid: Some(1), features, ..Before::default() };
        settings.remember(&before).unwrap();
        assert_eq!(settings.before("S/N 1"), Some(before));
        assert_eq!(settings.before("S_N 1"), None, "another drive whose file has the same name");
        let all = settings.restore_all();
        assert!(all.len() == 1 && all[0].1.as_ref().unwrap_err().contains("not here"));
        assert!(settings.before("S/N 1").is_some());
    }

    #[test]
    fn nothing_is_changed_that_is_not_remembered() {
        let settings = Settings::new(Path::new("/proc/no-such-folder"));
        let device = Device { name: "loop99".into(), ..Device::default() };
        let error = settings.change(&device, Feature::WriteCache, 0).unwrap_err();
        assert!(error.contains("no NVMe"), "{error}");
        assert_eq!(settings.restore(&device), Ok(Vec::new()));
    }
}
