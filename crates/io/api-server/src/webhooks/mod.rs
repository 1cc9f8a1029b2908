//! Asks webhooks what the core wants to know of them: those of admission, and those that convert
//! objects between versions.
//!
//! ```text
//! question -> TCP to the endpoint, or to the host of the URL -> TLS -> POST -> answer
//!             |-------------- within the time of the webhook --------------|
//! ```

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, Either};
use futures::{StreamExt, stream};
use http::{HeaderValue, Method, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle_api::admission_session::{WebhookQuestion, WebhookTarget};
use rekindle_api::proxy_request::ProxyScheme;
use rekindle_types::causes;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::pod_dialer::{PodConnection, PodDialer};
use super::server_trust;

/// How many webhooks are asked at the same time for one request.
const ASKED_AT_ONCE: usize = 16;
const HTTPS_PORT: u16 = 443;

/// Asks all of them. Gives their answers in the same order, or why there is none. No webhook has
/// longer than until the deadline.
pub(super) async fn ask_all(
    dialer: &Arc<dyn PodDialer>,
    questions: Vec<WebhookQuestion>,
    deadline: Instant,
) -> Vec<Result<Bytes, String>> {
    let asked = questions.into_iter().map(|question| ask(Arc::clone(dialer), question, deadline));
    stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await
}

async fn ask(
    dialer: Arc<dyn PodDialer>,
    question: WebhookQuestion,
    deadline: Instant,
) -> Result<Bytes, String> {
    let own = Duration::from_secs(question.timeout_seconds.into());
    let left = deadline.saturating_duration_since(Instant::now());
    let webhook = question.webhook.clone();
    let answer = match timeout(own.min(left), exchange(dialer, question)).await {
        Ok(answer) => answer.map_err(|error| causes(&error)),
        // as Go says it
        Err(_) => Err("context deadline exceeded".to_owned()),
    };
    if let Err(error) = &answer {
        tracing::warn!(webhook, error, "failed to call a webhook");
    }
    answer
}

async fn exchange(dialer: Arc<dyn PodDialer>, question: WebhookQuestion) -> io::Result<Bytes> {
    let uri: Uri = question.target.url.parse().map_err(io::Error::other)?;
    let authority = uri.authority().ok_or_else(|| io::Error::other("the URL has no host"))?;
    let config = server_trust::config_of_bundle(&question.ca_bundle)?.with_no_client_auth();
    let name = host_name(authority.host())?;
    let connection = connect(dialer, &question.target, authority).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let connection = connector.connect(name, connection).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connection)).await.map_err(io::Error::other)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let json = HeaderValue::from_static("application/json");
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, authority.as_str())
        .header(header::CONTENT_TYPE, json.clone())
        .header(header::ACCEPT, json)
        .body(Full::new(question.body))
        .map_err(io::Error::other)?;
    let answered = async {
        let answered = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answered.status();
        if !status.is_success() {
            return Err(io::Error::other(format!("the webhook answered {status}")));
        }
        let body = Limited::new(answered.into_body(), question.answer_bytes_max).collect().await;
        Ok(body.map_err(io::Error::other)?.to_bytes())
    };
    let (answered, connection) = (pin!(answered), pin!(connection));
    match future::select(answered, connection).await {
        Either::Left((answer, _)) => answer,
        // what came before the end is still to be read, also when the server ended TLS abruptly
        Either::Right((_, answered)) => answered.await,
    }
}

async fn connect(
    dialer: Arc<dyn PodDialer>,
    target: &WebhookTarget,
    authority: &http::uri::Authority,
) -> io::Result<Box<dyn PodConnection>> {
    match &target.endpoint {
        Some(Ok(address)) => dialer.connect(*address, ProxyScheme::Http).await,
        Some(Err(why)) => Err(io::Error::other(why.clone())),
        None => {
            let port = authority.port_u16().unwrap_or(HTTPS_PORT);
            let host = authority.host().trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, port)).await;
            let stream = stream.map_err(|error| {
                io::Error::new(error.kind(), format!("connect to {host}:{port}: {error}"))
            })?;
            Ok(Box::new(stream))
        }
    }
}

/// The name or address that the certificate must be for.
fn host_name(host: &str) -> io::Result<ServerName<'static>> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
