//! Runs beside each other: cells matched by what they mean, ratios with confidence intervals, and a
//! judgement of each that says no more than the data do.
//!
//! The unit of replication is an independent run where there are several, else a repeat within a run, else a
//! block of intervals, which knows nothing of what changes from run to run and is marked so (Kalibera and
//! Jones, ISMM 2013). Equality is shown by an equivalence test and never by the absence of a difference.

mod estimate;
mod matching;
mod units;

pub use estimate::Estimate;
pub use units::UnitKind;

use matching::Matched;
use store::{RunFile, StoreError};

/// What is compared: one or more runs of one configuration.
pub struct Arm<'r> {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<&'r RunFile>,
}

/// How it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Differences below this share do not matter, such as 0.02.
    pub same_within: f64,
    /// Chance of a false difference in the whole comparison, such as 0.05.
    pub level: f64,
    /// Differences below this share cannot be resolved on this host; 0 where that is not known.
    pub resolution: f64,
    /// Compare also what the method forbids, and say so.
    pub force: bool,
    /// Run n of one arm was made beside run n of the other.
    pub paired: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { same_within: 0.02, level: 0.05, resolution: 0.0, force: false, paired: false }
    }
}

/// What is compared of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compared {
    /// I/Os a second: more is better.
    Iops,
    /// Mean latency: less is better.
    Mean,
    /// A percentile of the latency: less is better.
    Percentile(f64),
}

impl Compared {
    /// All of them.
    pub const ALL: [Compared; 5] = [
        Compared::Iops,
        Compared::Mean,
        Compared::Percentile(99.0),
        Compared::Percentile(99.9),
        Compared::Percentile(99.99),
    ];

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Compared::Iops => "IOPS".into(),
            Compared::Mean => "mean latency".into(),
            Compared::Percentile(percent) => crate::percentile_name(percent),
        }
    }
}

/// What can be said of a ratio.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Better than the reference, by more than what matters or by an amount that may be.
    Better,
    /// Worse.
    Worse,
    /// Equal within what matters.
    Same,
    /// A difference, but smaller than what matters.
    Irrelevant,
    /// Nothing can be said; the units an arm would need, where that is known.
    NotResolvable(Option<u64>),
    /// The difference is below what this host can resolve.
    BelowResolution,
    /// The method forbids it: why.
    NotComparable(String),
}

/// One cell of the reference and of another arm.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The load, in its short form.
    pub load: String,
    /// Step in the reference.
    pub step: String,
    /// Number of the other arm.
    pub arm: usize,
    /// Which figure.
    pub figure: Compared,
    /// Value in the reference and in the other arm; latencies in ns.
    pub values: [f64; 2],
    /// Other over reference; none where nothing can be estimated.
    pub ratio: Option<Estimate>,
    /// What its interval rests on.
    pub unit: UnitKind,
    /// What can be said.
    pub judgement: Judgement,
    /// What the method forbids and was done all the same.
    pub forced: Option<String>,
}

/// Everything that was compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Names of the arms, the reference first.
    pub arms: Vec<String>,
    /// By cell, arm and figure.
    pub rows: Vec<Compare>,
    /// Loads that one arm has and the reference has not, or the other way round: arm and load.
    pub unmatched: Vec<(usize, String)>,
}

impl Comparison {
    /// The geometric mean of an arm's ratios of a figure, over the cells that may be compared, and their
    /// number. Only ratios are averaged, and only so (Hoefler and Belli, SC 2015).
    pub fn geometric_mean(&self, arm: usize, figure: Compared) -> Option<(f64, usize)> {
        let logs: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.arm == arm && row.figure == figure)
            .filter(|row| !matches!(row.judgement, Judgement::NotComparable(_)))
            .filter_map(|row| Some(row.ratio?.ratio.ln()))
            .collect();
        let n = logs.len();
        (n > 0).then(|| ((logs.iter().sum::<f64>() / n as f64).exp(), n))
    }

    /// How often an arm has a judgement like this.
    pub fn count(&self, arm: usize, figure: Compared, like: &Judgement) -> usize {
        let same = |row: &&Compare| {
            row.arm == arm
                && row.figure == figure
                && std::mem::discriminant(&row.judgement) == std::mem::discriminant(like)
        };
        self.rows.iter().filter(same).count()
    }
}

/// Compares arms with the first of them.
///
/// # Errors
/// When a run file cannot be read.
pub fn compare(arms: &[Arm<'_>], rules: Rules) -> Result<Comparison, StoreError> {
    let names = arms.iter().map(|arm| arm.name.clone()).collect();
    let matched = matching::matched(arms);
    let mut rows = Vec::new();
    for pair in &matched.pairs {
        rows.extend(compare_pair(pair, rules)?);
    }
    judge(&mut rows, rules);
    Ok(Comparison { arms: names, rows, unmatched: matched.unmatched })
}

fn compare_pair(pair: &Matched<'_>, rules: Rules) -> Result<Vec<Compare>, StoreError> {
    let (unit, sides) = units::of_pair(pair)?;
    let paired = rules.paired && unit == UnitKind::Runs && sides[0].len() == sides[1].len();
    let found = estimate::estimate(&sides, paired);
    let row = |(figure, (values, ratio)): (Compared, ([f64; 2], Option<Estimate>))| Compare {
        load: pair.load.clone(),
        step: pair.step.clone(),
        arm: pair.arm,
        figure,
        values,
        ratio,
        unit,
        judgement: match &pair.forbidden {
            Some(why) if !rules.force => Judgement::NotComparable(why.clone()),
            _ => Judgement::NotResolvable(None),
        },
        forced: pair.forbidden.clone().filter(|_| rules.force),
    };
    let known = |(_, (values, _)): &(Compared, ([f64; 2], Option<Estimate>))| {
        values.iter().all(|v| v.is_finite() && *v > 0.0)
    };
    Ok(Compared::ALL.into_iter().zip(found).filter(known).map(row).collect())
}

/// Judges all rows together: the level holds for the whole comparison (Bonferroni).
fn judge(rows: &mut [Compare], rules: Rules) {
    let open = |row: &Compare| !matches!(row.judgement, Judgement::NotComparable(_));
    let tests = rows.iter().filter(|row| open(row) && row.ratio.is_some()).count();
    for row in rows.iter_mut() {
        let Some(ratio) = &mut row.ratio else { continue };
        ratio.widen(rules.level / tests.max(1) as f64);
        if matches!(row.judgement, Judgement::NotComparable(_)) {
            continue;
        }
        row.judgement = judgement(ratio, row.figure, rules);
    }
}

fn judgement(ratio: &Estimate, figure: Compared, rules: Rules) -> Judgement {
    let margin = 1.0 + rules.same_within;
    let inside = |(low, high): (f64, f64)| low >= 1.0 / margin && high <= margin;
    if ratio.low > 1.0 || ratio.high < 1.0 {
        if (ratio.ratio - 1.0).abs() < rules.resolution {
            return Judgement::BelowResolution;
        }
        if inside((ratio.low, ratio.high)) {
            return Judgement::Irrelevant;
        }
        let more = ratio.ratio > 1.0;
        let better = more == (figure == Compared::Iops);
        return if better { Judgement::Better } else { Judgement::Worse };
    }
    // Two one-sided tests of 5 % each: the 90 % interval inside the margin.
    if inside(ratio.interval(0.10)) {
        return Judgement::Same;
    }
    Judgement::NotResolvable(ratio.units_needed(margin))
}
