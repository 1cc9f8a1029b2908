//! HTTP to registries: one request and its answer, with time limits. Redirects are followed by the
//! session, which knows what must not be sent along.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rekindle_types::causes;
use rustls::{ClientConfig, RootCertStore};

use super::error::RegistryError;
use super::settings::RegistrySettings;

/// Idle connections to one host that are kept for the next layer.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// How long they are kept.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// A pool of connections to registries.
#[derive(Debug)]
pub(super) struct RegistryTransport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    answer_timeout: Duration,
    stall_timeout: Duration,
}

impl RegistryTransport {
    /// Reads the system's trusted certificates; connects to nobody.
    pub(super) fn new(settings: &RegistrySettings) -> Result<Self, RegistryError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(settings.answer_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(IDLE_FOR)
            .build(connector);
        Ok(Self {
            client,
            answer_timeout: settings.answer_timeout,
            stall_timeout: settings.stall_timeout,
        })
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RegistryError> {
        let host = host_of(request.uri());
        match tokio::time::timeout(self.answer_timeout, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(RegistryError::Unreachable { host, problem: causes(&error) }),
            Err(_elapsed) => Err(self.slow(host, "answer", self.answer_timeout)),
        }
    }

    /// The next piece of an answer; `None` at its end.
    pub(super) async fn next_piece(
        &self,
        host: &str,
        body: &mut Incoming,
    ) -> Result<Option<Bytes>, RegistryError> {
        loop {
            let frame = tokio::time::timeout(self.stall_timeout, body.frame());
            match frame.await {
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_trailers) => continue,
                },
                Ok(Some(Err(error))) => {
                    let (host, problem) = (host.to_owned(), causes(&error));
                    return Err(RegistryError::Unreachable { host, problem });
                }
                Ok(None) => return Ok(None),
                Err(_elapsed) => {
                    let limit = self.stall_timeout;
                    return Err(self.slow(host.to_owned(), "send the next bytes", limit));
                }
            }
        }
    }

    /// A whole answer of at most `limit_bytes`; `Ok(None)` when it is longer.
    pub(super) async fn whole(
        &self,
        host: &str,
        mut body: Incoming,
        limit_bytes: u64,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        if body.size_hint().lower() > limit_bytes {
            return Ok(None);
        }
        let mut whole = Vec::new();
        while let Some(piece) = self.next_piece(host, &mut body).await? {
            if (whole.len() + piece.len()) as u64 > limit_bytes {
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole))
    }

    fn slow(&self, host: String, doing: &'static str, limit: Duration) -> RegistryError {
        RegistryError::Timeout { host, doing, limit }
    }
}

/// `host` or `host:port`.
pub(super) fn host_of(uri: &Uri) -> String {
    uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default()
}

fn tls(settings: &RegistrySettings) -> Result<ClientConfig, RegistryError> {
    let failed = |source: std::io::Error| RegistryError::Tls { source };
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a trusted certificate of the system cannot be read");
    }
    // a certificate that rustls cannot use is no reason not to use the others
    roots.add_parsable_certificates(found.certs);
    for certificate in &settings.extra_roots {
        roots
            .add(certificate.clone())
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
