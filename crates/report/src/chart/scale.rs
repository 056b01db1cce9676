//! Scales, ticks and their labels. The script of the page has the same rules (`web/src/scale.ts`), and a
//! test in a browser compares both.

use serde::Serialize;

/// How values are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal factors; values above zero.
    Log,
    /// As shares of a whole that come close to 1: 0.9, 0.99, 0.999 are equal steps. Values are the nines,
    /// -log10(1 - share).
    Nines,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A number: 12, 3.4k, 5.6M.
    Plain,
    /// Nanoseconds: 12 us, 3.4 ms.
    Nanos,
    /// Seconds of a run: 30 s, 10 min, 2 h.
    Seconds,
    /// Bytes of 10^3n: 4 GB.
    Bytes,
    /// Bytes of 2^10n: 4 KiB.
    Binary,
    /// Bytes a second: 3.2 GB/s.
    Rate,
    /// Hundredths: 12 %.
    Percent,
    /// Degrees: 45 C.
    Celsius,
}

const DECIMAL: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const TIME: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")];
const SPAN: [(f64, &str); 3] = [(3600.0, " h"), (60.0, " min"), (1.0, " s")];
const BINARY: [(f64, &str); 5] = [
    (1_099_511_627_776.0, " TiB"),
    (1_073_741_824.0, " GiB"),
    (1_048_576.0, " MiB"),
    (1024.0, " KiB"),
    (1.0, " B"),
];

impl Unit {
    /// A value as a label: four digits at most, no trailing zeros.
    pub fn label(self, value: f64) -> String {
        let (table, end): (&[(f64, &str)], &str) = match self {
            Unit::Plain => (&DECIMAL, ""),
            Unit::Nanos => (&TIME, ""),
            Unit::Seconds => (&SPAN, ""),
            Unit::Binary => (&BINARY, ""),
            Unit::Bytes => (&DECIMAL, "B"),
            Unit::Rate => (&DECIMAL, "B/s"),
            Unit::Percent => (&[(1.0, " %")], ""),
            Unit::Celsius => (&[(1.0, " °C")], ""),
        };
        let spaced = matches!(self, Unit::Bytes | Unit::Rate);
        let found = table.iter().find(|(step, _)| value.abs() >= *step * 0.999_999);
        let (step, prefix) = *found.unwrap_or(&table[table.len() - 1]);
        let prefix = if prefix == "k" && self != Unit::Plain { "k" } else { prefix };
        format!("{}{}{prefix}{end}", digits(value / step), if spaced { " " } else { "" })
    }
}

/// Four significant digits, trailing zeros left out.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "n/a".into() };
    }
    let whole = value.abs().log10().floor() as i32;
    let decimals = (3 - whole).clamp(0, 6) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Where a direction's values stand: the range, and the way to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) scale: Scale,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Span {
    /// A value as a share of the direction's length; none when it has no place.
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let place = |value: f64| match self.scale {
            Scale::Log => value.log10(),
            Scale::Linear | Scale::Nines => value,
        };
        let share = (place(value) - place(self.from)) / (place(self.to) - place(self.from));
        share.is_finite().then_some(share)
    }

    /// Values with a label.
    pub(crate) fn ticks(&self, unit: Unit, most: usize) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Log => log_ticks(self.from, self.to, most, unit),
            Scale::Nines => {
                let (from, to) = (self.from.ceil() as i32, self.to.floor() as i32);
                return (from..=to).map(|n| (f64::from(n), nines_label(n))).collect();
            }
            Scale::Linear => linear_ticks(self.from, self.to, most, unit),
        };
        values.into_iter().map(|value| (value, unit.label(value))).collect()
    }
}

fn nines_label(nines: i32) -> String {
    match nines {
        0 => "0 %".into(),
        1 => "90 %".into(),
        n => format!("99{}{} %", if n > 2 { "." } else { "" }, "9".repeat((n - 2).max(0) as usize)),
    }
}

/// Steps of 1, 2 or 5 times a power of ten; of whole seconds, minutes and hours for spans of time; of a
/// power of two for binary sizes.
fn linear_ticks(from: f64, to: f64, most: usize, unit: Unit) -> Vec<f64> {
    let rough = (to - from) / most.max(1) as f64;
    if rough <= 0.0 || !rough.is_finite() {
        return vec![from];
    }
    let step = match unit {
        Unit::Seconds if rough > 1.0 => span_step(rough),
        Unit::Binary => 2f64.powf(rough.log2().ceil()),
        _ => round_step(rough),
    };
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= rough * 0.999_999);
    times.unwrap_or(10.0) * power
}

fn span_step(rough: f64) -> f64 {
    const STEPS: [f64; 17] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        10_800.0, 21_600.0, 43_200.0,
    ];
    let found = STEPS.into_iter().find(|step| *step >= rough * 0.999_999);
    found.unwrap_or_else(|| round_step(rough / 86_400.0) * 86_400.0)
}

/// Powers of ten, with 2 and 5 between them when there are few; powers of two for binary sizes.
fn log_ticks(from: f64, to: f64, most: usize, unit: Unit) -> Vec<f64> {
    if unit == Unit::Binary {
        let (low, high) = ((from.log2() - 1e-9).ceil() as i32, (to.log2() + 1e-9).floor() as i32);
        let every = ((high - low) / most.max(1) as i32 + 1).max(1) as usize;
        return (low..=high).step_by(every).map(|power| 2f64.powi(power)).collect();
    }
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let decades = f64::from(high - low);
    let every = (decades / most.max(1) as f64).ceil().max(1.0) as usize;
    let times: &[f64] = match decades {
        d if d <= 1.0 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
        d if d <= 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    (low..=high)
        .step_by(every)
        .flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)))
        .filter(|value| *value >= from * 0.999_999 && *value <= to * 1.000_001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_carry_their_unit() {
        let shown: Vec<String> = [
            (Unit::Plain, 146_000.0),
            (Unit::Nanos, 1_500_000.0),
            (Unit::Nanos, 250.0),
            (Unit::Seconds, 5400.0),
            (Unit::Bytes, 15.36e12),
            (Unit::Binary, 4096.0),
            (Unit::Rate, 3.2e9),
            (Unit::Percent, 12.5),
            (Unit::Celsius, 40.0),
            (Unit::Plain, 0.0),
        ]
        .into_iter()
        .map(|(unit, value)| unit.label(value))
        .collect();
        let want = [
            "146k", "1.5 ms", "250 ns", "1.5 h", "15.36 TB", "4 KiB", "3.2 GB/s", "12.5 %",
            "40 °C", "0",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn ticks_are_round() {
        let span = |scale, from, to| Span { scale, from, to };
        let of = |span: Span, unit, most| -> Vec<f64> {
            span.ticks(unit, most).into_iter().map(|(value, _)| value).collect()
        };
        assert_eq!(
            of(span(Scale::Linear, 0.0, 100.0), Unit::Plain, 5),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(
            of(span(Scale::Linear, 0.0, 86_400.0), Unit::Seconds, 8),
            [0.0, 10_800.0, 21_600.0, 32_400.0, 43_200.0, 54_000.0, 64_800.0, 75_600.0, 86_400.0]
        );
        assert_eq!(of(span(Scale::Log, 512.0, 1_048_576.0), Unit::Binary, 12).len(), 12);
        assert_eq!(of(span(Scale::Log, 1e3, 1e9), Unit::Nanos, 8).len(), 7);
        let nines = span(Scale::Nines, 0.0, 5.0).ticks(Unit::Plain, 8);
        assert_eq!(nines[3].1, "99.9 %");
        assert_eq!(nines[5].1, "99.999 %");
    }

    proptest! {
        #[test]
        fn ticks_lie_inside_and_are_few(from in -1e9f64..1e9, len in 1e-6f64..1e12, most in 1usize..12) {
            let ticks = linear_ticks(from, from + len, most, Unit::Plain);
            prop_assert!(ticks.len() <= most + 2, "{ticks:?}");
            let slack = len * 1e-6;
            prop_assert!(ticks.iter().all(|t| *t >= from - slack && *t <= from + len + slack));
        }

        #[test]
        fn a_log_axis_has_a_tick(from in 1e-3f64..1e9, times in 2.6f64..1e9) {
            prop_assert!(!log_ticks(from, from * times, 8, Unit::Nanos).is_empty());
        }
    }
}
