//! What a drive is: the constants of the model, read from TOML.

use base::units::{Bytes, parse_bytes};
use serde::Deserialize;

/// A drive, as its profile says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, as in `sim:NAME`.
    pub name: String,
    /// Name for people.
    pub model: String,
    /// User capacity, such as `15.36TB`.
    pub capacity: String,
    /// The flash.
    pub flash: Flash,
    /// Everything between host and flash.
    pub controller: Controller,
    /// What a read does to a program in progress.
    pub suspend: Suspend,
    /// Power, where it is known.
    pub power: Option<Power>,
    /// A cache of flash in single-bit mode, where there is one.
    pub cache: Option<Cache>,
    /// Standard deviation of the rate from one second to the next, as a share.
    #[serde(default)]
    pub noise: f64,
    /// Other values of the constants that the calibration leaves open: a prediction is an envelope over
    /// all of them.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// Published figures, each either calibrated on or held out.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The flash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Physical over user capacity as the cleaning sees it (alpha).
    pub spare: f64,
    /// Indirection unit, such as `4k`.
    pub indirection: String,
    /// Units that read and program on their own.
    pub read_units: u32,
    /// What one program operation writes, such as `64k`.
    pub program_unit: String,
    /// What one read operation can give, such as `16k`.
    pub page: String,
    /// A program operation, erasing included.
    pub program_us: f64,
    /// How far a single program operation may be from that, as a share: the kinds of page differ.
    #[serde(default = "program_spread")]
    pub program_spread: f64,
    /// The same in a sequential stream.
    pub sequential_program_us: f64,
    /// A read operation, by the kinds of page: equally likely values.
    pub read_us: Vec<f64>,
    /// Share of read operations that are tried again.
    pub retry_share: f64,
    /// What a second try takes.
    pub retry_us: f64,
    /// Reading for cleaning, as a share of a program operation for the same data.
    pub cleaning_read: f64,
}

/// Everything between host and flash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// One command: the inverse of the highest IOPS.
    pub command_ns: f64,
    /// Read direction of the link, bytes a second.
    pub link_read: String,
    /// Write direction of the link, bytes a second.
    pub link_write: String,
    /// Fixed part of a read's latency.
    pub read_us: f64,
    /// Fixed part of a write's latency.
    pub write_us: f64,
    /// Buffer for data on its way to the flash.
    pub buffer: String,
    /// The buffer survives a power cut, so a write is done when it is in it.
    pub power_loss_protection: bool,
}

/// Who goes first on a die.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// A read suspends a program.
    Suspend,
    /// A read goes before waiting programs, and waits for the one in progress.
    ReadFirst,
    /// In order of arrival.
    Fifo,
}

/// What a read does to a program in progress.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Who goes first.
    pub scheduler: Scheduler,
    /// Time until a suspended program lets the read in: equally likely values.
    pub delay_us: Vec<f64>,
    /// Progress the program loses by each suspension.
    pub resume_us: f64,
    /// Suspensions of one program at most.
    pub most: u32,
}

/// Power: a constant part, and energy for each unit moved.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// With no I/O, in W.
    pub idle_w: f64,
    /// One indirection unit read by the host, in uJ.
    pub read_uj: f64,
    /// One unit programmed, in uJ.
    pub program_uj: f64,
    /// One unit read for cleaning, in uJ.
    pub cleaning_read_uj: f64,
}

/// A cache of flash in single-bit mode.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Its size, such as `100GB`.
    pub size: String,
    /// A program operation in it.
    pub program_us: f64,
    /// What it gives back when the host is idle, bytes a second.
    pub fold: String,
}

/// Constants that fit the calibration as well as those of the profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Why it may be so.
    pub why: String,
    /// Instead of `flash.spare`.
    pub spare: f64,
    /// Instead of `flash.cleaning_read`.
    pub cleaning_read: f64,
    /// Times `flash.program_us`, so that the calibrated rates stay.
    pub program_factor: f64,
}

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Whether a constant of this profile was chosen by it.
    pub status: Standing,
    /// The model over the figure less one, in percent, as the tests found it.
    pub residual_percent: f64,
    /// Where it was published.
    pub source: String,
}

/// Whether a figure shaped the profile.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// A constant was chosen by it.
    Calibrated,
    /// It is a prediction.
    HeldOut,
}

fn program_spread() -> f64 {
    0.25
}

const BUILT_IN: [(&str, &str); 3] = [
    ("d5-p5430", include_str!("../profiles/d5-p5430.toml")),
    ("tlc-3dwpd", include_str!("../profiles/tlc-3dwpd.toml")),
    ("client", include_str!("../profiles/client.toml")),
];

/// Names of the built-in profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl Profile {
    /// A built-in profile.
    pub fn built_in(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Profile::read(text).expect("a test reads every built-in profile"))
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), String> {
        let sizes = [
            ("capacity", &self.capacity),
            ("flash.indirection", &self.flash.indirection),
            ("flash.program_unit", &self.flash.program_unit),
            ("flash.page", &self.flash.page),
            ("controller.buffer", &self.controller.buffer),
            ("controller.link_read", &self.controller.link_read),
            ("controller.link_write", &self.controller.link_write),
        ];
        let cache =
            self.cache.iter().flat_map(|c| [("cache.size", &c.size), ("cache.fold", &c.fold)]);
        for (key, text) in sizes.into_iter().chain(cache) {
            match parse_bytes(text) {
                Ok(Bytes(0)) => return Err(format!("{key} is zero")),
                Ok(_) => {}
                Err(error) => return Err(format!("{key}: {error}")),
            }
        }
        let flash = &self.flash;
        let unit = bytes(&flash.indirection);
        let whole = bytes(&flash.program_unit).0.is_multiple_of(unit.0)
            && bytes(&flash.page).0.is_multiple_of(unit.0);
        let rules = [
            (flash.spare > 1.01 && flash.spare < 100.0, "flash.spare must be from 1.01 to 100"),
            (flash.read_units > 0 && flash.read_units <= 1 << 16, "flash.read_units: 1 to 65536"),
            (unit.0.is_power_of_two(), "flash.indirection must be a power of two"),
            (whole, "flash.page and flash.program_unit must be multiples of flash.indirection"),
            (
                bytes(&self.controller.buffer).0 >= 2 * bytes(&flash.program_unit).0,
                "controller.buffer must hold two program units",
            ),
            ((0.0..=1.0).contains(&flash.retry_share), "flash.retry_share is a share"),
            ((0.0..=10.0).contains(&flash.cleaning_read), "flash.cleaning_read must be 0 to 10"),
            ((0.0..1.0).contains(&flash.program_spread), "flash.program_spread must be below 1"),
            (!flash.read_us.is_empty(), "flash.read_us needs a value"),
            (!self.suspend.delay_us.is_empty(), "suspend.delay_us needs a value"),
            ((0.0..0.5).contains(&self.noise), "noise must be below 0.5"),
        ];
        if let Some((_, rule)) = rules.iter().find(|(kept, _)| !kept) {
            return Err((*rule).to_owned());
        }
        let times = [
            flash.program_us,
            flash.sequential_program_us,
            flash.retry_us,
            self.controller.command_ns,
            self.controller.read_us,
            self.controller.write_us,
            self.suspend.resume_us,
        ];
        let waits = flash.read_us.iter().chain(&self.suspend.delay_us);
        if times.iter().chain(waits).any(|time| !(0.0..=1e9).contains(time)) {
            return Err("times must be from 0 to 1e9".into());
        }
        if flash.program_us <= 0.0 || self.controller.command_ns <= 0.0 {
            return Err("flash.program_us and controller.command_ns must be above zero".into());
        }
        Ok(())
    }

    /// The profile itself and its variants; where none is given, those that a data sheet leaves open:
    /// one of sixteen dies for parity or not, and reads for cleaning that cost more or nothing.
    pub fn envelope(&self) -> Vec<(String, Profile)> {
        let with = |spare: f64, cleaning_read: f64, factor: f64| {
            let mut profile = self.clone();
            profile.flash.spare = spare;
            profile.flash.cleaning_read = cleaning_read;
            profile.flash.program_us *= factor;
            profile
        };
        let mut all = vec![("as in the profile".to_owned(), self.clone())];
        let own = (self.flash.spare, self.flash.cleaning_read);
        for variant in &self.variant {
            let Variant { spare, cleaning_read, program_factor, .. } = variant;
            all.push((variant.why.clone(), with(*spare, *cleaning_read, *program_factor)));
        }
        if self.variant.is_empty() {
            let parity = own.0 * 15.0 / 16.0;
            if parity > 1.02 {
                all.push(("one of sixteen dies holds parity".into(), with(parity, own.1, 1.0)));
            }
            all.push(("reads for cleaning cost nothing".into(), with(own.0, 0.0, 1.0)));
            all.push(("reads for cleaning cost more".into(), with(own.0, own.1 + 0.3, 1.0)));
        }
        all
    }

    /// The largest residual of a held-out figure, in percent: what a prediction may be off besides.
    pub fn error_percent(&self) -> f64 {
        const AT_LEAST: f64 = 5.0;
        const UNKNOWN: f64 = 10.0;
        let held = self.published.iter().filter(|figure| figure.status == Standing::HeldOut);
        let most = held.map(|figure| figure.residual_percent.abs()).reduce(f64::max);
        most.map_or(UNKNOWN, |most| most.max(AT_LEAST))
    }

    /// What the link carries in bytes a second, reading and writing.
    pub fn link_bytes(&self) -> (f64, f64) {
        let rate = |text: &str| bytes(text).0 as f64;
        (rate(&self.controller.link_read), rate(&self.controller.link_write))
    }

    /// User capacity.
    pub fn capacity(&self) -> Bytes {
        bytes(&self.capacity)
    }
}

/// A size that was checked before.
pub(crate) fn bytes(text: &str) -> Bytes {
    parse_bytes(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_reads_and_has_its_name() {
        for name in profile_names() {
            assert_eq!(Profile::built_in(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_wrong_profile_is_refused_with_the_place() {
        let good = BUILT_IN[0].1;
        for (from, to, word) in [
            ("spare = 1", "spare = 0", "flash.spare"),
            ("capacity = \"15.36TB\"", "capacity = \"lots\"", "capacity"),
            ("program_unit = \"64k\"", "program_unit = \"6k\"", "multiples"),
            ("read_units", "read_unit", "read_unit"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Profile::read(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
