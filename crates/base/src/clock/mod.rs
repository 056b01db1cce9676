//! The run's clock. Nobody else in the workspace reads time; everyone is handed a [`Clock`].
//!
//! Fast where the processor has an invariant time-stamp counter that the kernel itself trusts,
//! otherwise the kernel's monotonic clock. All kinds give nanoseconds of `CLOCK_MONOTONIC`, so their
//! stamps may be mixed. Virtual time advances only when told.

mod sys;

use crate::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of time in nanoseconds since an arbitrary point (boot, on a real host).
#[derive(Clone, Debug)]
pub enum Clock {
    /// Time-stamp counter, calibrated against the monotonic clock.
    Tsc(TscScale),
    /// The kernel's monotonic clock.
    Monotonic,
    /// Time that stands still until [`Clock::advance_to`].
    Virtual(Arc<AtomicU64>),
}

/// How counter ticks become nanoseconds: `ns = base_ns + (tsc - base_tsc) * factor / 2^32`.
#[derive(Clone, Copy, Debug)]
pub struct TscScale {
    base_tsc: u64,
    base_ns: u64,
    factor: u64,
}

/// What a clock was found to be, for the run file.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockFacts {
    /// `tsc` or `monotonic`.
    pub source: &'static str,
    /// Counter frequency in Hz; 0 for the monotonic clock.
    pub frequency_hz: f64,
    /// Cost of one reading, in ns (median).
    pub cost_ns: f64,
    /// Smallest step seen between two readings, in ns.
    pub resolution_ns: u64,
}

impl Clock {
    /// The best clock of this host. Takes about 60 ms to calibrate the counter.
    pub fn host() -> Clock {
        if !sys::tsc_is_trusted() {
            return Clock::Monotonic;
        }
        let first = sys::paired_reading();
        std::thread::sleep(Duration::from_millis(60));
        let last = sys::paired_reading();
        TscScale::between(first, last).map_or(Clock::Monotonic, Clock::Tsc)
    }

    /// A clock that stands at `start_ns`.
    pub fn virtual_at(start_ns: u64) -> Clock {
        Clock::Virtual(Arc::new(AtomicU64::new(start_ns)))
    }

    /// Now, in ns.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Tsc(scale) => Nanos(scale.to_ns(sys::tsc())),
            Clock::Monotonic => Nanos(sys::monotonic_ns()),
            Clock::Virtual(now) => Nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Moves a virtual clock forward; does nothing to a real one or backwards.
    pub fn advance_to(&self, then: Nanos) {
        if let Clock::Virtual(now) = self {
            now.fetch_max(then.0, Ordering::Relaxed);
        }
    }

    /// Waits until `then`: sleeps on a real clock, jumps on a virtual one.
    pub fn sleep_until(&self, then: Nanos) {
        if let Clock::Virtual(_) = self {
            return self.advance_to(then);
        }
        let now = self.now();
        if then > now {
            std::thread::sleep(Duration::from_nanos(then.0 - now.0));
        }
    }

    /// Drift of this clock against the kernel's since its calibration, in parts per million.
    /// Zero for clocks that are the kernel's or virtual.
    pub fn drift_ppm(&self) -> f64 {
        let Clock::Tsc(scale) = self else { return 0.0 };
        let (tsc, monotonic_ns) = sys::paired_reading();
        let elapsed = monotonic_ns.saturating_sub(scale.base_ns);
        if elapsed == 0 {
            return 0.0;
        }
        (scale.to_ns(tsc) as f64 - monotonic_ns as f64) / elapsed as f64 * 1e6
    }

    /// Measures what reading this clock costs and how finely it steps. Takes under 10 ms.
    pub fn measure(&self) -> ClockFacts {
        const READS: u32 = 2000;
        let mut costs = Vec::new();
        let mut resolution_ns = u64::MAX;
        for _ in 0..15 {
            let start = self.now();
            let mut last = start;
            for _ in 0..READS {
                let now = self.now();
                let step = now.0.saturating_sub(last.0);
                if step > 0 {
                    resolution_ns = resolution_ns.min(step);
                }
                last = now;
            }
            costs.push((last.0 - start.0) as f64 / f64::from(READS));
        }
        costs.sort_by(f64::total_cmp);
        ClockFacts {
            source: self.source(),
            frequency_hz: self.frequency_hz(),
            cost_ns: costs[costs.len() / 2],
            resolution_ns: if resolution_ns == u64::MAX { 0 } else { resolution_ns },
        }
    }

    /// `tsc`, `monotonic` or `virtual`.
    pub fn source(&self) -> &'static str {
        match self {
            Clock::Tsc(_) => "tsc",
            Clock::Monotonic => "monotonic",
            Clock::Virtual(_) => "virtual",
        }
    }

    fn frequency_hz(&self) -> f64 {
        match self {
            Clock::Tsc(scale) => (1u64 << 32) as f64 / scale.factor as f64 * 1e9,
            _ => 0.0,
        }
    }
}

/// Wall time in milliseconds since the Unix epoch, for names and headers, never for measuring.
pub fn unix_ms() -> u64 {
    sys::realtime_ms()
}

impl TscScale {
    /// The scale through two (counter, ns) readings; none when either stood still.
    fn between(first: (u64, u64), last: (u64, u64)) -> Option<TscScale> {
        let ticks = last.0.checked_sub(first.0).filter(|&t| t > 0)?;
        let elapsed_ns = last.1.checked_sub(first.1).filter(|&t| t > 0)?;
        let factor = (u128::from(elapsed_ns) << 32) / u128::from(ticks);
        Some(TscScale { base_tsc: first.0, base_ns: first.1, factor: u64::try_from(factor).ok()? })
    }

    #[inline(always)]
    fn to_ns(self, tsc: u64) -> u64 {
        let ticks = u128::from(tsc.wrapping_sub(self.base_tsc));
        self.base_ns + ((ticks * u128::from(self.factor)) >> 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_is_exact_over_days() {
        let scale = TscScale::between((1000, 50), (2_600_001_000, 1_000_000_050)).unwrap();
        let day = 86_400u64;
        let ns = scale.to_ns(1000 + 2_600_000_000 * day);
        let error = ns.abs_diff(50 + 1_000_000_000 * day);
        // The factor has 32 fractional bits: relative error below 1e-9.
        assert!(error < 90_000, "{error} ns off in a day");
    }

    #[test]
    fn host_clock_follows_the_kernel() {
        let clock = Clock::host();
        let (start, kernel) = (clock.now(), Clock::Monotonic.now());
        std::thread::sleep(Duration::from_millis(50));
        let here = clock.now().0 - start.0;
        let there = Clock::Monotonic.now().0 - kernel.0;
        // The two are read a few instructions apart; a preemption between them costs a few ms.
        assert!(here.abs_diff(there) < 20_000_000, "{here} against {there}");
    }

    #[test]
    fn virtual_time_moves_only_forward_and_when_told() {
        let clock = Clock::virtual_at(5);
        assert_eq!(clock.now(), Nanos(5));
        clock.sleep_until(Nanos(100));
        clock.advance_to(Nanos(40));
        assert_eq!(clock.now(), Nanos(100));
    }
}
