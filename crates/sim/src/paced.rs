//! A virtual drive for real time: what is submitted now ends when the model says.

use crate::device::{Device, Request};
use crate::media::Flash;
use crate::target::VirtualTarget;
use crate::timing::Timing;
use base::rng::derive;

/// I/Os that can be on their way at a time; more wait.
const SLOTS: u32 = 4096;

/// A virtual drive whose time is given from outside, in ns.
pub struct PacedDrive {
    device: Device,
    flash: Flash,
    free: Vec<u32>,
    tags: Vec<u64>,
    size: u64,
    waiting: std::collections::VecDeque<(u64, Request)>,
}

impl PacedDrive {
    /// A fresh drive.
    pub fn new(target: &VirtualTarget) -> PacedDrive {
        let timing = Timing::new(&target.profile, target.setup.power_w, true);
        let mut device = Device::new(timing, derive(target.setup.seed, 1));
        device.set_slots(SLOTS as usize);
        PacedDrive {
            device,
            flash: Flash::new(target),
            free: (0..SLOTS).rev().collect(),
            tags: vec![0; SLOTS as usize],
            size: target.size().0,
            waiting: std::collections::VecDeque::new(),
        }
    }

    /// Sends an I/O at `now_ns`. Addresses beyond the drive's size wrap around.
    pub fn submit(&mut self, now_ns: u64, tag: u64, write: bool, offset: u64, len: u32) {
        let offset = offset % self.size / 4096 * 4096;
        let request = Request { write, offset, len: len.max(1), sequential: false };
        match self.free.pop() {
            Some(slot) => self.issue(now_ns, slot, tag, request),
            None => self.waiting.push_back((tag, request)),
        }
    }

    fn issue(&mut self, now_ns: u64, slot: u32, tag: u64, request: Request) {
        self.tags[slot as usize] = tag;
        self.device.issue(now_ns, slot, request, &self.flash);
    }

    /// Tags of the I/Os that ended up to `now_ns`, in order.
    pub fn ended(&mut self, now_ns: u64) -> Vec<u64> {
        let mut tags = Vec::new();
        while let Some(done) = self.device.next(now_ns, &mut self.flash) {
            tags.push(self.tags[done.slot as usize]);
            match self.waiting.pop_front() {
                Some((tag, request)) => self.issue(done.at, done.slot, tag, request),
                None => self.free.push(done.slot),
            }
        }
        tags
    }

    /// When something happens next, in ns; none when nothing is on its way.
    pub fn next_event(&self) -> Option<u64> {
        self.device.next_event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_ends_when_the_model_says_and_not_before() {
        let target = VirtualTarget::parse("sim:d5-p5430,capacity=1GB,noise=0").unwrap();
        let mut drive = PacedDrive::new(&target);
        assert_eq!(drive.next_event(), None);
        let (mut now, mut total) = (1_000_000, 0);
        for tag in 0..100 {
            drive.submit(now, tag, false, tag * 4096, 4096);
            let start = now;
            let ended = loop {
                now = drive.next_event().unwrap();
                let ended = drive.ended(now);
                if !ended.is_empty() {
                    break ended;
                }
            };
            assert_eq!(ended, [tag]);
            total += now - start;
        }
        // Reads of 4 KiB at depth 1 take the profile's time: tens of microseconds.
        assert!((50_000..120_000).contains(&(total / 100)), "{}", total / 100);
    }
}
