//! One virtual machine: its drives, its console, its end.

use crate::qmp::Qmp;
use blackbox::{not_run, program};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// An emulated NVMe controller with its namespaces.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Serial number, also its name in QEMU.
    pub serial: String,
    /// Block sizes of its namespaces, one each.
    pub namespaces: Vec<u32>,
    /// NUMA node; none puts it straight on the main bus.
    pub node: Option<u32>,
    /// Block node to stand on instead of a sparse file, for the first namespace.
    pub backing: Option<String>,
}

impl Drive {
    /// A drive with one namespace.
    pub fn new(serial: &str, block: u32) -> Drive {
        Drive { serial: serial.into(), namespaces: vec![block], node: None, backing: None }
    }

    /// On a NUMA node, behind a root port.
    pub fn on_node(self, node: u32) -> Drive {
        Drive { node: Some(node), ..self }
    }
}

/// What to boot.
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// What the guest does.
    pub scenario: &'static str,
    /// Its drives.
    pub drives: Vec<Drive>,
    /// Two NUMA nodes with a processor each.
    pub numa: bool,
    /// More for the kernel's command line.
    pub kernel: String,
    /// More for QEMU.
    pub extra: Vec<String>,
}

/// Size of every namespace in bytes.
const NAMESPACE_BYTES: u64 = 256 << 20;

/// One check in a guest.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// What was seen, or what went wrong.
    pub text: String,
    /// How long it took in the guest, in milliseconds.
    pub ms: u64,
}

/// What a machine did.
#[derive(Debug)]
pub struct Report {
    /// The checks in order.
    pub checks: Vec<Check>,
}

impl Report {
    /// The names of the checks, all of which held.
    ///
    /// # Panics
    /// When one did not, or there were fewer than `least`.
    pub fn passed(&self, least: usize) {
        for check in &self.checks {
            let Check { name, text, ms, .. } = check;
            println!("  {} {name} ({ms} ms): {text}", if check.ok { "ok  " } else { "FAIL" });
        }
        let failed: Vec<&Check> = self.checks.iter().filter(|check| !check.ok).collect();
        println!("{} passed, {} failed", self.checks.len() - failed.len(), failed.len());
        assert!(failed.is_empty(), "{} checks failed in the guest", failed.len());
        assert!(self.checks.len() >= least, "{} checks, {least} are expected", self.checks.len());
    }
}

/// Builds what guests boot from, once; none, said loudly, where it cannot be had.
pub fn ready() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join("../../target/testbed");
    fs::create_dir_all(&folder).expect("a folder");
    let lock = File::create(folder.join("lock")).expect("a lock file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let script = here.join("image.sh");
    let made = Command::new("bash").arg(script).arg(&folder).output().expect("bash starts");
    if !made.status.success() {
        let text = String::from_utf8_lossy(&made.stderr);
        let why =
            text.lines().rfind(|line| line.starts_with("testbed:")).unwrap_or(&text).to_owned();
        not_run(&format!("no virtual machine here: {why}"));
        return None;
    }
    Some(fs::canonicalize(folder).expect("the folder"))
}

/// The program that runs in the guest, built beside the one under test.
fn guest() -> PathBuf {
    let path = program().with_file_name("guest");
    assert!(path.is_file(), "{}: build it (make testbed)", path.display());
    path
}

/// A running machine. It is killed when dropped.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    transcript: Vec<String>,
    checks: Vec<Check>,
    qmp: Qmp,
    folder: tempdir::Folder,
    deadline: Instant,
}

mod tempdir {
    use std::path::PathBuf;

    /// A folder that is removed in the end.
    #[derive(Debug)]
    pub(super) struct Folder(pub(super) PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// No machine lives longer.
const LIFE: Duration = Duration::from_secs(300);

impl Machine {
    /// Boots a machine.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn boot(image: &Path, boot: &Boot) -> Machine {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = image.join(format!("run-{}-{n}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let initrd = folder.join("initrd.cpio");
        join_initrd(image, &folder, &initrd);
        let qmp = folder.join("qmp");
        let mut command = Command::new("qemu-system-x86_64");
        command.args(arguments(image, &folder, &initrd, &qmp, boot));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("qemu starts");
        let (out, lines) = channel();
        let stdout = child.stdout.take().expect("the console");
        let stderr = child.stderr.take().expect("the messages");
        let messages = out.clone();
        for (reader, out) in
            [(Box::new(stdout) as Box<dyn std::io::Read + Send>, out), (Box::new(stderr), messages)]
        {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(reader);
                let mut raw = Vec::new();
                while reader.read_until(b'\n', &mut raw).is_ok_and(|n| n > 0) {
                    let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
                    raw.clear();
                    if out.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let stdin = child.stdin.take().expect("the console's input");
        let connected = Qmp::connect(&qmp);
        let qmp = connected.unwrap_or_else(|error| {
            let _ = child.kill();
            let said: Vec<String> = lines.iter().collect();
            panic!("no monitor: {error}\n{}", said.join("\n"))
        });
        Machine {
            child,
            stdin,
            lines,
            transcript: Vec::new(),
            checks: Vec::new(),
            qmp,
            folder: tempdir::Folder(folder),
            deadline: Instant::now() + LIFE,
        }
    }

    /// Waits until the guest says that it is ready for `what`.
    ///
    /// # Panics
    /// When it ends before, or takes too long; the console is shown.
    pub fn wait_for(&mut self, what: &str) {
        let word = format!("READY {what}");
        while let Some(line) = self.next_line() {
            if line.trim() == word {
                return;
            }
        }
        self.fail(&format!("the guest ended before {word}"));
    }

    /// Tells the guest to go on.
    pub fn go(&mut self) {
        writeln!(self.stdin, "GO").expect("the guest listens");
    }

    /// Sends a command to QEMU's monitor.
    ///
    /// # Panics
    /// When it is refused.
    pub fn qmp(&mut self, command: &str, arguments: Value) -> Value {
        match self.qmp.send(command, arguments) {
            Ok(value) => value,
            Err(error) => self.fail(&format!("qmp: {error}")),
        }
    }

    /// Waits for the guest's end.
    ///
    /// # Panics
    /// When it does not come, or the guest did not end by itself; the console is shown.
    pub fn finish(mut self) -> Report {
        while self.next_line().is_some() {}
        let ended = self.transcript.iter().any(|line| line.trim() == "GUEST EXIT 0");
        let failed = self.checks.iter().any(|check| !check.ok);
        if !ended || failed {
            eprintln!("{}", self.transcript.join("\n"));
        }
        assert!(ended, "the guest did not come to its end");
        Report { checks: std::mem::take(&mut self.checks) }
    }

    /// Cuts the power: nothing of the machine is left but what its drives hold.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn power_cut(mut self) {
        self.child.kill().expect("the machine is killed");
        self.child.wait().expect("it is gone");
    }

    /// A folder on the host that lives as long as the machine.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    fn next_line(&mut self) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                if let Some(check) = line.split_once("CHECK ").and_then(|(_, json)| check_of(json))
                {
                    self.checks.push(check);
                }
                self.transcript.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Timeout) => self.fail("the guest takes too long"),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn fail(&mut self, why: &str) -> ! {
        let _ = self.child.kill();
        panic!("{why}; its console:\n{}", self.transcript.join("\n"));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn check_of(json: &str) -> Option<Check> {
    let value: Value = serde_json::from_str(json).ok()?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Some(Check {
        name: text("name"),
        ok: value["ok"].as_bool()?,
        text: text("text"),
        ms: value["ms"].as_u64()?,
    })
}

/// The root file system with the programs under test behind it: the kernel unpacks one after the other.
fn join_initrd(image: &Path, folder: &Path, initrd: &Path) {
    let bin = folder.join("more/bin");
    fs::create_dir_all(&bin).expect("a folder");
    // Without its symbols it is a fifth as large, and boots sooner.
    let strip = ["--strip-all", "-o"].map(str::to_owned).into_iter();
    let paths = [bin.join("fathom"), program()].map(|path| path.display().to_string());
    let stripped = Command::new("strip").args(strip.chain(paths)).status().expect("strip starts");
    assert!(stripped.success(), "fathom cannot be stripped");
    fs::copy(guest(), bin.join("guest")).expect("the guest's program is copied");
    let base = image.join("base.cpio");
    let pack = format!(
        "cat '{}' > '{}' && cd '{}' && find . | cpio -o -H newc --quiet >> '{}'",
        base.display(),
        initrd.display(),
        folder.join("more").display(),
        initrd.display()
    );
    let packed = Command::new("sh").args(["-c", &pack]).status().expect("sh starts");
    assert!(packed.success(), "the root file system cannot be packed");
}

fn arguments(image: &Path, folder: &Path, initrd: &Path, qmp: &Path, boot: &Boot) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1024"]);
    add(&["-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio", "-smp", "2"]);
    add(&["-qmp", &format!("unix:{},server=on,wait=off", qmp.display())]);
    add(&["-kernel", &image.join("vmlinux").display().to_string()]);
    add(&["-initrd", &initrd.display().to_string()]);
    let line = format!(
        "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nvme_core.multipath={} {} scenario={}",
        if boot.kernel.contains("multipath=Y") { "Y" } else { "N" },
        boot.kernel,
        boot.scenario
    );
    add(&["-append", &line]);
    if boot.numa {
        for node in 0..2 {
            add(&["-object", &format!("memory-backend-ram,id=m{node},size=512M")]);
            add(&["-numa", &format!("node,nodeid={node},cpus={node},memdev=m{node}")]);
            let bus = 32 * (node + 1);
            let bridge = format!("pxb-pcie,id=px{node},bus=pcie.0,bus_nr={bus},numa_node={node}");
            add(&["-device", &bridge]);
        }
    }
    for (n, drive) in boot.drives.iter().enumerate() {
        add(&drive_arguments(n, drive, folder).iter().map(String::as_str).collect::<Vec<_>>());
    }
    add(&boot.extra.iter().map(String::as_str).collect::<Vec<_>>());
    all
}

/// An emulated drive with its port and its namespaces.
fn drive_arguments(n: usize, drive: &Drive, folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
    let bus = drive.node.map(|node| {
        let port = format!(
            "pcie-root-port,id=rp{n},bus=px{node},chassis={},slot={},x-speed=16,x-width=4",
            n + 1,
            n + 1
        );
        add(&["-device", &port]);
        format!(",bus=rp{n}")
    });
    let serial = &drive.serial;
    let bus = bus.unwrap_or_else(|| ",bus=pcie.0".into());
    add(&["-device", &format!("nvme,id=ctl{n},serial={serial}{bus}")]);
    for (index, block) in drive.namespaces.iter().enumerate() {
        let node = match drive.backing.as_ref().filter(|_| index == 0) {
            Some(node) => node.clone(),
            None => {
                let file = folder.join(format!("{serial}-{index}"));
                let made = File::create(&file).and_then(|f| f.set_len(NAMESPACE_BYTES));
                made.expect("a file for a namespace");
                let name = format!("f{n}x{index}");
                let backing = format!(
                    "driver=file,node-name={name},filename={},discard=unmap",
                    file.display()
                );
                add(&["-blockdev", &backing]);
                name
            }
        };
        let nsid = index + 1;
        add(&[
            "-device",
            &format!(
                "nvme-ns,drive={node},bus=ctl{n},nsid={nsid},logical_block_size={block},\
                 physical_block_size={block}"
            ),
        ]);
    }
    all
}
