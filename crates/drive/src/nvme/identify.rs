//! Identify data structures (NVM Express base specification 2.0, figures 275 and 276; NVM command set
//! 1.0, figure 97).

use super::bytes::{Page, decimal};
use serde::Serialize;

/// What a controller says of itself. Fields it does not report are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Controller {
    /// PCI vendor.
    pub vendor_id: u16,
    /// PCI subsystem vendor.
    pub subsystem_vendor_id: u16,
    /// Serial number.
    pub serial: String,
    /// Model.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// Controller number in its subsystem.
    pub controller_id: u16,
    /// Version of the specification, such as `1.4.0`; none before 1.2.
    pub version: Option<String>,
    /// Largest transfer in units of the least page, as a power of two; none without a limit.
    pub max_transfer_pages_log2: Option<u8>,
    /// Several controllers may reach the same namespaces.
    pub multi_controller: bool,
    /// Optional admin commands.
    pub commands: AdminCommands,
    /// Composite temperature above which it warns, in kelvin.
    pub warning_temperature_k: Option<u16>,
    /// Composite temperature above which it is critical, in kelvin.
    pub critical_temperature_k: Option<u16>,
    /// Total capacity in bytes; 0 when not reported.
    #[serde(serialize_with = "decimal")]
    pub total_capacity_bytes: u128,
    /// Capacity that belongs to no namespace, in bytes.
    #[serde(serialize_with = "decimal")]
    pub unallocated_capacity_bytes: u128,
    /// Least and greatest temperature for host-controlled thermal management, in kelvin; none when it
    /// has none.
    pub thermal_management_k: Option<(u16, u16)>,
    /// Ways to sanitize.
    pub sanitize: SanitizeWays,
    /// Namespaces at most.
    pub namespaces_max: u32,
    /// Entries of the error log.
    pub error_entries: u16,
    /// Formatting one namespace formats all of them.
    pub format_is_for_all: bool,
    /// Erasing one namespace by format erases all of them.
    pub erase_is_for_all: bool,
    /// Format can erase by changing the key.
    pub crypto_erase: bool,
    /// It has a volatile write cache.
    pub volatile_write_cache: bool,
    /// It can deallocate.
    pub deallocate: bool,
    /// Qualified name of the subsystem.
    pub subsystem: String,
    /// Power states, 0 first.
    pub power_states: Vec<PowerState>,
}

/// Optional admin commands (OACS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AdminCommands {
    /// Format NVM.
    pub format: bool,
    /// Namespace management and attachment.
    pub namespaces: bool,
    /// Device self-test.
    pub self_test: bool,
    /// Telemetry logs (LPA).
    pub telemetry: bool,
    /// Persistent event log (LPA).
    pub persistent_events: bool,
}

/// Ways to sanitize (SANICAP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SanitizeWays {
    /// By changing the key.
    pub crypto: bool,
    /// By erasing blocks.
    pub block: bool,
    /// By overwriting.
    pub overwrite: bool,
}

impl SanitizeWays {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.crypto || self.block || self.overwrite
    }
}

/// A power state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PowerState {
    /// Number.
    pub state: u8,
    /// Greatest power in milliwatts; none when not reported.
    pub max_mw: Option<u32>,
    /// Whether I/O is processed in it.
    pub operational: bool,
    /// Time to enter it, in us.
    pub entry_us: u32,
    /// Time to leave it, in us.
    pub exit_us: u32,
    /// Power when idle, in milliwatts.
    pub idle_mw: Option<u32>,
    /// Power when busy, in milliwatts.
    pub active_mw: Option<u32>,
}

impl Controller {
    /// Reads an identify page of 4096 bytes.
    ///
    /// # Errors
    /// When it is shorter.
    pub fn parse(bytes: &[u8]) -> Result<Controller, String> {
        super::long_enough("Identify Controller", bytes, 4096)?;
        let page = Page(bytes);
        let kelvin = |at: usize| Some(page.u16(at)).filter(|&k| k != 0);
        let (oacs, lpa, fna) = (page.u16(256), page.u8(261), page.u8(524));
        let sanicap = page.u32(328);
        let version = page.u32(80);
        // The field is 0-based; the specification allows 32 states.
        let states = usize::from(page.u8(263).min(31)) + 1;
        Ok(Controller {
            vendor_id: page.u16(0),
            subsystem_vendor_id: page.u16(2),
            serial: page.text(4, 20),
            model: page.text(24, 40),
            firmware: page.text(64, 8),
            controller_id: page.u16(78),
            version: (version != 0)
                .then(|| format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)),
            max_transfer_pages_log2: Some(page.u8(77)).filter(|&n| n != 0),
            multi_controller: page.u8(76) & 2 != 0,
            commands: AdminCommands {
                format: oacs & 2 != 0,
                namespaces: oacs & 8 != 0,
                self_test: oacs & 16 != 0,
                telemetry: lpa & 8 != 0,
                persistent_events: lpa & 16 != 0,
            },
            warning_temperature_k: kelvin(266),
            critical_temperature_k: kelvin(268),
            total_capacity_bytes: page.wide(280, 16),
            unallocated_capacity_bytes: page.wide(296, 16),
            thermal_management_k: (page.u16(322) & 1 != 0).then(|| (page.u16(324), page.u16(326))),
            sanitize: SanitizeWays {
                crypto: sanicap & 1 != 0,
                block: sanicap & 2 != 0,
                overwrite: sanicap & 4 != 0,
            },
            namespaces_max: page.u32(516),
            error_entries: u16::from(page.u8(262)) + 1,
            format_is_for_all: fna & 1 != 0,
            erase_is_for_all: fna & 2 != 0,
            crypto_erase: fna & 4 != 0,
            volatile_write_cache: page.u8(525) & 1 != 0,
            deallocate: page.u16(520) & 4 != 0,
            subsystem: page.text(768, 256),
            power_states: (0..states).map(|n| power_state(page, n)).collect(),
        })
    }
}

fn power_state(page: Page<'_>, n: usize) -> PowerState {
    let at = 2048 + 32 * n;
    let flags = page.u8(at + 3);
    // In 0.1 mW, or in 10 mW.
    let max = u32::from(page.u16(at));
    let max_mw = if flags & 1 != 0 { max / 10 } else { max * 10 };
    let scaled = |value: u16, scale: u8| match scale {
        1 => Some(u32::from(value) / 10),
        2 => Some(u32::from(value) * 10),
        _ => None,
    };
    PowerState {
        state: n as u8,
        max_mw: Some(max_mw).filter(|&mw| mw != 0),
        operational: flags & 2 == 0,
        entry_us: page.u32(at + 4),
        exit_us: page.u32(at + 8),
        idle_mw: scaled(page.u16(at + 16), page.u8(at + 18) >> 6),
        active_mw: scaled(page.u16(at + 20), page.u8(at + 22) >> 6),
    }
}

/// What a namespace is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// Size in logical blocks.
    pub size_blocks: u64,
    /// Blocks that can be allocated at a time.
    pub capacity_blocks: u64,
    /// Blocks allocated now.
    pub used_blocks: u64,
    /// The format in use, by number.
    pub format: u8,
    /// All formats.
    pub formats: Vec<LbaFormat>,
    /// Metadata goes at the end of the data.
    pub extended_lba: bool,
    /// End-to-end protection: 0 none, else its type.
    pub protection: u8,
    /// Several controllers may be attached.
    pub shared: bool,
    /// Globally unique identifier, as hexadecimal digits.
    pub nguid: Option<String>,
    /// IEEE extended unique identifier, as hexadecimal digits.
    pub eui64: Option<String>,
    /// Preferred write granularity in blocks; none when not reported.
    pub write_granularity_blocks: Option<u32>,
    /// Preferred deallocate granularity in blocks; none when not reported.
    pub deallocate_granularity_blocks: Option<u32>,
    /// Optimal write size in blocks; none when not reported.
    pub optimal_write_blocks: Option<u32>,
    /// Endurance group; none when not reported.
    pub endurance_group: Option<u16>,
}

/// One LBA format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LbaFormat {
    /// Data of a block in bytes; 0 when the format cannot be used.
    pub data_bytes: u32,
    /// Metadata of a block in bytes.
    pub metadata_bytes: u16,
    /// Relative performance: 0 is best, 3 degraded.
    pub relative_performance: u8,
}

impl Namespace {
    /// Reads an identify page of 4096 bytes.
    ///
    /// # Errors
    /// When it is shorter, or the format in use is none of those it lists.
    pub fn parse(bytes: &[u8]) -> Result<Namespace, String> {
        super::long_enough("Identify Namespace", bytes, 4096)?;
        let page = Page(bytes);
        let flbas = page.u8(26);
        let format = flbas & 0xf | (flbas >> 5 & 3) << 4;
        let count = usize::from(page.u8(25).min(63)) + 1;
        let formats: Vec<LbaFormat> = (0..count)
            .map(|n| {
                let raw = page.u32(128 + 4 * n);
                let log2 = raw >> 16 & 0xff;
                LbaFormat {
                    data_bytes: if (9..32).contains(&log2) { 1 << log2 } else { 0 },
                    metadata_bytes: raw as u16,
                    relative_performance: (raw >> 24 & 3) as u8,
                }
            })
            .collect();
        if formats.get(usize::from(format)).is_none_or(|format| format.data_bytes == 0) {
            return Err(format!(
                "Identify Namespace: format {format} is in use, which is none of the {count} it lists"
            ));
        }
        let hints = page.u8(24) & 16 != 0;
        let blocks = |at: usize| hints.then(|| u32::from(page.u16(at)) + 1);
        Ok(Namespace {
            size_blocks: page.u64(0),
            capacity_blocks: page.u64(8),
            used_blocks: page.u64(16),
            format,
            formats,
            extended_lba: flbas & 16 != 0,
            protection: page.u8(29) & 7,
            shared: page.u8(30) & 1 != 0,
            nguid: page.hex(104, 16),
            eui64: page.hex(120, 8),
            write_granularity_blocks: blocks(64),
            deallocate_granularity_blocks: blocks(68),
            optimal_write_blocks: blocks(72),
            endurance_group: Some(page.u16(102)).filter(|&group| group != 0),
        })
    }

    /// The format in use.
    pub fn format_in_use(&self) -> LbaFormat {
        self.formats.get(usize::from(self.format)).copied().unwrap_or_default()
    }

    /// Number of the best format without metadata for blocks of this size.
    pub fn format_for(&self, data_bytes: u32) -> Option<u8> {
        let fits = |format: &&(usize, &LbaFormat)| {
            format.1.data_bytes == data_bytes && format.1.metadata_bytes == 0
        };
        let all: Vec<(usize, &LbaFormat)> = self.formats.iter().enumerate().collect();
        let best = all.iter().filter(fits).min_by_key(|(_, f)| f.relative_performance)?;
        u8::try_from(best.0).ok()
    }
}

/// The numbers of a namespace list (CNS 02h, 10h): ascending, ended by 0.
pub(super) fn namespace_list(bytes: &[u8]) -> Vec<u32> {
    let numbers = bytes.as_chunks::<4>().0.iter().map(|raw| u32::from_le_bytes(*raw));
    numbers.take_while(|&nsid| nsid != 0).collect()
}
