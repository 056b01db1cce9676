//! The ledger: what was written to a drive since its purge, kept across runs, a small file a drive.
//!
//! It only knows what Fathom did. Whether somebody else wrote in between is for the caller to check,
//! by the state that was noted with the last entry.

use crate::error::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is known of a drive.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LedgerEntry {
    /// Serial number or what stands for it.
    pub identity: String,
    /// Capacity in bytes when the entry was made.
    pub size_bytes: u64,
    /// The last purge by Fathom; none when it never purged the drive.
    pub purge: Option<LedgerPurge>,
    /// Bytes written by Fathom since that purge, or since the first entry.
    pub written_bytes: u64,
    /// Steps since the purge that wrote, in order.
    pub steps: Vec<LedgerStep>,
    /// What the drive and the host said of the drive after the last write: to see whether somebody
    /// else wrote since.
    pub state: Value,
    /// When the entry was changed, ms since the Unix epoch.
    pub updated_unix_ms: u64,
}

/// A purge.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LedgerPurge {
    /// How.
    pub method: String,
    /// When, ms since the Unix epoch.
    pub unix_ms: u64,
}

/// A step that wrote.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LedgerStep {
    /// What it did, in words that two equal steps share.
    pub what: String,
    /// Bytes written.
    pub bytes: u64,
    /// The run file.
    pub run: String,
    /// Whether it came to its end.
    pub whole: bool,
}

/// The folder of ledgers.
#[derive(Clone, Debug)]
pub struct Ledger {
    folder: PathBuf,
}

impl Ledger {
    /// Ledgers in a folder, which is made when something is noted.
    pub fn new(folder: &Path) -> Ledger {
        Ledger { folder: folder.to_owned() }
    }

    fn path(&self, identity: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        // Two identities that look the same in a file name stay two.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        identity.bytes().for_each(|b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let name: String = identity.chars().map(plain).take(80).collect();
        self.folder.join(format!("{name}-{hash:08x}.json", hash = hash as u32))
    }

    /// What is known of a drive; none when nothing is.
    ///
    /// # Errors
    /// When its file is there and cannot be read.
    pub fn read(&self, identity: &str) -> Result<Option<LedgerEntry>, StoreError> {
        let path = self.path(identity);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::System { path, error }),
        };
        let entry: LedgerEntry = serde_json::from_slice(&text)
            .map_err(|error| StoreError::Ledger { path, why: format!("is damaged: {error}") })?;
        Ok((entry.identity == identity).then_some(entry))
    }

    /// Keeps what is known of a drive, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, entry: &LedgerEntry) -> Result<(), StoreError> {
        let path = self.path(&entry.identity);
        let system = |error| StoreError::System { path: path.clone(), error };
        fs::create_dir_all(&self.folder).map_err(system)?;
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        let text = serde_json::to_vec_pretty(entry)
            .map_err(|error| StoreError::Ledger { path: path.clone(), why: error.to_string() })?;
        let written = fs::File::create(&draft).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&draft, &path)).map_err(system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again_and_drives_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(&folder.path().join("deep/ledger"));
        assert_eq!(ledger.read("A/1").unwrap(), None);
        let entry = LedgerEntry {
            identity: "A/1".into(),
            written_bytes: 7,
            steps: vec![LedgerStep { what: "fill".into(), whole: true, ..Default::default() }],
            ..Default::default()
        };
        ledger.write(&entry).unwrap();
        assert_eq!(ledger.read("A/1").unwrap(), Some(entry));
        assert_eq!(ledger.read("A_1").unwrap(), None);
    }

    #[test]
    fn a_damaged_ledger_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(folder.path());
        ledger.write(&LedgerEntry { identity: "A".into(), ..Default::default() }).unwrap();
        let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        fs::write(&path, "{\"identity\": 3").unwrap();
        assert!(ledger.read("A").unwrap_err().to_string().contains("damaged"));
    }
}
