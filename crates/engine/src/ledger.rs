//! What a worker counts in one interval. Filled on the hot path, emptied by the collector.

use base::hist::{Hist, Lateness, Recorder, Response, Service, Submission};
use base::sample::{CpuUse, Side, StreamSample};

/// One direction of one flow.
pub(crate) struct SideBook {
    pub(crate) service: Box<Recorder<Service>>,
    pub(crate) submission: Box<Recorder<Submission>>,
    pub(crate) response: Option<Box<Recorder<Response>>>,
    /// One call submits and completes: the submission time is the service time.
    one_call: bool,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
}

impl SideBook {
    fn new(open_loop: bool, one_call: bool) -> SideBook {
        SideBook {
            service: Recorder::boxed(),
            submission: Recorder::boxed(),
            response: open_loop.then(Recorder::boxed),
            one_call,
            bytes: 0,
            errors: 0,
        }
    }

    fn drain_into(&mut self, side: &mut Side) {
        if self.one_call {
            let mut calls = Hist::new();
            self.service.drain_into(&mut calls);
            side.submission.merge(&calls.clone().counted_as());
            side.service.merge(&calls);
        } else {
            self.service.drain_into(&mut side.service);
            self.submission.drain_into(&mut side.submission);
        }
        if let Some(response) = &mut self.response {
            response.drain_into(&mut side.response);
        }
        side.bytes += std::mem::take(&mut self.bytes);
        side.errors += std::mem::take(&mut self.errors);
    }
}

/// What an open-loop flow counts beside its I/Os.
#[derive(Default)]
pub(crate) struct OpenBook {
    pub(crate) lateness: Option<Box<Recorder<Lateness>>>,
    pub(crate) waited: u64,
    pub(crate) shed: u64,
}

/// Where a side of the book belongs.
#[derive(Clone, Copy)]
pub(crate) struct SidePlace {
    pub(crate) stream: usize,
    pub(crate) write: bool,
}

/// What a book has to hold.
#[derive(Clone, Copy)]
pub(crate) struct BookKind {
    /// Response time and lateness too.
    pub(crate) open_loop: bool,
    /// The submission time is the service time.
    pub(crate) one_call: bool,
}

/// All counts of a worker for one interval.
pub(crate) struct Book {
    pub(crate) sides: Vec<SideBook>,
    pub(crate) open: OpenBook,
    pub(crate) cpu: CpuUse,
}

impl Book {
    /// An empty book with `sides` directions.
    pub(crate) fn new(sides: usize, kind: BookKind) -> Box<Book> {
        let BookKind { open_loop, one_call } = kind;
        Box::new(Book {
            sides: (0..sides).map(|_| SideBook::new(open_loop, one_call)).collect(),
            open: OpenBook { lateness: open_loop.then(Recorder::boxed), ..OpenBook::default() },
            cpu: CpuUse::default(),
        })
    }

    /// Moves all counts to the samples of their streams.
    pub(crate) fn drain_into(&mut self, places: &[SidePlace], streams: &mut [StreamSample]) {
        for (side, place) in self.sides.iter_mut().zip(places) {
            let stream = &mut streams[place.stream];
            side.drain_into(if place.write { &mut stream.writes } else { &mut stream.reads });
        }
        let Some(first) = places.first() else { return };
        let stream = &mut streams[first.stream];
        if let Some(lateness) = &mut self.open.lateness {
            lateness.drain_into(&mut stream.lateness);
        }
        stream.waited += std::mem::take(&mut self.open.waited);
        stream.shed += std::mem::take(&mut self.open.shed);
    }
}
