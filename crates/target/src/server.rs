//! Connections: one for each queue.

use crate::admin;
use crate::identify::VERSION;
use crate::io;
use crate::model::ModelDrive;
use crate::pace::Timed;
use crate::pdu::{self, Completion, Entry, kind};
use std::collections::HashMap;
use std::io::{BufReader, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most data of one PDU from the host.
const DATA_MAX: u32 = 1 << 20;
const FABRICS: u8 = 0x7f;
const ASYNC_EVENT: u8 = 0x0C;

/// A served drive.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
}

/// Serves a drive under a qualified name on an address; port 0 takes a free one. It is served until the
/// process ends.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(drive: &ModelDrive, name: &str, address: &str) -> Result<Server> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let controller = Controller {
        drive: drive.clone(),
        name: name.to_owned(),
        configuration: Arc::new(AtomicU32::new(0)),
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let controller = controller.clone();
            // A host that goes away ends its connection, and nothing else.
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let _ = Connection::run(controller, stream);
            });
        }
    });
    Ok(Server { address })
}

#[derive(Clone, Debug)]
struct Controller {
    drive: ModelDrive,
    name: String,
    /// The register CC.
    configuration: Arc<AtomicU32>,
}

/// A command whose data is on its way.
struct Pending {
    entry: Entry,
    data: Vec<u8>,
    got: usize,
}

struct Connection {
    controller: Controller,
    out: Arc<Mutex<TcpStream>>,
    queue: u16,
    pending: HashMap<u16, Pending>,
}

impl Connection {
    fn run(controller: Controller, stream: TcpStream) -> Result<()> {
        let out = Arc::new(Mutex::new(stream.try_clone()?));
        let mut connection = Connection { controller, out, queue: 0, pending: HashMap::new() };
        let mut from = BufReader::with_capacity(1 << 16, stream);
        loop {
            let pdu = pdu::read(&mut from)?;
            match pdu.kind {
                kind::IC_REQ => connection.send(&[pdu::ic_resp(DATA_MAX)])?,
                kind::COMMAND => connection.command(&pdu.header, pdu.data)?,
                kind::H2C_DATA => connection.data(&pdu.header, &pdu.data)?,
                _ => return Ok(()),
            }
        }
    }

    fn send(&self, frames: &[Vec<u8>]) -> Result<()> {
        send(&self.out, frames)
    }

    fn respond(&self, entry: &Entry, completion: Completion) -> Result<()> {
        self.send(&[pdu::response(entry.command(), self.queue, completion)])
    }

    fn command(&mut self, header: &[u8], data: Vec<u8>) -> Result<()> {
        let Some(raw) = header.get(..64).and_then(|raw| <[u8; 64]>::try_from(raw).ok()) else {
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        let entry = Entry(raw);
        if entry.opcode() == FABRICS {
            let completion = self.fabrics(&entry);
            return self.respond(&entry, completion);
        }
        let is_io = self.queue > 0;
        let wants = if is_io { io::takes_data(&entry) } else { admin_takes_data(&entry) };
        let len = entry.data_len();
        if wants && data.is_empty() && len > 0 {
            if len > DATA_MAX {
                return self.respond(&entry, Completion { result: 0, status: 0x4002 });
            }
            let pending = Pending { entry, data: vec![0; len as usize], got: 0 };
            self.pending.insert(entry.command(), pending);
            return self.send(&[pdu::ready_to_transfer(entry.command(), len)]);
        }
        self.execute(&entry, &data)
    }

    /// Data from the host; the command is carried out with its last byte.
    fn data(&mut self, header: &[u8], data: &[u8]) -> Result<()> {
        let Some((command, offset)) = pdu::data_place(header) else { return Ok(()) };
        let Some(pending) = self.pending.get_mut(&command) else { return Ok(()) };
        let Some(place) = pending.data.get_mut(offset..offset + data.len()) else {
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        place.copy_from_slice(data);
        pending.got += data.len();
        if pending.got < pending.data.len() {
            return Ok(());
        }
        match self.pending.remove(&command) {
            Some(whole) => self.execute(&whole.entry, &whole.data),
            None => Ok(()),
        }
    }

    fn execute(&self, entry: &Entry, data: &[u8]) -> Result<()> {
        let drive = &self.controller.drive;
        if self.queue == 0 {
            if entry.opcode() == ASYNC_EVENT {
                return Ok(()); // Answered when something happens: the host looks by itself.
            }
            let (completion, data) = admin::run(drive, &self.controller.name, entry, data);
            return self.send(&frames(entry, 0, completion, data));
        }
        let outcome = io::run(drive, self.queue, entry, data);
        let answer = frames(entry, self.queue, outcome.completion, outcome.data);
        let Some((write, offset, len)) = outcome.timed else {
            return self.send(&answer);
        };
        let out = self.out.clone();
        let done = Box::new(move || drop(send(&out, &answer)));
        drive.pace.submit(Timed { write, offset, len, done }, outcome.slower);
        Ok(())
    }

    fn fabrics(&mut self, entry: &Entry) -> Completion {
        let offset = entry.u32(44);
        match entry.0[4] {
            // Property Set.
            0x00 => {
                if offset == 0x14 {
                    self.controller.configuration.store(entry.u32(48), Ordering::Relaxed);
                }
                Completion::default()
            }
            // Connect: the queue's number; the controller's is 1.
            0x01 => {
                self.queue = u16::from_le_bytes([entry.0[42], entry.0[43]]);
                Completion { result: 1, status: 0 }
            }
            // Property Get.
            0x04 => Completion { result: self.property(offset), status: 0 },
            _ => Completion { result: 0, status: admin::status::INVALID_FIELD },
        }
    }

    fn property(&self, offset: u32) -> u64 {
        const SHUTDOWN: u32 = 3 << 14;
        let configuration = self.controller.configuration.load(Ordering::Relaxed);
        match offset {
            // CAP: 128 entries, contiguous queues, 10 s, the NVM command set.
            0x00 => 127 | 1 << 16 | 20 << 24 | 1 << 37,
            0x08 => u64::from(VERSION),
            0x14 => u64::from(configuration),
            // CSTS: ready when enabled; shut down when asked.
            0x1C => {
                u64::from(configuration & 1)
                    | if configuration & SHUTDOWN != 0 { 2 << 2 } else { 0 }
            }
            _ => 0,
        }
    }
}

fn send(out: &Mutex<TcpStream>, frames: &[Vec<u8>]) -> Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    pdu::send(&mut *out, frames)
}

fn frames(entry: &Entry, queue: u16, completion: Completion, data: Vec<u8>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    if completion.status == 0 && !data.is_empty() {
        all.push(pdu::data_to_host(entry.command(), &data));
    }
    all.push(pdu::response(entry.command(), queue, completion));
    all
}

/// Namespace management and attachment, set features, and others that bring data.
fn admin_takes_data(entry: &Entry) -> bool {
    matches!(entry.opcode(), 0x0D | 0x15) && entry.data_len() > 0
}
