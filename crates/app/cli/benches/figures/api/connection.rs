//! A client that costs little beside the server: one TLS connection, requests as bytes, answers not
//! decoded.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::idle::rollup;

pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const APPLY: &str = "application/apply-patch+yaml";

/// An API server, and who its clients are.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    pub tls: Arc<ClientConfig>,
    /// None for clients that have a certificate.
    pub authorization: Option<HeaderValue>,
    /// What belongs to it: their memory is counted.
    pub processes: Vec<u32>,
}

/// A kept connection.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    authorization: Option<HeaderValue>,
}

/// A connection that many requests share at the same time, as typed clients have it.
pub struct SharedConnection {
    sender: http2::SendRequest<Full<Bytes>>,
    authority: String,
    authorization: Option<HeaderValue>,
}

impl Server {
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TokioIo::new(self.open(b"http/1.1").await?);
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, authorization: self.authorization.clone() })
    }

    pub async fn connect_to_share(&self) -> anyhow::Result<SharedConnection> {
        let stream = TokioIo::new(self.open(b"h2").await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        let (authority, authorization) = (self.address.to_string(), self.authorization.clone());
        Ok(SharedConnection { sender, authority, authorization })
    }

    async fn open(&self, protocol: &[u8]) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await.context("connect to the API")?;
        stream.set_nodelay(true)?;
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::from(self.address.ip());
        Ok(TlsConnector::from(Arc::new(tls)).connect(name, stream).await?)
    }

    /// The memory of its processes that is resident.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let resident = self.processes.iter().map(|pid| rollup(*pid, "Rss"));
        Ok(1024 * resident.sum::<anyhow::Result<u64>>()?)
    }
}

impl Connection {
    /// Reads an object or a list; answers its bytes.
    pub async fn get(&mut self, path: &str, accept: &str) -> anyhow::Result<Bytes> {
        let request = Request::get(path).header(header::ACCEPT, accept);
        let answer = self.send(request, Bytes::new()).await?;
        Ok(answer.collect().await?.to_bytes())
    }

    /// Whether there is something at this path.
    pub async fn is_served(&mut self, path: &str) -> anyhow::Result<bool> {
        let request = self.prepare(Request::get(path), Bytes::new())?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let is_served = answer.status().is_success();
        answer.into_body().collect().await?;
        Ok(is_served)
    }

    /// Writes an object.
    pub async fn write(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<()> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, JSON);
        self.send(request, body).await?.collect().await?;
        Ok(())
    }

    fn prepare(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = request.header(header::HOST, "api").body(Full::new(body))?;
        Ok(with_authorization(request, self.authorization.as_ref()))
    }

    async fn send(
        &mut self,
        request: http::request::Builder,
        body: Bytes,
    ) -> anyhow::Result<Incoming> {
        let request = self.prepare(request, body)?;
        let what = format!("{} {}", request.method(), request.uri());
        self.sender.ready().await?;
        success(&what, self.sender.send_request(request).await?).await
    }
}

impl SharedConnection {
    /// Begins a watch.
    pub async fn watch(&self, path: &str) -> anyhow::Result<Incoming> {
        let uri = format!("https://{}{path}", self.authority);
        let request = Request::get(uri).header(header::ACCEPT, JSON).body(Full::default())?;
        let request = with_authorization(request, self.authorization.as_ref());
        let mut sender = self.sender.clone();
        sender.ready().await?;
        success(path, sender.send_request(request).await?).await
    }
}

fn with_authorization(
    mut request: Request<Full<Bytes>>,
    authorization: Option<&HeaderValue>,
) -> Request<Full<Bytes>> {
    if let Some(authorization) = authorization {
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
    }
    request
}

/// The body of an answer that is no error.
async fn success(what: &str, answer: Response<Incoming>) -> anyhow::Result<Incoming> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer.into_body());
    }
    let said = answer.into_body().collect().await?.to_bytes();
    bail!("{what}: {status}: {}", String::from_utf8_lossy(&said))
}
