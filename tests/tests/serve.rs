//! The server behind the live page, spoken to as a program would: who may do what, what it says of runs, what
//! hostile requests and files do. Targets are files on this disk and virtual drives; the pages themselves are
//! opened in a browser by `web/test/serve.test.mjs`.

use blackbox::{checksum, command, fathom, folder, plan};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A server of a folder, killed at the end.
struct Server {
    child: Child,
    at: String,
    token: String,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

impl Server {
    fn start(folder: &Path) -> Server {
        let mut child = command(folder, &["serve", ".", "--listen", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("an address");
        let (at, token) = line.trim().split_once("/?token=").expect("an address with a token");
        Server {
            child,
            at: at.trim_start_matches("http://").to_owned(),
            token: token.to_owned(),
            folder: folder.to_owned(),
        }
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let host = match headers.iter().any(|line| line.starts_with("host:")) {
            true => String::new(),
            false => format!("host: {}\r\n", self.at),
        };
        let more: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}{more}connection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    fn act(&self, method: &str, path: &str, body: &Value) -> Answer {
        let token = format!("authorization: Bearer {}", self.token);
        self.ask(method, path, &[&token, "content-type: application/json"], &body.to_string())
    }

    /// The run as the page has it, once it is as wanted.
    fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let run = self.get(&format!("/api/v1/runs/{name}"));
            if run.status == 200 && wanted(&run.json()) {
                return run.json();
            }
            assert!(Instant::now() < end, "{name}: never {what}: {}", run.body);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

const READS: &str = "[[step]]\nname = \"reads\"\nload = { pattern = \"random\", block = \"4k\", read = 100, \
                     depth = 4, time = \"60s\" }\n";

fn target(folder: &Path) -> PathBuf {
    let path = folder.join("target.bin");
    std::fs::write(&path, vec![5; 8 << 20]).unwrap();
    path
}

#[test]
fn acting_takes_the_token_and_no_other_name_is_answered() {
    let folder = folder();
    let server = Server::start(folder.path());
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/api/v1/runs").json()["may_act"], false);
    let json = "content-type: application/json";
    assert_eq!(server.ask("POST", "/api/v1/runs", &[json], "{}").status, 401);
    let wrong = format!("authorization: Bearer {}", "0".repeat(32));
    assert_eq!(server.ask("POST", "/api/v1/runs", &[json, &wrong], "{}").status, 401);
    assert_eq!(server.ask("GET", "/", &["host: evil.example"], "").status, 403);
    let right = format!("authorization: Bearer {}", server.token);
    let evil = "origin: http://evil.example";
    assert_eq!(server.ask("POST", "/api/v1/runs", &[json, &right, evil], "{}").status, 403);
    assert_eq!(server.ask("POST", "/api/v1/runs", &[&right], "{}").status, 415);
    // The address that was printed gives a cookie that scripts cannot read, and leaves the token out.
    let taken = server.get(&format!("/?token={}", server.token));
    assert_eq!(taken.status, 303);
    let head = taken.head.to_lowercase();
    assert!(
        head.contains("location: /\r\n") && head.contains("httponly; samesite=strict"),
        "{head}"
    );
    assert_eq!(server.get("/?token=guess").status, 401);
    // A server that starts again knows the pages of before.
    let again = Server::start(folder.path());
    assert_eq!(again.token, server.token);
    use std::os::unix::fs::PermissionsExt;
    let file = folder.path().join("state/fathom/serve-token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn names_that_lead_elsewhere_are_no_runs() {
    let (folder, elsewhere) = (folder(), folder_of_a_run());
    let here = folder.path();
    fathom(here, &["run", "quick", "sim:client", "-q", "-o", "one.fathom"]).expect(0);
    std::os::unix::fs::symlink(elsewhere.path().join("secret.fathom"), here.join("link.fathom"))
        .unwrap();
    std::fs::create_dir(here.join("folder.fathom")).unwrap();
    std::fs::write(here.join("foreign.fathom"), "something else").unwrap();
    let mut cut = std::fs::read(here.join("one.fathom")).unwrap();
    cut.truncate(cut.len() / 2);
    std::fs::write(here.join("cut.fathom"), &cut).unwrap();
    let server = Server::start(here);
    let runs = server.get("/api/v1/runs").json();
    let names: Vec<&str> =
        runs["runs"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["cut.fathom", "foreign.fathom", "one.fathom"]);
    let of = |name: &str| {
        runs["runs"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone()
    };
    assert!(of("foreign.fathom")["error"].as_str().unwrap().contains("not a run file"));
    assert_eq!(of("one.fathom")["state"], "done");
    let secret = elsewhere.path().display().to_string();
    for name in [
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..",
        "link.fathom",
        "folder.fathom",
        "one.fathom%00",
        "state%2ffathom%2fserve-token",
        "%2fetc%2fpasswd",
        &secret.replace('/', "%2f"),
    ] {
        for rest in ["", "/live", "/document", "/report.html"] {
            let answer = server.get(&format!("/api/v1/runs/{name}{rest}"));
            assert!([400, 404].contains(&answer.status), "{name}{rest}: {}", answer.body);
        }
        let answer = server.act("POST", &format!("/api/v1/runs/{name}/stop"), &json!({}));
        assert!([400, 404].contains(&answer.status), "{name}: {}", answer.body);
    }
    // What cannot be read is said, and the server lives.
    for name in ["foreign.fathom", "cut.fathom"] {
        let answer = server.get(&format!("/api/v1/runs/{name}"));
        assert_eq!(answer.status, 500, "{}", answer.body);
        assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(server.get("/api/v1/runs/one.fathom").json()["cells"].as_array().unwrap().len(), 7);
}

fn folder_of_a_run() -> tempfile::TempDir {
    let folder = folder();
    fathom(folder.path(), &["run", "quick", "sim:client", "-q", "-o", "secret.fathom"]).expect(0);
    folder
}

#[test]
fn a_start_passes_the_guard_and_nothing_else() {
    let folder = folder();
    let (here, file) = (folder.path(), target(folder.path()));
    plan(here, "[[step]]\nname=\"w\"\nload={ block=\"4k\", read=0, time=\"1s\" }\n");
    let before = checksum(&file);
    let server = Server::start(here);
    let name = file.display().to_string();
    let start = |body: Value| server.act("POST", "/api/v1/runs", &body);
    // Without its name, with another name, as an option, with a plan of elsewhere, with too much.
    let refused = start(json!({ "plan": "plan.toml", "targets": [name] }));
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(refused.json()["error"]["exit_code"], 3);
    let refused = start(json!({ "plan": "plan.toml", "targets": [name], "destroy": ["other"] }));
    assert_eq!(refused.status, 403, "{}", refused.body);
    let options = json!({ "plan": "plan.toml", "targets": [format!("--destroy={name}"), name] });
    assert!(start(options).status >= 400);
    assert_eq!(start(json!({ "plan": "../plan.toml", "targets": [name] })).status, 400);
    assert_eq!(start(json!({ "plan": name, "targets": [name] })).status, 400);
    assert_eq!(start(json!({ "plan": "plan.toml", "targets": [name], "force": true })).status, 400);
    assert!(start(json!({ "plan": "plan.toml", "targets": [] })).status >= 400);
    assert_eq!(checksum(&file), before, "nothing was written");
    let refused = fathom(here, &["show", "no.fathom"]);
    assert_ne!(refused.code, 0);
    // With its name it is written to.
    let made = start(json!({ "plan": "plan.toml", "targets": [name], "destroy": [name] }));
    assert_eq!(made.status, 201, "{}", made.body);
    let run = made.json()["name"].as_str().unwrap().to_owned();
    server.until(&run, "done", |run| run["state"] != "running");
    assert_ne!(checksum(&file), before);
}

#[test]
fn a_run_is_followed_stopped_and_resumed_and_outlives_the_server() {
    let folder = folder();
    let here = folder.path();
    let file = target(here);
    plan(here, READS);
    let server = Server::start(here);
    let wanted = json!({ "plan": "plan.toml", "targets": [file.display().to_string()] });
    let made = server.act("POST", "/api/v1/runs", &wanted);
    assert_eq!(made.status, 201, "{}", made.body);
    let name = made.json()["name"].as_str().unwrap().to_owned();
    let points = |run: &Value| run["course"]["points"].as_array().unwrap().len();
    let run = server.until(&name, "measuring", |run| points(run) >= 2);
    assert_eq!(run["outline"][0]["state"], "running");
    assert!(run["left"]["least_s"].as_f64().unwrap() < 60.0);
    let figures = server.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let line = figures.lines().find(|line| line.starts_with(&format!("{name}{{")));
        line.and_then(|line| line.rsplit_once(' ')).expect(name).1.parse().expect("a number")
    };
    assert!(value("fathom_run_iops") > 100.0 && value("fathom_run_ios_total") > 100.0, "{figures}");
    assert_eq!(value("fathom_run_up"), 1.0);
    assert!(figures.contains("fathom_runs{state=\"running\"} 1\n"), "{figures}");
    // Nobody else's server, nobody's run.
    drop(server);
    let server = Server::start(here);
    assert_eq!(server.until(&name, "running", |run| points(run) >= 1)["state"], "running");
    assert_eq!(server.act("POST", &format!("/api/v1/runs/{name}/stop"), &json!({})).status, 200);
    let cut = server.until(&name, "interrupted", |run| run["state"] == "interrupted");
    assert_eq!(cut["outline"][0]["state"], "cut");
    let again = server.act("POST", &format!("/api/v1/runs/{name}/stop"), &json!({}));
    assert_eq!(again.status, 409, "{}", again.body);
    let resumed = server.act("POST", &format!("/api/v1/runs/{name}/resume"), &json!({}));
    assert_eq!(resumed.status, 200, "{}", resumed.body);
    server.until(&name, "running again", |run| run["state"] == "running");
    let twice = server.act("POST", &format!("/api/v1/runs/{name}/resume"), &json!({}));
    assert_eq!(twice.status, 400, "{}", twice.body);
    assert_eq!(server.act("POST", &format!("/api/v1/runs/{name}/stop"), &json!({})).status, 200);
    let end = server.until(&name, "interrupted", |run| run["state"] == "interrupted");
    // A link where its last words would go leads nowhere.
    let precious = here.join("precious");
    std::fs::write(&precious, "kept").unwrap();
    let log = here.join(format!("{name}.log"));
    let end_of_wait = Instant::now() + Duration::from_secs(20);
    while log.exists() && Instant::now() < end_of_wait {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::os::unix::fs::symlink(&precious, &log).unwrap();
    let resumed = server.act("POST", &format!("/api/v1/runs/{name}/resume"), &json!({}));
    assert_eq!(resumed.status, 200, "{}", resumed.body);
    assert_eq!(server.act("POST", &format!("/api/v1/runs/{name}/stop"), &json!({})).status, 200);
    server.until(&name, "interrupted again", |run| run["state"] == "interrupted");
    while log.exists() && Instant::now() < end_of_wait {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "kept");
    let repeated = end["cells"].as_array().unwrap().iter().filter(|c| c["status"] == "repeated");
    assert_eq!(repeated.count(), 1, "{}", end["cells"]);
    assert!(!server.folder.join(format!("{name}.log")).exists(), "no last words are left");
}

#[test]
fn tags_and_search_find_runs() {
    let folder = folder();
    let here = folder.path();
    fathom(here, &["run", "quick", "sim:client", "-q", "-o", "a.fathom"]).expect(0);
    fathom(here, &["run", "quick", "sim:d5-p5430", "-q", "-o", "b.fathom"]).expect(0);
    let server = Server::start(here);
    let put =
        |name: &str, tags: Value| server.act("PUT", &format!("/api/v1/runs/{name}/tags"), &tags);
    assert_eq!(put("a.fathom", json!({ "tags": ["Golden", "golden", " lab 7 ", ""] })).status, 200);
    assert_eq!(put("c.fathom", json!({ "tags": [] })).status, 404);
    assert_eq!(put("a.fathom", json!({ "tags": ["x".repeat(1000)] })).status, 400);
    let found = |words: &str| -> Vec<String> {
        let runs = server.get(&format!("/api/v1/runs?search={words}")).json();
        let names = runs["runs"].as_array().unwrap().iter();
        names.map(|run| run["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("golden"), ["a.fathom"]);
    assert_eq!(found("LAB+7+quick"), ["a.fathom"]);
    assert_eq!(found("p5430"), ["b.fathom"]);
    assert_eq!(found("golden+p5430"), [""; 0]);
    assert_eq!(found("").len(), 2);
    // Tags that cannot be read are not written over.
    std::fs::write(here.join("fathom-tags.json"), "{ \"a.fathom\": ").unwrap();
    let refused = put("a.fathom", json!({ "tags": ["new"] }));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(std::fs::read_to_string(here.join("fathom-tags.json")).unwrap(), "{ \"a.fathom\": ");
    let page = server.get("/api/v1/compare.json?run=a.fathom&run=b.fathom");
    assert_eq!(page.status, 200, "{}", page.body);
    let sent = server.get("/api/v1/runs/a.fathom/report.html");
    assert!(sent.head.contains("sandbox"), "{}", sent.head);
    assert!(sent.body.contains("</html>"));
    let mut document = server.get("/api/v1/runs/a.fathom/document").json();
    let mut shown = fathom(here, &["show", "a.fathom", "--json"]).json();
    // One was asked for by its whole path.
    (document["file"], shown["file"]) = (Value::Null, Value::Null);
    assert!(document == shown, "{document}");
}

/// A day, one row a second for each of twelve loads: a million rows.
#[test]
fn a_day_of_a_million_rows_is_there_at_once() {
    let folder = folder();
    let here = folder.path();
    let load = |n: u32| {
        let read = 40 + n;
        format!(
            "[[step.load]]\nname=\"l{n}\"\nblock=\"4k\"\npattern=\"random\"\nread={read}\ndepth=2\n"
        )
    };
    let loads: String = (0..12).map(load).collect();
    plan(here, &format!("[[step]]\nname=\"day\"\ntime=\"24h\"\n{loads}"));
    fathom(here, &["run", "plan.toml", "sim:d5-p5430", "-q", "-o", "day.fathom"]).expect(0);
    let rows = store::RunFile::open(&here.join("day.fathom")).unwrap();
    let cell = &rows.cells[0];
    assert!(cell.streams.len() as u32 * cell.intervals >= 1_000_000, "{}", cell.intervals);
    let server = Server::start(here);
    let start = Instant::now();
    let run = server.get("/api/v1/runs/day.fathom");
    let (first, len) = (start.elapsed(), run.body.len());
    let start = Instant::now();
    server.get("/api/v1/runs/day.fathom");
    println!("first look {first:?}, second {:?}, {len} bytes", start.elapsed());
    assert!(len < 1 << 20, "{len} bytes");
    let run = run.json();
    assert_eq!(run["cells"][0]["line"].as_str().map(|line| line.contains("IOPS")), Some(true));
    let points = run["course"]["points"].as_array().unwrap();
    assert!((700..=1500).contains(&points.len()), "{}", points.len());
    // Nothing is lost: the highest latency of the day is on the page.
    let at = run["columns"].as_array().unwrap().iter().position(|c| c == "max_ns").unwrap();
    let most = points.iter().filter_map(|p| p[at].as_f64()).fold(0.0, f64::max);
    assert_eq!(Some(most), run["cells"][0]["max_ns"].as_f64());
}
