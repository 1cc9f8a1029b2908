//! The request of an httpGet, made of the spec, where an answer may send it, and what one
//! connection brings back for it. The rules are those of `pkg/probe/http` in the kubelet.

use std::net::IpAddr;

use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};

use super::OUTPUT_BYTES_MAX;
use super::location::RedirectLocation;
use super::port::{self, PortError};

/// One request, with all that the spec leaves open filled in.
#[derive(Clone, Debug)]
pub(crate) struct HttpGet {
    pub(super) scheme: ProbeScheme,
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
}

/// What is spoken on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeScheme {
    /// HTTP/1.1.
    Http,
    /// HTTP/2, without TLS only, and without being asked for by HTTP/1.1 (KEP-5999).
    Http2,
    /// HTTP/1.1 over TLS.
    Https,
}

/// Why no request can be made of a spec.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeRequestError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the pod has no address")]
    NoAddress,
    #[error("unsupported scheme {0:?}")]
    Scheme(String),
    #[error("unsupported protocol {0:?} over {1}")]
    Protocol(String, &'static str),
    #[error("invalid header {0:?}")]
    Header(String),
}

/// What one connection brings back.
pub(super) struct HttpExchange {
    pub(super) status: u16,
    /// Where it sends to.
    pub(super) location: Option<String>,
    /// The beginning of it.
    body: Vec<u8>,
}

impl HttpExchange {
    /// An answer of which nothing but the head has come.
    pub(super) fn of_head<B>(response: &Response<B>) -> Self {
        let location = response.headers().get(LOCATION);
        let location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Self { status: response.status().as_u16(), location, body: Vec::new() }
    }

    /// Whether more of the body is looked at.
    pub(super) fn wants_more(&self) -> bool {
        self.body.len() < OUTPUT_BYTES_MAX
    }

    /// A further piece of the body, of which only what is looked at is kept.
    pub(super) fn keep(&mut self, data: &[u8]) {
        let room = OUTPUT_BYTES_MAX.saturating_sub(self.body.len());
        self.body.extend_from_slice(&data[..data.len().min(room)]);
    }

    pub(super) fn body(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl HttpGet {
    /// The request of an action; `ip` is the pod's, for an action that names no host.
    pub(crate) fn new(
        action: &HTTPGetAction,
        container: &Container,
        ip: Option<IpAddr>,
    ) -> Result<Self, ProbeRequestError> {
        let scheme = match action.scheme.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "http") => ProbeScheme::Http,
            Some("https") => ProbeScheme::Https,
            Some(other) => return Err(ProbeRequestError::Scheme(other.to_owned())),
        };
        let scheme = match (action.protocol.as_deref(), scheme) {
            (None | Some("" | "HTTP1"), scheme) => scheme,
            (Some("HTTP2"), ProbeScheme::Http) => ProbeScheme::Http2,
            (Some(other), scheme) => {
                return Err(ProbeRequestError::Protocol(other.to_owned(), scheme.name()));
            }
        };
        let host = match action.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => host.to_owned(),
            None => ip.ok_or(ProbeRequestError::NoAddress)?.to_string(),
        };
        Ok(Self {
            scheme,
            host,
            port: port::resolve(&action.port, container)?,
            target: target(action.path.as_deref().unwrap_or_default()),
            headers: headers(action)?,
        })
    }

    pub(crate) fn authority(&self) -> String {
        let host = &self.host;
        if host.contains(':') {
            format!("[{host}]:{}", self.port)
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// The same without TLS, and without what is for encrypted connections only.
    pub(crate) fn without_tls(mut self) -> Self {
        self.scheme = ProbeScheme::Http;
        self.headers.remove(AUTHORIZATION);
        self
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.authority(), self.target)
    }

    /// Where an answer sends to. Nobody goes to another host, and nobody leaves HTTP/2 without TLS.
    pub(super) fn redirected(&self, location: &RedirectLocation) -> RedirectTarget {
        let (scheme, usual_port) = match (location.scheme.as_deref(), self.scheme) {
            (None | Some("http"), ProbeScheme::Http2) => (ProbeScheme::Http2, 80),
            (Some("http"), ProbeScheme::Http | ProbeScheme::Https) | (None, ProbeScheme::Http) => {
                (ProbeScheme::Http, 80)
            }
            (Some("https"), ProbeScheme::Http | ProbeScheme::Https)
            | (None, ProbeScheme::Https) => (ProbeScheme::Https, 443),
            (Some("https"), ProbeScheme::Http2) => return RedirectTarget::Elsewhere,
            (Some(other), _) => {
                let host = location.authority.as_ref().map(|found| &found.host);
                return if host == Some(&self.host) {
                    RedirectTarget::UnknownScheme(other.to_owned())
                } else {
                    RedirectTarget::Elsewhere
                };
            }
        };
        let mut next = Self { target: target(&location.from(&self.target)), ..self.clone() };
        match (&location.authority, &location.scheme) {
            (None, None) => return RedirectTarget::Request(Box::new(next)),
            (Some(authority), _) if authority.host == self.host => {
                next.scheme = scheme;
                next.port = authority.port.unwrap_or(usual_port);
            }
            (Some(_), _) | (None, Some(_)) => return RedirectTarget::Elsewhere,
        }
        if location.scheme.is_some() {
            // an address in full says itself whom it is for
            next.headers.remove(HOST);
        }
        RedirectTarget::Request(Box::new(next))
    }
}

/// What follows from an answer that sends somewhere.
pub(super) enum RedirectTarget {
    Request(Box<HttpGet>),
    /// Another host: the answer is the last one.
    Elsewhere,
    UnknownScheme(String),
}

impl ProbeScheme {
    const fn name(self) -> &'static str {
        match self {
            Self::Http | Self::Http2 => "http",
            Self::Https => "https",
        }
    }
}

/// A path as a request line can carry it.
fn target(path: &str) -> String {
    let mut target = if path.starts_with('/') { String::new() } else { "/".to_owned() };
    for byte in path.bytes() {
        match byte {
            b'#' => break,
            b' '
            | b'"'
            | b'<'
            | b'>'
            | b'\\'
            | b'^'
            | b'`'
            | b'{'
            | b'|'
            | b'}'
            | 0..=0x1f
            | 0x7f.. => {
                target.push_str(&format!("%{byte:02X}"));
            }
            _ => target.push(char::from(byte)),
        }
    }
    target
}

/// The action's headers, with what the kubelet sends by itself. An empty Accept takes the usual one
/// away.
fn headers(action: &HTTPGetAction) -> Result<HeaderMap, ProbeRequestError> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let invalid = || ProbeRequestError::Header(header.name.clone());
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| invalid())?;
        let value = HeaderValue::from_str(&header.value).map_err(|_| invalid())?;
        headers.append(name, value);
    }
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(super::USER_AGENT));
    match headers.get(ACCEPT) {
        None => {
            headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        }
        Some(value) if value.is_empty() => {
            headers.remove(ACCEPT);
        }
        Some(_) => {}
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}
