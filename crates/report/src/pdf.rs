//! The report on paper: the print style of the page, by a headless browser where there is one.

use crate::output::OutputError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Browsers that print from the command line, in this order.
const BROWSERS: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "brave-browser",
];

/// Prints a page. `as_root`: the browser's own sandbox does not work for the superuser and is left out;
/// the page comes from us and loads nothing.
///
/// # Errors
/// When there is no browser, or it makes no file.
pub fn pdf(html: &str, path: &Path, as_root: bool) -> Result<(), OutputError> {
    let folder = tempfile_beside(path)?;
    let page = folder.join("report.html");
    let printed = folder.join("report.pdf");
    let made = print(html, &page, &printed, &folder, as_root);
    let kept = made.and_then(|()| {
        let bytes = std::fs::read(&printed).map_err(|error| wrap(&printed, error))?;
        crate::output::write_file(path, &bytes)
    });
    let _ = std::fs::remove_dir_all(&folder);
    kept
}

fn wrap(path: &Path, error: io::Error) -> OutputError {
    OutputError::System { path: path.to_owned(), error }
}

/// A folder of our own beside the output.
fn tempfile_beside(path: &Path) -> Result<PathBuf, OutputError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let folder = PathBuf::from(name);
    std::fs::create_dir(&folder).map_err(|error| wrap(&folder, error))?;
    std::fs::canonicalize(&folder).map_err(|error| wrap(&folder, error))
}

fn print(
    html: &str,
    page: &Path,
    printed: &Path,
    folder: &Path,
    as_root: bool,
) -> Result<(), OutputError> {
    std::fs::write(page, html).map_err(|error| wrap(page, error))?;
    for browser in BROWSERS {
        let mut command = Command::new(browser);
        command
            .args(["--headless", "--disable-gpu", "--no-pdf-header-footer"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("--print-to-pdf={}", printed.display()))
            .args(as_root.then_some("--no-sandbox"))
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null());
        match command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(OutputError::Browser(format!("{browser}: {error}"))),
            Ok(_) if printed.exists() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or("no word why").to_owned();
                return Err(OutputError::Browser(format!("{browser} made no file: {last}")));
            }
        }
    }
    Err(OutputError::Browser(format!(
        "a PDF is printed by a browser, and none is here ({}); install chromium, or make a .html and print \
         it elsewhere",
        BROWSERS.join(", ")
    )))
}
