//! A request over HTTP/1.1, on a connection with TLS or without.

use std::pin::pin;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle_types::causes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::http_request::{HttpExchange, HttpGet};

/// One request on a connection of its own.
pub(super) async fn send<S>(request: &HttpGet, stream: S) -> Result<HttpExchange, String>
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

async fn read(response: Response<Incoming>) -> Result<HttpExchange, String> {
    let mut exchange = HttpExchange::of_head(&response);
    let mut body = response.into_body();
    while exchange.wants_more() {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| causes(&error))?;
        exchange.keep(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
    }
    Ok(exchange)
}
