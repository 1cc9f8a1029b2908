//! httpGet of probes and hooks: one GET on a connection of its own. Redirects are followed to the same host only, at most ten, and of
//! an answer's body a little is read. The rules are those of `pkg/probe/http` in the kubelet.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rekindle_types::causes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::port::{self, PortError};
use super::{OUTPUT_BYTES_MAX, http2, tcp, tls};

/// As Go's client, which the kubelet uses.
const REDIRECTS_MAX: usize = 10;

/// One request, with all that the spec leaves open filled in.
#[derive(Clone, Debug)]
pub(crate) struct HttpGet {
    scheme: Scheme,
    host: String,
    port: u16,
    /// Path and query.
    target: String,
    headers: HeaderMap,
}

/// What is spoken on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// HTTP/1.1.
    Http,
    /// HTTP/2, without TLS only, and without being asked for by HTTP/1.1 (KEP-5999).
    Http2,
    /// HTTP/1.1 over TLS.
    Https,
}

/// Why no request can be made of a spec.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
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

/// Why there is no answer. It begins as Go's client says it, which people look for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    #[error("Get {url:?}: {reason}")]
    Failed { url: String, reason: String },
    #[error("Get {url:?}: http: server gave HTTP response to HTTPS client")]
    NoTls { url: String },
    #[error("Get {url:?}: stopped after {REDIRECTS_MAX} redirects")]
    TooManyRedirects { url: String },
    #[error(
        "Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )]
    TimedOut { url: String },
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The beginning of it.
    pub(crate) body: String,
    pub(crate) redirected: Redirected,
}

/// Whether an answer sends to another host, where nobody follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirected {
    No,
    Elsewhere,
}

impl HttpGet {
    /// The request of an action; `ip` is the pod's, for an action that names no host.
    pub(crate) fn of(
        action: &HTTPGetAction,
        container: &Container,
        ip: Option<IpAddr>,
    ) -> Result<Self, RequestError> {
        let scheme = match action.scheme.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(RequestError::Scheme(other.to_owned())),
        };
        let scheme = match (action.protocol.as_deref(), scheme) {
            (None | Some("" | "HTTP1"), scheme) => scheme,
            (Some("HTTP2"), Scheme::Http) => Scheme::Http2,
            (Some(other), scheme) => {
                return Err(RequestError::Protocol(other.to_owned(), scheme.name()));
            }
        };
        let host = match action.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => host.to_owned(),
            None => ip.ok_or(RequestError::NoAddress)?.to_string(),
        };
        Ok(Self {
            scheme,
            host,
            port: port::resolve(&action.port, container)?,
            target: target(action.path.as_deref().unwrap_or_default()),
            headers: headers(action)?,
        })
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        &self.target
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
        self.scheme = Scheme::Http;
        self.headers.remove(AUTHORIZATION);
        self
    }

    fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.name(), self.authority(), self.target)
    }

    /// Where an answer sends to, if it is the same host.
    fn redirected(&self, location: &str) -> Option<Self> {
        if location.contains("://") {
            return self.sent_to(&location.parse().ok()?);
        }
        if location.starts_with("//") {
            let scheme = self.scheme.name();
            return self.sent_to(&format!("{scheme}:{location}").parse().ok()?);
        }
        if location.starts_with('/') {
            return Some(Self { target: target(location), ..self.clone() });
        }
        // beside the path before
        let path = self.target.split('?').next().unwrap_or_default();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(Self { target: target(&format!("{folder}/{location}")), ..self.clone() })
    }

    /// The request at an address that is given in full, if it is on the same host.
    fn sent_to(&self, uri: &Uri) -> Option<Self> {
        let (scheme, usual_port) = match (uri.scheme_str(), self.scheme) {
            (Some("http"), Scheme::Http | Scheme::Https) => (Scheme::Http, 80),
            (Some("http"), Scheme::Http2) => (Scheme::Http2, 80),
            (Some("https"), Scheme::Http | Scheme::Https) => (Scheme::Https, 443),
            (Some("https"), Scheme::Http2) | (Some(_) | None, _) => return None,
        };
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        if host != self.host {
            return None;
        }
        Some(Self {
            scheme,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(usual_port),
            target: target(uri.path_and_query().map_or("/", |path| path.as_str())),
            headers: self.headers.clone(),
        })
    }
}

impl Scheme {
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

/// The action's headers, with what the kubelet sends by itself. An empty Accept takes the usual one away.
fn headers(action: &HTTPGetAction) -> Result<HeaderMap, RequestError> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let invalid = || RequestError::Header(header.name.clone());
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

/// Sends the request and follows where it is sent to, all within the timeout.
pub(crate) async fn get(request: &HttpGet, timeout: Duration) -> Result<Answer, GetError> {
    let followed = tokio::time::timeout(timeout, follow(request.clone(), timeout)).await;
    followed.unwrap_or_else(|_elapsed| Err(GetError::TimedOut { url: request.url() }))
}

async fn follow(mut request: HttpGet, timeout: Duration) -> Result<Answer, GetError> {
    for _hop in 0..REDIRECTS_MAX {
        let (status, location, body) =
            exchange(&request, timeout).await.map_err(|broken| match broken {
                Broken::NoTls => GetError::NoTls { url: request.url() },
                Broken::Other(reason) => GetError::Failed { url: request.url(), reason },
            })?;
        let redirected = match (status, location) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => match request.redirected(&location) {
                Some(next) => {
                    request = next;
                    continue;
                }
                None => Redirected::Elsewhere,
            },
            (_, _) => Redirected::No,
        };
        return Ok(Answer { status, body, redirected });
    }
    Err(GetError::TooManyRedirects { url: request.url() })
}

/// Status, where it sends to, and the beginning of the body.
pub(super) type Exchange = (u16, Option<String>, String);

/// Why there is no answer on one connection.
enum Broken {
    /// TLS was begun, and the answer is none of TLS.
    NoTls,
    Other(String),
}

impl From<String> for Broken {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

async fn exchange(request: &HttpGet, timeout: Duration) -> Result<Exchange, Broken> {
    let stream = tcp::connect(&request.host, request.port, timeout).await;
    let stream = stream.map_err(|error| error.to_string())?;
    match request.scheme {
        Scheme::Http => Ok(send(request, stream).await?),
        Scheme::Http2 => Ok(http2::send(request, stream).await?),
        Scheme::Https => match tls::connect(&request.host, stream, tls::Speaks::Http1).await {
            Ok(stream) => Ok(send(request, stream).await?),
            Err(error) if error.met_no_tls() => Err(Broken::NoTls),
            Err(error) => Err(Broken::Other(error.to_string())),
        },
    }
}

async fn send<S>(request: &HttpGet, stream: S) -> Result<Exchange, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let message = message(request)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answer = async move {
        let response = sender.send_request(message).await.map_err(|error| causes(&error))?;
        read(response).await
    };
    let (mut answer, connection) = (pin!(answer), pin!(connection));
    tokio::select! {
        answered = &mut answer => answered,
        // what has arrived by then is still read
        _closed = connection => answer.await,
    }
}

fn message(request: &HttpGet) -> Result<Request<Empty<Bytes>>, String> {
    let mut message = Request::get(&request.target)
        .body(Empty::new())
        .map_err(|error| format!("invalid path {:?}: {error}", request.target))?;
    *message.headers_mut() = request.headers.clone();
    if !message.headers().contains_key(HOST) {
        let host = HeaderValue::from_str(&request.authority());
        let host = host.map_err(|error| format!("invalid host {:?}: {error}", request.host))?;
        message.headers_mut().insert(HOST, host);
    }
    Ok(message)
}

async fn read(response: Response<Incoming>) -> Result<Exchange, String> {
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.map(str::to_owned);
    let mut body = response.into_body();
    let mut kept = Vec::new();
    while kept.len() < OUTPUT_BYTES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => {
                let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
                let room = OUTPUT_BYTES_MAX - kept.len();
                kept.extend_from_slice(&data[..data.len().min(room)]);
            }
            Some(Err(error)) => return Err(causes(&error)),
            None => break,
        }
    }
    Ok((status, location, String::from_utf8_lossy(&kept).into_owned()))
}
