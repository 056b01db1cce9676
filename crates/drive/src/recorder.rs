//! Recording of what is done to a block device, from the kernel's own block events (tracefs), in an
//! instance of their own that ends with the recorder.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the kernel's tracing is usually mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What is recorded: as applications ask, and when the device was done.
const EVENTS: [&str; 2] = ["block_bio_queue", "block_rq_complete"];
/// Room for what was not read yet, for each CPU, in KiB.
const BUFFER_KIB: &str = "16384";

/// Major and minor number of a device.
///
/// # Errors
/// When the device is gone.
pub fn device_number(name: &str) -> Result<(u32, u32), String> {
    let path = format!("/sys/class/block/{name}/dev");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let parse = || {
        let (major, minor) = text.trim().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    parse().ok_or_else(|| format!("{path}: is no device number: {text}"))
}

/// A recording in progress.
pub struct Recorder {
    instance: PathBuf,
    pipe: File,
}

impl Recorder {
    /// Records one device, by its major and minor number.
    ///
    /// # Errors
    /// When the kernel's tracing cannot be used, with what to do.
    pub fn start(device: (u32, u32)) -> Result<Recorder, String> {
        let root = MOUNTS.iter().map(Path::new).find(|root| root.join("instances").is_dir());
        let Some(root) = root else {
            return Err(
                "the kernel's tracing is not to be seen; it needs root and `mount -t tracefs tracefs \
                 /sys/kernel/tracing`, or record with blktrace"
                    .into(),
            );
        };
        let instance = root.join(format!("instances/fathom-{}", std::process::id()));
        std::fs::create_dir(&instance).map_err(|error| {
            format!("{}: cannot be made: {error}; tracing needs root", instance.display())
        })?;
        match set_up(&instance, device) {
            Ok(pipe) => Ok(Recorder { instance, pipe }),
            Err(why) => {
                let _ = std::fs::remove_dir(&instance);
                Err(why)
            }
        }
    }

    /// Adds what was recorded since; gives its bytes, 0 when there is nothing new.
    ///
    /// # Errors
    /// When it cannot be read any more.
    pub fn read(&mut self, into: &mut Vec<u8>) -> std::io::Result<usize> {
        let mut bytes = [0; 1 << 16];
        match self.pipe.read(&mut bytes) {
            Ok(n) => {
                into.extend_from_slice(&bytes[..n]);
                Ok(n)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Ends the recording; what was recorded can still be read.
    pub fn stop(&self) {
        let _ = std::fs::write(self.instance.join("tracing_on"), "0");
    }
}

fn set_up(instance: &Path, device: (u32, u32)) -> Result<File, String> {
    let put = |name: &str, value: &str| {
        let path = instance.join(name);
        std::fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    };
    put("buffer_size_kb", BUFFER_KIB)?;
    put("trace_clock", "mono")?;
    for event in EVENTS {
        put(
            &format!("events/block/{event}/filter"),
            &format!("dev == {}", device.0 << 20 | device.1),
        )?;
        put(&format!("events/block/{event}/enable"), "1")?;
    }
    let path = instance.join("trace_pipe");
    let mut options = OpenOptions::new();
    let pipe = options.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    pipe.map_err(|error| format!("{}: {error}", path.display()))
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
        for event in EVENTS {
            let _ = std::fs::write(self.instance.join(format!("events/block/{event}/enable")), "0");
        }
        // An instance cannot go while its pipe is open.
        if let Ok(null) = File::open("/dev/null") {
            self.pipe = null;
        }
        let _ = std::fs::remove_dir(&self.instance);
    }
}
