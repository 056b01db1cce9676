//! The targets of a run, real or virtual, as the state machine sees them.

use base::units::Bytes;
use drive::{Deallocator, Kind, Subject};
use sim::VirtualTarget;

/// What a run is on: targets of this host, or virtual drives. The two do not mix: they have different
/// clocks.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// Devices, files, scratch files.
    Host(&'a [Subject]),
    /// Virtual drives.
    Virtual(&'a [VirtualTarget]),
}

impl Targets<'_> {
    /// Whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Targets::Virtual(_))
    }
}

/// One target.
pub(crate) struct Bed<'a> {
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) size: Bytes,
    /// Unit of I/O.
    pub(crate) block: Bytes,
    /// The target on this host; none for a virtual drive.
    pub(crate) subject: Option<&'a Subject>,
    /// With a permit, when the run writes: the right to give everything up.
    pub(crate) deallocator: Option<Deallocator>,
}

impl Bed<'_> {
    pub(crate) fn is_scratch(&self) -> bool {
        self.subject.is_some_and(|subject| matches!(subject.kind, Kind::Scratch(_)))
    }
}
