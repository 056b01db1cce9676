//! Exit codes (DESIGN 3.1) and the last words of a failed command.

use runner::RunError;
use std::process::ExitCode;
use store::State;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    Refused,
    NotValid,
    Interrupted,
}

impl From<State> for Exit {
    fn from(state: State) -> Exit {
        match state {
            State::Done | State::Running | State::CutOff => Exit::Done,
            State::Invalid => Exit::NotValid,
            State::Interrupted => Exit::Interrupted,
            State::Failed => Exit::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::NotValid => 4,
            Exit::Interrupted => 130,
        })
    }
}

/// A mistake of the caller: exit 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A usage error as `anyhow` carries it.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

/// Prints one message and gives the exit it means.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    if let Some(io) = error.downcast_ref::<std::io::Error>()
        && io.kind() == std::io::ErrorKind::BrokenPipe
    {
        return Exit::Done; // `fathom show RUN | head` is no failure.
    }
    eprintln!("fathom: {error}");
    if error.is::<UsageError>() || error.is::<plan::PlanErrors>() {
        return Exit::Usage;
    }
    match error.downcast_ref::<RunError>() {
        Some(RunError::Refused(_)) => Exit::Refused,
        Some(RunError::Target(_) | RunError::NothingToDo | RunError::NotHere(_)) => Exit::Usage,
        _ => Exit::Failed,
    }
}
