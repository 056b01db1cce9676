//! Who may come in. Looking is free on the machine itself; whoever acts, and whoever comes from
//! elsewhere, shows the token.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::Server;
use crate::routes::refuse;

const COOKIE: &str = "fathom-token";

/// What may be asked.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// Only this machine can reach the server.
    pub(crate) loopback: bool,
    pub(crate) token: String,
}

impl Door {
    pub(crate) fn new(listen: SocketAddr, token: &str) -> Door {
        Door { loopback: listen.ip().is_loopback(), token: token.to_owned() }
    }

    /// Whether a request carries the token: as `Authorization: Bearer` or as the cookie.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let cookies = text(header::COOKIE).unwrap_or_default().split(';');
        let cookie = cookies
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(name, _)| *name == COOKIE)
            .map(|(_, value)| value);
        bearer.into_iter().chain(cookie).any(|given| self.is_token(given))
    }

    /// Compares in the same time wherever they differ.
    fn is_token(&self, given: &str) -> bool {
        let (own, given) = (self.token.as_bytes(), given.trim().as_bytes());
        own.len() == given.len()
            && own.iter().zip(given).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
    }

    /// The reason why a request is not served.
    fn refusal(&self, method: &Method, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        // A page of elsewhere whose name was made to lead here asks under that name.
        if self.loopback && !is_local(host) {
            let why = "asked for under a name that is not this machine's own: use 127.0.0.1";
            return Some((StatusCode::FORBIDDEN, why));
        }
        let acts = method != Method::GET && method != Method::HEAD;
        if acts {
            let origin = text(header::ORIGIN);
            let own = |origin: &str| origin.split_once("://").is_some_and(|(_, at)| at == host);
            if origin.is_some_and(|origin| !own(origin)) {
                return Some((StatusCode::FORBIDDEN, "asked for by a page of elsewhere"));
            }
            let kind = text(header::CONTENT_TYPE).unwrap_or_default();
            if kind.split(';').next() != Some("application/json") {
                return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"));
            }
        }
        if (acts || !self.loopback) && !self.knows(headers) {
            let why = "open the address with the token that fathom serve printed, or send it as \
                       Authorization: Bearer";
            return Some((StatusCode::UNAUTHORIZED, why));
        }
        None
    }
}

/// Whether a Host header names this machine from within.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// Lets requests in, and gives answers the headers that keep them harmless.
pub(crate) async fn enter(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let door = &server.door;
    if request.method() == Method::GET
        && let Some(given) = token_of(request.uri().query().unwrap_or_default())
    {
        return take_token(door, given, request.uri().path());
    }
    let refusal = door.refusal(request.method(), request.headers());
    let mut answer = match refusal {
        Some((status, why)) => refuse(status, why, None),
        None => next.run(request).await,
    };
    let headers = answer.headers_mut();
    let add = |headers: &mut HeaderMap, name: &'static str, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add(headers, "content-security-policy", crate::pages::POLICY);
    add(headers, "x-content-type-options", "nosniff");
    add(headers, "referrer-policy", "no-referrer");
    add(headers, "cache-control", "no-store");
    add(headers, "cross-origin-resource-policy", "same-origin");
    add(headers, "x-frame-options", "DENY");
    answer
}

fn token_of(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// The token in the address becomes a cookie, and leaves the address.
fn take_token(door: &Door, given: &str, path: &str) -> Response {
    if !door.is_token(given) {
        return refuse(StatusCode::UNAUTHORIZED, "this is not the token of this server", None);
    }
    // Only a path of this server: `//elsewhere` would lead away.
    let path = format!("/{}", path.trim_start_matches('/'));
    let cookie =
        format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000", door.token);
    let mut answer = Redirect::to(&path).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            let name: axum::http::HeaderName = name.parse().unwrap();
            all.insert(name, value.parse().unwrap());
        }
        all
    }

    fn asked(listen: &str, method: &Method, pairs: &[(&str, &str)]) -> Option<u16> {
        let door = Door::new(listen.parse().unwrap(), "secret");
        door.refusal(method, &headers(pairs)).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn looking_is_free_on_the_machine_itself_only() {
        let local = [("host", "127.0.0.1:7117")];
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &local), None);
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &[("host", "[::1]:7117")]), None);
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &[("host", "localhost")]), None);
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &[("host", "evil.example")]), Some(403));
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &[("host", "localhost.evil:1")]), Some(403));
        assert_eq!(asked("127.0.0.1:0", &Method::GET, &[]), Some(403));
        assert_eq!(asked("0.0.0.0:0", &Method::GET, &[("host", "lab7:7117")]), Some(401));
        let with = [("host", "lab7:7117"), ("authorization", "Bearer secret")];
        assert_eq!(asked("0.0.0.0:0", &Method::GET, &with), None);
        let wrong = [("host", "lab7:7117"), ("authorization", "Bearer secres")];
        assert_eq!(asked("0.0.0.0:0", &Method::GET, &wrong), Some(401));
        let cookie = [("host", "lab7:7117"), ("cookie", "a=b; fathom-token=secret")];
        assert_eq!(asked("0.0.0.0:0", &Method::GET, &cookie), None);
    }

    #[test]
    fn acting_takes_the_token_and_a_page_of_our_own() {
        let json = ("content-type", "application/json");
        let token = ("cookie", "fathom-token=secret");
        let host = ("host", "127.0.0.1:7117");
        let post = |pairs: &[(&str, &str)]| asked("127.0.0.1:0", &Method::POST, pairs);
        assert_eq!(post(&[host, json]), Some(401));
        assert_eq!(post(&[host, json, token]), None);
        assert_eq!(post(&[host, token]), Some(415));
        assert_eq!(post(&[host, token, ("content-type", "text/plain")]), Some(415));
        let origin = |at| ("origin", at);
        assert_eq!(post(&[host, json, token, origin("http://127.0.0.1:7117")]), None);
        assert_eq!(post(&[host, json, token, origin("http://evil.example")]), Some(403));
        assert_eq!(post(&[host, json, token, origin("null")]), Some(403));
        assert_eq!(asked("127.0.0.1:0", &Method::DELETE, &[host, json]), Some(401));
    }

    #[test]
    fn the_address_with_the_token_leads_to_this_server_only() {
        let door = Door::new("127.0.0.1:0".parse().unwrap(), "secret");
        let answer = take_token(&door, "secret", "//evil.example/a");
        assert_eq!(answer.headers()["location"], "/evil.example/a");
        assert!(take_token(&door, "other", "/").status() == 401);
    }
}
