//! A curve: the maximum in closed loop, then shares of it as open-loop rates.

use crate::cell::{CellResult, Place};
use crate::error::RunError;
use crate::run::Runner;
use engine::Outcome;
use plan::{Cell, Coordinate, Curve, Demand, Load};

/// Arrivals that may wait at an overloaded point, in seconds of its rate.
const BACKLOG_SECONDS: f64 = 10.0;

impl Runner<'_> {
    /// Runs a curve; gives how its last cell ended.
    pub(crate) fn run_curve(&mut self, curve: &Curve, place: &Place) -> Result<Outcome, RunError> {
        let label = |percent: &str| Place {
            label: format!("load={percent}"),
            coordinates: vec![Coordinate { axis: "load".into(), value: percent.into() }],
            ..place.clone()
        };
        let maximum = self.run_cell(&curve.cell, &label("max"))?;
        if maximum.outcome != Outcome::Completed {
            return Ok(maximum.outcome);
        }
        for percent in &curve.percents {
            let cell = self.point(curve, &maximum, *percent);
            let result = self.run_cell(&cell, &label(&format!("{percent}%")))?;
            if result.outcome != Outcome::Completed {
                return Ok(result.outcome);
            }
        }
        Ok(Outcome::Completed)
    }

    /// The cell of one point: every load at its share of its own maximum, the mean over its targets.
    fn point(&self, curve: &Curve, maximum: &CellResult, percent: f64) -> Cell {
        let n = self.beds.len();
        let mut streams = maximum.stream_iops.iter();
        let mut rates = Vec::new();
        for load in &curve.cell.loads {
            let used = (0..n).filter(|t| load.targets.is_empty() || load.targets.contains(t));
            let found: Vec<f64> = used.filter_map(|_| streams.next().copied()).collect();
            rates.push(found.iter().sum::<f64>() / found.len().max(1) as f64);
        }
        // Loads that share workers are drawn by weight from one common schedule.
        let shared: f64 = curve
            .cell
            .loads
            .iter()
            .zip(&rates)
            .filter(|(load, _)| load.weight.is_some())
            .map(|(_, rate)| rate)
            .sum();
        let at = |(load, rate): (&Load, &f64)| {
            let maximum = if load.weight.is_some() { shared } else { *rate };
            let rate_iops = (maximum * percent / 100.0).max(0.001);
            let backlog = (rate_iops * BACKLOG_SECONDS).max(1000.0) as u64;
            let demand = Demand::Open { rate_iops, arrival: curve.arrival, backlog };
            Load { demand, depth: curve.depth, ..load.clone() }
        };
        let loads = curve.cell.loads.iter().zip(&rates).map(at).collect();
        Cell { loads, window: curve.cell.window, until: None, stability: None }
    }
}
