//! Why a cell could not start.

use base::units::Bytes;

/// Why a cell could not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A block is no multiple of the target's unit.
    #[error(
        "{target}: a block of {block} is no multiple of its unit of {unit}; choose a larger one"
    )]
    BlockTooSmall {
        /// The block.
        block: Bytes,
        /// Unit of the target.
        unit: Bytes,
        /// The target.
        target: String,
    },
    /// A block is more than a command can move.
    #[error(
        "{target}: a block of {block} is more than the {most} that one command moves; the block device \
         splits such blocks, so use that, or smaller ones"
    )]
    BlockTooLarge {
        /// The block.
        block: Bytes,
        /// What a command moves.
        most: Bytes,
        /// The target.
        target: String,
    },
    /// The range holds no block.
    #[error("{target}: a range of {range} holds no block of {block}; use a larger target or range")]
    RangeTooSmall {
        /// The block.
        block: Bytes,
        /// Size of the range.
        range: Bytes,
        /// The target.
        target: String,
    },
    /// No load runs on any target.
    #[error("no load of this step runs on any of the targets; check `targets` in the plan")]
    NoWorkers,
    /// More threads than is sane.
    #[error("this step needs {asked} threads, more than {most}; lower workers or depth")]
    TooManyThreads {
        /// Asked for.
        asked: usize,
        /// Limit.
        most: usize,
    },
    /// A worker could not be set up.
    #[error("cannot set up a worker: {0}; {advice}", advice = set_up_advice(.0))]
    SetUp(std::io::Error),
    /// The external engine failed.
    #[error("{0}")]
    External(String),
}

fn set_up_advice(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "io_uring is switched off here (kernel.io_uring_disabled or a container); try --engine sync"
        }
        Some(libc::ENOSYS) => {
            "this kernel has no io_uring (5.10 is the oldest supported); try --engine sync"
        }
        Some(libc::ENOMEM) => "raise the locked-memory limit (ulimit -l) or lower depth and block",
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::EAGAIN) => "raise the limit of threads (ulimit -u) or lower workers",
        _ => "try --engine sync",
    }
}
