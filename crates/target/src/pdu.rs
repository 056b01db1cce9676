//! Protocol data units of the TCP transport (NVMe TCP transport specification 1.0, section 3.6).

use std::io::{self, Read, Write};

/// Types of PDU.
pub(crate) mod kind {
    pub(crate) const IC_REQ: u8 = 0x00;
    pub(crate) const IC_RESP: u8 = 0x01;
    pub(crate) const COMMAND: u8 = 0x04;
    pub(crate) const RESPONSE: u8 = 0x05;
    pub(crate) const H2C_DATA: u8 = 0x06;
    pub(crate) const C2H_DATA: u8 = 0x07;
    pub(crate) const R2T: u8 = 0x09;
}

/// The last data of a command.
const LAST: u8 = 0x04;
/// No PDU is longer; a longer one is not read.
const PDU_MAX: usize = 4 << 20;

/// A PDU as it came: its type, its header behind the first 8 bytes, its data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pdu {
    pub(crate) kind: u8,
    pub(crate) header: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

/// Reads one PDU.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Pdu> {
    let mut common = [0u8; 8];
    from.read_exact(&mut common)?;
    let [kind, _flags, header_len, data_at, len @ ..] = common;
    let len = u32::from_le_bytes(len) as usize;
    let header_len = usize::from(header_len);
    if header_len < 8 || len < header_len || len > PDU_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a PDU of impossible lengths"));
    }
    let mut rest = vec![0; len - 8];
    from.read_exact(&mut rest)?;
    let header = rest[..header_len - 8].to_vec();
    let data_at = usize::from(data_at).max(header_len) - 8;
    let data = if len > header_len { rest.get(data_at..).unwrap_or_default() } else { &[] };
    Ok(Pdu { kind, header, data: data.to_vec() })
}

fn frame(kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let header_len = 8 + header.len();
    let data_at = if data.is_empty() { 0 } else { header_len as u8 };
    let mut all = vec![kind, flags, header_len as u8, data_at];
    all.extend(((header_len + data.len()) as u32).to_le_bytes());
    all.extend(header);
    all.extend(data);
    all
}

/// The answer to the connection's first PDU: no digests, no alignment.
pub(crate) fn ic_resp(data_max: u32) -> Vec<u8> {
    let mut header = [0u8; 120];
    header[4..8].copy_from_slice(&data_max.to_le_bytes());
    frame(kind::IC_RESP, 0, &header, &[])
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) result: u64,
    /// Code in bits 7:0, type in bits 10:8, do-not-retry in bit 14.
    pub(crate) status: u16,
}

/// A response capsule.
pub(crate) fn response(command: u16, queue: u16, completion: Completion) -> Vec<u8> {
    let mut entry = [0u8; 16];
    entry[0..8].copy_from_slice(&completion.result.to_le_bytes());
    entry[10..12].copy_from_slice(&queue.to_le_bytes());
    entry[12..14].copy_from_slice(&command.to_le_bytes());
    entry[14..16].copy_from_slice(&(completion.status << 1).to_le_bytes());
    frame(kind::RESPONSE, 0, &entry, &[])
}

fn transfer(command: u16, tag: u16, offset: u32, len: u32) -> [u8; 16] {
    let mut header = [0u8; 16];
    header[0..2].copy_from_slice(&command.to_le_bytes());
    header[2..4].copy_from_slice(&tag.to_le_bytes());
    header[4..8].copy_from_slice(&offset.to_le_bytes());
    header[8..12].copy_from_slice(&len.to_le_bytes());
    header
}

/// All data of a command for the host.
pub(crate) fn data_to_host(command: u16, data: &[u8]) -> Vec<u8> {
    frame(kind::C2H_DATA, LAST, &transfer(command, 0, 0, data.len() as u32), data)
}

/// Asks the host for the data of a command.
pub(crate) fn ready_to_transfer(command: u16, len: u32) -> Vec<u8> {
    frame(kind::R2T, 0, &transfer(command, command, 0, len), &[])
}

/// Command and offset of data from the host.
pub(crate) fn data_place(header: &[u8]) -> Option<(u16, usize)> {
    let command = u16::from_le_bytes(header.get(0..2)?.try_into().ok()?);
    let offset = u32::from_le_bytes(header.get(4..8)?.try_into().ok()?);
    Some((command, offset as usize))
}

/// A submission entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(pub(crate) [u8; 64]);

impl Entry {
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap_or_default())
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap_or_default())
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.0[0]
    }

    pub(crate) fn command(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }

    pub(crate) fn nsid(&self) -> u32 {
        self.u32(4)
    }

    /// Bytes of data, by the transport's descriptor.
    pub(crate) fn data_len(&self) -> u32 {
        self.u32(32)
    }

    /// Double word 10 to 15.
    pub(crate) fn cdw(&self, number: usize) -> u32 {
        self.u32(number * 4)
    }
}

/// Writes all of it.
pub(crate) fn send(to: &mut impl Write, frames: &[Vec<u8>]) -> io::Result<()> {
    let all: Vec<u8> = frames.concat();
    to.write_all(&all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_framed_is_read_back() {
        let framed = data_to_host(7, &[1, 2, 3]);
        assert_eq!(framed.len(), 27);
        let pdu = read(&mut framed.as_slice()).unwrap();
        assert_eq!((pdu.kind, pdu.data.as_slice()), (kind::C2H_DATA, &[1u8, 2, 3][..]));
        assert_eq!(data_place(&pdu.header), Some((7, 0)));
        assert_eq!(ic_resp(1 << 16).len(), 128);
        let done = Completion { result: 5, status: 0x281 };
        let answer = read(&mut response(9, 1, done).as_slice()).unwrap();
        assert_eq!(answer.header[12..16], [9, 0, 0x02, 0x05]);
    }

    proptest! {
        /// Whatever a host sends, it is a PDU or an error.
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(pdu) = read(&mut bytes.as_slice()) {
                prop_assert!(pdu.header.len() + pdu.data.len() <= bytes.len());
                let _ = data_place(&pdu.header);
            }
        }
    }
}
