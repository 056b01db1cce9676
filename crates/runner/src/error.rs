//! Why a run could not start or go on.

use drive::{Refusal, TargetError};
use engine::EngineError;
use store::StoreError;

/// Errors of a run. What was measured before is in the run file.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Writing would destroy something: exit 3.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// Something cannot be a target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The engine cannot run a step.
    #[error("step {step}: {error}")]
    Engine {
        /// Path of the step.
        step: String,
        /// Why.
        error: EngineError,
    },
    /// The run file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing left to do.
    #[error("every step of this plan writes: nothing is left to do with --read-only")]
    NothingToDo,
    /// A cut run cannot be gone on with.
    #[error("{0}")]
    Resume(String),
    /// A step asks for what cannot be done here.
    #[error("{0}")]
    NotHere(String),
    /// The instrument cannot measure itself.
    #[error("the instrument cannot measure its own cost: {0}")]
    Instrument(EngineError),
}
