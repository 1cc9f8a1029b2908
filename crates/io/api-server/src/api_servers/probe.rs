//! Asks another API server what it serves. That it answers is what makes it available.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{self, Either, select_ok};
use http::header::{self, HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::UserInfo as ShownUser;
use rekindle_api::api_services::{FollowedServer, ServerDiscovery};
use rekindle_kinds::api_service::ServerAvailability;
use rekindle_kinds::identity::MASTERS;
use rekindle_types::causes;
use tokio::time::timeout;

use crate::front::Front;
use crate::proxy::headers::name_user;

/// Endpoints that are asked at the same time; one that answers is enough. As many as upstream asks.
const ENDPOINTS_MAX: usize = 5;
/// How long a server may take, as upstream.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Who asks, as upstream.
const ASKS_AS: &str = "system:kube-aggregator";
const OPENAPI_INDEX: &str = "/openapi/v3";

/// What the server serves, or why it is not available.
pub(super) async fn probe(
    front: &Front,
    server: &FollowedServer,
) -> Result<ServerDiscovery, ServerAvailability> {
    let addresses = server.endpoints.clone()?;
    let path = server.discovery_path();
    let asked = addresses.iter().take(ENDPOINTS_MAX).map(|address| {
        async move { discover(front, server, *address).await.map(|found| (*address, found)) }
            .boxed()
    });
    let ((address, found), _others) = select_ok(asked).await.map_err(|(address, error)| {
        let message = format!("failing or missing response from https://{address}{path}: {error}");
        ServerAvailability { is_available: false, reason: "FailedDiscoveryCheck", message }
    })?;
    let index = get(front, server, address, OPENAPI_INDEX).await.unwrap_or_default();
    Ok(found.with_openapi_index(&server.group_version, &index))
}

async fn discover(
    front: &Front,
    server: &FollowedServer,
    address: SocketAddr,
) -> Result<ServerDiscovery, (SocketAddr, String)> {
    let list = get(front, server, address, &server.discovery_path()).await;
    let list = list.map_err(|error| (address, causes(&error)))?;
    ServerDiscovery::parse(&server.group_version, &list).map_err(|error| (address, error))
}

/// The body of the answer at a path.
async fn get(
    front: &Front,
    server: &FollowedServer,
    address: SocketAddr,
    path: &str,
) -> io::Result<Bytes> {
    let got = timeout(ANSWER_WITHIN, exchange(front, server, address, path)).await;
    // as Go says it
    got.unwrap_or_else(|_| Err(io::Error::other("context deadline exceeded")))
}

async fn exchange(
    front: &Front,
    server: &FollowedServer,
    address: SocketAddr,
    path: &str,
) -> io::Result<Bytes> {
    let connection = front.api_servers.connect(&front.pods, &server.server, address).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connection)).await.map_err(io::Error::other)?;
    let mut request = http::Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path.parse().map_err(io::Error::other)?;
    *request.headers_mut() = headers(&server.server.host)?;
    let answered = async {
        let answered = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answered.status();
        if !status.is_success() {
            return Err(io::Error::other(format!("bad status: {}", status.as_u16())));
        }
        let body = Limited::new(answered.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok(body.map_err(io::Error::other)?.to_bytes())
    };
    let (answered, connection) = (pin!(answered), pin!(connection));
    match future::select(answered, connection).await {
        Either::Left((answer, _)) => answer,
        // what came before the end is still to be read
        Either::Right((_, answered)) => answered.await,
    }
}

/// The group of masters has rights everywhere, so that no role of the server hides what it serves.
fn headers(host: &str) -> io::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let user = ShownUser {
        username: Some(ASKS_AS.to_owned()),
        groups: Some(vec![MASTERS.to_owned()]),
        ..ShownUser::default()
    };
    name_user(&mut headers, &user);
    headers.insert(header::HOST, HeaderValue::from_str(host).map_err(io::Error::other)?);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    Ok(headers)
}
