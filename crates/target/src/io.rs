//! Commands of the I/O queues.

use crate::admin::status;
use crate::model::{Error, ModelDrive, Namespace, Sanitize, State};
use crate::pdu::{Completion, Entry};

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const WRITE_ZEROES: u8 = 0x08;
const DATASET: u8 = 0x09;

/// What is left to do once the data is in place.
pub(crate) struct Outcome {
    pub(crate) completion: Completion,
    /// Data for the host.
    pub(crate) data: Vec<u8>,
    /// Where and how much, when it takes the time of an I/O: write, offset, bytes.
    pub(crate) timed: Option<(bool, u64, u32)>,
    /// How much longer it takes for power and heat.
    pub(crate) slower: u64,
}

fn ended(status: u16) -> Outcome {
    Outcome {
        completion: Completion { result: 0, status },
        data: Vec::new(),
        timed: None,
        slower: 1,
    }
}

/// Whether the host sends data with it.
pub(crate) fn takes_data(entry: &Entry) -> bool {
    matches!(entry.opcode(), WRITE | DATASET)
}

/// Carries a command out; the time it takes is the caller's.
pub(crate) fn run(drive: &ModelDrive, queue: u16, entry: &Entry, data: &[u8]) -> Outcome {
    let mut guard = drive.state();
    let state = &mut *guard;
    if matches!(state.sanitize, Sanitize::Running(_)) {
        return ended(status::SANITIZE_RUNNING);
    }
    let nsid = entry.nsid();
    let Some(namespace) = state.namespaces.get_mut(&nsid).filter(|n| n.attached) else {
        return ended(status::INVALID_NAMESPACE);
    };
    let block = namespace.block_bytes();
    if entry.opcode() == DATASET {
        return ended(deallocate(namespace, entry, data));
    }
    if entry.opcode() == FLUSH {
        return ended(0);
    }
    let first = entry.u64(40);
    let blocks = u64::from(entry.cdw(12) & 0xffff) + 1;
    if first.checked_add(blocks).is_none_or(|end| end > namespace.blocks) {
        return ended(status::LBA_RANGE);
    }
    let (offset, bytes) = (first * block, blocks * block);
    let slower = state.slower();
    match entry.opcode() {
        READ => {
            state.read_commands += 1;
            if let Some(status) = bad(state, queue, entry, first, blocks) {
                return ended(status);
            }
            state.read_bytes += u128::from(bytes);
            let mut data = vec![0; bytes as usize];
            if let Some(namespace) = state.namespaces.get(&nsid) {
                namespace.media.read(offset, &mut data);
            }
            let timed = Some((false, offset, bytes as u32));
            Outcome { completion: Completion::default(), data, timed, slower }
        }
        WRITE | WRITE_ZEROES if state.write_protected => ended(status::WRITE_PROTECTED),
        WRITE if data.len() as u64 != bytes => ended(status::INVALID_FIELD),
        WRITE => {
            state.write_commands += 1;
            state.written_bytes += u128::from(bytes);
            if let Some(namespace) = state.namespaces.get_mut(&nsid) {
                namespace.media.write(offset, data);
            }
            let timed = Some((true, offset, bytes as u32));
            Outcome { timed, slower, ..ended(0) }
        }
        WRITE_ZEROES => {
            if let Some(namespace) = state.namespaces.get_mut(&nsid) {
                namespace.media.deallocate(offset, bytes);
            }
            ended(0)
        }
        _ => ended(status::INVALID_OPCODE),
    }
}

/// Gives the ranges of a dataset management command up.
fn deallocate(namespace: &mut Namespace, entry: &Entry, data: &[u8]) -> u16 {
    let block = namespace.block_bytes();
    for range in data.as_chunks::<16>().0.iter().take((entry.cdw(10) & 0xff) as usize + 1) {
        let blocks = u32::from_le_bytes(range[4..8].try_into().unwrap_or_default());
        let first = u64::from_le_bytes(range[8..16].try_into().unwrap_or_default());
        if first.checked_add(blocks.into()).is_none_or(|end| end > namespace.blocks) {
            return status::LBA_RANGE;
        }
        namespace.media.deallocate(first * block, u64::from(blocks) * block);
    }
    0
}

/// The status of a read that meets a bad block.
fn bad(state: &mut State, queue: u16, entry: &Entry, first: u64, blocks: u64) -> Option<u16> {
    let hit = (first..first + blocks).find(|lba| state.bad.contains_key(lba))?;
    let status = match state.bad.get_mut(&hit)? {
        None => status::UNRECOVERED_READ | status::DO_NOT_RETRY,
        Some(0) => return None,
        Some(times) => {
            *times -= 1;
            status::UNRECOVERED_READ
        }
    };
    state.media_errors += 1;
    state.note_error(Error {
        number: 0,
        queue,
        command: entry.command(),
        status: status & 0x7ff,
        lba: hit,
        nsid: entry.nsid(),
    });
    Some(status)
}
