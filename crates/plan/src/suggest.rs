//! "Did you mean": the closest known word.

/// The known word closest to `word`, when close enough to be a slip.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count().max(3) / 2;
    known
        .into_iter()
        .map(|candidate| (score(word, candidate), candidate))
        .filter(|&(score, _)| score <= limit)
        .min_by_key(|&(score, _)| score)
        .map(|(_, candidate)| candidate)
}

/// Edit distance; a known word that one starts with the other counts as a small slip.
fn score(word: &str, candidate: &str) -> usize {
    let distance = edit_distance(word, candidate);
    let starts = candidate.len() >= 3 && word.starts_with(candidate)
        || word.len() >= 3 && candidate.starts_with(word);
    // `bloksize` is nearer to `block` by its first letters than by plain distance.
    let prefix = word.bytes().zip(candidate.bytes()).take_while(|(a, b)| a == b).count();
    if starts {
        distance.min(1)
    } else if prefix >= 3 {
        distance.min(3)
    } else {
        distance
    }
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let cost = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = cost.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word() {
        let known = ["pattern", "block", "read", "depth", "workers", "rate"];
        for (slip, word) in [
            ("bloksize", "block"),
            ("blok", "block"),
            ("blocksize", "block"),
            ("patern", "pattern"),
            ("worker", "workers"),
            ("dpeth", "depth"),
        ] {
            assert_eq!(closest(slip, known), Some(word), "{slip}");
        }
        assert_eq!(closest("xyzzy", known), None);
    }
}
