//! Connections to a port of the node.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// Connections of one port.
const CONNECTIONS_OF_A_PORT_MAX: usize = 512;
/// How long the pod may take to answer a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a silent connection goes before it is asked whether the other end is still there.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// After a connection could not be accepted, for want of files most likely.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Accepts connections and carries what they bring, until the task is aborted.
pub(super) async fn serve(
    listener: TcpListener,
    port: u16,
    target: watch::Receiver<IpAddr>,
    all: Arc<Semaphore>,
) {
    let mine = Arc::new(Semaphore::new(CONNECTIONS_OF_A_PORT_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = {
            // to its end: who is accepted and waits for a place is not dropped because another one
            // leaves
            let mut accepting = pin!(accept(&listener, &mine, &all));
            loop {
                tokio::select! {
                    accepted = &mut accepting => break accepted,
                    Some(_ended) = connections.join_next() => {}
                }
            }
        };
        match accepted {
            Ok((client, place)) => {
                connections.spawn(carry(client, port, target.clone(), place));
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to a port of the node is not accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

/// A connection's place among those of its port and among all.
struct ConnectionPermits {
    _of_port: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

async fn accept(
    listener: &TcpListener,
    mine: &Arc<Semaphore>,
    all: &Arc<Semaphore>,
) -> io::Result<(TcpStream, ConnectionPermits)> {
    let closed = |_| io::Error::other("no more connections are taken");
    let of_port = mine.clone().acquire_owned().await.map_err(closed)?;
    let (client, _) = listener.accept().await?;
    // only now: a port that nobody asks for holds no place among all
    let of_all = all.clone().acquire_owned().await.map_err(closed)?;
    Ok((client, ConnectionPermits { _of_port: of_port, _of_all: of_all }))
}

async fn carry(
    mut client: TcpStream,
    port: u16,
    mut target: watch::Receiver<IpAddr>,
    _place: ConnectionPermits,
) {
    let address = SocketAddr::new(*target.borrow_and_update(), port);
    let mut pod = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(pod)) => pod,
        Ok(Err(_)) | Err(_) => {
            // as near to a refusal as can be; if it fails, the client sees an end and no reset
            let _ = client.set_zero_linger();
            return;
        }
    };
    for end in [&client, &pod] {
        // a connection without them works, too
        let _ = end.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(end, true);
        let _ = sockopt::set_tcp_keepidle(end, KEEP_ALIVE_AFTER);
    }
    tokio::select! {
        // how it ends is between the two ends
        _ = tokio::io::copy_bidirectional(&mut client, &mut pod) => {}
        // what it talked to is no more
        _ = target.changed() => {}
    }
}
