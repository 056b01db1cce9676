//! The live page and the library of runs over HTTP. Reads run files; whatever writes is done by the
//! program itself, in a process of its own. `docs/serve.md` is the interface.

mod control;
mod course;
mod door;
mod feed;
mod library;
mod metrics;
mod pages;
mod routes;
mod view;

use control::Control;
use door::Door;
use feed::Feeds;
use library::Library;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The folder of run files.
    pub folder: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What those show who start and stop runs, or come from another machine.
    pub token: String,
    /// The program that runs plans and makes reports.
    pub program: PathBuf,
}

/// Why it cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder is not there.
    #[error("{folder}: {error}; name the folder your run files are in")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The address is taken, or is not of this machine.
    #[error("cannot listen at {listen}: {error}; choose another with --listen")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The system refused.
    #[error("the server ended: {0}")]
    System(#[from] std::io::Error),
}

/// Everything the routes share.
pub(crate) struct Server {
    library: Library,
    feeds: Arc<Feeds>,
    control: Control,
    door: Door,
}

/// Serves until the process ends. `ready` is told the address once it listens.
///
/// # Errors
/// When the folder cannot be read or the address not be used.
pub fn serve(options: &ServeOptions, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let folder = |error| ServeError::Folder { folder: options.folder.clone(), error };
    let own = options.folder.canonicalize().map_err(folder)?;
    let library = Library::new(&own);
    library.names().map_err(folder)?;
    control::remove_empty_words(&library);
    let server = Arc::new(Server {
        library,
        feeds: Arc::default(),
        control: Control::new(options.program.clone()),
        door: Door::new(options.listen, &options.token),
    });
    // One thread answers; what reads files has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.listen)
            .await
            .map_err(|error| ServeError::Listen { listen: options.listen, error })?;
        ready(listener.local_addr()?);
        axum::serve(listener, routes::router(server)).await?;
        Ok(())
    })
}
