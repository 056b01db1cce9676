//! Block devices that behave as a test wants: QEMU's storage daemon behind FUSE and a loop device. Root
//! only.

use crate::loopdev::LoopDevice;
use crate::{not_run, tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A device that stands on a block node of the daemon.
pub struct Behaving {
    /// The loop device.
    pub disk: LoopDevice,
    _daemon: Daemon,
}

struct Daemon {
    child: Child,
    export: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = tool("umount", &["-l", &self.export.display().to_string()]);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a device over the node named `top` of `nodes`; `objects` come before. None, said loudly, where
/// the daemon or FUSE is missing.
pub fn behaving(folder: &Path, objects: &[&str], nodes: &[Value], top: &str) -> Option<Behaving> {
    if !Path::new("/dev/fuse").exists()
        || Command::new("qemu-storage-daemon").arg("-V").output().is_err()
    {
        not_run("needs /dev/fuse and qemu-storage-daemon");
        return None;
    }
    let export = folder.join("export");
    std::fs::write(&export, "").expect("a file to export on");
    let mut command = Command::new("qemu-storage-daemon");
    for object in objects {
        command.args(["--object", object]);
    }
    for node in nodes {
        command.args(["--blockdev", &node.to_string()]);
    }
    let mount =
        format!("type=fuse,id=e0,node-name={top},mountpoint={},writable=on", export.display());
    command.args(["--export", &mount]).stdin(Stdio::null()).stdout(Stdio::null());
    let daemon = Daemon { child: command.spawn().expect("the daemon starts"), export };
    for _ in 0..100 {
        if std::fs::metadata(&daemon.export).is_ok_and(|meta| meta.len() > 0) {
            let disk = LoopDevice::over(&daemon.export, &["--direct-io=on", "-b", "4096"]);
            return Some(Behaving { disk, _daemon: daemon });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the daemon exports nothing");
}
