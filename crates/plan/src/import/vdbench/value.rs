//! Values: numbers with suffixes, ranges, and names with wildcards.

/// Items of a list at most.
const LIST_MAX: usize = 10_000;

/// A number: k, m, g, t are powers of 1024, with or without a `b`; in keywords about time `m` is 60 s and `h`
/// an hour. `n%` is negative, as VDBench keeps it.
pub(super) fn number(text: &str, time: bool) -> Option<f64> {
    let lower = text.trim().to_ascii_lowercase();
    if let Some(share) = lower.strip_suffix('%') {
        return share.parse::<f64>().ok().map(|n| -n);
    }
    let bare = lower.strip_suffix('b').unwrap_or(&lower);
    let factor = match bare.chars().last()? {
        'k' => 1024.0,
        'm' if time => 60.0,
        'm' => 1024.0 * 1024.0,
        'g' => 1024f64.powi(3),
        't' => 1024f64.powi(4),
        'h' => 3600.0,
        _ => 1.0,
    };
    let digits = if factor == 1.0 { bare } else { &bare[..bare.len() - 1] };
    let value = digits.parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

/// Numbers with ranges worked out: `1-10,1` steps, `1-64,d` doubles or halves.
pub(super) fn numbers(values: &[String], time: bool) -> Option<Vec<f64>> {
    if let [range, step] = values
        && let Some((from, to)) = range.split_once('-').filter(|(from, _)| !from.is_empty())
    {
        let (from, to) = (number(from, time)?, number(to, time)?);
        return if step.eq_ignore_ascii_case("d") {
            doubling(from, to)
        } else {
            stepping(from, to, number(step, time)?)
        };
    }
    values.iter().map(|value| number(value, time)).collect()
}

fn doubling(from: f64, to: f64) -> Option<Vec<f64>> {
    if from <= 0.0 || to <= 0.0 {
        return None;
    }
    let mut all = vec![from];
    while let Some(&last) = all.last().filter(|_| all.len() < LIST_MAX) {
        let next = if to >= from { last * 2.0 } else { last / 2.0 };
        if (to >= from && next > to) || (to < from && next < to) {
            break;
        }
        all.push(next);
    }
    Some(all)
}

fn stepping(from: f64, to: f64, step: f64) -> Option<Vec<f64>> {
    let n = ((to - from) / step).floor();
    if !(0.0..LIST_MAX as f64).contains(&n) {
        return None;
    }
    Some((0..=n as usize).map(|i| from + i as f64 * step).collect())
}

/// The names that a selector means: names, `sd1-sd9`, `sd*`.
pub(super) fn select<'n>(selectors: &[String], names: &[&'n str]) -> Option<Vec<&'n str>> {
    let mut found: Vec<&str> = Vec::new();
    for selector in selectors {
        let matching: Vec<&str> = match selector.strip_suffix('*') {
            Some(start) => names.iter().copied().filter(|name| name.starts_with(start)).collect(),
            None => match span(selector) {
                Some((start, from, to)) => names
                    .iter()
                    .copied()
                    .filter(|name| {
                        let tail = name.strip_prefix(start).and_then(|n| n.parse::<u64>().ok());
                        tail.is_some_and(|n| (from..=to).contains(&n))
                    })
                    .collect(),
                None => names.iter().copied().filter(|name| name == selector).collect(),
            },
        };
        if matching.is_empty() {
            return None;
        }
        for name in matching {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    Some(found)
}

/// `sd1-sd32` as its start and its numbers.
fn span(text: &str) -> Option<(&str, u64, u64)> {
    let (from, to) = text.split_once('-')?;
    let digits = from.find(|c: char| c.is_ascii_digit())?;
    let start = &from[..digits];
    let end = to.strip_prefix(start)?;
    Some((start, from[digits..].parse().ok()?, end.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').map(String::from).collect()
    }

    #[test]
    fn numbers_ranges_and_names_are_read_as_vdbench_does() {
        assert_eq!(number("4k", false), Some(4096.0));
        assert_eq!(number("0.5KB", false), Some(512.0));
        assert_eq!(number("2m", true), Some(120.0));
        assert_eq!(number("2m", false), Some(2_097_152.0));
        assert_eq!(number("1h", true), Some(3600.0));
        assert_eq!(number("10s", true), None, "there is no suffix s");
        assert_eq!(number("50%", false), Some(-50.0));
        assert_eq!(numbers(&list("10-50,20"), false), Some(vec![10.0, 30.0, 50.0]));
        assert_eq!(numbers(&list("1-8,d"), false), Some(vec![1.0, 2.0, 4.0, 8.0]));
        assert_eq!(numbers(&list("8-2,d"), false), Some(vec![8.0, 4.0, 2.0]));
        assert_eq!(numbers(&list("1-9,0"), false), None);
        let names = ["sd1", "sd2", "sd10", "log"];
        assert_eq!(select(&list("sd*"), &names), Some(vec!["sd1", "sd2", "sd10"]));
        assert_eq!(select(&list("sd1-sd2,log"), &names), Some(vec!["sd1", "sd2", "log"]));
        assert_eq!(select(&list("none*"), &names), None);
    }
}
