//! How much the rate spreads from one interval to the next.

use base::units::Nanos;
use serde_json::{Value, json};

/// The coefficient of variation over a part of the counted time and over all of it: sample standard
/// deviation over mean, in percent (what a spreadsheet calls STDEV / AVERAGE).
#[derive(Clone, Debug, PartialEq)]
pub struct Stability {
    /// The part.
    pub window: (Nanos, Nanos),
    /// Over the part; none with fewer than two values.
    pub window_percent: Option<f64>,
    /// Values in the part.
    pub window_values: usize,
    /// Over the whole counted time.
    pub whole_percent: Option<f64>,
    /// Values in the whole counted time.
    pub whole_values: usize,
}

impl Stability {
    /// From one rate an interval of `interval` length.
    pub fn of(rates: &[f64], interval: Nanos, window: (Nanos, Nanos)) -> Stability {
        let at = |time: Nanos| (time.0 / interval.0.max(1)) as usize;
        let (from, to) = (at(window.0).min(rates.len()), at(window.1).min(rates.len()));
        let part = &rates[from..to.max(from)];
        Stability {
            window,
            window_percent: variation_percent(part),
            window_values: part.len(),
            whole_percent: variation_percent(rates),
            whole_values: rates.len(),
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let percent = |value: Option<f64>| {
            value.map_or_else(|| "n/a".into(), |value| format!("{value:.2} %"))
        };
        format!(
            "coefficient of variation of the IOPS {} over seconds {:.0} to {:.0} ({} values), {} over \
             the whole window ({} values)",
            percent(self.window_percent),
            self.window.0.as_secs_f64(),
            self.window.1.as_secs_f64(),
            self.window_values,
            percent(self.whole_percent),
            self.whole_values
        )
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        json!({
            "from_ns": self.window.0.0, "to_ns": self.window.1.0,
            "window_percent": self.window_percent, "window_values": self.window_values,
            "whole_percent": self.whole_percent, "whole_values": self.whole_values,
        })
    }
}

/// Sample standard deviation over mean, in percent.
fn variation_percent(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean > 0.0).then(|| (squares / (n - 1.0)).sqrt() / mean * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_and_the_whole_are_told_apart() {
        // Ten wild seconds, then calm ones: 90 and 110 in turns.
        let rates: Vec<f64> = (0..100)
            .map(|second| match second {
                0..10 => f64::from(second) * 50.0,
                even if even % 2 == 0 => 90.0,
                _ => 110.0,
            })
            .collect();
        let second = Nanos::SECOND;
        let found = Stability::of(&rates, second, (Nanos(10 * second.0), Nanos(90 * second.0)));
        assert_eq!((found.window_values, found.whole_values), (80, 100));
        // Sample deviation of 40 times 90 and 40 times 110 is 10 * sqrt(80 / 79).
        let by_hand = 10.0 * (80.0f64 / 79.0).sqrt();
        assert!((found.window_percent.unwrap() - by_hand).abs() < 1e-9);
        assert!(found.whole_percent.unwrap() > 30.0);
        let none = Stability::of(&rates, second, (Nanos(500 * second.0), Nanos(600 * second.0)));
        assert_eq!((none.window_percent, none.window_values), (None, 0));
    }
}
