//! The state of a model drive, and the knobs a test turns.

use crate::media::Media;
use crate::pace::Pace;
use base::clock::Clock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a model drive is made of.
#[derive(Clone, Debug)]
pub struct Model {
    /// Serial number.
    pub serial: String,
    /// Whole capacity in bytes; one namespace has all of it at first.
    pub capacity_bytes: u64,
    /// Block of the first namespace in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Time of an I/O in power state 0, in ns; longer in the others. None with a virtual drive's timing.
    pub io_ns: u64,
    /// Timing of a virtual drive (`sim:NAME,...`) in real time, instead.
    pub timing: Option<sim::VirtualTarget>,
    /// Time a sanitize takes, in ns.
    pub sanitize_ns: u64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            serial: "MODEL-1".into(),
            capacity_bytes: 64 << 20,
            block_bytes: 512,
            io_ns: 0,
            timing: None,
            sanitize_ns: 1_500_000_000,
        }
    }
}

/// Largest power of each state in W, and how much longer an I/O takes in it.
pub(crate) const POWER_STATES: [(u16, u64); 3] = [(25, 1), (15, 2), (10, 4)];
/// Sizes of blocks by format.
pub(crate) const FORMATS: [u32; 2] = [512, 4096];
/// Bytes written to the media for one written by the host, in percent.
pub(crate) const AMPLIFICATION_PERCENT: u128 = 130;
pub(crate) const WARNING_K: u16 = 343;
pub(crate) const CRITICAL_K: u16 = 358;

/// A namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) blocks: u64,
    /// Which of [`FORMATS`].
    pub(crate) format: u8,
    pub(crate) attached: bool,
    pub(crate) media: Media,
}

impl Namespace {
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(FORMATS[usize::from(self.format)])
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes()
    }
}

/// An entry of the error log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Error {
    pub(crate) number: u64,
    pub(crate) queue: u16,
    pub(crate) command: u16,
    pub(crate) status: u16,
    pub(crate) lba: u64,
    pub(crate) nsid: u32,
}

/// How the last sanitize went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitize {
    Never,
    /// Since when, in ns.
    Running(u64),
    Done,
}

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) namespaces: BTreeMap<u32, Namespace>,
    pub(crate) features: HashMap<u8, u32>,
    pub(crate) temperature_k: u16,
    pub(crate) extra_warning: u8,
    pub(crate) read_bytes: u128,
    pub(crate) written_bytes: u128,
    pub(crate) read_commands: u128,
    pub(crate) write_commands: u128,
    pub(crate) media_errors: u128,
    pub(crate) error_entries: u64,
    pub(crate) errors: VecDeque<Error>,
    pub(crate) power_changes: u64,
    pub(crate) throttles: [u32; 2],
    pub(crate) sanitize: Sanitize,
    /// Blocks that cannot be read, and how often they still fail; none for always.
    pub(crate) bad: HashMap<u64, Option<u32>>,
    pub(crate) write_protected: bool,
}

/// A model drive, shared by its connections and by the test that turns its knobs.
#[derive(Clone, Debug)]
pub struct ModelDrive {
    state: Arc<Mutex<State>>,
    pub(crate) clock: Clock,
    pub(crate) pace: Arc<Pace>,
}

impl ModelDrive {
    /// A drive with one namespace of its whole capacity.
    pub fn new(model: Model) -> ModelDrive {
        let format = u8::from(model.block_bytes == FORMATS[1]);
        let blocks = model.capacity_bytes / u64::from(FORMATS[usize::from(format)]);
        let namespace = Namespace { blocks, format, attached: true, media: Media::default() };
        let clock = Clock::host();
        let pace = Arc::new(Pace::new(&model, clock.clone()));
        let state = State {
            namespaces: [(1, namespace)].into(),
            // Over-temperature threshold, write cache.
            features: [(0x04, u32::from(WARNING_K)), (0x06, 1)].into(),
            temperature_k: 313,
            extra_warning: 0,
            read_bytes: 0,
            written_bytes: 0,
            read_commands: 0,
            write_commands: 0,
            media_errors: 0,
            error_entries: 0,
            errors: VecDeque::new(),
            power_changes: 0,
            throttles: [0; 2],
            sanitize: Sanitize::Never,
            bad: HashMap::new(),
            write_protected: false,
            model,
        };
        ModelDrive { state: Arc::new(Mutex::new(state)), clock, pace }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A connection that panicked leaves values, not broken ones.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Sanitize::Running(since) = state.sanitize
            && self.clock.now().0 - since >= state.model.sanitize_ns
        {
            state.sanitize = Sanitize::Done;
            state.namespaces.values_mut().for_each(|namespace| namespace.media.clear());
        }
        state
    }

    /// The composite temperature from now on, in kelvin.
    pub fn set_temperature(&self, kelvin: u16) {
        self.state().set_temperature(kelvin);
    }

    /// Block `lba` fails to be read: `times` often with a status that may be tried again, or always with
    /// one that may not.
    pub fn fail(&self, lba: u64, times: Option<u32>) {
        self.state().bad.insert(lba, times);
    }

    /// The media takes no writes any more, and the health page says so.
    pub fn protect(&self, on: bool) {
        let mut state = self.state();
        state.write_protected = on;
        state.extra_warning = if on { 8 } else { 0 };
    }

    /// Power state in force.
    pub fn power_state(&self) -> u32 {
        self.state().power_state()
    }
}

impl State {
    pub(crate) fn power_state(&self) -> u32 {
        self.features.get(&0x02).copied().unwrap_or(0) & 31
    }

    fn set_temperature(&mut self, kelvin: u16) {
        let limits = self.features.get(&0x10).copied().unwrap_or(0);
        for (n, limit) in [limits >> 16, limits & 0xffff].into_iter().enumerate() {
            let (before, now) = (u32::from(self.temperature_k), u32::from(kelvin));
            if limit > 0 && before < limit && now >= limit {
                self.throttles[n] += 1;
            }
        }
        self.temperature_k = kelvin;
    }

    /// How much longer an I/O takes now, for power and heat.
    pub(crate) fn slower(&self) -> u64 {
        let power = POWER_STATES.get(self.power_state() as usize).map_or(1, |(_, slower)| *slower);
        let limits = self.features.get(&0x10).copied().unwrap_or(0);
        let now = u32::from(self.temperature_k);
        let hot = |limit: u32| limit > 0 && now >= limit;
        match (hot(limits >> 16), hot(limits & 0xffff)) {
            (_, true) => power * 4,
            (true, _) => power * 2,
            _ => power,
        }
    }

    pub(crate) fn critical_warning(&self) -> u8 {
        let threshold = self.features.get(&0x04).copied().unwrap_or(0) & 0xffff;
        let hot = threshold > 0 && u32::from(self.temperature_k) >= threshold;
        self.extra_warning | if hot { 2 } else { 0 }
    }

    pub(crate) fn unallocated(&self) -> u64 {
        let used: u64 = self.namespaces.values().map(Namespace::bytes).sum();
        self.model.capacity_bytes.saturating_sub(used)
    }

    pub(crate) fn note_error(&mut self, error: Error) {
        const KEPT: usize = 16;
        self.error_entries += 1;
        self.errors.push_front(Error { number: self.error_entries, ..error });
        self.errors.truncate(KEPT);
    }
}
