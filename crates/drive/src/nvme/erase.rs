//! What destroys data: format, sanitize, and namespaces made anew. Reached only through
//! [`crate::Eraser`].

use super::{Command, Nvme, NvmeError, SanitizeState, sys};
use std::os::fd::AsFd;
use std::time::Duration;

impl Nvme {
    fn refuse<T>(&self, what: String) -> Result<T, NvmeError> {
        Err(NvmeError::Answer { path: self.path.clone(), what })
    }

    /// Refuses what would reach other namespaces of the drive: the permit is for one.
    fn alone(&self, what: &str) -> Result<(), NvmeError> {
        let others: Vec<String> = self
            .namespaces()?
            .into_iter()
            .filter(|&nsid| nsid != self.nsid)
            .map(|nsid| nsid.to_string())
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => self.refuse(format!(
                "{what} would also erase namespace {} of this drive; delete it first, or purge by \
                 deallocation (purge = \"discard\")",
                others.join(", ")
            )),
        }
    }

    /// Erases the user data of the namespace by Format NVM, keeping its LBA format.
    pub(crate) fn format(&self) -> Result<String, NvmeError> {
        let controller = self.controller()?;
        if !controller.commands.format {
            return self.refuse("the drive has no Format NVM command".into());
        }
        if controller.format_is_for_all || controller.erase_is_for_all {
            self.alone("Format NVM")?;
        }
        let format = self.namespace()?.format;
        self.send(&Command::format(self.nsid, format, 1), &mut [])?;
        let block = self.namespace()?.format_in_use().data_bytes;
        Ok(format!("Format NVM with user data erase, {block} B blocks"))
    }

    /// Sanitizes the whole drive and waits for the end. `each` is told the percent done and ends the
    /// waiting, not the sanitize, when it says false.
    pub(crate) fn sanitize(&self, each: &mut dyn FnMut(f64) -> bool) -> Result<String, NvmeError> {
        const LOOK: Duration = Duration::from_millis(200);
        let ways = self.controller()?.sanitize;
        let (action, name) = match ways {
            ways if ways.block => (2, "block erase"),
            ways if ways.crypto => (4, "crypto erase"),
            ways if ways.overwrite => (3, "overwrite"),
            _ => return self.refuse("the drive has no Sanitize command".into()),
        };
        self.alone("Sanitize")?;
        self.send(&Command::sanitize(action), &mut [])?;
        loop {
            let status = self.sanitize_status()?;
            match status.state {
                SanitizeState::Running => {
                    if !each(status.percent()) {
                        return self.refuse(
                            "interrupted; the drive goes on sanitizing and takes no I/O until it is done"
                                .into(),
                        );
                    }
                    std::thread::sleep(LOOK);
                }
                SanitizeState::Done => return Ok(format!("Sanitize by {name}")),
                state => return self.refuse(format!("Sanitize by {name} ended as {state:?}")),
            }
        }
    }

    /// Makes the namespace anew with this size in bytes, its blocks as they are: the rest of the drive
    /// becomes spare. `deleted` is called when the old one is gone. Gives the number and size of the new
    /// one; its block device appears again.
    pub(crate) fn resize(
        &self,
        bytes: u64,
        deleted: impl FnOnce(),
    ) -> Result<(u32, u64), NvmeError> {
        let controller = self.controller()?;
        if !controller.commands.namespaces {
            return self.refuse(
                "the drive cannot create and delete namespaces; leave the rest of it unwritten after a \
                 purge instead (range = \"...%\")"
                    .into(),
            );
        }
        let now = self.namespace()?;
        let format = now.format_in_use();
        let blocks = bytes / u64::from(format.data_bytes.max(512));
        let room = now.capacity_blocks * u64::from(format.data_bytes)
            + u64::try_from(controller.unallocated_capacity_bytes).unwrap_or(u64::MAX);
        if blocks == 0 || bytes > room {
            return self
                .refuse(format!("a namespace of {bytes} bytes does not fit, {room} are free"));
        }
        let mut controllers = vec![0u8; 4096];
        controllers[0] = 1;
        controllers[2..4].copy_from_slice(&controller.controller_id.to_le_bytes());
        self.send(&Command::delete_namespace(self.nsid), &mut [])?;
        deleted();
        let mut data = vec![0u8; 4096];
        data[0..8].copy_from_slice(&blocks.to_le_bytes());
        data[8..16].copy_from_slice(&blocks.to_le_bytes());
        data[26] = now.format & 0xf | (now.format >> 4) << 5;
        let nsid = self.send(&Command::create_namespace(), &mut data)?;
        self.send(&Command::attach_namespace(nsid, true), &mut controllers)?;
        let rescan = sys::rescan(self.file.as_fd());
        rescan.map_err(|error| NvmeError::System {
            path: self.path.clone(),
            command: "Rescan",
            error,
        })?;
        Ok((nsid, blocks * u64::from(format.data_bytes)))
    }
}
