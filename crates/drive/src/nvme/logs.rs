//! Log pages: health (02h), errors (01h), sanitize status (81h), endurance group (09h), and the OCP
//! extended health log (C0h; Datacenter NVMe SSD specification 2.0, section 4.8.6).

use super::bytes::{Page, decimal};
use serde::Serialize;

/// SMART / health information (02h). Fields the drive does not report are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Smart {
    /// Bits: 0 spare low, 1 temperature, 2 reliability, 3 read-only, 4 backup failed, 5 PMR.
    pub critical_warning: u8,
    /// Composite temperature in kelvin.
    pub temperature_k: Option<u16>,
    /// Spare left, in percent.
    pub available_spare_percent: u8,
    /// Spare below which it warns, in percent.
    pub spare_threshold_percent: u8,
    /// Endurance used, in percent; may pass 100.
    pub used_percent: u8,
    /// Read by the host, in units of 512,000 bytes, rounded up.
    #[serde(serialize_with = "decimal")]
    pub units_read: u128,
    /// Written by the host, in units of 512,000 bytes, rounded up.
    #[serde(serialize_with = "decimal")]
    pub units_written: u128,
    /// Read commands.
    #[serde(serialize_with = "decimal")]
    pub read_commands: u128,
    /// Write commands.
    #[serde(serialize_with = "decimal")]
    pub write_commands: u128,
    /// Minutes with commands outstanding.
    #[serde(serialize_with = "decimal")]
    pub busy_minutes: u128,
    /// Power cycles.
    #[serde(serialize_with = "decimal")]
    pub power_cycles: u128,
    /// Hours of power.
    #[serde(serialize_with = "decimal")]
    pub power_on_hours: u128,
    /// Shutdowns without notice.
    #[serde(serialize_with = "decimal")]
    pub unsafe_shutdowns: u128,
    /// Errors of data integrity that could not be mended.
    #[serde(serialize_with = "decimal")]
    pub media_errors: u128,
    /// Entries the error log ever had.
    #[serde(serialize_with = "decimal")]
    pub error_entries: u128,
    /// Minutes above the warning temperature.
    pub warning_minutes: u32,
    /// Minutes above the critical temperature.
    pub critical_minutes: u32,
    /// Temperature sensors 1 to 8 in kelvin; none where there is no sensor.
    pub sensors_k: [Option<u16>; 8],
    /// Times it throttled lightly, by host-controlled thermal management.
    pub light_throttles: u32,
    /// Times it throttled heavily.
    pub heavy_throttles: u32,
    /// Seconds throttled lightly.
    pub light_throttle_s: u32,
    /// Seconds throttled heavily.
    pub heavy_throttle_s: u32,
}

impl Smart {
    /// Reads the page.
    ///
    /// # Errors
    /// When it is shorter than 512 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Smart, String> {
        super::long_enough("SMART / health", bytes, 512)?;
        let page = Page(bytes);
        let kelvin = |at: usize| Some(page.u16(at)).filter(|&k| k != 0);
        Ok(Smart {
            critical_warning: page.u8(0),
            temperature_k: kelvin(1),
            available_spare_percent: page.u8(3),
            spare_threshold_percent: page.u8(4),
            used_percent: page.u8(5),
            units_read: page.wide(32, 16),
            units_written: page.wide(48, 16),
            read_commands: page.wide(64, 16),
            write_commands: page.wide(80, 16),
            busy_minutes: page.wide(96, 16),
            power_cycles: page.wide(112, 16),
            power_on_hours: page.wide(128, 16),
            unsafe_shutdowns: page.wide(144, 16),
            media_errors: page.wide(160, 16),
            error_entries: page.wide(176, 16),
            warning_minutes: page.u32(192),
            critical_minutes: page.u32(196),
            sensors_k: std::array::from_fn(|n| kelvin(200 + 2 * n)),
            light_throttles: page.u32(216),
            heavy_throttles: page.u32(220),
            light_throttle_s: page.u32(224),
            heavy_throttle_s: page.u32(228),
        })
    }

    /// What the critical warning says, for people.
    pub fn warnings(&self) -> Vec<&'static str> {
        const BITS: [&str; 6] = [
            "spare is below its threshold",
            "temperature is beyond a threshold",
            "reliability is degraded by media errors",
            "the media is read-only",
            "the backup of volatile memory failed",
            "the persistent memory region is read-only or unreliable",
        ];
        let set = |bit: &usize| self.critical_warning & 1 << bit != 0;
        (0..BITS.len()).filter(set).map(|bit| BITS[bit]).collect()
    }
}

/// Degrees Celsius of a temperature in kelvin, as NVMe counts them: whole, 273 below.
pub fn celsius(kelvin: u16) -> i32 {
    i32::from(kelvin) - 273
}

/// One entry of the error log (01h).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorEntry {
    /// Running number of the error.
    pub number: u64,
    /// Submission queue.
    pub queue: u16,
    /// Command.
    pub command: u16,
    /// Status: code in bits 7:0, type in bits 10:8.
    pub status: u16,
    /// First block.
    pub lba: u64,
    /// Namespace.
    pub nsid: u32,
}

/// Reads the entries of the error log, newest first; unused ones are left out.
pub(super) fn parse_errors(bytes: &[u8]) -> Vec<ErrorEntry> {
    let entry = |raw: &[u8; 64]| {
        let page = Page(raw);
        ErrorEntry {
            number: page.u64(0),
            queue: page.u16(8),
            command: page.u16(10),
            // Bit 0 is the phase.
            status: page.u16(12) >> 1,
            lba: page.u64(16),
            nsid: page.u32(24),
        }
    };
    let entries = bytes.as_chunks::<64>().0.iter().map(entry);
    entries.filter(|entry| entry.number != 0).collect()
}

/// How far a sanitize is (81h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SanitizeStatus {
    /// How the last one went.
    pub state: SanitizeState,
    /// Share done, in parts of 65535.
    pub progress: u16,
}

/// How the last sanitize went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SanitizeState {
    /// There was none.
    #[default]
    Never,
    /// It was completed.
    Done,
    /// It is going on.
    Running,
    /// It failed.
    Failed,
    /// A state of a later specification.
    Unknown,
}

impl SanitizeStatus {
    /// Reads the page.
    ///
    /// # Errors
    /// When it is shorter than 20 bytes.
    pub fn parse(bytes: &[u8]) -> Result<SanitizeStatus, String> {
        super::long_enough("Sanitize Status", bytes, 20)?;
        let page = Page(bytes);
        let state = match page.u16(2) & 7 {
            0 => SanitizeState::Never,
            // 4: done, without deallocating.
            1 | 4 => SanitizeState::Done,
            2 => SanitizeState::Running,
            3 => SanitizeState::Failed,
            _ => SanitizeState::Unknown,
        };
        Ok(SanitizeStatus { state, progress: page.u16(0) })
    }

    /// Percent done.
    pub fn percent(&self) -> f64 {
        f64::from(self.progress) * 100.0 / 65535.0
    }
}

/// Endurance group information (09h).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Endurance {
    /// Spare left, in percent.
    pub available_spare_percent: u8,
    /// Endurance used, in percent.
    pub used_percent: u8,
    /// Read by the host, in 10^9 bytes.
    #[serde(serialize_with = "decimal")]
    pub read_gb: u128,
    /// Written by the host, in 10^9 bytes.
    #[serde(serialize_with = "decimal")]
    pub written_gb: u128,
    /// Written to the media, in 10^9 bytes.
    #[serde(serialize_with = "decimal")]
    pub media_written_gb: u128,
}

impl Endurance {
    /// Reads the page.
    ///
    /// # Errors
    /// When it is shorter than 512 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Endurance, String> {
        super::long_enough("Endurance Group", bytes, 512)?;
        let page = Page(bytes);
        Ok(Endurance {
            available_spare_percent: page.u8(3),
            used_percent: page.u8(5),
            read_gb: page.wide(48, 16),
            written_gb: page.wide(64, 16),
            media_written_gb: page.wide(80, 16),
        })
    }
}

/// OCP extended health (C0h).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ocp {
    /// Version of the page.
    pub version: u16,
    /// Bytes written to the media.
    #[serde(serialize_with = "decimal")]
    pub media_written_bytes: u128,
    /// Bytes read from the media.
    #[serde(serialize_with = "decimal")]
    pub media_read_bytes: u128,
    /// Bad blocks for the user's data.
    pub bad_user_blocks: u64,
    /// Bad blocks for the system's data.
    pub bad_system_blocks: u64,
    /// Recoveries by parity over dies.
    pub xor_recoveries: u64,
    /// Reads that could not be mended.
    pub uncorrectable_reads: u64,
    /// Reads that needed the second stage of correction.
    pub soft_ecc_errors: u64,
    /// End-to-end errors detected.
    pub end_to_end_detected: u32,
    /// End-to-end errors corrected.
    pub end_to_end_corrected: u32,
    /// Wear: most erasures of a user block.
    pub erases_max: u32,
    /// Wear: least erasures of a user block.
    pub erases_min: u32,
    /// Times it throttled for heat.
    pub throttle_events: u8,
    /// Throttling now: 0 none, 1 level 1, 2 level 2, 3 level 3.
    pub throttle_now: u8,
    /// Correctable errors of the link.
    pub pcie_correctable: u64,
    /// Shutdowns it could not complete.
    pub incomplete_shutdowns: u32,
    /// Free blocks in percent.
    pub free_blocks_percent: u8,
    /// Health of the capacitors in percent.
    pub capacitor_percent: u16,
    /// I/Os that were not aligned.
    pub unaligned_ios: u64,
    /// Times the link was trained anew.
    pub link_retrains: u64,
    /// Changes of the power state.
    pub power_state_changes: u64,
}

impl Ocp {
    /// Identifies the page (little endian).
    const GUID: u128 = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5;

    /// Reads the page; none when it is another vendor's page of the same number.
    ///
    /// # Errors
    /// When it is shorter than 512 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Option<Ocp>, String> {
        super::long_enough("OCP extended health", bytes, 512)?;
        let page = Page(bytes);
        if page.wide(496, 16) != Ocp::GUID {
            return Ok(None);
        }
        Ok(Some(Ocp {
            version: page.u16(494),
            media_written_bytes: page.wide(0, 16),
            media_read_bytes: page.wide(16, 16),
            bad_user_blocks: page.wide(32, 6) as u64,
            bad_system_blocks: page.wide(40, 6) as u64,
            xor_recoveries: page.u64(48),
            uncorrectable_reads: page.u64(56),
            soft_ecc_errors: page.u64(64),
            end_to_end_detected: page.u32(72),
            end_to_end_corrected: page.u32(76),
            erases_max: page.u32(88),
            erases_min: page.u32(92),
            throttle_events: page.u8(96),
            throttle_now: page.u8(97),
            pcie_correctable: page.u64(104),
            incomplete_shutdowns: page.u32(112),
            free_blocks_percent: page.u8(120),
            capacitor_percent: page.u16(128),
            unaligned_ios: page.u64(136),
            link_retrains: page.u64(192),
            power_state_changes: page.u64(200),
        }))
    }
}
