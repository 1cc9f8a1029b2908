//! The listener: bounded in connections, in what each may hold, and in the patience it has with
//! them.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rekindle_kinds::identity::ClientIdentity;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::caller::{ConnectedClient, RequestSource};
use super::certificate_gate::CertificateState;
use super::connections::{ConnectionLimits, ConnectionSeat, ConnectionTable};
use super::front::Front;
use super::tls::TlsListener;
use crate::pki::ClientCertificate;

/// What an HTTP/2 client may send before its request is read: the least that the protocol knows
/// (RFC 9113, 6.9.2). A client that shows a certificate is trusted with more.
const WINDOW_BYTES: u32 = 65_535;
const WINDOW_BYTES_WITH_CERTIFICATE: u32 = 1 << 20;
/// Concurrent requests on one HTTP/2 connection: kube-apiserver's 250, and less without a
/// certificate.
const STREAMS_MAX: u32 = 250;
const STREAMS_WITHOUT_CERTIFICATE_MAX: u32 = 100;
/// The head of one HTTP/1 request, and what is read ahead.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The headers of one HTTP/2 request, decoded: the longest token and some more.
const HEADER_LIST_BYTES_MAX: u32 = 24 * 1024;
/// Streams that a client has reset and that are not forgotten yet (CVE-2023-44487).
const PENDING_RESETS_MAX: usize = 20;
/// Streams that were reset for what the client did wrong (CVE-2025-8671).
const ERROR_RESETS_MAX: usize = 64;
/// Bytes of answers that one HTTP/2 stream holds ready for its client.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// What the server allows its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections.
    pub connections: ConnectionLimits,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// From the connection to the first request of a known user. Health checks need none, and
    /// connect again.
    pub identification: Duration,
    /// For the headers of a request, also between two requests on one connection.
    pub headers: Duration,
    /// For open requests when the server stops.
    pub shutdown: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            handshake: Duration::from_secs(10),
            identification: Duration::from_secs(10),
            headers: Duration::from_secs(120),
            shutdown: Duration::from_secs(5),
        }
    }
}

/// Serves a [`Front`] on a socket.
pub struct ApiServer {
    front: Front,
    tls: TlsListener,
    limits: ServerLimits,
}

impl ApiServer {
    /// A server.
    pub fn new(front: Front, tls: TlsListener, limits: ServerLimits) -> Self {
        Self { front, tls, limits }
    }

    /// Accepts connections until `stop` resolves. Then it ends the watches, waits for open requests
    /// (within the limit) and closes.
    ///
    /// # Errors
    /// When the listener fails for good.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let table = ConnectionTable::new(self.limits.connections);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        let shared = Arc::new(self);
        let result = loop {
            let accepted = tokio::select! {
                () = &mut stop => break Ok(()),
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let (server, watcher) = (Arc::clone(&shared), graceful.watcher());
                    let seat = table.enter(address.ip());
                    connections.spawn(async move { server.accept(stream, watcher, seat).await });
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    // Out of descriptors or memory: it passes when connections end, and not by
                    // trying at once.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => break Err(error),
            }
        };
        drop(listener);
        shared.front.end_watches();
        if timeout(shared.limits.shutdown, graceful.shutdown()).await.is_err() {
            tracing::warn!("failed to finish open requests before the server stopped");
        }
        connections.shutdown().await;
        result
    }

    async fn accept(&self, stream: TcpStream, watcher: Watcher, seat: ConnectionSeat) {
        // Watch events are small and must not wait for more.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "set TCP_NODELAY");
        }
        let among_many = seat.is_one_of_many();
        self.connection(stream, watcher, seat).await;
        if among_many {
            self.front.tell_of_burst();
        }
    }

    /// Serves a connection to its end. If its client does not say who it is, it ends after a while,
    /// or for a newer one.
    async fn connection<S>(&self, stream: S, watcher: Watcher, seat: ConnectionSeat)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = timeout(self.limits.handshake, self.tls.acceptor().accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = seat.ended() => return tracing::debug!("a newer connection took the place of one"),
        };
        let stream = match stream {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
            Err(_) => return tracing::debug!("the TLS handshake took too long"),
        };
        let certificate = certificate(stream.get_ref().1);
        let (stream, state) = self.front.certificates.enter(stream, certificate.as_ref());
        let identity = match (certificate, state) {
            (Some(certificate), CertificateState::Good) => ClientIdentity::User(certificate.user),
            (Some(certificate), CertificateState::Revoked) => {
                let user = certificate.user.name;
                tracing::info!(user, "a client showed a revoked certificate");
                ClientIdentity::Anonymous
            }
            (None, _) => ClientIdentity::Anonymous,
        };
        if let ClientIdentity::User(user) = &identity
            && let Err(error) = seat.identify(user)
        {
            // each request is told so, until the connection's time is over
            tracing::debug!(%error, "a connection too many");
        }
        let client = Arc::new(ConnectedClient { identity, seat });
        tokio::select! {
            () = self.requests(stream, &client, watcher) => {}
            () = client.seat.ended() => tracing::debug!("a newer connection took the place of one"),
            () = client.seat.overdue(self.limits.identification) => {
                tracing::debug!("a client did not say in time who it is");
            }
        }
    }

    async fn requests<S>(&self, stream: S, client: &Arc<ConnectedClient>, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (front, caller) = (self.front.clone(), RequestSource::Connected(Arc::clone(client)));
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (front, caller) = (front.clone(), caller.clone());
            async move { Ok::<_, Infallible>(front.serve(&caller, request).await) }
        });
        let (window, streams_max) = match client.identity {
            ClientIdentity::Anonymous => (WINDOW_BYTES, STREAMS_WITHOUT_CERTIFICATE_MAX),
            ClientIdentity::User(_) => (WINDOW_BYTES_WITH_CERTIFICATE, STREAMS_MAX),
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.headers)
            .max_buf_size(HEAD_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams_max)
            .initial_stream_window_size(window)
            .initial_connection_window_size(window)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(ERROR_RESETS_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(Duration::from_secs(60))
            .keep_alive_timeout(Duration::from_secs(30));
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(error = %error, "connection");
        }
    }
}

/// Errors of one connection, or of a shortage, that say nothing about the listener.
fn is_passing(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    const ENOMEM: i32 = 12;
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    ) || matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS | ENOMEM))
}

/// The certificate of the client, if it has shown one that names a user.
fn certificate(connection: &rustls::ServerConnection) -> Option<ClientCertificate> {
    ClientCertificate::from_der(connection.peer_certificates()?.first()?)
}

#[cfg(test)]
mod tests;
