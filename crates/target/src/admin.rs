//! Admin commands of the model.

use crate::model::{FORMATS, ModelDrive, Namespace, POWER_STATES, Sanitize, State};
use crate::pdu::{Completion, Entry};
use crate::{identify, logs};

/// Generic status codes.
pub(crate) mod status {
    pub(crate) const INVALID_OPCODE: u16 = 0x4001;
    pub(crate) const INVALID_FIELD: u16 = 0x4002;
    pub(crate) const INVALID_NAMESPACE: u16 = 0x400b;
    pub(crate) const SANITIZE_RUNNING: u16 = 0x001d;
    pub(crate) const WRITE_PROTECTED: u16 = 0x4020;
    pub(crate) const LBA_RANGE: u16 = 0x4080;
    pub(crate) const INVALID_LOG: u16 = 0x4109;
    pub(crate) const INSUFFICIENT_CAPACITY: u16 = 0x4115;
    pub(crate) const UNRECOVERED_READ: u16 = 0x0281;
    pub(crate) const DO_NOT_RETRY: u16 = 0x4000;
}

/// How a command ended, and its data for the host.
pub(crate) type Answer = (Completion, Vec<u8>);

fn done(result: u32) -> Answer {
    (Completion { result: u64::from(result), status: 0 }, Vec::new())
}

fn failed(status: u16) -> Answer {
    (Completion { result: 0, status }, Vec::new())
}

/// Carries an admin command out. `data` is what came with it.
pub(crate) fn run(drive: &ModelDrive, name: &str, entry: &Entry, data: &[u8]) -> Answer {
    let now = drive.clock.now().0;
    let mut state = drive.state();
    let answer = match entry.opcode() {
        0x02 => log(&state, entry, now),
        0x06 => identify_page(&state, name, entry),
        // Abort: what is asked to be aborted is done already.
        0x08 => done(1),
        0x09 => set_feature(&mut state, entry),
        0x0A => get_feature(&state, entry),
        0x0D => manage(&mut state, entry, data),
        0x15 => attach(&mut state, entry),
        // Keep alive.
        0x18 => done(0),
        0x80 => format(&mut state, entry),
        0x84 => sanitize(&mut state, entry, now),
        _ => failed(status::INVALID_OPCODE),
    };
    let (completion, mut bytes) = answer;
    bytes.resize(bytes.len().min(entry.data_len() as usize), 0);
    (completion, bytes)
}

fn log(state: &State, entry: &Entry, now: u64) -> Answer {
    let Some(page) = logs::page(state, entry.cdw(10) as u8, now) else {
        return failed(status::INVALID_LOG);
    };
    let offset = (u64::from(entry.cdw(13)) << 32 | u64::from(entry.cdw(12))) as usize;
    let mut bytes = page.get(offset..).unwrap_or_default().to_vec();
    bytes.resize(entry.data_len() as usize, 0);
    (Completion::default(), bytes)
}

fn identify_page(state: &State, name: &str, entry: &Entry) -> Answer {
    let nsid = entry.nsid();
    let attached = state.namespaces.iter().filter(|(_, namespace)| namespace.attached);
    let page = match entry.cdw(10) & 0xff {
        0x00 => identify::namespace(state.namespaces.get(&nsid).filter(|n| n.attached)),
        0x01 => identify::controller(state, name),
        0x02 => identify::list(attached.map(|(nsid, _)| *nsid), nsid),
        0x03 if state.namespaces.contains_key(&nsid) => identify::descriptors(nsid),
        0x10 => identify::list(state.namespaces.keys().copied(), nsid),
        0x11 => identify::namespace(state.namespaces.get(&nsid)),
        _ => return failed(status::INVALID_FIELD),
    };
    (Completion::default(), page)
}

fn get_feature(state: &State, entry: &Entry) -> Answer {
    let id = entry.cdw(10) as u8;
    match id {
        0x07 => done(0),
        0x02 | 0x04 | 0x06 | 0x0B | 0x0F | 0x10 => {
            done(state.features.get(&id).copied().unwrap_or(0))
        }
        _ => failed(status::INVALID_FIELD),
    }
}

fn set_feature(state: &mut State, entry: &Entry) -> Answer {
    let (id, value) = (entry.cdw(10) as u8, entry.cdw(11));
    match id {
        0x02 if (value & 31) as usize >= POWER_STATES.len() => failed(status::INVALID_FIELD),
        0x02 => {
            if state.power_state() != value & 31 {
                state.power_changes += 1;
            }
            state.features.insert(id, value);
            done(0)
        }
        // As many queues as are asked for.
        0x07 => done(value),
        0x04 | 0x06 | 0x0B | 0x0F | 0x10 => {
            state.features.insert(id, value);
            done(0)
        }
        _ => failed(status::INVALID_FIELD),
    }
}

fn manage(state: &mut State, entry: &Entry, data: &[u8]) -> Answer {
    let nsid = entry.nsid();
    match entry.cdw(10) & 0xf {
        0 => {
            let Some(size) = data.get(0..8).and_then(|raw| raw.try_into().ok()) else {
                return failed(status::INVALID_FIELD);
            };
            let format = data.get(26).copied().unwrap_or(0) & 0xf;
            let blocks = u64::from_le_bytes(size);
            let Some(block) = FORMATS.get(usize::from(format)) else {
                return failed(status::INVALID_FIELD);
            };
            let fits =
                blocks.checked_mul(u64::from(*block)).is_some_and(|n| n <= state.unallocated());
            if blocks == 0 || !fits {
                return failed(status::INSUFFICIENT_CAPACITY);
            }
            let nsid = (1..).find(|n| !state.namespaces.contains_key(n)).unwrap_or(1);
            let media = crate::media::Media::default();
            let namespace = Namespace { blocks, format, attached: false, media };
            state.namespaces.insert(nsid, namespace);
            done(nsid)
        }
        1 if nsid == u32::MAX => {
            state.namespaces.clear();
            done(0)
        }
        1 => match state.namespaces.remove(&nsid) {
            Some(_) => done(0),
            None => failed(status::INVALID_NAMESPACE),
        },
        _ => failed(status::INVALID_FIELD),
    }
}

fn attach(state: &mut State, entry: &Entry) -> Answer {
    match state.namespaces.get_mut(&entry.nsid()) {
        Some(namespace) => {
            namespace.attached = entry.cdw(10) & 0xf == 0;
            done(0)
        }
        None => failed(status::INVALID_NAMESPACE),
    }
}

fn format(state: &mut State, entry: &Entry) -> Answer {
    let number = (entry.cdw(10) & 0xf) as u8;
    let Some(block) = FORMATS.get(usize::from(number)) else {
        return failed(0x410a);
    };
    let Some(namespace) = state.namespaces.get_mut(&entry.nsid()) else {
        return failed(status::INVALID_NAMESPACE);
    };
    let bytes = namespace.bytes();
    namespace.format = number;
    namespace.blocks = bytes / u64::from(*block);
    namespace.media.clear();
    done(0)
}

fn sanitize(state: &mut State, entry: &Entry, now: u64) -> Answer {
    match (entry.cdw(10) & 7, state.sanitize) {
        (_, Sanitize::Running(_)) => failed(status::SANITIZE_RUNNING),
        (2 | 4, _) => {
            state.sanitize = Sanitize::Running(now);
            done(0)
        }
        _ => failed(status::INVALID_FIELD),
    }
}
