//! `fathom serve`.

use crate::args::Serve;
use crate::commands::run::state_folder;
use crate::exit::{Exit, usage};
use crate::print;
use serve::ServeOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    let listen = address(&args.listen)?;
    let token = token()?;
    let options = ServeOptions {
        folder: args.folder.clone(),
        listen,
        token: token.clone(),
        program: std::env::current_exe()?,
    };
    serve::serve(&options, |at| {
        let _ = print::out(&format!("http://{at}/?token={token}\n"));
        eprintln!("The address with the token may start and stop runs; keep it to yourself.");
        if !at.ip().is_loopback() {
            eprintln!(
                "fathom: {at} is open to the network, without encryption: whoever reads along gets the \
                 token. A tunnel (ssh -L {}:127.0.0.1:{} HOST) needs neither.",
                at.port(),
                at.port()
            );
        }
    })?;
    Ok(Exit::Done)
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let whole = match text.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => text.to_owned(),
    };
    let found = whole.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        usage(format!(
            "--listen {text}: write it as ADDRESS:PORT, such as 127.0.0.1:7117 or [::]:7117"
        ))
    })
}

/// The token of this user: made once, so that a server that starts again knows the pages that were
/// opened before.
fn token() -> anyhow::Result<String> {
    let folder = state_folder().unwrap_or_else(|| PathBuf::from("/run/fathom"));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("serve-token");
    match std::fs::read_to_string(&file) {
        Ok(token) if token.trim().len() >= 32 => return Ok(token.trim().to_owned()),
        _ => {}
    }
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&file)?;
    out.write_all(token.as_bytes())?;
    Ok(token)
}
