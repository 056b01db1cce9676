//! A plan that behaves like a recording: one load for its reads and one for its writes, side by side in
//! the same workers, each with its sizes, its places and its share of requests that go on where the last
//! one ended; arrivals at the recorded rate.

use crate::character::PIECES;
use crate::{Character, SizeShare, Trace};

/// Most sizes and zones that a plan may have.
const PARTS_MAX: usize = 64;
/// A direction with a smaller share is left out.
const SHARE_MIN: f64 = 1e-4;

/// The plan as text. `name` is its name and stands in comments; `phases` cuts the recording into that many
/// parts of equal time, each a step of its own.
pub fn plan_of(trace: &Trace, name: &str, phases: u32) -> String {
    let all = Character::of(trace);
    let mut out = format!(
        "# Modelled on a recording ({}): {} requests in {:.1} s, {:.2} % reads, {:.0} bytes on average.\n\
         # A model has the mix, the sizes, the places and the rate of the recording, not its order.\n\
         name = \"{}\"\n\
         title = \"Model of a recording: {:.0} % reads, {:.0} IOPS\"\n",
        trace.format,
        all.n,
        trace.span() as f64 / 1e9,
        all.reads * 100.0,
        all.mean_size(),
        plain(name),
        all.reads * 100.0,
        all.rate,
    );
    let phases = u64::from(phases.max(1));
    let length = trace.span() / phases + 1;
    for phase in 0..phases {
        let inside = |time: u64| time / length == phase;
        let requests: Vec<_> =
            trace.requests.iter().filter(|request| inside(request.time)).copied().collect();
        let step = if phases == 1 { "replay".into() } else { format!("phase{}", phase + 1) };
        match requests.len() {
            0 => out += &format!("\n[[step]]\nname = \"{step}\"\nidle = \"{}ns\"\n", length),
            _ => out += &step_of(&requests, trace, &step, length),
        }
    }
    out
}

fn step_of(requests: &[crate::Request], trace: &Trace, step: &str, length: u64) -> String {
    let all = Character::of_those(requests, trace.end(), |_| true);
    let seconds = (length as f64 / 1e9).max(0.001);
    let rate = (requests.len() as f64 / seconds).clamp(0.001, 1e9);
    let (arrival, why) = arrival(all.gap_variation);
    let depth = trace.depth.map_or(256, |depth| (depth * 8.0).ceil() as u32).clamp(32, 1024);
    // Buffers of all of them must fit into memory.
    let longest = requests.iter().map(|request| request.len).max().unwrap_or(512);
    let depth = depth.min(((2 << 30) / u64::from(longest)).max(1) as u32);
    let mut out = format!(
        "\n# Gaps vary by {:.2} of their mean: {why}.\n[[step]]\nname = \"{step}\"\ntime = \"{}ms\"\n",
        all.gap_variation,
        (seconds * 1e3).round().max(1.0),
    );
    for write in [false, true] {
        let one = Character::of_those(requests, trace.end(), |request| request.write == write);
        let share = one.n as f64 / all.n as f64;
        if share < SHARE_MIN {
            continue;
        }
        out += &format!(
            "\n[[step.load]]\nname = \"{}\"\nweight = {:.6}\nread = {}\n{}\nblock = {}\nalign = \"{}\"\n\
             depth = {depth}\nrate = {rate:.3}\narrival = \"{arrival}\"\n",
            if write { "writes" } else { "reads" },
            share * 100.0,
            if write { 0 } else { 100 },
            pattern(&one),
            sizes(&one.sizes),
            one.align.min(4096),
        );
    }
    out
}

/// By the variation of the gaps; the standard ones have 0, 1/sqrt(3) and 1.
fn arrival(variation: f64) -> (&'static str, &'static str) {
    match variation {
        v if v < 0.25 => ("deterministic", "nearly equal gaps"),
        v if v < 0.8 => ("uniform", "uniform gaps"),
        v if v < 1.3 => ("poisson", "independent arrivals"),
        _ => ("poisson", "more bursts than independent arrivals have, which the model lacks"),
    }
}

/// Where: a stream, or zones of equal density with the share of random places.
fn pattern(character: &Character) -> String {
    let random = (1.0 - character.sequential) * 100.0;
    if random < 0.5 {
        return "pattern = \"sequential\"".into();
    }
    let zones: Vec<String> = zones(&character.pieces)
        .iter()
        .map(|(access, size)| format!("{access:.6}/{size:.6}"))
        .collect();
    let jumps = if random < 99.5 { format!("\nrandom = {random:.3}") } else { String::new() };
    match zones.len() {
        1 => format!("pattern = \"random\"{jumps}"),
        _ => format!("pattern = \"zones\"\nzones = \"{}\"{jumps}", zones.join(":")),
    }
}

/// Pieces side by side become one zone, the most alike first, until a plan can have them and all that
/// are as alike as chance makes them are one. Shares of accesses and of the space, in percent.
fn zones(pieces: &[u64]) -> Vec<(f64, f64)> {
    let mut parts: Vec<(u64, u64)> = pieces.iter().map(|count| (*count, 1)).collect();
    let cost = |a: (u64, u64), b: (u64, u64)| {
        let expected = |part: (u64, u64)| (a.0 + b.0) as f64 * part.1 as f64 / (a.1 + b.1) as f64;
        // Pearson's statistic of two counts against one density.
        let off =
            |part: (u64, u64)| (part.0 as f64 - expected(part)).powi(2) / expected(part).max(1e-9);
        if a.0 + b.0 == 0 { 0.0 } else { off(a) + off(b) }
    };
    while parts.len() > 1 {
        let costs = parts.windows(2).map(|pair| cost(pair[0], pair[1]));
        let Some((place, least)) = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else {
            break;
        };
        // 12 is beyond the 0.1 % point of the statistic with one degree of freedom.
        if parts.len() <= PARTS_MAX && least > 12.0 {
            break;
        }
        let next = parts.remove(place + 1);
        parts[place] = (parts[place].0 + next.0, parts[place].1 + next.1);
    }
    let all = parts.iter().map(|part| part.0).sum::<u64>().max(1) as f64;
    parts
        .iter()
        .map(|(count, size)| (*count as f64 / all * 100.0, *size as f64 / PIECES as f64 * 100.0))
        .collect()
}

/// A block mix; rare sizes beyond what a plan may have go to the next more frequent one.
fn sizes(sizes: &[SizeShare]) -> String {
    let whole = |len: u32| len.next_multiple_of(512);
    let mut kept: Vec<(u32, f64)> = Vec::new();
    for size in sizes {
        let len = whole(size.len);
        let near = match kept.iter().position(|(other, _)| *other == len) {
            Some(same) => Some(same),
            None if kept.len() < PARTS_MAX => None,
            None => (0..kept.len()).min_by_key(|index| kept[*index].0.abs_diff(len)),
        };
        match near {
            Some(index) => kept[index].1 += size.share,
            None => kept.push((len, size.share)),
        }
    }
    match kept.as_slice() {
        [(only, _)] => format!("\"{only}\""),
        _ => {
            let part = |(len, share): &(u32, f64)| format!("\"{len}\" = {:.6}", share * 100.0);
            format!("{{ {} }}", kept.iter().map(part).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Letters, digits and dashes of a name.
fn plain(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let plain = plain.trim_matches('-').to_owned();
    if plain.is_empty() { "trace".into() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_pieces_are_one_zone_and_steps_are_kept() {
        assert_eq!(zones(&vec![100; PIECES]), [(100.0, 100.0)]);
        let mut stepped = vec![100; PIECES];
        stepped[..128].fill(5000);
        let found = zones(&stepped);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].1 - 12.5).abs() < 1e-9);
        let share = 128.0 * 5000.0 / (128.0 * 5000.0 + 896.0 * 100.0) * 100.0;
        assert!((found[0].0 - share).abs() < 1e-9);
        let mut wild: Vec<u64> = (0..PIECES as u64).map(|n| n * n % 9973).collect();
        wild[7] = 100_000;
        let found = zones(&wild);
        assert!(found.len() <= PARTS_MAX);
        assert!((found.iter().map(|zone| zone.0).sum::<f64>() - 100.0).abs() < 1e-6);
    }

    #[test]
    fn names_are_made_plain() {
        assert_eq!(plain("Boot storm/1.csv"), "boot-storm-1-csv");
        assert_eq!(plain("///"), "trace");
    }
}
