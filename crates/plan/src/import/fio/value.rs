//! Values of options: sizes, times, lists, and sums in parentheses.

/// A size, or a share of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    Bytes(u64),
    Percent(f64),
}

/// What suffixes mean: by fio's default `k` is 1024 and `ki` 1000 (`kb_base=1024`), with `kb_base=1000` it is
/// the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KbBase(pub(super) u64);

impl KbBase {
    fn factor(self, suffix: &str) -> Option<f64> {
        let lower = suffix.to_ascii_lowercase();
        let bare = lower.strip_suffix('b').unwrap_or(&lower);
        let (letter, other) = match bare.strip_suffix('i') {
            Some(letter) => (letter, true),
            None => (bare, false),
        };
        let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == letter)?;
        if power == 0 && other {
            return None;
        }
        let base: f64 = if (self.0 == 1024) != other { 1024.0 } else { 1000.0 };
        Some(base.powi(power as i32))
    }

    /// A number with a suffix, in hexadecimal after `0x`, or a sum in parentheses.
    pub(super) fn number(self, text: &str) -> Option<f64> {
        let text = text.trim();
        if text.starts_with('(') {
            let mut sum = Sum { rest: text, base: self, depth: 0 };
            let value = sum.product_of_sums()?;
            return sum.rest.trim().is_empty().then_some(value);
        }
        self.plain(text)
    }

    fn plain(self, text: &str) -> Option<f64> {
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return u64::from_str_radix(hex, 16).ok().map(|n| n as f64);
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().ok()?;
        let value = number * self.factor(text[end..].trim())?;
        (value.is_finite() && value < 9.2e18).then_some(value)
    }

    pub(super) fn bytes(self, text: &str) -> Option<u64> {
        self.number(text).filter(|n| *n >= 0.0).map(|n| n.round() as u64)
    }

    pub(super) fn size(self, text: &str) -> Option<Size> {
        match text.trim().strip_suffix('%') {
            Some(share) => {
                let share: f64 = share.trim().parse().ok()?;
                (0.0..=100.0).contains(&share).then_some(Size::Percent(share))
            }
            None => self.bytes(text).map(Size::Bytes),
        }
    }
}

/// A time in seconds: a bare number counts in `unit` seconds.
pub(super) fn seconds(text: &str, unit: f64) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" => unit,
        "us" | "usec" => 1e-6,
        "ms" | "msec" => 1e-3,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Reads `(2*4k + 1m) / 2`.
struct Sum<'a> {
    rest: &'a str,
    base: KbBase,
    depth: u32,
}

/// Parentheses in parentheses.
const DEPTH_MAX: u32 = 32;

impl Sum<'_> {
    fn next(&mut self, wanted: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let found = self.rest.chars().next().filter(|c| wanted.contains(c))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn product_of_sums(&mut self) -> Option<f64> {
        let mut value = self.product()?;
        while let Some(sign) = self.next(&['+', '-']) {
            let other = self.product()?;
            value = if sign == '+' { value + other } else { value - other };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<f64> {
        let mut value = self.power()?;
        while let Some(sign) = self.next(&['*', '/', '%']) {
            let other = self.power()?;
            value = match sign {
                '*' => value * other,
                '/' => value / other,
                _ => value % other,
            };
        }
        value.is_finite().then_some(value)
    }

    fn power(&mut self) -> Option<f64> {
        let value = self.atom()?;
        match self.next(&['^']) {
            Some(_) => {
                self.depth += 1;
                (self.depth <= DEPTH_MAX).then_some(())?;
                Some(value.powf(self.power()?))
            }
            None => Some(value),
        }
    }

    fn atom(&mut self) -> Option<f64> {
        if self.next(&['(']).is_some() {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            let value = self.product_of_sums()?;
            return self.next(&[')']).map(|_| value);
        }
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        let value = self.base.plain(&rest[..end])?;
        self.rest = &rest[end..];
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_those_of_fio() {
        let compat = KbBase(1024);
        assert_eq!(compat.bytes("4k"), Some(4096));
        assert_eq!(compat.bytes("4ki"), Some(4000));
        assert_eq!(compat.bytes("4KiB"), Some(4000));
        assert_eq!(compat.bytes("1g"), Some(1 << 30));
        assert_eq!(compat.bytes("0x1000"), Some(4096));
        assert_eq!(KbBase(1000).bytes("4k"), Some(4000));
        assert_eq!(KbBase(1000).bytes("4ki"), Some(4096));
        assert_eq!(compat.bytes("4x"), None);
        assert_eq!(compat.bytes("i"), None);
        assert_eq!(compat.size("25%"), Some(Size::Percent(25.0)));
        assert_eq!(compat.size("125%"), None);
    }

    #[test]
    fn sums_in_parentheses_are_worked_out() {
        let base = KbBase(1024);
        assert_eq!(base.bytes("(2*4k)"), Some(8192));
        assert_eq!(base.bytes("((1+2)*3 - 2^3)"), Some(1));
        assert_eq!(base.bytes("(1m/4)"), Some(262_144));
        assert_eq!(base.bytes("(1/0)"), None);
        assert_eq!(base.bytes("(2*4k"), None);
        assert_eq!(base.bytes("(1-2)"), None);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("30", 1.0), Some(30.0));
        assert_eq!(seconds("500ms", 1.0), Some(0.5));
        assert_eq!(seconds("2m", 1.0), Some(120.0));
        assert_eq!(seconds("20", 1e-3), Some(0.02));
        assert_eq!(seconds("x", 1.0), None);
    }
}
