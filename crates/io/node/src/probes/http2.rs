//! A request over HTTP/2 without TLS, begun as such (`protocol: HTTP2`, KEP-5999).

use std::pin::pin;

use bytes::Bytes;
use h2::client::SendRequest;
use http::header::{CONNECTION, HOST};
use http::{Request, Version};
use tokio::io::{AsyncRead, AsyncWrite};

use super::http_request::{HttpExchange, HttpGet};

/// One request on a connection of its own.
pub(super) async fn send<S>(request: &HttpGet, stream: S) -> Result<HttpExchange, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let message = message(request)?;
    let handshake = h2::client::handshake(stream).await;
    let (sender, connection) = handshake.map_err(|error| error.to_string())?;
    let (mut answer, connection) = (pin!(ask(sender, message)), pin!(connection));
    let answered = tokio::select! {
        answered = &mut answer => answered,
        // what has arrived by then is still read
        _closed = connection => answer.await,
    };
    answered.map_err(|error| error.to_string())
}

/// The host stands in the address; what concerns a connection of HTTP/1.1 is left out.
fn message(request: &HttpGet) -> Result<Request<()>, String> {
    let mut headers = request.headers.clone();
    let given = headers.remove(HOST);
    headers.remove(CONNECTION);
    let authority = match given.as_ref().map(|host| host.to_str()) {
        Some(Ok(host)) => host.to_owned(),
        Some(Err(error)) => return Err(format!("invalid host: {error}")),
        None => request.authority(),
    };
    let address = format!("http://{authority}{}", request.target);
    let mut message = Request::get(&address)
        .version(Version::HTTP_2)
        .body(())
        .map_err(|error| format!("invalid address {address:?}: {error}"))?;
    *message.headers_mut() = headers;
    Ok(message)
}

async fn ask(sender: SendRequest<Bytes>, message: Request<()>) -> Result<HttpExchange, h2::Error> {
    let mut sender = sender.ready().await?;
    let (response, _request) = sender.send_request(message, true)?;
    let response = response.await?;
    let mut exchange = HttpExchange::of_head(&response);
    let mut body = response.into_body();
    while exchange.wants_more() {
        let Some(data) = body.data().await else { break };
        let data = data?;
        let _freed = body.flow_control().release_capacity(data.len());
        exchange.keep(&data);
    }
    Ok(exchange)
}
