//! Over-provisioning by namespace: before a run opens its target, the namespace is made anew, smaller.

use crate::error::RunError;
use base::units::Bytes;
use drive::{Device, Permit, Subject, discover};
use plan::Extent;
use std::path::PathBuf;
use std::time::Duration;

/// Looks for the block device of the new namespace this often, 100 ms apart.
const TRIES: u32 = 100;

/// Makes the namespace behind `subject` anew with this capacity; the rest of the drive is spare. What is
/// on it is lost: `destroy` must name it. Gives the new block device and what was done.
///
/// # Errors
/// When writing is refused, or the drive cannot do it.
pub fn over_provision(
    subject: &Subject,
    capacity: Extent,
    destroy: &[String],
) -> Result<(PathBuf, String), RunError> {
    let wrong = |what: String| RunError::NotHere(format!("{}: {what}", subject.name()));
    let Some(device) = subject.device().filter(|device| device.controller.is_some()) else {
        return Err(wrong("is no NVMe drive: over_provision makes a namespace anew".into()));
    };
    let permit = Permit::check(subject, destroy)?;
    let system = |error| drive::Refusal::System { path: subject.path.clone(), error };
    let eraser = permit.open().map_err(system)?.eraser;
    let eraser = eraser.ok_or_else(|| wrong("was not opened for writing".into()))?;
    let nvme = eraser.nvme().ok_or_else(|| wrong("is no NVMe drive".into()))?;
    let nvme = nvme.map_err(|error| wrong(error.to_string()))?;
    let controller = nvme.controller().map_err(|error| wrong(error.to_string()))?;
    let spare = u64::try_from(controller.unallocated_capacity_bytes).unwrap_or(0);
    let bytes = match capacity {
        Extent::Bytes(bytes) => bytes,
        Extent::Percent(_) => capacity.resolve(Bytes(device.size_bytes + spare)),
    };
    let block = device.logical_block_bytes.max(512);
    if bytes.0 / block * block == device.size_bytes {
        let text = format!("{}: has {bytes} already", subject.name());
        return Ok((subject.path.clone(), text));
    }
    let before = device.size_bytes;
    let (nsid, size) = eraser.resize(bytes.0).map_err(wrong)?;
    let node = wait_for(device, nsid, size).ok_or_else(|| {
        wrong(format!("namespace {nsid} of {size} bytes was made, but no block device appeared"))
    })?;
    let text = format!(
        "{}: namespace made anew: {size} bytes instead of {before}, the rest is spare; everything on it \
         is gone",
        node.display()
    );
    Ok((node, text))
}

fn wait_for(device: &Device, nsid: u32, size: u64) -> Option<PathBuf> {
    for _ in 0..TRIES {
        let is_it = |other: &Device| {
            (other.controller == device.controller || other.serial == device.serial)
                && other.nsid == Some(nsid)
                && other.size_bytes == size
        };
        if let Some(found) = discover().into_iter().find(is_it) {
            return Some(found.path);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}
