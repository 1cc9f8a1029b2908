//! `pods/proxy`, `services/proxy`, and other API servers: a request is handed on, and its answer
//! back. An upgrade makes both connections one.
//!
//! ```text
//! core: who may, which address -> headers -> PodDialer -> HTTP/1.1 -+-> answer, piece by piece
//!                                                                   +-> 101: bytes both ways
//! ```
//! Source of behaviour: upstream's `UpgradeAwareHandler` and its proxy transport. Links in HTML are
//! not rewritten.

mod aggregated;
pub(super) mod headers;

pub(super) use aggregated::hand_on_to_server;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rekindle_api::proxy_request::ProxyRequest;
use rekindle_api::status::ApiError;
use tokio::io::copy_bidirectional;
use tokio::sync::watch;
use tokio::time::timeout;

use super::body::{FrontBody, FrontPhase};
use super::pod_dialer::{PodConnection, PodDialer};
use super::response::respond;
use super::streams::StreamSlot;

/// A target that does not take the connection within this time is not there; upstream's dialer has
/// the same limit.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// A request on its way to another server.
pub(super) struct ProxiedRequest<'r> {
    pub(super) parts: &'r Parts,
    /// The client's address, if it has one that is known.
    pub(super) client: Option<std::net::IpAddr>,
    pub(super) upgrade: Option<OnUpgrade>,
    /// The place of the stream among those of its user.
    pub(super) slot: StreamSlot,
    pub(super) phase: watch::Receiver<FrontPhase>,
}

/// Hands the request on, and answers what comes back.
pub(super) async fn hand_on(
    dialer: Arc<dyn PodDialer>,
    target: ProxyRequest,
    request: ProxiedRequest<'_>,
) -> Response<FrontBody> {
    if let Some(redirect) = with_slash(&target, request.parts) {
        return redirect;
    }
    match exchange(dialer, target, request).await {
        Ok(response) => response,
        Err(error) => {
            let message = format!("error trying to reach service: {error}");
            respond(ApiError::unavailable(message).into())
        }
    }
}

/// Relative links of a root page need the slash.
fn with_slash(target: &ProxyRequest, parts: &Parts) -> Option<Response<FrontBody>> {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    if !target.path.is_empty() || !reads || headers::wants_upgrade(&parts.headers) {
        return None;
    }
    let location = format!("{}/{}", target.own_path, query_of(parts));
    let mut response = Response::new(FrontBody::full(Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
    Some(response)
}

fn query_of(parts: &Parts) -> String {
    parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default()
}

async fn exchange(
    dialer: Arc<dyn PodDialer>,
    target: ProxyRequest,
    request: ProxiedRequest<'_>,
) -> io::Result<Response<FrontBody>> {
    let ProxyRequest { scheme, address, own_path, path, body } = target;
    let connect = timeout(CONNECT_WITHIN, dialer.connect(address, scheme));
    let connection = connect.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let path = if path.is_empty() { "/" } else { &path };
    let parts = request.parts;
    let mut asked = http::Request::new(Full::new(body));
    *asked.method_mut() = parts.method.clone();
    *asked.uri_mut() = format!("{path}{}", query_of(parts)).parse().map_err(io::Error::other)?;
    *asked.headers_mut() = headers::to_target(parts, &own_path, request.client);
    let mut response = relay(connection, asked, request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        headers::to_client(response.headers_mut(), &own_path, address);
    }
    Ok(response)
}

/// Sends a request on a connection, and gives what comes back: the answer piece by piece, or both
/// connections as one.
async fn relay(
    connection: Box<dyn PodConnection>,
    asked: http::Request<Full<Bytes>>,
    request: ProxiedRequest<'_>,
) -> io::Result<Response<FrontBody>> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connection)).await.map_err(io::Error::other)?;
    // it ends with its request: when the client goes, the answer's body is dropped
    let connection = tokio::spawn(connection.with_upgrades());
    let mut answered = sender.send_request(asked).await.map_err(io::Error::other)?;
    if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut answered);
        let client = request.upgrade.ok_or_else(|| {
            io::Error::other("the target upgrades a connection that cannot be upgraded")
        })?;
        let (slot, phase) = (request.slot, request.phase);
        tokio::spawn(async move {
            let _slot = slot;
            join(client, upgraded, phase).await;
        });
        let (head, _) = answered.into_parts();
        return Ok(Response::from_parts(head, FrontBody::full(Bytes::new())));
    }
    let (mut head, body) = answered.into_parts();
    head.version = http::Version::default();
    let body = AnswerBody { body: BodyDataStream::new(body), _slot: request.slot, connection };
    let body = futures::stream::unfold(body, |mut answer| async move {
        let piece = answer.body.next().await?;
        Some((piece.map_err(io::Error::other), answer))
    });
    Ok(Response::from_parts(head, FrontBody::stream(body.boxed())))
}

/// The body of an answer, and what it needs while it comes.
struct AnswerBody {
    body: BodyDataStream<Incoming>,
    _slot: StreamSlot,
    connection: tokio::task::JoinHandle<hyper::Result<()>>,
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Bytes both ways, until one side closes or the front ends.
async fn join(client: OnUpgrade, target: OnUpgrade, mut phase: watch::Receiver<FrontPhase>) {
    let (client, target) = match tokio::try_join!(client, target) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "upgrade a proxied connection"),
    };
    let (mut client, mut target) = (TokioIo::new(client), TokioIo::new(target));
    let copy: Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(copy_bidirectional(&mut client, &mut target));
    tokio::select! {
        copied = copy => if let Err(error) = copied {
            tracing::debug!(%error, "a proxied connection ended");
        },
        // An error means that the front is gone, which is the same.
        _ = phase.wait_for(|phase| *phase == FrontPhase::Stopping) => {}
    }
}
