//! Erasing SATA drives by hdparm and SAS drives by sg3-utils, where these are installed: both know the
//! ways and the faults of many controllers. Reached only through [`crate::Eraser`].

use crate::device::Device;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The password a drive has while it is erased. A drive whose power fails in the middle stays locked, and
/// this opens it.
const PASSWORD: &str = "fathom";

/// A whole SATA or SAS drive.
pub(crate) struct Drive {
    node: PathBuf,
    ata: bool,
}

/// What hdparm says about the ways a SATA drive can be erased.
#[derive(Debug, Default, PartialEq)]
struct Ways {
    security: bool,
    enabled: bool,
    locked: bool,
    frozen: bool,
    block_erase: bool,
    crypto: bool,
}

impl Ways {
    /// Reads the output of `hdparm -I`. In its list of features `*` marks what is there; in its block on
    /// security each line is a word, with `not` before it when it does not hold.
    fn read(text: &str) -> Ways {
        let mut ways = Ways::default();
        let mut security = false;
        for line in text.lines() {
            if !line.starts_with(['\t', ' ']) {
                security = line.starts_with("Security:");
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["supported"] if security => ways.security = true,
                ["enabled"] if security => ways.enabled = true,
                ["locked"] if security => ways.locked = true,
                ["frozen"] if security => ways.frozen = true,
                ["*", "BLOCK_ERASE_EXT", "command"] => ways.block_erase = true,
                ["*", "CRYPTO_SCRAMBLE_EXT", "command"] => ways.crypto = true,
                _ => {}
            }
        }
        ways
    }

    /// Whether SECURITY ERASE UNIT can be sent now; otherwise why not.
    fn check_security(&self) -> Result<(), String> {
        let why = match self {
            Ways { security: false, .. } => "the drive has no security feature set",
            Ways { locked: true, .. } => "the drive is locked with a password; unlock it first",
            Ways { enabled: true, .. } => "the drive has a password; take it away first",
            Ways { frozen: true, .. } => {
                "the firmware of this host has frozen the drive's security; suspend the host and wake it, \
                 or pull the drive's power and plug it in again"
            }
            _ => return Ok(()),
        };
        Err(why.into())
    }

    fn sanitize(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Ways { block_erase: true, .. } => Some(("--sanitize-block-erase", "block erase")),
            Ways { crypto: true, .. } => Some(("--sanitize-crypto-scramble", "crypto scramble")),
            _ => None,
        }
    }
}

/// Runs a tool to its end, out of reach of a Ctrl-C: what it has begun must end. Gives what it printed.
fn tool(program: &str, args: &[&str], node: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args).arg(node).stdin(Stdio::null()).process_group(0);
    let output = command.output().map_err(|error| missing(program, &error))?;
    let out = String::from_utf8_lossy(&output.stdout);
    // hdparm tells some failures of the drive on its error output alone, and ends with 0. Where it only
    // asks, it complains and answers.
    let err = String::from_utf8_lossy(&output.stderr);
    let failed = args != ["-I"]
        && ["failed", "error", "not supported", "bad/missing sense data"]
            .iter()
            .any(|word| err.to_lowercase().contains(word));
    match output.status.success() && !failed {
        true => Ok(out.into_owned()),
        false => Err(format!("{program} {}: {}", args.join(" "), last_line(&err, &out))),
    }
}

fn last_line<'a>(err: &'a str, out: &'a str) -> &'a str {
    let said = |text: &'a str| text.lines().map(str::trim).rfind(|line| !line.is_empty());
    said(err).or_else(|| said(out)).unwrap_or("failed without a word")
}

fn missing(program: &str, error: &std::io::Error) -> String {
    let package = if program == "hdparm" { "hdparm" } else { "sg3-utils" };
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{program} is not installed (apt-get install {package})")
        }
        _ => format!("{program} cannot be run: {error}"),
    }
}

impl Drive {
    /// The drive behind a target; none when it is no whole SATA or SAS drive.
    pub(crate) fn of(device: &Device) -> Option<Drive> {
        let ata = device.transport == "ata";
        let known = ata || matches!(device.transport.as_str(), "sas" | "scsi");
        (known && device.parent.is_none()).then(|| Drive { node: device.path.clone(), ata })
    }

    fn ways(&self) -> Result<Ways, String> {
        Ok(Ways::read(&tool("hdparm", &["-I"], &self.node)?))
    }

    /// Whether it can be formatted; otherwise why not.
    pub(crate) fn can_format(&self) -> Result<(), String> {
        match self.ata {
            true => self.ways()?.check_security(),
            false => tool("sg_format", &["--version"], Path::new("")).map(drop),
        }
    }

    /// Whether it can be sanitized; otherwise why not.
    pub(crate) fn can_sanitize(&self) -> Result<(), String> {
        match self.ata {
            true => self.ways()?.sanitize().map(drop).ok_or_else(no_sanitize),
            false => tool("sg_sanitize", &["--version"], Path::new("")).map(drop),
        }
    }

    /// SECURITY ERASE UNIT or FORMAT UNIT. Gives what was done.
    pub(crate) fn format(&self) -> Result<String, String> {
        if !self.ata {
            tool("sg_format", &["--format", "--quick"], &self.node)?;
            return Ok("FORMAT UNIT by sg_format".into());
        }
        let ways = self.ways()?;
        ways.check_security()?;
        let user = ["--user-master", "u"];
        let run =
            |option: &str| tool("hdparm", &[&user[..], &[option, PASSWORD]].concat(), &self.node);
        run("--security-set-pass")?;
        // The plain erase is what the PTS names; the enhanced one differs by reaching reallocated sectors.
        match run("--security-erase") {
            Ok(_) => Ok("SECURITY ERASE UNIT by hdparm".into()),
            Err(error) => Err(match run("--security-disable") {
                Ok(_) => error,
                Err(_) => format!(
                    "{error}; the drive is locked now, unlock it with: hdparm --user-master u \
                     --security-disable {PASSWORD} {}",
                    self.node.display()
                ),
            }),
        }
    }

    /// Sanitizes and waits; `each` gets the percent done, and ends the waiting when it says false.
    pub(crate) fn sanitize(&self, each: &mut dyn FnMut(f64) -> bool) -> Result<String, String> {
        const LOOK: Duration = Duration::from_millis(500);
        if !self.ata {
            each(0.0);
            tool("sg_sanitize", &["--block", "--quick"], &self.node)?;
            return Ok("SANITIZE by sg_sanitize, block erase".into());
        }
        let (option, name) = self.ways()?.sanitize().ok_or_else(no_sanitize)?;
        tool("hdparm", &["--yes-i-know-what-i-am-doing", option], &self.node)?;
        loop {
            let status = tool("hdparm", &["--sanitize-status"], &self.node)?;
            match sanitize_state(&status) {
                Sanitizing::Running(percent) if !each(percent) => {
                    return Err(
                        "interrupted; the drive goes on sanitizing and takes no I/O until it \
                                is done"
                            .into(),
                    );
                }
                Sanitizing::Running(_) => std::thread::sleep(LOOK),
                Sanitizing::Done => return Ok(format!("SANITIZE by hdparm, {name}")),
                Sanitizing::Failed => return Err(last_line("", &status).to_owned()),
            }
        }
    }
}

fn no_sanitize() -> String {
    "the drive has no sanitize feature set with an erase".into()
}

#[derive(Debug, PartialEq)]
enum Sanitizing {
    Running(f64),
    Done,
    Failed,
}

/// Reads the output of `hdparm --sanitize-status`: `State: SD2 ...` and `Progress: 0x8000 (50%)`.
fn sanitize_state(text: &str) -> Sanitizing {
    if text.contains("SD2") {
        let progress = text.split_once('(').and_then(|(_, rest)| rest.split_once('%'));
        let percent = progress.and_then(|(number, _)| number.trim().parse().ok());
        return Sanitizing::Running(percent.unwrap_or(0.0));
    }
    let idle = text.contains("SD0") || text.contains("SD1");
    match idle && !text.contains("unsuccessfully") {
        true => Sanitizing::Done,
        false => Sanitizing::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISK: &str = "
/dev/sda:

ATA device, with non-removable media
Commands/features:
\tEnabled\tSupported:
\t   *\tSMART feature set
\t    \tSecurity Mode feature set
\t   *\tSANITIZE feature set
\t   *\tCRYPTO_SCRAMBLE_EXT command
\t    \tOVERWRITE_EXT command
\t   *\tBLOCK_ERASE_EXT command
Security: 
\tMaster password revision code = 65534
\t\tsupported
\tnot\tenabled
\tnot\tlocked
\t\tfrozen
\tnot\texpired: security count
\t\tsupported: enhanced erase
\t2min for SECURITY ERASE UNIT. 8min for ENHANCED SECURITY ERASE UNIT.
Logical Unit WWN Device Identifier: 5000000000000000
";

    #[test]
    fn the_ways_of_a_drive_are_read() {
        let ways = Ways::read(DISK);
        assert_eq!(
            ways,
            Ways {
                security: true,
                frozen: true,
                block_erase: true,
                crypto: true,
                ..Ways::default()
            }
        );
        assert!(ways.check_security().unwrap_err().contains("frozen"));
        assert_eq!(ways.sanitize().unwrap().1, "block erase");
        let thawed = Ways::read(&DISK.replace("\t\tfrozen", "\tnot\tfrozen"));
        assert!(thawed.check_security().is_ok());
        for (word, said) in [("enabled", "has a password"), ("locked", "is locked")] {
            let with = DISK.replace(&format!("\tnot\t{word}"), &format!("\t\t{word}"));
            assert!(Ways::read(&with).check_security().unwrap_err().contains(said), "{word}");
        }
        let none = "Security: \n\tnot\tsupported\n";
        assert!(Ways::read(none).check_security().unwrap_err().contains("no security"));
    }

    #[test]
    fn the_state_of_a_sanitize_is_read() {
        let running =
            "    State:    SD2 Sanitize operation In Process\n    Progress: 0x8000 (50%)\n";
        assert_eq!(sanitize_state(running), Sanitizing::Running(50.0));
        let done = "    State:    SD0 Sanitize Idle\n    Last Sanitize Operation Completed Without Error\n";
        assert_eq!(sanitize_state(done), Sanitizing::Done);
        let bad =
            "    State:    SD0 Sanitize Idle\n    Last Sanitize Command completed unsuccessfully\n";
        assert_eq!(sanitize_state(bad), Sanitizing::Failed);
        assert_eq!(sanitize_state(""), Sanitizing::Failed);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_drive_erasable_by_accident(text in "[ \\t\\na-z*:]{0,200}") {
            let ways = Ways::read(&text);
            prop_assert!(ways.check_security().is_err() || text.contains("supported"));
            prop_assert!(ways.sanitize().is_none());
            prop_assert_eq!(sanitize_state(&text), Sanitizing::Failed);
        }
    }
}
