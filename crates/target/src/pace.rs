//! When an I/O ends: after a fixed time, or as a virtual drive says, in real time.

use crate::model::Model;
use base::clock::Clock;
use base::units::Nanos;
use sim::PacedDrive;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Called when an I/O ends.
pub(crate) type Done = Box<dyn FnOnce() + Send>;

/// An I/O for the virtual drive's timing.
pub(crate) struct Timed {
    pub(crate) write: bool,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) done: Done,
}

/// The timing of a drive.
pub(crate) struct Pace {
    to_drive: Option<std::sync::Mutex<Sender<Timed>>>,
    clock: Clock,
    io_ns: u64,
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace").field("io_ns", &self.io_ns).finish_non_exhaustive()
    }
}

impl Pace {
    pub(crate) fn new(model: &Model, clock: Clock) -> Pace {
        let to_drive = model.timing.clone().map(|target| {
            let (sender, receiver) = channel();
            let clock = clock.clone();
            std::thread::spawn(move || run(&mut PacedDrive::new(&target), &receiver, &clock));
            std::sync::Mutex::new(sender)
        });
        Pace { to_drive, clock, io_ns: model.io_ns }
    }

    /// Ends an I/O when its time has come; `slower` stretches a fixed time.
    pub(crate) fn submit(&self, io: Timed, slower: u64) {
        if let Some(sender) = &self.to_drive {
            let sender = sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // The thread lives as long as the sender.
            let _ = sender.send(io);
            return;
        }
        if self.io_ns > 0 {
            let end = self.clock.now().0 + self.io_ns * slower;
            self.clock.sleep_until(Nanos(end));
        }
        (io.done)();
    }
}

/// Runs a virtual drive on the host's clock.
fn run(drive: &mut PacedDrive, from: &Receiver<Timed>, clock: &Clock) {
    let mut waiting: HashMap<u64, Done> = HashMap::new();
    let mut next = 0;
    loop {
        let now = clock.now().0;
        for tag in drive.ended(now) {
            if let Some(done) = waiting.remove(&tag) {
                done();
            }
        }
        let wait = drive.next_event().map_or(1_000_000_000, |at| at.saturating_sub(now));
        match from.recv_timeout(Duration::from_nanos(wait)) {
            Ok(Timed { write, offset, len, done }) => {
                waiting.insert(next, done);
                drive.submit(clock.now().0, next, write, offset, len);
                next += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
