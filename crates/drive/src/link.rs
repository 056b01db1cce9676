//! PCIe links from a device up to the processor.

use crate::sysfs::{number, text};
use serde::Serialize;
use std::path::Path;

/// One end of a PCIe link. The kernel prints `Unknown`, 0 and 255 lanes where it does not know; these
/// are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// PCIe address.
    pub address: String,
    /// Rate now in GT/s times 10, such as 160.
    pub rate_now: Option<u32>,
    /// Lanes now.
    pub lanes_now: Option<u32>,
    /// Rate at most in GT/s times 10.
    pub rate_max: Option<u32>,
    /// Lanes at most.
    pub lanes_max: Option<u32>,
}

/// The link of a device, and those above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The device first, then each bridge and port towards the processor.
    pub hops: Vec<Hop>,
}

impl Hop {
    fn read(folder: &Path) -> Option<Hop> {
        let known = |lanes: &u32| (1..=64).contains(lanes);
        let hop = Hop {
            address: folder.file_name()?.to_string_lossy().into_owned(),
            rate_now: rate(&text(folder.join("current_link_speed"))?),
            lanes_now: number(folder.join("current_link_width")).filter(known),
            rate_max: rate(&text(folder.join("max_link_speed"))?),
            lanes_max: number(folder.join("max_link_width")).filter(known),
        };
        Some(hop)
    }

    /// The link now, such as `16.0 GT/s x4`; none when the kernel does not know.
    pub fn now(&self) -> Option<String> {
        Some(words(self.rate_now?, self.lanes_now?))
    }

    /// The most this end can do.
    pub fn most(&self) -> Option<String> {
        Some(words(self.rate_max?, self.lanes_max?))
    }
}

fn words(rate: u32, lanes: u32) -> String {
    format!("{}.{} GT/s x{lanes}", rate / 10, rate % 10)
}

/// `16.0 GT/s PCIe` as 160.
fn rate(text: &str) -> Option<u32> {
    let gt: f64 = text.split_whitespace().next()?.parse().ok()?;
    (gt > 0.0 && gt < 1000.0).then_some((gt * 10.0).round() as u32)
}

impl Link {
    /// Reads the links from a device's folder in /sys upwards; none when it hangs on no PCIe function.
    pub fn read(device: &Path) -> Option<Link> {
        let mut at = std::fs::canonicalize(device).ok()?;
        let mut hops = Vec::new();
        for _ in 0..16 {
            match Hop::read(&at) {
                Some(hop) => hops.push(hop),
                // Below the function there may be folders of its driver; above it only bridges.
                None if !hops.is_empty() => break,
                None => {}
            }
            let Some(up) = at.parent() else { break };
            at = up.to_owned();
        }
        (!hops.is_empty()).then_some(Link { hops })
    }

    /// PCIe address of the device.
    pub fn address(&self) -> &str {
        self.hops.first().map_or("", |hop| &hop.address)
    }

    /// The device's own link now.
    pub fn now(&self) -> Option<String> {
        self.hops.first()?.now()
    }

    /// What both ends of the device's own link can do: the lower of the two. None when unknown.
    pub fn most(&self) -> Option<String> {
        let (rate, lanes) = self.able()?;
        Some(words(rate, lanes))
    }

    fn able(&self) -> Option<(u32, u32)> {
        let device = self.hops.first()?;
        let (mut rate, mut lanes) = (device.rate_max?, device.lanes_max?);
        if let Some(port) = self.hops.get(1) {
            rate = rate.min(port.rate_max.unwrap_or(rate));
            lanes = lanes.min(port.lanes_max.unwrap_or(lanes));
        }
        Some((rate, lanes))
    }

    /// Whether the device's link runs below what both of its ends can.
    pub fn is_downgraded(&self) -> bool {
        let Some((rate, lanes)) = self.able() else { return false };
        let Some(device) = self.hops.first() else { return false };
        device.rate_now.is_some_and(|now| now < rate)
            || device.lanes_now.is_some_and(|now| now < lanes)
    }

    /// The slot, when it could do more than the device is able to.
    pub fn slot_is_better(&self) -> Option<String> {
        let (device, port) = (self.hops.first()?, self.hops.get(1)?);
        let better = port.rate_max? > device.rate_max? || port.lanes_max? > device.lanes_max?;
        better.then(|| port.most()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A function below a port, each with (rate now, lanes now, rate max, lanes max).
    fn tree(port: [&str; 4], device: [&str; 4]) -> (tempfile::TempDir, Option<Link>) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("0000:00:01.0/0000:01:00.0");
        let driver = at.join("nvme/nvme0");
        fs::create_dir_all(&driver).unwrap();
        let names =
            ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"];
        for (folder, values) in [(at.parent().unwrap(), port), (&at, device)] {
            for (name, value) in names.iter().zip(values) {
                fs::write(folder.join(name), format!("{value}\n")).unwrap();
            }
        }
        let link = Link::read(&driver);
        (folder, link)
    }

    const GEN4: [&str; 4] = ["16.0 GT/s PCIe", "4", "16.0 GT/s PCIe", "4"];

    #[test]
    fn a_good_link_is_good() {
        let link = tree(GEN4, GEN4).1.unwrap();
        assert_eq!(link.address(), "0000:01:00.0");
        assert_eq!(link.now().unwrap(), "16.0 GT/s x4");
        assert!(!link.is_downgraded() && link.slot_is_better().is_none());
        assert_eq!(link.hops.len(), 2);
    }

    #[test]
    fn a_link_below_what_both_ends_can_is_downgraded() {
        let slow = tree(GEN4, ["8.0 GT/s PCIe", "4", "16.0 GT/s PCIe", "4"]).1.unwrap();
        assert!(slow.is_downgraded());
        assert_eq!(
            (slow.now().unwrap(), slow.most().unwrap()),
            ("8.0 GT/s x4".into(), "16.0 GT/s x4".into())
        );
        assert!(
            tree(GEN4, ["16.0 GT/s PCIe", "2", "16.0 GT/s PCIe", "4"]).1.unwrap().is_downgraded()
        );
        // A faster drive in a slower slot does all that the slot can.
        let slot = tree(GEN4, ["16.0 GT/s PCIe", "4", "32.0 GT/s PCIe", "4"]).1.unwrap();
        assert!(!slot.is_downgraded());
        // And a slower drive in a faster slot all that it can itself.
        let old = tree(GEN4, ["2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1"]).1.unwrap();
        assert!(!old.is_downgraded());
        assert_eq!(old.slot_is_better().unwrap(), "16.0 GT/s x4");
    }

    #[test]
    fn what_the_kernel_does_not_know_is_no_number() {
        let unknown = ["Unknown", "0", "Unknown", "255"];
        let link = tree(unknown, unknown).1.unwrap();
        assert_eq!((link.now(), link.most(), link.is_downgraded()), (None, None, false));
        assert_eq!(Link::read(Path::new("/nowhere")), None);
    }
}
