//! Loop devices, detached at the end.

use crate::{must, tool};
use std::path::{Path, PathBuf};

/// A loop device over a file.
pub struct LoopDevice {
    /// Its node.
    pub node: PathBuf,
    /// The word that names it in `--destroy`.
    pub identity: String,
}

impl LoopDevice {
    /// Attaches a new sparse file of `bytes`.
    ///
    /// # Panics
    /// When the file or the device cannot be made.
    pub fn new(folder: &Path, name: &str, bytes: u64) -> LoopDevice {
        let file = folder.join(name);
        std::fs::File::create(&file).and_then(|file| file.set_len(bytes)).expect("a backing file");
        LoopDevice::over(&file, &["--partscan"])
    }

    /// Attaches a file that exists.
    ///
    /// # Panics
    /// When the device cannot be made.
    pub fn over(file: &Path, options: &[&str]) -> LoopDevice {
        let path = file.display().to_string();
        let mut args = vec!["--find", "--show"];
        args.extend(options);
        args.push(&path);
        let node = PathBuf::from(must("losetup", &args));
        LoopDevice { node, identity: path }
    }

    /// The node as text.
    pub fn text(&self) -> String {
        self.node.display().to_string()
    }

    /// Kernel name.
    pub fn name(&self) -> String {
        self.node.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.text()]);
    }
}

/// A mount, unmounted at the end.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a node at a folder, which is made.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn new(args: &[&str], at: &Path) -> Mounted {
        std::fs::create_dir_all(at).expect("a mount point");
        let at_text = at.display().to_string();
        let mut all = args.to_vec();
        all.push(&at_text);
        must("mount", &all);
        Mounted(at.to_owned())
    }

    /// Where.
    pub fn at(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &["--lazy", &self.0.display().to_string()]);
    }
}
