//! Raw clock readings. The one `unsafe` of this crate: the counter instruction.
#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Milliseconds since the Unix epoch.
pub(super) fn realtime_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The time-stamp counter; 0 on processors without one.
#[inline(always)]
pub(super) fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a register; every x86-64 processor has the instruction.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Counter and monotonic clock read together: the tightest of several tries.
pub(super) fn paired_reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..32 {
        let before = tsc();
        let ns = monotonic_ns();
        let after = tsc();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), ns);
        }
    }
    (best.1, best.2)
}

/// Whether the counter runs at a constant rate in all sleep states and the kernel uses it itself.
pub(super) fn tsc_is_trusted() -> bool {
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let flags = read("/proc/cpuinfo");
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    flags.contains("constant_tsc") && flags.contains("nonstop_tsc") && source.trim() == "tsc"
}
