//! Takes connections until the server is stopped, and ends none before its request is answered.
//!
//! It ends as Go's `http.Server.Shutdown`, on which most controllers and many servers rely: a
//! connection that has been used ends between two requests. One that has not been used has a while
//! to send its first request: its client may be on the way between connect and send.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// How long a connection without any request is waited for once the server is stopped.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Between two attempts to accept after one that failed, as when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Until it is stopped and all connections have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let for_connections = stopped.clone();
    let keep = move |stream| one_connection(stream, router.clone(), for_connections.clone());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(keep(stream))),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            () = is_true(&mut stopped) => break,
        }
    }
    // those that the kernel has made and nothing has accepted yet
    while let Some(stream) = accept_now(&listener).await {
        connections.spawn(keep(stream));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn is_true(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|value| *value).await.is_err() {
        // its sender is gone, so it stays what it is
        std::future::pending::<()>().await;
    }
}

async fn accept_now(listener: &TcpListener) -> Option<TcpStream> {
    poll_fn(|context| match listener.poll_accept(context) {
        Poll::Ready(Ok((stream, _))) => Poll::Ready(Some(stream)),
        Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn one_connection(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    let was_asked = Arc::new(AtomicBool::new(false));
    let service = {
        let was_asked = Arc::clone(&was_asked);
        service_fn(move |request| {
            was_asked.store(true, Ordering::Relaxed);
            router.clone().oneshot(request)
        })
    };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is its client's business: one that is broken ends like any other.
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = is_true(&mut stopped) => {}
    }
    if !was_asked.load(Ordering::Relaxed) {
        tokio::select! {
            _ended = connection.as_mut() => return,
            () = tokio::time::sleep(FIRST_REQUEST) => {}
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ended = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n";

    struct RunningServer {
        address: std::net::SocketAddr,
        stop: watch::Sender<bool>,
        served: tokio::task::JoinHandle<()>,
    }

    async fn server() -> RunningServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let router = Router::new().route("/", get(|| async { "ok" }));
        RunningServer { address, stop, served: tokio::spawn(serve(listener, router, stopped)) }
    }

    #[tokio::test]
    async fn a_connection_that_was_made_before_the_stop_is_answered_after_it() {
        let server = server().await;
        // one that is accepted, and one that only the kernel knows
        let mut accepted = TcpStream::connect(server.address).await.unwrap();
        tokio::task::yield_now().await;
        let mut waiting = TcpStream::connect(server.address).await.unwrap();
        server.stop.send_replace(true);
        for stream in [&mut accepted, &mut waiting] {
            stream.write_all(ASK).await.unwrap();
            let mut answer = [0; 15];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
        }
        drop((accepted, waiting));
        server.served.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "it listens no more");
    }

    #[tokio::test]
    async fn a_connection_that_is_idle_ends_with_the_server() {
        let server = server().await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        idle.write_all(ASK).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            assert_ne!(idle.read_buf(&mut answer).await.unwrap(), 0);
        }
        server.stop.send_replace(true);
        assert_eq!(idle.read_buf(&mut answer).await.unwrap(), 0, "{answer:?}");
        server.served.await.unwrap();
    }
}
