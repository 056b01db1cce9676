//! The model drive as a host sees it on the wire (real TCP on this host; no kernel driver, no drive).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use target::{Model, ModelDrive, serve};

const NAME: &str = "nqn.2026-01.example:wire";

/// One queue of a host.
struct Host {
    stream: TcpStream,
    next: u16,
}

/// How a command ended: status, result, data.
type Ended = (u16, u64, Vec<u8>);

impl Host {
    fn connect(address: std::net::SocketAddr, queue: u16) -> Host {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = vec![0u8; 128];
        (request[2], request[4]) = (128, 128);
        stream.write_all(&request).unwrap();
        let mut answer = [0u8; 128];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], 1);
        let mut host = Host { stream, next: 0 };
        let mut connect = [0u8; 64];
        (connect[0], connect[4]) = (0x7f, 1);
        connect[42..44].copy_from_slice(&queue.to_le_bytes());
        let (status, controller, _) = host.run(connect, &[0u8; 1024], true);
        assert_eq!((status, controller & 0xffff), (0, 1));
        host
    }

    /// Sends a command, with its data in the capsule or when asked for, and waits for its end.
    fn run(&mut self, mut entry: [u8; 64], data: &[u8], in_capsule: bool) -> Ended {
        self.next += 1;
        entry[2..4].copy_from_slice(&self.next.to_le_bytes());
        let inside: &[u8] = if in_capsule { data } else { &[] };
        if !data.is_empty() {
            entry[32..36].copy_from_slice(&(data.len() as u32).to_le_bytes());
        }
        let mut frame = vec![4u8, 0, 72, if inside.is_empty() { 0 } else { 72 }];
        frame.extend((72 + inside.len() as u32).to_le_bytes());
        frame.extend(entry);
        frame.extend(inside);
        self.stream.write_all(&frame).unwrap();
        let mut got = Vec::new();
        loop {
            let mut head = [0u8; 8];
            self.stream.read_exact(&mut head).unwrap();
            let len = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
            let mut rest = vec![0u8; len - 8];
            self.stream.read_exact(&mut rest).unwrap();
            match head[0] {
                5 => {
                    let status = u16::from_le_bytes([rest[14], rest[15]]) >> 1;
                    return (status, u64::from_le_bytes(rest[..8].try_into().unwrap()), got);
                }
                7 => got.extend(&rest[16..]),
                9 => {
                    let mut header = rest[..4].to_vec();
                    header.extend([0u8; 4]);
                    header.extend((data.len() as u32).to_le_bytes());
                    header.extend([0u8; 4]);
                    let mut frame = vec![6u8, 4, 24, 24];
                    frame.extend((24 + data.len() as u32).to_le_bytes());
                    frame.extend(header);
                    frame.extend(data);
                    self.stream.write_all(&frame).unwrap();
                }
                other => panic!("a PDU of type {other}"),
            }
        }
    }

    /// A read (2) or write (1) of blocks of 512 bytes.
    fn io(&mut self, opcode: u8, lba: u64, blocks: u16, data: &[u8]) -> Ended {
        let mut entry = [0u8; 64];
        (entry[0], entry[4]) = (opcode, 1);
        entry[32..36].copy_from_slice(&(u32::from(blocks) * 512).to_le_bytes());
        entry[40..48].copy_from_slice(&lba.to_le_bytes());
        entry[48..50].copy_from_slice(&(blocks - 1).to_le_bytes());
        self.run(entry, data, false)
    }

    fn admin(&mut self, opcode: u8, cdw10: u32, cdw11: u32, bytes: u32) -> Ended {
        let mut entry = [0u8; 64];
        (entry[0], entry[4]) = (opcode, 1);
        entry[32..36].copy_from_slice(&bytes.to_le_bytes());
        entry[40..44].copy_from_slice(&cdw10.to_le_bytes());
        entry[44..48].copy_from_slice(&cdw11.to_le_bytes());
        self.run(entry, &[], false)
    }
}

#[test]
fn what_is_written_is_read_and_counted() {
    let drive = ModelDrive::new(Model::default());
    let server = serve(&drive, NAME, "127.0.0.1:0").unwrap();
    let (mut admin, mut io) = (Host::connect(server.address, 0), Host::connect(server.address, 1));
    let data: Vec<u8> = (0..8192u32).map(|n| (n * 7) as u8).collect();
    assert_eq!(io.io(1, 100, 16, &data).0, 0);
    assert_eq!(io.io(2, 100, 16, &[]), (0, 0, data.clone()));
    assert_eq!(io.io(2, 99, 1, &[]).2, vec![0; 512]);
    // Beyond the end: LBA out of range.
    assert_eq!(io.io(2, (64 << 20) / 512, 1, &[]).0 & 0x7ff, 0x80);
    let health = admin.admin(0x02, 2 | 127 << 16, 0, 512).2;
    assert_eq!((health[64], health[80]), (2, 1), "two reads, one write");
    let page = admin.admin(0x06, 1, 0, 4096).2;
    assert_eq!(page[4..11], *b"MODEL-1");
    assert_eq!(page[263], 2, "three power states");
}

#[test]
fn states_heat_and_sanitize_do_what_they_say() {
    let model = Model { io_ns: 2_000_000, sanitize_ns: 300_000_000, ..Model::default() };
    let drive = ModelDrive::new(model);
    let server = serve(&drive, NAME, "127.0.0.1:0").unwrap();
    let (mut admin, mut io) = (Host::connect(server.address, 0), Host::connect(server.address, 1));
    let ms = |io: &mut Host| {
        let start = Instant::now();
        assert_eq!(io.io(2, 0, 8, &[]).0, 0);
        start.elapsed().as_millis()
    };
    assert!(ms(&mut io) >= 2);
    assert_eq!(admin.admin(0x09, 2, 2, 0).0, 0);
    assert!(ms(&mut io) >= 8, "four times as long in the last power state");
    assert_eq!(admin.admin(0x09, 2, 9, 0).0 & 0x7ff, 2, "no power state 9");
    assert_eq!(admin.admin(0x0A, 2, 0, 0).1, 2);
    drive.set_temperature(350);
    let health = admin.admin(0x02, 2 | 127 << 16, 0, 512).2;
    assert_eq!((health[0], u16::from_le_bytes([health[1], health[2]])), (2, 350));
    assert_eq!(io.io(1, 0, 8, &[5; 4096]).0, 0);
    assert_eq!(admin.admin(0x84, 2, 0, 0).0, 0);
    assert_eq!(io.io(2, 0, 8, &[]).0, 0x1d, "sanitize is going on");
    let state = |admin: &mut Host| admin.admin(0x02, 0x81 | 127 << 16, 0, 512).2[2];
    assert_eq!(state(&mut admin), 2);
    while state(&mut admin) == 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(io.io(2, 0, 8, &[]).2, vec![0; 4096]);
}

#[test]
fn a_virtual_drive_gives_the_time_of_each_io() {
    let timing = sim::VirtualTarget::parse("sim:d5-p5430,capacity=1GB,noise=0").unwrap();
    let drive = ModelDrive::new(Model { timing: Some(timing), ..Model::default() });
    let server = serve(&drive, NAME, "127.0.0.1:0").unwrap();
    let mut io = Host::connect(server.address, 1);
    let data = vec![9u8; 4096];
    assert_eq!(io.io(1, 0, 8, &data).0, 0);
    for _ in 0..50 {
        let start = Instant::now();
        assert_eq!(io.io(2, 0, 8, &[]).2, data);
        // No read of the flash is faster, however fast the host is.
        assert!(start.elapsed().as_micros() >= 40, "{:?}", start.elapsed());
    }
}

#[test]
fn a_host_that_sends_nonsense_harms_nobody() {
    let drive = ModelDrive::new(Model::default());
    let server = serve(&drive, NAME, "127.0.0.1:0").unwrap();
    for nonsense in
        [vec![0xff; 64], vec![4, 0, 72, 0, 0xff, 0xff, 0xff, 0x7f], vec![6, 0, 8, 0, 8, 0, 0, 0]]
    {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&nonsense).unwrap();
    }
    let mut admin = Host::connect(server.address, 0);
    assert_eq!(admin.admin(0x06, 1, 0, 4096).0, 0);
}
