//! Datagrams to a port of the node. Each client has a socket of its own towards the pod, so that
//! answers find their way back.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// Clients of one port at a time, as far as there is a place among all connections; datagrams of
/// others are dropped, as datagrams may be.
const CLIENTS_MAX: usize = 256;
/// A client to which the pod has said nothing for so long is forgotten; its next datagram makes it
/// known again.
const SILENT_MAX: Duration = Duration::from_secs(120);
/// After the socket failed.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Bytes of a datagram.
const DATAGRAM_MAX: usize = 65_535;

/// Carries datagrams to the pod and its answers back, until the task is aborted.
pub(super) async fn serve(
    socket: UdpSocket,
    port: u16,
    mut target: watch::Receiver<IpAddr>,
    all: Arc<Semaphore>,
) {
    let socket = Arc::new(socket);
    let mut address = SocketAddr::new(*target.borrow_and_update(), port);
    let mut clients: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut answers = JoinSet::new();
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        tokio::select! {
            // whoever opened it anew gets answers of the new one only
            biased;
            Ok(()) = target.changed() => {
                address = SocketAddr::new(*target.borrow_and_update(), port);
                answers.shutdown().await;
                clients.clear();
            }
            Some(forgotten) = answers.join_next() => {
                if let Ok(client) = forgotten {
                    clients.remove(&client);
                }
            }
            received = socket.recv_from(&mut buffer) => match received {
                Ok((len, client)) => {
                    let known = clients.get(&client).cloned();
                    let pod = match known {
                        Some(pod) => pod,
                        None if clients.len() >= CLIENTS_MAX => continue,
                        None => {
                            let Ok(place) = all.clone().try_acquire_owned() else { continue };
                            let Some(pod) = towards(address).await else { continue };
                            clients.insert(client, pod.clone());
                            answers.spawn(answer(socket.clone(), client, pod.clone(), place));
                            pod
                        }
                    };
                    // a datagram may be lost
                    let _ = pod.send(&buffer[..len]).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "a port of the node receives nothing");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            },
        }
    }
}

/// A socket that speaks with the pod and nobody else.
async fn towards(pod: SocketAddr) -> Option<Arc<UdpSocket>> {
    let any: SocketAddr = match pod.ip() {
        IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await.ok()?;
    socket.connect(pod).await.ok()?;
    Some(Arc::new(socket))
}

/// Carries the pod's answers to a client, until there are no more. Room for one is only held while
/// there is one.
async fn answer(
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    pod: Arc<UdpSocket>,
    _place: OwnedSemaphorePermit,
) -> SocketAddr {
    while let Ok(Ok(())) = tokio::time::timeout(SILENT_MAX, pod.readable()).await {
        let mut buffer = vec![0; DATAGRAM_MAX];
        match pod.try_recv(&mut buffer) {
            // an answer may be lost
            Ok(len) => drop(socket.send_to(&buffer[..len], client).await),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // nobody listens in the pod
            Err(_) => break,
        }
    }
    client
}
