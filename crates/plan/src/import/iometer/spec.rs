//! Access specifications: rows of sizes with their shares.

use super::blocks::Line;
use crate::import::told::Told;

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) size: u64,
    /// Percent of the I/Os.
    pub(super) share: f64,
    pub(super) reads: f64,
    pub(super) random: f64,
    pub(super) align: Option<u64>,
}

/// A specification; its shares add up to a hundred.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// `size,% of size,% reads,% random,delay,burst,align,reply`.
pub(super) fn row(line: &Line, told: &mut Told) -> Option<Row> {
    let words: Vec<Option<f64>> =
        line.text.split(',').map(|word| word.trim().parse::<f64>().ok()).collect();
    let value = |at: usize| words.get(at).copied().flatten();
    let (Some(size), Some(share), Some(reads), Some(random)) =
        (value(0), value(1), value(2), value(3))
    else {
        told.refuse(line, "expected size,% of size,% reads,% random,delay,burst,align,reply");
        return None;
    };
    let percents = [share, reads, random];
    if percents.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
        told.refuse(line, "a percentage is from 0 to 100");
        return None;
    }
    if size < 512.0 || size % 512.0 != 0.0 {
        told.refuse(
            line,
            format!("a size of {size} bytes: direct I/O is in whole blocks of 512 or more"),
        );
        return None;
    }
    if value(4).is_some_and(|delay| delay > 0.0) {
        told.refuse(line, "a delay between bursts is not there; a rate is");
    }
    if value(5).is_some_and(|burst| burst > 1.0) && value(4).is_none_or(|delay| delay <= 0.0) {
        told.free(line, "bursts without a delay between them change nothing");
    }
    if value(7).is_some_and(|reply| reply > 0.0) {
        told.refuse(line, "network transactions are not measured");
    }
    // 0 is the sector; a request without its own is aligned to its size.
    let align = value(6).filter(|align| *align > 0.0).unwrap_or(512.0) as u64;
    if align > 64 << 20 || size > f64::from(64 << 20) {
        told.refuse(line, "a size or an alignment of more than 64 MiB");
        return None;
    }
    let align = align.next_multiple_of(512);
    Some(Row { size: size as u64, share, reads, random, align: Some(align) })
}

/// Whether the shares add up.
pub(super) fn check(spec: &Spec, at: &Line, told: &mut Told) {
    let sum: f64 = spec.rows.iter().map(|row| row.share).sum();
    if (sum - 100.0).abs() > 0.01 {
        told.refuse(
            at,
            format!("`{}`: the shares of its sizes add up to {sum}, not 100", spec.name),
        );
    }
}
