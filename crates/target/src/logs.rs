//! Log pages that the model answers with.

use crate::identify::PageOf;
use crate::model::{AMPLIFICATION_PERCENT, Sanitize, State};

/// A log page by its number; none where the model has none.
pub(crate) fn page(state: &State, number: u8, now_ns: u64) -> Option<Vec<u8>> {
    Some(match number {
        0x01 => errors(state),
        0x02 => health(state),
        0x03 => {
            let mut page = PageOf::new(512);
            page.put(0, &[1]).text(8, 8, env!("CARGO_PKG_VERSION"));
            page.0
        }
        0x81 => sanitize(state, now_ns),
        0xC0 => ocp(state),
        _ => return None,
    })
}

/// Units of 512,000 bytes, rounded up.
fn units(bytes: u128) -> [u8; 16] {
    bytes.div_ceil(512_000).to_le_bytes()
}

fn health(state: &State) -> Vec<u8> {
    let mut page = PageOf::new(512);
    page.put(0, &[state.critical_warning()])
        .put(1, &state.temperature_k.to_le_bytes())
        .put(3, &[100, 10, 1])
        .put(32, &units(state.read_bytes))
        .put(48, &units(state.written_bytes))
        .put(64, &state.read_commands.to_le_bytes())
        .put(80, &state.write_commands.to_le_bytes())
        .put(112, &3u128.to_le_bytes())
        .put(128, &77u128.to_le_bytes())
        .put(160, &state.media_errors.to_le_bytes())
        .put(176, &u128::from(state.error_entries).to_le_bytes())
        .put(200, &state.temperature_k.to_le_bytes())
        .put(202, &(state.temperature_k + 5).to_le_bytes())
        .put(216, &state.throttles[0].to_le_bytes())
        .put(220, &state.throttles[1].to_le_bytes());
    page.0
}

fn errors(state: &State) -> Vec<u8> {
    let mut page = PageOf::new(16 * 64);
    for (n, error) in state.errors.iter().take(16).enumerate() {
        let at = 64 * n;
        page.put(at, &error.number.to_le_bytes())
            .put(at + 8, &error.queue.to_le_bytes())
            .put(at + 10, &error.command.to_le_bytes())
            .put(at + 12, &(error.status << 1).to_le_bytes())
            .put(at + 16, &error.lba.to_le_bytes())
            .put(at + 24, &error.nsid.to_le_bytes());
    }
    page.0
}

fn sanitize(state: &State, now_ns: u64) -> Vec<u8> {
    let (progress, status) = match state.sanitize {
        Sanitize::Never => (0xffff, 0u16),
        Sanitize::Done => (0xffff, 1),
        Sanitize::Running(since) => {
            let share = (now_ns - since) as f64 / state.model.sanitize_ns.max(1) as f64;
            ((share.min(1.0) * 65534.0) as u16, 2)
        }
    };
    let mut page = PageOf::new(512);
    page.put(0, &progress.to_le_bytes()).put(2, &status.to_le_bytes());
    page.0
}

/// OCP extended health.
fn ocp(state: &State) -> Vec<u8> {
    const GUID: u128 = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5;
    let media = state.written_bytes * AMPLIFICATION_PERCENT / 100;
    let mut page = PageOf::new(512);
    page.put(0, &media.to_le_bytes())
        .put(16, &state.read_bytes.to_le_bytes())
        .put(56, &(state.media_errors as u64).to_le_bytes())
        .put(96, &[(state.throttles[0] + state.throttles[1]) as u8])
        .put(120, &[42])
        .put(128, &100u16.to_le_bytes())
        .put(200, &state.power_changes.to_le_bytes())
        .put(494, &3u16.to_le_bytes())
        .put(496, &GUID.to_le_bytes());
    page.0
}
