//! httpGet of probes and hooks: one GET on a connection of its own. Redirects are followed to the
//! same host only, at most ten, and of an answer's body a little is read. The rules are those of
//! `pkg/probe/http` in the kubelet.

use std::time::Duration;

use rekindle_pod::ProbeVerdict;

use super::http_request::{HttpExchange, HttpGet, ProbeScheme, RedirectTarget};
use super::location::{LocationError, RedirectLocation};
use super::tcp::DialError;
use super::{http1, http2, tcp, tls};

/// As Go's client, which the kubelet uses.
const REDIRECTS_MAX: usize = 10;

/// Why there is no answer. It begins as Go's client says it, which people look for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    #[error("Get {url:?}: {reason}")]
    Failed { url: String, reason: String },
    #[error("Get {url:?}: {source}")]
    NoConnection { url: String, source: DialError },
    #[error("Get {url:?}: http: server gave HTTP response to HTTPS client")]
    NoTls { url: String },
    #[error("Get {url:?}: stopped after {REDIRECTS_MAX} redirects")]
    TooManyRedirects { url: String },
    #[error("Get {url:?}: {reason}")]
    Location { url: String, reason: LocationError },
    #[error(
        "Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )]
    TimedOut { url: String },
}

impl GetError {
    /// What a probe that ends with it says.
    pub(super) const fn verdict(&self) -> ProbeVerdict {
        match self {
            Self::NoConnection { source, .. } => source.verdict(),
            Self::Failed { .. }
            | Self::NoTls { .. }
            | Self::TooManyRedirects { .. }
            | Self::Location { .. }
            | Self::TimedOut { .. } => ProbeVerdict::Failure,
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct HttpProbeResponse {
    pub(crate) status: u16,
    /// The beginning of it.
    pub(crate) body: String,
}

/// Sends the request and follows where it is sent to, all within the timeout.
pub(crate) async fn get(
    request: &HttpGet,
    timeout: Duration,
) -> Result<HttpProbeResponse, GetError> {
    let followed = tokio::time::timeout(timeout, follow(request.clone(), timeout)).await;
    followed.unwrap_or_else(|_elapsed| Err(GetError::TimedOut { url: request.url() }))
}

async fn follow(mut request: HttpGet, timeout: Duration) -> Result<HttpProbeResponse, GetError> {
    for _hop in 0..REDIRECTS_MAX {
        let exchange = exchange(&request, timeout).await.map_err(|broken| match broken {
            ExchangeError::NoTls => GetError::NoTls { url: request.url() },
            ExchangeError::NoConnection(source) => {
                GetError::NoConnection { url: request.url(), source }
            }
            ExchangeError::Other(reason) => GetError::Failed { url: request.url(), reason },
        })?;
        let location = exchange.location.as_deref().filter(|location| !location.is_empty());
        let (301 | 302 | 303 | 307 | 308, Some(location)) = (exchange.status, location) else {
            return Ok(HttpProbeResponse { status: exchange.status, body: exchange.body() });
        };
        let location = RedirectLocation::parse(location)
            .map_err(|reason| GetError::Location { url: request.url(), reason })?;
        match request.redirected(&location) {
            RedirectTarget::Request(next) => request = *next,
            RedirectTarget::Elsewhere => {
                return Ok(HttpProbeResponse { status: exchange.status, body: exchange.body() });
            }
            RedirectTarget::UnknownScheme(scheme) => {
                let reason = format!("unsupported protocol scheme {scheme:?}");
                return Err(GetError::Failed { url: request.url(), reason });
            }
        }
    }
    Err(GetError::TooManyRedirects { url: request.url() })
}

/// Why there is no answer on one connection.
enum ExchangeError {
    NoConnection(DialError),
    /// TLS was begun, and the answer is none of TLS.
    NoTls,
    Other(String),
}

impl From<String> for ExchangeError {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

async fn exchange(request: &HttpGet, timeout: Duration) -> Result<HttpExchange, ExchangeError> {
    let stream = tcp::connect(&request.host, request.port, timeout).await;
    let stream = stream.map_err(ExchangeError::NoConnection)?;
    match request.scheme {
        ProbeScheme::Http => Ok(http1::send(request, stream).await?),
        ProbeScheme::Http2 => Ok(http2::send(request, stream).await?),
        ProbeScheme::Https => {
            match tls::connect(&request.host, stream, tls::TlsProtocol::Http1).await {
                Ok(stream) => Ok(http1::send(request, stream).await?),
                Err(error) if error.met_no_tls() => Err(ExchangeError::NoTls),
                Err(error) => Err(ExchangeError::Other(error.to_string())),
            }
        }
    }
}
