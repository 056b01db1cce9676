//! A job: what its options ask for, all of them together.

use super::options::{Fate, canonical, fate, names};
use super::syntax::{Entry, Section};
use super::value::{KbBase, Size, seconds};
use crate::import::told::{Placed, Told};
use crate::suggest::closest;
use std::collections::HashMap;

impl Placed for Entry {
    fn place(&self) -> (&str, usize) {
        (&self.file, self.line)
    }
}

/// The options of a job by name: those for all before it, and its own.
pub(super) struct Options {
    found: HashMap<String, Entry>,
    base: KbBase,
}

impl Options {
    /// Merges sections in order; names what fio does not know, and what is taken otherwise.
    pub(super) fn of(globals: &[&Section], own: &Section, told: &mut Told) -> Options {
        let mut found = HashMap::new();
        for entry in globals.iter().copied().chain([own]).flat_map(|section| &section.entries) {
            let key = canonical(&entry.key);
            match fate(key) {
                Some(Fate::Refused(_)) | Some(Fate::Used) => {}
                Some(Fate::Free(why)) => told.free(entry, format!("{}: {why}", entry.key)),
                Some(Fate::Differs(what)) => told.note(entry, format!("{}: {what}", entry.key)),
                None => {
                    let hint = closest(&entry.key, names());
                    let hint = hint.map(|near| format!(", did you mean `{near}`?"));
                    let hint = hint.unwrap_or_default();
                    told.refuse(entry, format!("fio has no option `{}`{hint}", entry.key));
                }
            }
            found.insert(key.to_owned(), entry.clone());
        }
        let mut options = Options { found, base: KbBase(1024) };
        if let Some(text) = options.text("kb_base") {
            options.base = KbBase(if text == "1000" { 1000 } else { 1024 });
        }
        options.refuse_refused(told);
        options
    }

    /// What must not be left out; an option that is switched off is not there.
    fn refuse_refused(&self, told: &mut Told) {
        let mut all: Vec<&Entry> = self.found.values().collect();
        all.sort_by_key(|entry| entry.line);
        for entry in all {
            let off = matches!(entry.value.as_deref(), Some("0" | "none" | ""));
            if let (Some(Fate::Refused(why)), false) = (fate(canonical(&entry.key)), off) {
                told.refuse(entry, format!("{}: {why}", entry.key));
            }
        }
    }

    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.found.get(key)
    }

    /// The value as text; an option without a value is not text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.entry(key)?.value.as_deref().map(str::trim)
    }

    /// An option that is on, by its presence or a number that is not 0.
    pub(super) fn flag(&self, key: &str) -> bool {
        self.entry(key).is_some_and(|entry| !matches!(entry.value.as_deref(), Some("0")))
    }

    /// A value, read; a value that cannot be read is refused.
    fn read<T>(
        &self,
        key: &str,
        told: &mut Told,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        let value = read(entry.value.as_deref().unwrap_or_default().trim());
        if value.is_none() {
            let text = entry.value.as_deref().unwrap_or_default();
            told.refuse(entry, format!("{key}={text}: expected {expected}"));
        }
        value
    }

    pub(super) fn number(&self, key: &str, told: &mut Told) -> Option<u64> {
        self.read(key, told, "a number", |text| self.base.bytes(text))
    }

    /// A share in percent.
    pub(super) fn percent(&self, key: &str, told: &mut Told) -> Option<f64> {
        self.read(key, told, "a percentage", |text| {
            let share: f64 = text.trim_end_matches('%').parse().ok()?;
            (0.0..=100.0).contains(&share).then_some(share)
        })
    }

    pub(super) fn size(&self, key: &str, told: &mut Told) -> Option<Size> {
        self.read(key, told, "a size, or a share such as 50%", |text| self.base.size(text))
    }

    /// A time in seconds, which is what a bare number counts.
    pub(super) fn seconds(&self, key: &str, told: &mut Told) -> Option<f64> {
        self.read(key, told, "a time such as 30, 500ms or 2h", |text| {
            match self.base.number(text).filter(|_| text.starts_with('(')) {
                Some(sum) => Some(sum),
                None => seconds(text, 1.0),
            }
        })
    }

    /// Values for reads and writes: `a` for both, `a,b`, `,b`.
    pub(super) fn pair(&self, key: &str, told: &mut Told) -> Option<[Option<u64>; 2]> {
        self.read(key, told, "one number, or two: for reads, for writes", |text| {
            let parts: Vec<&str> = text.split(',').map(str::trim).collect();
            let one = |part: &&str| match part.is_empty() {
                true => Some(None),
                false => self.base.bytes(part).map(Some),
            };
            match parts.as_slice() {
                [both] => Some([one(both)?, one(both)?]),
                // The third is for trims, of which there are none.
                [reads, writes] | [reads, writes, _] => Some([one(reads)?, one(writes)?]),
                _ => None,
            }
        })
    }

    /// Block sizes with their shares in percent, for reads and for writes.
    pub(super) fn splits(&self, told: &mut Told) -> Option<[Vec<(u64, f64)>; 2]> {
        self.read("bssplit", told, "sizes with shares: 4k/60:8k/40", |text| {
            let parts: Vec<&str> = text.split(',').collect();
            let of = |n: usize| split(parts.get(n).or(parts.first())?, self.base);
            Some([of(0)?, of(1)?])
        })
    }

    /// Block sizes between two, each multiple of the smallest being as likely.
    pub(super) fn ranges(&self, told: &mut Told) -> Option<[Vec<(u64, f64)>; 2]> {
        self.read("bsrange", told, "two sizes of at most 64 steps: 4k-64k", |text| {
            let parts: Vec<&str> = text.split(',').collect();
            let of = |n: usize| -> Option<Vec<(u64, f64)>> {
                let (low, high) = parts.get(n).or(parts.first())?.split_once(['-', ':'])?;
                let (low, high) = (self.base.bytes(low)?, self.base.bytes(high)?);
                if low == 0 || high < low || high / low > crate::MIX_MAX as u64 {
                    return None;
                }
                Some((1..=high / low).map(|n| (n * low, 1.0)).collect())
            };
            Some([of(0)?, of(1)?])
        })
    }
}

/// `4k/60:8k/40`; sizes without a share divide what is left.
fn split(text: &str, base: KbBase) -> Option<Vec<(u64, f64)>> {
    let mut sizes: Vec<(u64, Option<f64>)> = Vec::new();
    for part in text.split(':').map(str::trim).filter(|part| !part.is_empty()) {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let share = match share.trim() {
            "" => None,
            share => Some(share.parse().ok().filter(|s: &f64| (0.0..=100.0).contains(s))?),
        };
        sizes.push((base.bytes(size).filter(|size| *size > 0)?, share));
    }
    let given: f64 = sizes.iter().filter_map(|(_, share)| *share).sum();
    let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
    if sizes.is_empty() || given > 100.0001 {
        return None;
    }
    let rest = (100.0 - given).max(0.0) / open.max(1) as f64;
    let all = sizes.into_iter().map(|(size, share)| (size, share.unwrap_or(rest)));
    Some(all.filter(|(_, share)| *share > 0.0).collect())
}
