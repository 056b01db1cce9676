//! Whether a figure can be believed (DESIGN 3.5). Each check gives a verdict with its evidence; a
//! failed one makes the cell not valid in every output.

use base::sample::{CpuUse, StreamSample};
use base::units::{Nanos, format_latency};
use serde_json::{Value, json};

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// As it should be.
    Pass,
    /// Worth knowing.
    Info,
    /// May spoil the figure.
    Warning,
    /// The figure is not valid.
    Fail,
}

impl Status {
    /// The word in the run file.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Info => "info",
            Status::Warning => "warning",
            Status::Fail => "fail",
        }
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Name of the check.
    pub name: &'static str,
    /// How it went.
    pub status: Status,
    /// For people: what, and what to do.
    pub text: String,
    /// The figures it rests on.
    pub evidence: Value,
}

/// Bytes the device itself counted during a cell, ramp included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// What is known of a cell when it ends.
#[derive(Clone, Debug)]
pub struct CellEvidence<'a> {
    /// Counted samples, all streams merged.
    pub counted: &'a StreamSample,
    /// Bytes sent in the whole cell, ramp included: read, written.
    pub sent: DeviceBytes,
    /// Counted time.
    pub len: Nanos,
    /// CPU time of the workers in it.
    pub cpu: CpuUse,
    /// Workers.
    pub workers: u32,
    /// CPUs they ran on.
    pub cpus: u32,
    /// Fathom's own cost per I/O on this host, in ns.
    pub own_ns: f64,
    /// The rate asked for; none in closed loop.
    pub rate_iops: Option<f64>,
    /// The page cache was measured.
    pub page_cache: bool,
    /// Kernel threads that requests were handed to.
    pub punt_threads: u32,
    /// What the device counted; none when it does not say.
    pub device: Option<DeviceBytes>,
    /// Share of a file that is holes and was read, 0..1.
    pub holes: f64,
    /// Clock drift since calibration in parts per million.
    pub drift_ppm: f64,
    /// The target is simulated: the host does no I/O.
    pub is_virtual: bool,
}

/// Share of all arrivals that may find every slot taken before the target counts as overloaded.
const WAITED_SHARE: f64 = 0.01;
/// Share of the mean response time that the generator's own lateness may make.
const LATENESS_SHARE: f64 = 0.10;
/// Relative difference between bytes sent and counted by the device that is let pass.
const COUNTER_SHARE: f64 = 0.01;
/// Bytes of difference that are let pass besides: other users of the device in a short cell.
const COUNTER_BYTES: u64 = 4 << 20;
/// CPU share of the workers from which the host counts as the limit.
const CPU_BOUND: f64 = 0.95;
/// Own cost as a share of the mean service time that is worth a warning.
const OWN_SHARE: f64 = 0.05;
/// Clock drift that spoils rates, in parts per million.
const DRIFT_PPM: f64 = 200.0;

/// Judges a cell.
pub fn judge(cell: &CellEvidence<'_>) -> Vec<Verdict> {
    let checks = [
        page_cache(cell),
        schedule(cell),
        counters(cell),
        holes(cell),
        punted(cell),
        own_cost(cell),
        cpu(cell),
        drift(cell),
    ];
    checks.into_iter().flatten().collect()
}

/// The worst status of several verdicts.
pub fn overall<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Status {
    verdicts.into_iter().map(|verdict| verdict.status).max().unwrap_or(Status::Pass)
}

/// Whether `iops` is less than `gain_percent` above `before`: another step adds nothing.
pub fn adds_nothing(before: f64, iops: f64, gain_percent: f64) -> bool {
    iops < before * (1.0 + gain_percent / 100.0)
}

fn verdict(name: &'static str, status: Status, text: String, evidence: Value) -> Option<Verdict> {
    Some(Verdict { name, status, text, evidence })
}

fn page_cache(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if !cell.page_cache {
        return None;
    }
    let text = "the file system refuses direct I/O: this is the page cache, not the device; use a \
                device or another file system";
    verdict("page-cache", Status::Fail, text.into(), json!({"direct": false}))
}

fn schedule(cell: &CellEvidence<'_>) -> Option<Verdict> {
    let rate = cell.rate_iops?;
    let counts = cell.counted;
    let arrivals = (counts.ios() + counts.shed).max(1) as f64;
    let waited = counts.waited as f64 / arrivals;
    let achieved = counts.ios() as f64 / cell.len.as_secs_f64().max(1e-9);
    let lateness = counts.lateness.mean_ns().unwrap_or(0.0);
    let responses = [&counts.reads.response, &counts.writes.response];
    let sum: f64 = responses.iter().map(|hist| hist.sum_ns() as f64).sum();
    let response = sum / counts.ios().max(1) as f64;
    let evidence = json!({
        "rate_iops": rate, "achieved_iops": achieved, "waited_share": waited, "shed": counts.shed,
        "lateness_mean_ns": lateness, "lateness_p99_ns": counts.lateness.percentile_ns(99.0),
        "response_mean_ns": response,
    });
    let late = format_latency(lateness);
    if counts.shed > 0 || waited > WAITED_SHARE {
        let text = format!(
            "the target does not keep up with {rate:.0} IOPS: {:.1} % of the arrivals waited, {} \
             were shed; the response time holds the wait",
            waited * 100.0,
            counts.shed
        );
        return verdict("overload", Status::Info, text, evidence);
    }
    if lateness > LATENESS_SHARE * response {
        let text = format!(
            "the generator did not keep its schedule (mean lateness {late}); use an idle host or \
             more workers"
        );
        return verdict("schedule", Status::Fail, text, evidence);
    }
    verdict("schedule", Status::Pass, format!("schedule kept, mean lateness {late}"), evidence)
}

fn counters(cell: &CellEvidence<'_>) -> Option<Verdict> {
    let device = cell.device?;
    let evidence = json!({
        "sent": {"read": cell.sent.read, "written": cell.sent.written},
        "device": {"read": device.read, "written": device.written},
    });
    let differs = |sent: u64, counted: u64| {
        let off = sent.abs_diff(counted);
        off > COUNTER_BYTES && off as f64 > COUNTER_SHARE * sent.max(counted) as f64
    };
    let ways =
        [("read", cell.sent.read, device.read), ("written", cell.sent.written, device.written)];
    match ways.iter().find(|(_, sent, counted)| differs(*sent, *counted)) {
        None => verdict(
            "device-counters",
            Status::Pass,
            "the device counted what was sent".into(),
            evidence,
        ),
        Some((way, sent, counted)) => {
            let why = if counted > sent {
                "somebody else uses it"
            } else {
                "a cache answered instead of the device"
            };
            let text =
                format!("the device counted {counted} bytes {way}, but {sent} were sent: {why}");
            verdict("device-counters", Status::Fail, text, evidence)
        }
    }
}

fn holes(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if cell.holes < 0.001 || cell.counted.reads.ios() == 0 {
        return None;
    }
    let text = format!(
        "{:.0} % of the file are holes: reading them measures the file system, not the device; \
         fill it first",
        cell.holes * 100.0
    );
    verdict("holes", Status::Warning, text, json!({"share": cell.holes}))
}

fn punted(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if cell.punt_threads == 0 {
        return None;
    }
    let text = format!(
        "the kernel handed requests to {} threads of its own (the target cannot take them without \
         blocking): latencies hold that detour, and the CPU figures leave those threads out; \
         compare with --engine sync",
        cell.punt_threads
    );
    verdict("punted", Status::Warning, text, json!({"threads": cell.punt_threads}))
}

fn own_cost(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if cell.is_virtual {
        return None;
    }
    let ios = cell.counted.ios();
    let hists = [&cell.counted.reads.service, &cell.counted.writes.service];
    let sum: f64 = hists.iter().map(|hist| hist.sum_ns() as f64).sum();
    if ios == 0 {
        return None;
    }
    let wall = cell.len.0 as f64 * f64::from(cell.workers) / ios as f64;
    let (service, share) = (sum / ios as f64, cell.own_ns / wall);
    let evidence = json!({"own_ns": cell.own_ns, "share": share, "service_mean_ns": service});
    let text = format!(
        "Fathom itself costs {:.0} ns per I/O here, {:.2} % of a worker's time for one",
        cell.own_ns,
        share * 100.0
    );
    let status = if share > OWN_SHARE { Status::Warning } else { Status::Pass };
    verdict("own-cost", status, text, evidence)
}

fn cpu(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if cell.is_virtual {
        return None;
    }
    let lanes = f64::from(cell.workers.min(cell.cpus).max(1));
    let share = cell.cpu.total_ns() as f64 / (cell.len.0 as f64 * lanes).max(1.0);
    let evidence = json!({
        "share": share, "user_ns": cell.cpu.user_ns, "system_ns": cell.cpu.system_ns,
    });
    let percent = share * 100.0;
    if share >= CPU_BOUND && cell.rate_iops.is_none() {
        let text = format!(
            "the workers used {percent:.0} % of their CPUs: the host, not the device, may be the \
             limit; try more workers"
        );
        return verdict("cpu", Status::Warning, text, evidence);
    }
    verdict("cpu", Status::Pass, format!("the workers used {percent:.0} % of their CPUs"), evidence)
}

fn drift(cell: &CellEvidence<'_>) -> Option<Verdict> {
    if cell.drift_ppm.abs() < DRIFT_PPM {
        return None;
    }
    let text = format!("the clock drifted by {:.0} parts per million", cell.drift_ppm);
    verdict("clock", Status::Fail, text, json!({"drift_ppm": cell.drift_ppm}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ios: u64, lateness_ns: u64, response_ns: u64) -> StreamSample {
        let mut counts = StreamSample::default();
        counts.reads.service.record_n(100_000, ios);
        counts.reads.response.record_n(response_ns, ios);
        counts.lateness.record_n(lateness_ns, ios);
        counts
    }

    fn evidence(counted: &StreamSample) -> CellEvidence<'_> {
        CellEvidence {
            counted,
            sent: DeviceBytes { read: 100 << 20, written: 0 },
            len: Nanos::SECOND,
            cpu: CpuUse { user_ns: 10_000_000, system_ns: 10_000_000 },
            workers: 1,
            cpus: 2,
            own_ns: 10.0,
            rate_iops: None,
            page_cache: false,
            punt_threads: 0,
            device: None,
            holes: 0.0,
            drift_ppm: 0.0,
            is_virtual: false,
        }
    }

    /// The status of one check, none when it did not speak.
    fn status(cell: &CellEvidence<'_>, name: &str) -> Option<Status> {
        judge(cell).iter().find(|verdict| verdict.name == name).map(|verdict| verdict.status)
    }

    #[test]
    fn nothing_wrong_gives_no_warning() {
        let counted = counts(1000, 100, 100_000);
        assert_eq!(overall(&judge(&evidence(&counted))), Status::Pass);
    }

    #[test]
    fn the_generators_lateness_fails_and_the_targets_does_not() {
        let late = counts(1000, 50_000, 150_000);
        let open = CellEvidence { rate_iops: Some(1000.0), ..evidence(&late) };
        assert_eq!(status(&open, "schedule"), Some(Status::Fail));
        let mut overloaded = counts(1000, 50_000, 150_000);
        overloaded.waited = 500;
        let open = CellEvidence { rate_iops: Some(1000.0), ..evidence(&overloaded) };
        assert_eq!(
            (status(&open, "schedule"), status(&open, "overload")),
            (None, Some(Status::Info))
        );
        let kept = counts(1000, 100, 100_000);
        let open = CellEvidence { rate_iops: Some(1000.0), ..evidence(&kept) };
        assert_eq!(status(&open, "schedule"), Some(Status::Pass));
    }

    #[test]
    fn device_counters_must_agree_within_a_percent() {
        let counted = counts(1000, 0, 1);
        for (read, expected) in [
            (100 << 20, Status::Pass),
            (103 << 20, Status::Pass), // within 4 MiB: other users of a shared device
            (120 << 20, Status::Fail),
            (0, Status::Fail),
        ] {
            let device = Some(DeviceBytes { read, written: 0 });
            let cell = CellEvidence { device, ..evidence(&counted) };
            assert_eq!(status(&cell, "device-counters"), Some(expected), "{read}");
        }
    }

    #[test]
    fn each_spoiler_is_named() {
        let counted = counts(1000, 0, 1);
        let base = || evidence(&counted);
        let check = |cell: CellEvidence<'_>, name, expected| {
            assert_eq!(status(&cell, name), Some(expected), "{name}");
        };
        check(CellEvidence { page_cache: true, ..base() }, "page-cache", Status::Fail);
        check(CellEvidence { punt_threads: 2, ..base() }, "punted", Status::Warning);
        check(CellEvidence { holes: 0.5, ..base() }, "holes", Status::Warning);
        check(CellEvidence { drift_ppm: -500.0, ..base() }, "clock", Status::Fail);
        check(CellEvidence { own_ns: 200_000.0, ..base() }, "own-cost", Status::Warning);
        let busy = CpuUse { user_ns: 0, system_ns: 990_000_000 };
        check(CellEvidence { cpu: busy, ..base() }, "cpu", Status::Warning);
    }

    #[test]
    fn a_step_that_adds_less_than_its_gain_adds_nothing() {
        assert!(adds_nothing(100.0, 101.9, 2.0));
        assert!(!adds_nothing(100.0, 102.1, 2.0));
    }
}
