//! The constants of the timing layer in the units it counts in: nanoseconds and indirection units.

use crate::profile::{Profile, Scheduler, bytes};

/// Constants of one drive as it is set up.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// Bytes of an indirection unit.
    pub(crate) unit: u64,
    /// Units of one program operation.
    pub(crate) program_units: u32,
    /// Bytes of one read operation.
    pub(crate) page: u64,
    pub(crate) dies: u32,
    pub(crate) program_ns: u64,
    pub(crate) sequential_program_ns: u64,
    pub(crate) cache_program_ns: u64,
    /// Largest deviation of one operation, in parts of 2^16 of its time.
    pub(crate) program_spread: u64,
    pub(crate) read_ns: Vec<u64>,
    /// Retried when a 32-bit draw is below this.
    pub(crate) retry_below: u64,
    pub(crate) retry_ns: u64,
    /// Of one cleaning read of `program_units`.
    pub(crate) cleaning_read_ns: u64,
    pub(crate) command_ns: u64,
    pub(crate) read_link_ps: u64,
    pub(crate) write_link_ps: u64,
    pub(crate) read_fixed_ns: u64,
    pub(crate) write_fixed_ns: u64,
    pub(crate) buffer_units: u32,
    /// A write is done only when it is in the flash.
    pub(crate) write_through: bool,
    pub(crate) scheduler: Scheduler,
    pub(crate) suspend_ns: Vec<u64>,
    pub(crate) resume_ns: u64,
    pub(crate) suspends_most: u32,
    pub(crate) power: Energy,
}

/// Energy of a unit, in pJ, and the budget.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Energy {
    pub(crate) idle_w: f64,
    pub(crate) read_uj: f64,
    pub(crate) program_uj: f64,
    pub(crate) cleaning_read_uj: f64,
    /// Watts above idle that may be used; none without a cap.
    pub(crate) budget_w: Option<f64>,
}

impl Energy {
    /// Energy of writing `units` when each costs `amplification` programs, in uJ.
    pub(crate) fn write_uj(&self, units: f64, amplification: f64) -> f64 {
        units * (self.program_uj * amplification + self.cleaning_read_uj * (amplification - 1.0))
    }
}

fn ns(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

impl Timing {
    /// The constants of a profile under a power cap in W and with the write cache on or off.
    pub(crate) fn new(profile: &Profile, cap_w: Option<f64>, write_cache: bool) -> Timing {
        let flash = &profile.flash;
        let unit = bytes(&flash.indirection).0;
        let program_units = (bytes(&flash.program_unit).0 / unit) as u32;
        let per_byte_ps = |rate: &str| (1e12 / bytes(rate).0 as f64).round() as u64;
        let power = profile.power.as_ref().map_or_else(Energy::default, |power| Energy {
            idle_w: power.idle_w,
            read_uj: power.read_uj,
            program_uj: power.program_uj,
            cleaning_read_uj: power.cleaning_read_uj,
            budget_w: cap_w.map(|cap| (cap - power.idle_w).max(0.01)),
        });
        Timing {
            unit,
            program_units,
            page: bytes(&flash.page).0,
            dies: flash.read_units,
            program_ns: ns(flash.program_us).max(1),
            sequential_program_ns: ns(flash.sequential_program_us).max(1),
            cache_program_ns: profile.cache.as_ref().map_or(1, |cache| ns(cache.program_us).max(1)),
            program_spread: (flash.program_spread * 65536.0) as u64,
            read_ns: flash.read_us.iter().map(|&us| ns(us)).collect(),
            retry_below: (flash.retry_share * (1u64 << 32) as f64) as u64,
            retry_ns: ns(flash.retry_us),
            cleaning_read_ns: ns(flash.program_us * flash.cleaning_read),
            command_ns: (profile.controller.command_ns.round() as u64).max(1),
            read_link_ps: per_byte_ps(&profile.controller.link_read),
            write_link_ps: per_byte_ps(&profile.controller.link_write),
            read_fixed_ns: ns(profile.controller.read_us),
            write_fixed_ns: ns(profile.controller.write_us),
            buffer_units: (bytes(&profile.controller.buffer).0 / unit) as u32,
            write_through: !write_cache && !profile.controller.power_loss_protection,
            scheduler: profile.suspend.scheduler,
            suspend_ns: profile.suspend.delay_us.iter().map(|&us| ns(us)).collect(),
            resume_ns: ns(profile.suspend.resume_us),
            suspends_most: profile.suspend.most,
            power,
        }
    }

    /// Units that `bytes` touch, at least one.
    pub(crate) fn units(&self, bytes: u32) -> u32 {
        (u64::from(bytes).div_ceil(self.unit)).max(1) as u32
    }
}
