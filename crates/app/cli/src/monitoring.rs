//! What monitoring asks of an operator or an agent: `/metrics`, `/healthz` and `/readyz`, by plain
//! HTTP.
//!
//! The engine has an API server for this; a process of a cluster has only this endpoint. It says
//! nothing secret and takes nothing in, so it needs no TLS and no rights.
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use rekindle_metrics::Text;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::output;

/// Connections at the same time: a scraper or two, and the kubelet.
const CONNECTIONS_MAX: usize = 32;
/// For the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// For a connection as a whole, so that idle ones make room.
const CONNECTION_LASTS: Duration = Duration::from_secs(120);

/// What is shown.
pub(crate) trait Monitored: Send + Sync + 'static {
    /// Its metrics.
    fn write_metrics(&self, text: &mut Text);
    /// Why it cannot do its work yet; `None` when it can.
    fn not_ready(&self) -> impl Future<Output = Option<String>> + Send;
}

/// Listens at the first of these addresses that there is, and answers until the future is dropped.
///
/// # Errors
/// None can be listened at.
pub(crate) async fn listen<M: Monitored>(
    addresses: &[SocketAddr],
    monitored: Arc<M>,
) -> anyhow::Result<impl Future<Output = Infallible> + use<M>> {
    let listener = TcpListener::bind(addresses)
        .await
        .context("listen at --metrics-bind-address: give another one, or 0 for none")?;
    let address = listener.local_addr().context("look at --metrics-bind-address")?;
    output::tell(format!("metrics: http://{address}/metrics"));
    Ok(serve(listener, monitored))
}

async fn serve(listener: TcpListener, monitored: Arc<impl Monitored>) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection for monitoring");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let monitored = Arc::clone(&monitored);
        tokio::spawn(async move {
            let _permit = permit;
            let answers = service_fn(move |request: Request<Incoming>| {
                let monitored = Arc::clone(&monitored);
                async move {
                    let (method, path) = (request.method(), request.uri().path());
                    Ok::<_, Infallible>(answer(method, path, &*monitored).await)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .serve_connection(TokioIo::new(stream), answers);
            // a client that breaks off is no event here
            let _ = tokio::time::timeout(CONNECTION_LASTS, connection).await;
        });
    }
}

async fn answer(method: &Method, path: &str, monitored: &impl Monitored) -> Response<Full<Bytes>> {
    let (status, content_type, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut text = Text::default();
            monitored.write_metrics(&mut text);
            rekindle_api_server::process_files().write(&mut text);
            (StatusCode::OK, rekindle_metrics::CONTENT_TYPE, text.into_string())
        }
        // the event loop answers, so the process lives
        (&Method::GET | &Method::HEAD, "/healthz") => plain(StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, "/readyz") => match monitored.not_ready().await {
            None => plain(StatusCode::OK, "ok"),
            Some(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, &reason),
        },
        (_, "/metrics" | "/healthz" | "/readyz") => {
            plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered")
        }
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz"),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn plain(status: StatusCode, text: &str) -> (StatusCode, &'static str, String) {
    (status, "text/plain; charset=utf-8", text.to_owned())
}
