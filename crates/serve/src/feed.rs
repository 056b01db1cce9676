//! Reads a run once a second while somebody watches, and tells all of them.

use crate::library::{Library, hold};
use crate::view::{Gauges, View};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::State;
use tokio::sync::broadcast;

/// Between two looks at a run.
const TICK: Duration = Duration::from_secs(1);
/// Looks without anybody watching after which a feed ends: a monitoring system asks every 15 to 60 s.
const UNWATCHED_MAX: u32 = 90;
/// Changes that a slow viewer may be behind; then it gets the whole again.
const BEHIND_MAX: usize = 16;

/// A run that is watched.
pub(crate) struct Feed {
    view: Mutex<View>,
    changes: broadcast::Sender<Arc<str>>,
    path: PathBuf,
    lock: Arc<Mutex<()>>,
    unwatched: Mutex<u32>,
}

/// All runs that are watched, by name.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<HashMap<String, Arc<Feed>>>);

/// The run as it stands, and what changes from there on.
pub(crate) type Watch = (Arc<str>, broadcast::Receiver<Arc<str>>);

impl Feeds {
    /// The feed of a run, which is read up to now. It goes on by itself until nobody watches.
    pub(crate) fn of(self: &Arc<Self>, library: &Library, name: &str) -> Result<Arc<Feed>, String> {
        let path = library.path(name).ok_or("no such run")?;
        let lock = library.lock_of(name);
        // Whoever comes second waits for the first look, not for those at other runs.
        let one_reader = hold(&lock);
        if let Some(feed) = hold(&self.0).get(name) {
            *hold(&feed.unwatched) = 0;
            return Ok(feed.clone());
        }
        let mut view = View::new(name, &path).map_err(|error| error.to_string())?;
        view.read_on(&path).map_err(|error| error.to_string())?;
        let feed = Arc::new(Feed {
            view: Mutex::new(view),
            changes: broadcast::channel(BEHIND_MAX).0,
            path,
            lock: lock.clone(),
            unwatched: Mutex::new(0),
        });
        hold(&self.0).insert(name.to_owned(), feed.clone());
        drop(one_reader);
        let (all, name, own) = (self.clone(), name.to_owned(), feed.clone());
        std::thread::Builder::new()
            .name("fathom-feed".into())
            .spawn(move || {
                loop {
                    own.follow();
                    // Under the lock under which somebody may just have come back to it.
                    let mut feeds = hold(&all.0);
                    if !own.path.exists() || *hold(&own.unwatched) > UNWATCHED_MAX {
                        feeds.remove(&name);
                        return;
                    }
                }
            })
            .map_err(|error| error.to_string())?;
        Ok(feed)
    }
}

impl Feed {
    /// Starts to watch.
    pub(crate) fn watch(&self) -> Watch {
        // Under the view's lock: no change is lost between the whole and the first one after it.
        let view = hold(&self.view);
        (view.whole().to_string().into(), self.changes.subscribe())
    }

    /// The run as it stands, once all of it is read.
    pub(crate) fn whole(&self) -> serde_json::Value {
        loop {
            let view = hold(&self.view);
            if !view.behind || !self.path.exists() {
                return view.whole();
            }
            drop(view);
            std::thread::sleep(TICK / 20);
        }
    }

    /// For a monitoring system: state, plan and target, figures.
    pub(crate) fn gauges(&self) -> (Option<State>, (String, String), Gauges) {
        let view = hold(&self.view);
        (view.state, view.labels(), view.gauges())
    }

    fn follow(&self) {
        loop {
            // What is there already is read without a pause but for others.
            let behind = hold(&self.view).behind;
            std::thread::sleep(if behind { TICK / 200 } else { TICK });
            if !behind {
                let mut unwatched = hold(&self.unwatched);
                *unwatched = if self.changes.receiver_count() > 0 { 0 } else { *unwatched + 1 };
                if *unwatched > UNWATCHED_MAX {
                    return;
                }
            }
            let _one_reader = hold(&self.lock);
            let mut view = hold(&self.view);
            match view.read_on(&self.path) {
                Ok(Some(change)) => {
                    // Nobody may be watching just now.
                    let _ = self.changes.send(change.to_string().into());
                }
                Ok(None) => {}
                Err(error) => {
                    let text = serde_json::json!({ "error": error.to_string() }).to_string();
                    let _ = self.changes.send(text.into());
                    if !self.path.exists() {
                        return;
                    }
                }
            }
        }
    }
}
