//! Sizes, times and rates: parsing what people write and printing what they read.
//!
//! Suffix rule: `k`, `M`, `G`, `T` alone and with `i`/`iB` are powers of 1024, as fio users expect;
//! `kB`, `MB`, `GB`, `TB` are powers of 1000, as datasheets print. Each printed figure has its unit.

use std::fmt;

/// A span of time or a point on the run's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// From seconds; negative and non-finite values become zero.
    pub fn from_secs_f64(secs: f64) -> Nanos {
        if secs.is_finite() && secs > 0.0 { Nanos((secs * 1e9).round() as u64) } else { Nanos(0) }
    }

    /// As seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_span(*self))
    }
}

/// An amount of data or an address, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(*self))
    }
}

/// What was wrong with a written size, time or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text as written.
    pub text: String,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl std::error::Error for UnitError {}

const SIZE_EXPECTED: &str = "a size such as 4k, 128KiB, 1MB or 15.36TB";
const SPAN_EXPECTED: &str = "a time such as 500ms, 60s, 2m or 1h30m";

/// Splits `12.5kB` into number and suffix.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    let number: f64 = digits.parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

/// Multiplier of a size suffix, or none when it is not one.
fn size_factor(suffix: &str) -> Option<f64> {
    let binary = |power: i32| Some(1024f64.powi(power));
    let decimal = |power: i32| Some(1000f64.powi(power));
    match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => Some(1.0),
        "k" | "ki" | "kib" => binary(1),
        "m" | "mi" | "mib" => binary(2),
        "g" | "gi" | "gib" => binary(3),
        "t" | "ti" | "tib" => binary(4),
        "p" | "pi" | "pib" => binary(5),
        "kb" => decimal(1),
        "mb" => decimal(2),
        "gb" => decimal(3),
        "tb" => decimal(4),
        "pb" => decimal(5),
        _ => None,
    }
}

/// Parses a size.
///
/// # Errors
/// When the text is no number with a size suffix, or does not fit 63 bits.
pub fn parse_bytes(text: &str) -> Result<Bytes, UnitError> {
    let error = || UnitError { text: text.to_owned(), expected: SIZE_EXPECTED };
    let (number, suffix) = split_number(text.trim()).ok_or_else(error)?;
    let bytes = number * size_factor(suffix).ok_or_else(error)?;
    if bytes < 9.2e18 { Ok(Bytes(bytes.round() as u64)) } else { Err(error()) }
}

/// Parses a time made of one or more parts, such as `1h30m`; a bare number is seconds.
///
/// # Errors
/// When a part is no number with a time suffix, or the sum exceeds 200 years.
pub fn parse_span(text: &str) -> Result<Nanos, UnitError> {
    let error = || UnitError { text: text.to_owned(), expected: SPAN_EXPECTED };
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let (number, tail) = split_number(rest).ok_or_else(error)?;
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let factor = match &tail[..end] {
            "ns" => 1e-9,
            "us" | "usec" => 1e-6,
            "ms" | "msec" => 1e-3,
            "" | "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(error()),
        };
        total += number * factor;
        rest = tail[end..].trim_start();
    }
    if total < 6.3e9 { Ok(Nanos::from_secs_f64(total)) } else { Err(error()) }
}

/// Prints a size in binary units, exact where the value is a whole multiple: `4 KiB`, `1.5 GiB`.
pub fn format_bytes(bytes: Bytes) -> String {
    const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes.0 as f64;
    let mut step = 0;
    while value >= 1024.0 && step + 1 < NAMES.len() {
        value /= 1024.0;
        step += 1;
    }
    if value.fract() == 0.0 {
        format!("{value:.0} {}", NAMES[step])
    } else {
        format!("{value:.2} {}", NAMES[step])
    }
}

/// Prints a size the way a cell is named: `4k`, `128k`, `1m`.
pub fn format_block(bytes: Bytes) -> String {
    for (shift, name) in [(30, "g"), (20, "m"), (10, "k")] {
        if bytes.0 >= 1 << shift && bytes.0.is_multiple_of(1 << shift) {
            return format!("{}{name}", bytes.0 >> shift);
        }
    }
    format!("{}b", bytes.0)
}

/// Prints a size in decimal units, as drives are sold: `15.36 TB`.
pub fn format_bytes_decimal(bytes: Bytes) -> String {
    const NAMES: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes.0 as f64;
    let mut step = 0;
    while value >= 1000.0 && step + 1 < NAMES.len() {
        value /= 1000.0;
        step += 1;
    }
    if step == 0 {
        format!("{value:.0} B")
    } else {
        format!("{} {}", three_digits(value), NAMES[step])
    }
}

/// Prints a latency with a unit fit for its size: `845 ns`, `12.3 us`, `4.56 ms`, `1.20 s`.
pub fn format_latency(latency_ns: f64) -> String {
    let (value, unit) = match latency_ns {
        v if v < 1e3 => return format!("{v:.0} ns"),
        v if v < 1e6 => (v / 1e3, "us"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Prints a duration: `1h 05m`, `2m 30s`, `4.2 s`, `300 ms`.
pub fn format_span(span: Nanos) -> String {
    let secs = span.as_secs_f64();
    let whole = secs.round() as u64;
    match whole {
        _ if secs < 1.0 => format!("{:.0} ms", secs * 1e3),
        _ if secs < 10.0 => format!("{secs:.1} s"),
        0..=59 => format!("{whole} s"),
        60..=3599 => format!("{}m {:02}s", whole / 60, whole % 60),
        _ => format!("{}h {:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// Prints a rate of operations: `950`, `12.3k`, `1.25M`.
pub fn format_rate(rate: f64) -> String {
    match rate {
        r if r < 1e4 => format!("{r:.0}"),
        r if r < 1e6 => format!("{}k", three_digits(r / 1e3)),
        r => format!("{}M", three_digits(r / 1e6)),
    }
}

/// Three significant digits without an exponent.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_suffix_rule() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1MB", 1_000_000),
            ("1m", 1 << 20),
            ("15.36TB", 15_360_000_000_000),
            ("1_000", 1000),
            ("16TiB", 1 << 44),
        ] {
            assert_eq!(parse_bytes(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "k", "4q", "-4k", "1e5", "99999999999T", "4 k k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_add_their_parts() {
        for (text, ns) in [
            ("60", 60_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("10us", 10_000),
            ("2m 30s", 150_000_000_000),
        ] {
            assert_eq!(parse_span(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "s", "5 parsecs", "1h-3m", "999999999999h"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_are_printed_with_units() {
        assert_eq!(format_latency(845.0), "845 ns");
        assert_eq!(format_latency(12_345.0), "12.3 us");
        assert_eq!(format_latency(4_560_000.0), "4.56 ms");
        assert_eq!(format_span(Nanos(3_900_000_000_000)), "1h 05m");
        assert_eq!(format_bytes(Bytes(1536 << 20)), "1.50 GiB");
        assert_eq!(format_bytes_decimal(Bytes(15_360_000_000_000)), "15.4 TB");
        assert_eq!(format_block(Bytes(131_072)), "128k");
        assert_eq!(format_rate(1_250_000.0), "1.25M");
    }
}
