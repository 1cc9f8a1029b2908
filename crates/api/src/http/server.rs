//! The listener: bounded in connections and in the patience it has with each.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::front::Front;
use super::tls::Tls;
use crate::auth::{Identity, user_of_certificate};

/// What the server allows its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections; more have to wait in the listener's queue.
    pub connections_max: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub streams_max: u32,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the headers of a request, also between two requests on one connection.
    pub headers: Duration,
    /// For open requests when the server stops.
    pub shutdown: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            streams_max: 250,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(120),
            shutdown: Duration::from_secs(5),
        }
    }
}

/// Serves a [`Front`] on a socket.
pub struct Server {
    front: Front,
    tls: Tls,
    limits: ServerLimits,
}

impl Server {
    /// A server.
    pub fn new(front: Front, tls: Tls, limits: ServerLimits) -> Self {
        Self { front, tls, limits }
    }

    /// Accepts connections until `stop` resolves. Then it ends the watches, waits for open requests (within the limit) and
    /// closes.
    ///
    /// # Errors
    /// When the listener fails for good.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        let shared = Arc::new(self);
        let result = loop {
            let accepted = tokio::select! {
                () = &mut stop => break Ok(()),
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &slots) => accepted,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let (server, watcher) = (Arc::clone(&shared), graceful.watcher());
                    connections
                        .spawn(async move { server.connection(stream, watcher, permit).await });
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    // Out of descriptors or memory: it passes when connections end, and not by trying at once.
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

    async fn connection(&self, stream: TcpStream, watcher: Watcher, _permit: OwnedSemaphorePermit) {
        // Watch events are small and must not wait for more.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "set TCP_NODELAY");
        }
        let handshake = self.tls.acceptor().accept(stream);
        match timeout(self.limits.handshake, handshake).await {
            Ok(Ok(stream)) => {
                let identity = identity(stream.get_ref().1);
                self.requests(stream, identity, watcher).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake"),
            Err(_) => tracing::debug!("the TLS handshake took too long"),
        }
    }

    async fn requests<S>(&self, stream: S, identity: Identity, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let front = self.front.clone();
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (front, identity) = (front.clone(), identity.clone());
            async move { Ok::<_, Infallible>(front.serve(identity, request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.headers)
            .max_buf_size(64 * 1024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams_max)
            .keep_alive_interval(Duration::from_secs(60))
            .keep_alive_timeout(Duration::from_secs(30));
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(error = %error, "connection");
        }
    }
}

/// A slot first, then a connection: whoever finds no slot waits in the listener's queue.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
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

/// Who a connection belongs to: the user that its certificate names, or nobody.
fn identity(connection: &rustls::ServerConnection) -> Identity {
    connection
        .peer_certificates()
        .and_then(|chain| user_of_certificate(chain.first()?))
        .map_or(Identity::Anonymous, Identity::User)
}
