//! Pages as drives give them, and as they should never be (arithmetic; no device).

use super::*;
use proptest::prelude::*;

fn page(bytes: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![0; bytes];
    for (at, value) in fields {
        page[*at..at + value.len()].copy_from_slice(value);
    }
    page
}

#[test]
fn a_health_page_is_read_field_by_field() {
    let mut bytes = page(
        512,
        &[
            (0, &[0b1010]),
            (1, &323u16.to_le_bytes()),
            (3, &[100, 10, 117]),
            (32, &(u128::MAX - 1).to_le_bytes()),
            (48, &7u128.to_le_bytes()),
            (160, &5u128.to_le_bytes()),
            (192, &3u32.to_le_bytes()),
            (202, &340u16.to_le_bytes()),
            (216, &9u32.to_le_bytes()),
            (228, &11u32.to_le_bytes()),
        ],
    );
    let smart = Smart::parse(&bytes).unwrap();
    assert_eq!(smart.warnings(), ["temperature is beyond a threshold", "the media is read-only"]);
    assert_eq!((smart.temperature_k, celsius(323)), (Some(323), 50));
    assert_eq!((smart.available_spare_percent, smart.spare_threshold_percent), (100, 10));
    assert_eq!((smart.used_percent, smart.units_written, smart.media_errors), (117, 7, 5));
    assert_eq!((smart.sensors_k[0], smart.sensors_k[1]), (None, Some(340)));
    assert_eq!((smart.warning_minutes, smart.light_throttles, smart.heavy_throttle_s), (3, 9, 11));
    // Counters of 128 bits survive as text.
    let json = serde_json::to_value(&smart).unwrap();
    assert_eq!(json["units_read"], (u128::MAX - 1).to_string());
    bytes.truncate(511);
    assert_eq!(Smart::parse(&bytes).unwrap_err().matches("511").count(), 1);
}

#[test]
fn power_states_have_both_scales() {
    let mut bytes = page(4096, &[(4, b"SN 1                "), (24, b"Model"), (263, &[1])]);
    bytes[2048..2050].copy_from_slice(&2500u16.to_le_bytes());
    bytes[2080..2082].copy_from_slice(&50u16.to_le_bytes());
    bytes[2083] = 0b11;
    let controller = Controller::parse(&bytes).unwrap();
    assert_eq!((controller.serial.as_str(), controller.model.as_str()), ("SN 1", "Model"));
    let states: Vec<_> =
        controller.power_states.iter().map(|s| (s.max_mw, s.operational)).collect();
    assert_eq!(states, [(Some(25_000), true), (Some(5), false)]);
}

#[test]
fn a_namespace_names_its_format_or_is_refused() {
    let mut bytes = page(4096, &[(25, &[1]), (26, &[1]), (128, &[0, 0, 9, 0, 8, 0, 12, 1])]);
    let namespace = Namespace::parse(&bytes).unwrap();
    let format = namespace.format_in_use();
    assert_eq!((format.data_bytes, format.metadata_bytes), (4096, 8));
    assert_eq!((namespace.format_for(512), namespace.format_for(4096)), (Some(0), None));
    // It lies: a format that it does not list, or of an impossible size.
    bytes[26] = 5;
    assert!(Namespace::parse(&bytes).unwrap_err().contains("format 5"));
    (bytes[26], bytes[130]) = (0, 77);
    assert!(Namespace::parse(&bytes).is_err());
}

#[test]
fn the_ocp_page_is_believed_only_with_its_name() {
    let guid = 0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5u128.to_le_bytes();
    let mut bytes = page(512, &[(0, &123u128.to_le_bytes()), (96, &[4, 2]), (496, &guid)]);
    let ocp = Ocp::parse(&bytes).unwrap().unwrap();
    assert_eq!((ocp.media_written_bytes, ocp.throttle_events, ocp.throttle_now), (123, 4, 2));
    bytes[500] ^= 1;
    assert_eq!(Ocp::parse(&bytes).unwrap(), None);
}

#[test]
fn errors_and_sanitize_are_read() {
    let mut entry = page(128, &[(0, &3u64.to_le_bytes()), (16, &2048u64.to_le_bytes())]);
    entry[12..14].copy_from_slice(&(0x281u16 << 1).to_le_bytes());
    let errors = parse_errors(&entry);
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].number, errors[0].status, errors[0].lba), (3, 0x281, 2048));
    let status = SanitizeStatus::parse(&page(20, &[(0, &[0xff, 0x7f, 2])])).unwrap();
    assert_eq!((status.state, status.percent().round()), (SanitizeState::Running, 50.0));
}

proptest! {
    /// A truncated or lying page yields a message or values, never a panic.
    #[test]
    fn no_page_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..4200)) {
        let _ = Controller::parse(&bytes);
        let _ = Namespace::parse(&bytes).map(|n| (n.format_in_use(), n.format_for(512)));
        let _ = Smart::parse(&bytes).map(|s| (s.warnings().len(), serde_json::to_string(&s)));
        let _ = Ocp::parse(&bytes);
        let _ = Endurance::parse(&bytes);
        let _ = SanitizeStatus::parse(&bytes).map(|s| s.percent());
        let _ = parse_errors(&bytes);
        let _ = identify::namespace_list(&bytes);
    }
}
