//! Facts about the calling thread and the threads the kernel works for it.

use base::sample::CpuUse;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPU time and involuntary context switches of the calling thread.
pub(crate) fn thread_usage() -> (CpuUse, u64) {
    usage_of(libc::RUSAGE_THREAD)
}

/// CPU time of children that ended and were waited for.
pub(crate) fn children_usage() -> CpuUse {
    usage_of(libc::RUSAGE_CHILDREN).0
}

fn usage_of(who: libc::c_int) -> (CpuUse, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the plain struct; all-zero is valid should it refuse.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    let cpu = CpuUse { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) };
    (cpu, usage.ru_nivcsw as u64)
}

/// CPUs this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Pins the calling thread to one CPU; a refusal leaves it where it may run.
pub(crate) fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// Threads of this process that the kernel runs requests on (`iou-wrk-*`): requests were punted.
pub(crate) fn punt_threads() -> u32 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let is_worker = |task: std::fs::DirEntry| {
        std::fs::read(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(b"iou-wrk"))
    };
    tasks.flatten().filter_map(|task| is_worker(task).then_some(())).count() as u32
}
