//! What can be asked for.

use crate::control::{GoOn, Refused, Start, plan_files};
use crate::metrics::{self, RunFigures};
use crate::{Server, door, pages};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

type Shared = State<Arc<Server>>;

/// Every route.
pub(crate) fn router(server: Arc<Server>) -> Router {
    let page = || async { content("text/html; charset=utf-8", pages::PAGE) };
    Router::new()
        .route("/", get(page))
        .route("/runs/{name}", get(page))
        .route("/compare", get(page))
        .route("/serve.js", get(|| async { content("text/javascript", pages::SCRIPT) }))
        .route("/serve.css", get(|| async { content("text/css", pages::STYLE) }))
        .route("/metrics", get(figures))
        .route("/api/v1/session", get(session))
        .route("/api/v1/runs", get(list).post(start))
        .route("/api/v1/runs/{name}", get(whole))
        .route("/api/v1/runs/{name}/document", get(document))
        .route("/api/v1/runs/{name}/live", get(live))
        .route("/api/v1/runs/{name}/report.{kind}", get(report))
        .route("/api/v1/runs/{name}/tags", put(tags))
        .route("/api/v1/runs/{name}/stop", post(stop))
        .route("/api/v1/runs/{name}/resume", post(resume))
        .route("/api/v1/compare.{kind}", get(compare))
        .route("/api/v1/plans", get(plans))
        .route("/api/v1/devices", get(devices))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "nothing is here", None) })
        .layer(from_fn_with_state(server.clone(), door::enter))
        .with_state(server)
}

fn content(kind: &'static str, body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// An answer that says why not.
pub(crate) fn refuse(status: StatusCode, message: &str, exit: Option<i32>) -> Response {
    let body = json!({ "error": { "message": message, "exit_code": exit } }).to_string();
    (status, content("application/json", body)).into_response()
}

/// A refusal on its way out; small, since most calls give something else.
struct No(Box<Response>);

impl IntoResponse for No {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Refused> for No {
    fn from(refused: Refused) -> No {
        No(Box::new(refused.into_response()))
    }
}

fn no(status: StatusCode, message: &str) -> No {
    No(Box::new(refuse(status, message, None)))
}

impl IntoResponse for Refused {
    /// By the exit code of the program: what the caller did wrong, what the guard refused, the rest.
    fn into_response(self) -> Response {
        let status = match self.exit {
            Some(2) => StatusCode::BAD_REQUEST,
            Some(3) => StatusCode::FORBIDDEN,
            None => StatusCode::CONFLICT,
            Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        refuse(status, &self.message, self.exit)
    }
}

fn answer(value: Value) -> Response {
    content("application/json", value.to_string())
}

/// Does what reads files or waits for processes, off the thread that answers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, No> + Send + 'static,
) -> Result<T, No> {
    let wrong = |_| no(StatusCode::INTERNAL_SERVER_ERROR, "an internal error");
    tokio::task::spawn_blocking(work).await.map_err(wrong)?
}

fn unreadable(error: impl ToString) -> No {
    no(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

fn no_such_run() -> No {
    no(StatusCode::NOT_FOUND, "no such run in the folder")
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, No> {
    serde_json::from_slice(body).map_err(|error| no(StatusCode::BAD_REQUEST, &error.to_string()))
}

#[derive(Deserialize)]
struct Search {
    #[serde(default)]
    search: String,
}

async fn list(
    State(server): Shared,
    Query(query): Query<Search>,
    headers: axum::http::HeaderMap,
) -> Result<Response, No> {
    let may_act = server.door.knows(&headers);
    blocking(move || {
        let runs = server.library.list(&query.search).map_err(unreadable)?;
        Ok(answer(json!({ "runs": runs, "may_act": may_act })))
    })
    .await
}

/// What the one who asks may do.
async fn session(State(server): Shared, headers: axum::http::HeaderMap) -> Response {
    answer(json!({
        "may_act": server.door.knows(&headers),
        "folder": server.library.folder().display().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn whole(State(server): Shared, Path(name): Path<String>) -> Result<Response, No> {
    blocking(move || {
        server.library.path(&name).ok_or_else(no_such_run)?;
        let feed = server.feeds.of(&server.library, &name).map_err(unreadable)?;
        Ok(answer(feed.whole()))
    })
    .await
}

async fn document(State(server): Shared, Path(name): Path<String>) -> Result<Response, No> {
    made(server, &[name], "show", None).await
}

/// Server-sent events: the run as it stands, then every change of it.
async fn live(
    State(server): Shared,
    Path(name): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, No> {
    let (feed, first) = blocking(move || {
        server.library.path(&name).ok_or_else(no_such_run)?;
        let feed = server.feeds.of(&server.library, &name).map_err(unreadable)?;
        let first = feed.watch();
        Ok((feed, first))
    })
    .await?;
    let (whole, changes) = first;
    let stream = unfold((Some(whole), changes, feed), |(whole, mut changes, feed)| async move {
        let event = |text: &str| Ok(Event::default().retry(Duration::from_secs(1)).data(text));
        if let Some(whole) = whole {
            return Some((event(&whole), (None, changes, feed)));
        }
        match changes.recv().await {
            Ok(change) => Some((event(&change), (None, changes, feed))),
            // Too slow: it gets the whole again.
            Err(RecvError::Lagged(_)) => {
                let (whole, changes) = feed.watch();
                Some((event(&whole), (None, changes, feed)))
            }
            Err(RecvError::Closed) => None,
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(5))))
}

async fn report(
    State(server): Shared,
    Path((name, kind)): Path<(String, String)>,
) -> Result<Response, No> {
    made(server, &[name], "report", Some(kind)).await
}

async fn compare(
    State(server): Shared,
    Path(kind): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, No> {
    let names: Vec<String> =
        query.into_iter().filter(|(key, _)| key == "run").map(|(_, name)| name).collect();
    if names.len() < 2 {
        let why = "name two runs or more: ?run=a.fathom&run=b.fathom";
        return Err(no(StatusCode::BAD_REQUEST, why));
    }
    made(server, &names, "compare", Some(kind)).await
}

/// The kinds of file that are made, and what they are.
const KINDS: [(&str, &str); 6] = [
    ("html", "text/html; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("csv", "text/csv; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("json", "application/json"),
];

/// What a command of the program makes of runs: a file of a kind, or JSON where none is named.
async fn made(
    server: Arc<Server>,
    names: &[String],
    command: &'static str,
    kind: Option<String>,
) -> Result<Response, No> {
    let names = names.to_vec();
    blocking(move || {
        let known = |name: &String| server.library.path(name).ok_or_else(no_such_run);
        let paths = names.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let wanted = kind.as_deref().unwrap_or("json");
        let Some((kind_, content_type)) = KINDS.iter().find(|(name, _)| *name == wanted) else {
            return Err(no(StatusCode::NOT_FOUND, "no such kind of file"));
        };
        let folder = tempfile::tempdir().map_err(unreadable)?;
        let file = folder.path().join(format!("made.{kind_}"));
        let mut args: Vec<&OsStr> = vec![command.as_ref()];
        match kind {
            Some(_) => args.extend([OsStr::new("-o"), file.as_os_str()]),
            None => args.push("--json".as_ref()),
        }
        args.push("--".as_ref());
        args.extend(paths.iter().map(|path| path.as_os_str()));
        let control = &server.control;
        let output = control.output(server.library.folder(), &args)?;
        let body = match kind {
            None => output.stdout,
            Some(_) => std::fs::read(&file).unwrap_or_default(),
        };
        if body.is_empty() {
            let words = String::from_utf8_lossy(&output.stderr);
            let message = words.trim().trim_start_matches("fathom: ").to_owned();
            return Err(Refused { exit: output.status.code(), message }.into());
        }
        let stem = names[0].trim_end_matches(".fathom");
        Ok(file_answer(kind_, content_type, &format!("{stem}.{kind_}"), body))
    })
    .await
}

fn file_answer(kind: &str, content_type: &'static str, name: &str, body: Vec<u8>) -> Response {
    let mut answer = content(content_type, body);
    let headers = answer.headers_mut();
    if kind == "html" {
        let policy = axum::http::HeaderValue::from_static(pages::REPORT_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    } else if kind != "json" {
        let plain: String =
            name.chars().map(|c| if c.is_ascii_graphic() && c != '"' { c } else { '_' }).collect();
        if let Ok(value) = format!("attachment; filename=\"{plain}\"").parse() {
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
    }
    answer
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tags {
    tags: Vec<String>,
}

async fn tags(
    State(server): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, No> {
    let wanted: Tags = parsed(&body)?;
    blocking(move || {
        server.library.path(&name).ok_or_else(no_such_run)?;
        let set = server.library.set_tags(&name, wanted.tags);
        set.map_err(|why| no(StatusCode::BAD_REQUEST, &why))?;
        Ok(answer(json!({})))
    })
    .await
}

async fn start(State(server): Shared, body: Bytes) -> Result<Response, No> {
    let wanted: Start = parsed(&body)?;
    blocking(move || {
        let now = base::clock::unix_ms();
        let name = server.control.start(&server.library, &wanted, now)?;
        Ok((StatusCode::CREATED, answer(json!({ "name": name }))).into_response())
    })
    .await
}

async fn stop(State(server): Shared, Path(name): Path<String>) -> Result<Response, No> {
    blocking(move || {
        server.library.path(&name).ok_or_else(no_such_run)?;
        server.control.stop(&server.library, &name)?;
        Ok(answer(json!({})))
    })
    .await
}

async fn resume(
    State(server): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, No> {
    let how: GoOn = if body.is_empty() { GoOn::default() } else { parsed(&body)? };
    blocking(move || {
        server.library.path(&name).ok_or_else(no_such_run)?;
        server.control.resume(&server.library, &name, &how)?;
        Ok(answer(json!({})))
    })
    .await
}

async fn plans(State(server): Shared) -> Result<Response, No> {
    blocking(move || {
        let plan = |name: &str, text: &str| match plan::parse(name, text, &[]) {
            Ok(plan) => json!({
                "name": name, "title": plan.title, "writes": plan.writes(),
                "parameters": plan.params.iter().map(|p| json!({
                    "name": p.name, "value": p.value,
                })).collect::<Vec<_>>(),
            }),
            Err(errors) => json!({ "name": name, "error": errors.to_string() }),
        };
        let mut all: Vec<Value> = plan::BUILTIN.iter().map(|b| plan(b.name, b.text)).collect();
        for file in plan_files(&server.library) {
            let text = std::fs::read_to_string(server.library.folder().join(&file));
            all.push(match text {
                Ok(text) => plan(&file, &text),
                Err(error) => json!({ "name": file, "error": error.to_string() }),
            });
        }
        Ok(answer(json!({ "plans": all })))
    })
    .await
}

async fn devices(State(server): Shared) -> Result<Response, No> {
    blocking(move || {
        let args = [OsStr::new("devices"), OsStr::new("--json")];
        let output = server.control.output(server.library.folder(), &args)?;
        Ok(content("application/json", output.stdout))
    })
    .await
}

async fn figures(State(server): Shared) -> Result<Response, No> {
    blocking(move || {
        let all = server.library.list("").map_err(unreadable)?;
        let mut states: HashMap<String, usize> = HashMap::new();
        let mut running = Vec::new();
        for run in &all {
            let state = run["state"].as_str().unwrap_or_default();
            *states.entry(state.to_owned()).or_default() += 1;
            let name = run["name"].as_str().unwrap_or_default();
            if state == "running"
                && let Ok(feed) = server.feeds.of(&server.library, name)
            {
                let (_, (plan, target), gauges) = feed.gauges();
                running.push(RunFigures { run: name.to_owned(), plan, target, gauges });
            }
        }
        let mut states: Vec<(String, usize)> = states.into_iter().collect();
        states.sort();
        Ok(content("text/plain; version=0.0.4; charset=utf-8", metrics::text(&states, &running)))
    })
    .await
}
