//! What follows `sim:` on the command line: a profile and how the drive is set up.

use crate::profile::{Profile, profile_names};
use base::units::{Bytes, Nanos, parse_bytes, parse_span};
use plan::Extent;
use std::path::Path;

/// A virtual drive that was asked for: `sim:d5-p5430,over-provision=12.75TB,power=15W`.
#[derive(Clone, Debug)]
pub struct VirtualTarget {
    /// As written, with `sim:`.
    pub name: String,
    /// The drive.
    pub profile: Profile,
    /// How it is set up.
    pub setup: Setup,
}

/// How a virtual drive is set up, and what is to go wrong with it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Usable capacity when it is not all; the rest is spare.
    pub over_provision: Option<Bytes>,
    /// Shrinks drive and spare together, for short tests of long behaviour.
    pub capacity: Option<Bytes>,
    /// Smallest request, 512 bytes or 4 KiB.
    pub block: Bytes,
    /// Power cap in W.
    pub power_w: Option<f64>,
    /// Every I/O, or intervals made from tables.
    pub fidelity: Fidelity,
    /// Simulated I/Os behind one entry of a table.
    pub samples: u32,
    /// Seed of the drive's own choices.
    pub seed: u64,
    /// Standard deviation of the rate, as a share, instead of the profile's.
    pub noise: Option<f64>,
    /// What goes wrong, and when.
    pub faults: Faults,
}

/// How a virtual drive is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Every I/O, one by one.
    Exact,
    /// Intervals from tables: hours in seconds.
    Interval,
}

/// What goes wrong with a virtual drive, by the run's clock.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// No I/O ends for a time.
    pub stall: Option<Stall>,
    /// The first read (false) or write (true) that ends after this fails.
    pub error: Option<(bool, Nanos)>,
    /// The drive is gone from then on.
    pub gone: Option<Nanos>,
    /// Power is cut to a part when it is this warm, in degrees Celsius.
    pub throttle_c: Option<f64>,
    /// CPU time that the host spends on each I/O: a worker issues no more than its CPU allows.
    pub host_ns: Option<f64>,
}

/// Times in which no I/O ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Start of the first.
    pub at: Nanos,
    /// How long each is.
    pub long: Nanos,
    /// From one to the next; none where there is one.
    pub every: Option<Nanos>,
}

impl Stall {
    /// Those that touch a stretch of time: start and end.
    pub(crate) fn within(self, from: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let every = self.every.map_or(u64::MAX, |every| every.0);
        let first = match from.checked_sub(self.at.0.saturating_add(self.long.0)) {
            Some(past) if every != u64::MAX => past / every,
            _ => 0,
        };
        let begin = move |n: u64| n.checked_mul(every).and_then(|past| self.at.0.checked_add(past));
        (first..)
            .map_while(move |n| if n == 0 { Some(self.at.0) } else { begin(n) })
            .take_while(move |at| *at < end)
            .map(move |at| (at, at + self.long.0))
            .filter(move |(_, over)| *over > from)
    }
}

const KEYS: [&str; 14] = [
    "over-provision",
    "capacity",
    "block",
    "power",
    "mode",
    "samples",
    "seed",
    "noise",
    "stall",
    "error",
    "gone",
    "throttle",
    "host",
    "spare",
];

/// Indirection units that the spare must have at least.
const SPARE_UNITS_MIN: u32 = 40;

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            over_provision: None,
            capacity: None,
            block: Bytes(512),
            power_w: None,
            fidelity: Fidelity::Interval,
            samples: 40_000,
            seed: 1,
            noise: None,
            faults: Faults::default(),
        }
    }
}

impl VirtualTarget {
    /// Whether a target of the command line means a virtual drive.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("sim:")
    }

    /// Reads `sim:PROFILE[,key=value ...]`; PROFILE is built in or a file.
    ///
    /// # Errors
    /// What is wrong, and what may be written.
    pub fn parse(text: &str) -> Result<VirtualTarget, String> {
        let rest = text.strip_prefix("sim:").unwrap_or(text);
        let mut parts = rest.split(',');
        let name = parts.next().unwrap_or_default();
        let profile = find_profile(name)?;
        let mut target = VirtualTarget { name: text.into(), profile, setup: Setup::default() };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                format!("{text}: `{part}` is no key=value; keys are {}", KEYS.join(", "))
            })?;
            target.set(key, value).map_err(|error| format!("{text}: {error}"))?;
        }
        target.check().map_err(|error| format!("{text}: {error}"))?;
        Ok(target)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let size = || parse_bytes(value).map_err(|error| format!("{key}: {error}"));
        let setup = &mut self.setup;
        match key {
            "over-provision" => setup.over_provision = Some(size()?),
            "capacity" => setup.capacity = Some(size()?),
            "block" => setup.block = size()?,
            "power" => setup.power_w = Some(number(key, value, &["W", "w"], 0.1, 1000.0)?),
            "mode" => {
                setup.fidelity = match value {
                    "exact" => Fidelity::Exact,
                    "interval" => Fidelity::Interval,
                    _ => return Err(format!("mode={value}: it is exact or interval")),
                }
            }
            "samples" => setup.samples = number(key, value, &[], 1000.0, 1e8)? as u32,
            "seed" => setup.seed = number(key, value, &[], 0.0, 1e15)? as u64,
            "noise" => setup.noise = Some(number(key, value, &["%"], 0.0, 40.0)? / 100.0),
            "spare" => self.profile.flash.spare = number(key, value, &[], 1.01, 100.0)?,
            "stall" => setup.faults.stall = Some(stall(key, value)?),
            "host" => setup.faults.host_ns = Some(time(key, value)?.0.max(1) as f64),
            "error" => {
                let (what, at) = at_time(key, value)?;
                let write = match what {
                    "read" => false,
                    "write" => true,
                    _ => return Err(format!("error={value}: read@TIME or write@TIME")),
                };
                setup.faults.error = Some((write, at));
            }
            "gone" => setup.faults.gone = Some(time(key, value)?),
            "throttle" => {
                setup.faults.throttle_c = Some(number(key, value, &["C", "c"], 30.0, 200.0)?);
            }
            _ => return Err(format!("no key `{key}`; keys are {}", KEYS.join(", "))),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let Setup { block, over_provision, power_w, .. } = &self.setup;
        if block.0 != 512 && block.0 != 4096 {
            return Err("block is 512 or 4k".into());
        }
        if self.full_size().0 < 16 << 20 {
            return Err("the smallest virtual drive has 16 MiB".into());
        }
        if over_provision.is_some_and(|part| part > self.full_size() || part.0 < 16 << 20) {
            return Err("over-provision is the capacity that stays: 16MiB up to the drive's".into());
        }
        if self.setup.faults.host_ns.is_some() && self.setup.fidelity == Fidelity::Exact {
            return Err("the host's cost (host=) is known in interval mode only".into());
        }
        let units = self.size().0 / crate::profile::bytes(&self.profile.flash.indirection).0;
        if (units as f64) * (self.spare() - 1.0) < f64::from(SPARE_UNITS_MIN) {
            return Err("the drive is too small: its spare has no room for superblocks".into());
        }
        let needs_power = power_w.is_some() || self.setup.faults.throttle_c.is_some();
        match &self.profile.power {
            None if needs_power => Err("this profile has no [power]".into()),
            Some(power) if power_w.is_some_and(|cap| cap <= power.idle_w) => {
                Err(format!("power must be above the {} W of an idle drive", power.idle_w))
            }
            _ => Ok(()),
        }
    }

    /// The same drive with another usable capacity, the rest of it spare.
    ///
    /// # Errors
    /// When the drive does not have that much.
    pub fn over_provisioned(&self, capacity: Extent) -> Result<VirtualTarget, String> {
        let bytes = match capacity {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(_) => capacity.resolve(self.full_size()),
        };
        let seed = self.setup.seed;
        let mut target =
            VirtualTarget::parse(&format!("{},over-provision={}", self.name, bytes.0))?;
        target.setup.seed = seed;
        Ok(target)
    }

    fn full_size(&self) -> Bytes {
        self.setup.capacity.unwrap_or(self.profile.capacity())
    }

    /// What the host sees, in whole megabytes.
    pub fn size(&self) -> Bytes {
        let size = self.setup.over_provision.unwrap_or(self.full_size());
        Bytes(size.0 / 4096 * 4096)
    }

    /// Physical over usable capacity.
    pub fn spare(&self) -> f64 {
        self.profile.flash.spare * self.full_size().0 as f64 / self.size().0 as f64
    }

    /// What tells this drive from another.
    pub fn serial(&self) -> String {
        format!("SIM-{}-{}", self.profile.name.to_uppercase(), self.setup.seed)
    }
}

/// `200ms@10s`, or `200ms@10s/30s`: from second 10 on every 30 seconds.
fn stall(key: &str, value: &str) -> Result<Stall, String> {
    let (once, every) = match value.split_once('/') {
        Some((once, every)) => (once, Some(time(key, every)?)),
        None => (value, None),
    };
    let (long, at) = at_time(key, once)?;
    let long = time(key, long)?;
    if every.is_some_and(|every| every <= long) {
        return Err(format!("{key}={value}: the next comes before the one before is over"));
    }
    Ok(Stall { at, long, every })
}

fn find_profile(name: &str) -> Result<Profile, String> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok(profile);
    }
    let known: Vec<&str> = profile_names().collect();
    if !name.ends_with(".toml") {
        return Err(format!(
            "no profile `{name}`: there are {}; or name a file that ends in .toml",
            known.join(", ")
        ));
    }
    let text =
        std::fs::read_to_string(Path::new(name)).map_err(|error| format!("{name}: {error}"))?;
    Profile::read(&text).map_err(|error| format!("{name}: {error}"))
}

fn number(key: &str, value: &str, units: &[&str], min: f64, max: f64) -> Result<f64, String> {
    let bare = units.iter().find_map(|unit| value.strip_suffix(unit)).unwrap_or(value);
    let found = bare.parse::<f64>().ok().filter(|n| (min..=max).contains(n));
    found.ok_or_else(|| format!("{key}={value}: it is a number from {min} to {max}"))
}

fn time(key: &str, value: &str) -> Result<Nanos, String> {
    parse_span(value).map_err(|error| format!("{key}: {error}"))
}

/// `WHAT@TIME`.
fn at_time<'a>(key: &str, value: &'a str) -> Result<(&'a str, Nanos), String> {
    let (what, at) =
        value.split_once('@').ok_or_else(|| format!("{key}={value}: write it as WHAT@TIME"))?;
    Ok((what, time(key, at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_profile_and_setup() {
        let target =
            VirtualTarget::parse("sim:d5-p5430,over-provision=12.75TB,power=15W,mode=exact")
                .unwrap();
        assert_eq!(target.size(), Bytes(12_750_000_000_000 / 4096 * 4096));
        assert!((target.spare() - 1.1618 * 15.36 / 12.75).abs() < 1e-6);
        assert_eq!((target.setup.power_w, target.setup.fidelity), (Some(15.0), Fidelity::Exact));
        let faulty =
            VirtualTarget::parse("sim:client,stall=200ms@10s,error=write@1m,gone=2m").unwrap();
        let stall = Stall { at: Nanos(10_000_000_000), long: Nanos(200_000_000), every: None };
        assert_eq!(faulty.setup.faults.stall, Some(stall));
        assert_eq!(faulty.setup.faults.error, Some((true, Nanos(60_000_000_000))));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("sim:p5430", "there are d5-p5430"),
            ("sim:d5-p5430,power=5W", "idle"),
            ("sim:d5-p5430,power", "key=value"),
            ("sim:d5-p5430,watts=5", "no key `watts`"),
            ("sim:client,capacity=1M", "16 MiB"),
            ("sim:client,capacity=16MiB,spare=1.009", "spare"),
            ("sim:client,over-provision=2TB", "over-provision"),
            ("sim:client,stall=5s", "WHAT@TIME"),
            ("sim:client,stall=5s@1s/2s", "the next comes before"),
            ("sim:client,host=5us,mode=exact", "interval mode only"),
            ("sim:client,mode=fast", "exact or interval"),
            ("sim:none.toml", "none.toml"),
        ] {
            let error = VirtualTarget::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_after_sim_panics(text in "(d5-p5430|client|x)?(,[a-z-]{0,14}=?[0-9a-zA-Z@.%]{0,8}){0,4}") {
            let _ = VirtualTarget::parse(&format!("sim:{text}"));
        }

        #[test]
        fn no_profile_panics(cut in 0usize..4000, junk in "[ -~]{0,12}") {
            let good = include_str!("../profiles/d5-p5430.toml");
            let at = (0..=cut.min(good.len())).rev().find(|&at| good.is_char_boundary(at)).unwrap();
            let _ = Profile::read(&format!("{}{junk}{}", &good[..at], &good[at..]));
        }
    }

    #[test]
    fn stalls_that_come_again_are_found_where_they_touch() {
        let stall = Stall { at: Nanos(100), long: Nanos(10), every: Some(Nanos(50)) };
        let all = |from, end| stall.within(from, end).collect::<Vec<_>>();
        assert_eq!(all(0, 200), [(100, 110), (150, 160)]);
        assert_eq!(all(155, 206), [(150, 160), (200, 210)]);
        assert_eq!(all(110, 150), []);
        let once = Stall { every: None, ..stall };
        assert_eq!(once.within(0, 1000).collect::<Vec<_>>(), [(100, 110)]);
        assert_eq!(once.within(110, 1000).count(), 0);
    }
}
