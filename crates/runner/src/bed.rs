//! The targets of a run, real or virtual, as the state machine sees them.

use base::units::Bytes;
use drive::{Eraser, Kind, Subject};
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
    pub(crate) eraser: Option<Eraser>,
}

impl Bed<'_> {
    pub(crate) fn is_scratch(&self) -> bool {
        self.subject.is_some_and(|subject| matches!(subject.kind, Kind::Scratch(_)))
    }
}

/// The unit of I/O that all targets allow: sizes are powers of two.
pub(crate) fn unit_of(beds: &[Bed<'_>]) -> Bytes {
    beds.iter().map(|bed| bed.block).max().unwrap_or(Bytes(512))
}
