//! Ports of the node that lead to pods (`hostPort`).
//!
//! ```text
//!  client ──► listener of the node ──► this process ──► the pod's address and port
//!                       │ kept open while the pod goes from one sandbox to the next: only the address changes
//! ```
//! The bytes go through this process: that needs neither a kernel module nor a program nor a
//! setting of the machine, works on the loopback, and leaves nothing behind when the process is
//! killed. The price: the pod sees the bridge's address and not the client's, and connections end
//! with this process; the next one opens the ports again.
//!
//! A port belongs to a pod and leads to one of its sandboxes. How many connections there are is
//! bounded, for each port and for all: whoever comes then waits to be accepted.
//!
//! A pod that starts gets all of its ports or waits. One that runs already goes on without a port
//! that somebody else has taken meanwhile, and so does its next sandbox: `reopen` opens it within
//! ten seconds of being free.

mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Resource;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::error::NetError;
use crate::host_port::{HostPort, PortProtocol};

/// Connections and clients of all ports together at most, however many files this process may open.
const CONNECTIONS_MAX: u64 = 4096;
/// And at least, however few.
const CONNECTIONS_MIN: u64 = 32;
/// Until a port that was taken is tried again; it doubles each time.
const AGAIN_AFTER_MIN: Duration = Duration::from_secs(1);
/// The longest wait.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);
/// Files for one connection, and as many are left to everything else.
const FILES_PER_CONNECTION: u64 = 4;

/// The open ports of one node, by pod.
#[derive(Debug)]
pub(crate) struct HostPorts {
    open: Mutex<BTreeMap<String, PodOpenPorts>>,
    /// A place for each connection and each client.
    connections: Arc<Semaphore>,
}

/// Those of one pod.
#[derive(Debug)]
struct PodOpenPorts {
    /// Where they lead.
    sandbox: String,
    ports: Vec<HostPort>,
    /// Its address.
    target: watch::Sender<IpAddr>,
    tasks: Vec<JoinHandle<()>>,
}

/// A socket that listens and that nobody serves yet.
enum ListeningSocket {
    Tcp(tokio::net::TcpListener),
    Udp(tokio::net::UdpSocket),
}

impl HostPorts {
    pub(crate) fn new() -> Self {
        let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let connections = (files / FILES_PER_CONNECTION).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        Self::with_places(usize::try_from(connections).expect("at most CONNECTIONS_MAX"))
    }

    /// For so many connections and clients at a time.
    fn with_places(places: usize) -> Self {
        Self { open: Mutex::default(), connections: Arc::new(Semaphore::new(places)) }
    }

    /// Opens all of them or none. What the pod has open already leads to this sandbox from now on.
    pub(crate) async fn open(
        &self,
        pod: &str,
        sandbox: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Result<(), NetError> {
        if self.turn(pod, sandbox, target, ports) {
            return Ok(());
        }
        self.close_of(pod).await;
        if ports.is_empty() {
            return Ok(());
        }
        let listening: Result<Vec<_>, _> = ports.iter().map(|port| listen(*port)).collect();
        let listening = listening?.into_iter().map(Some).collect();
        self.serve(pod, sandbox, target, ports, listening).await;
        Ok(())
    }

    /// The same for a pod that runs already: what can be opened is open now, the rest within
    /// [`AGAIN_AFTER_MAX`] of being free. Answers why it is not.
    pub(crate) async fn reopen(
        &self,
        pod: &str,
        sandbox: &str,
        target: IpAddr,
        ports: &[HostPort],
    ) -> Vec<NetError> {
        if ports.is_empty() || self.turn(pod, sandbox, target, ports) {
            return Vec::new();
        }
        self.close_of(pod).await;
        let mut refused = Vec::new();
        let mut listening = Vec::with_capacity(ports.len());
        for port in ports {
            match listen(*port) {
                Ok(socket) => listening.push(Some(socket)),
                Err(error) => {
                    refused.push(error);
                    listening.push(None);
                }
            }
        }
        self.serve(pod, sandbox, target, ports, listening).await;
        refused
    }

    /// Serves what listens, and waits for those ports that do not: there is a place for each.
    async fn serve(
        &self,
        pod: &str,
        sandbox: &str,
        target: IpAddr,
        ports: &[HostPort],
        listening: Vec<Option<ListeningSocket>>,
    ) {
        let (target, _) = watch::channel(target);
        let tasks = ports.iter().copied().zip(listening).map(|(port, listening)| {
            let (target, places) = (target.subscribe(), self.connections.clone());
            tokio::spawn(async move {
                let socket = match listening {
                    Some(socket) => socket,
                    None => listen_when_free(port).await,
                };
                match socket {
                    ListeningSocket::Tcp(listener) => {
                        tcp::serve(listener, port.pod_port, target, places).await;
                    }
                    ListeningSocket::Udp(socket) => {
                        udp::serve(socket, port.pod_port, target, places).await;
                    }
                }
            })
        });
        let tasks = tasks.collect();
        let sandbox = sandbox.to_owned();
        let opened = PodOpenPorts { sandbox, ports: ports.to_vec(), target, tasks };
        let before = self.lock().insert(pod.to_owned(), opened);
        end(before).await;
    }

    /// Closes all ports of a pod.
    async fn close_of(&self, pod: &str) {
        let closed = self.lock().remove(pod);
        end(closed).await;
    }

    /// The same ports are open: they lead there now.
    fn turn(&self, pod: &str, sandbox: &str, target: IpAddr, ports: &[HostPort]) -> bool {
        let mut open = self.lock();
        let Some(opened) = open.get_mut(pod).filter(|opened| opened.ports == ports) else {
            return false;
        };
        sandbox.clone_into(&mut opened.sandbox);
        opened.target.send_if_modified(|now| std::mem::replace(now, target) != target);
        true
    }

    /// Closes what leads to this sandbox; the ports are free when it returns.
    pub(crate) async fn close(&self, sandbox: &str) {
        let closed: Vec<PodOpenPorts> = {
            let mut open = self.lock();
            open.extract_if(.., |_, opened| opened.sandbox == sandbox).map(|(_, o)| o).collect()
        };
        end(closed).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PodOpenPorts>> {
        // nothing here panics halfway through a change
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PodOpenPorts {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Ends their tasks, and with them the sockets and connections.
async fn end(closed: impl IntoIterator<Item = PodOpenPorts>) {
    for mut ports in closed {
        for task in std::mem::take(&mut ports.tasks) {
            task.abort();
            // it was told to stop: how it ended says nothing
            drop(task.await);
        }
    }
}

/// Tries until nobody else has it.
async fn listen_when_free(port: HostPort) -> ListeningSocket {
    let mut wait = AGAIN_AFTER_MIN;
    loop {
        tokio::time::sleep(wait).await;
        match listen(port) {
            Ok(socket) => {
                tracing::info!(port = %port.listen, protocol = %port.protocol, "a port of the node that was lost is open again");
                return socket;
            }
            Err(error) => {
                tracing::debug!(%error, "a port of the node is still taken");
                wait = (wait * 2).min(AGAIN_AFTER_MAX);
            }
        }
    }
}

fn listen(port: HostPort) -> Result<ListeningSocket, NetError> {
    let failed = |source: io::Error| NetError::HostPort {
        listen: port.listen,
        protocol: port.protocol,
        source,
    };
    let listening = match port.protocol {
        PortProtocol::Tcp => {
            let listener = TcpListener::bind(port.listen).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            tokio::net::TcpListener::from_std(listener).map(ListeningSocket::Tcp)
        }
        PortProtocol::Udp => {
            let socket = UdpSocket::bind(port.listen).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            tokio::net::UdpSocket::from_std(socket).map(ListeningSocket::Udp)
        }
    };
    listening.map_err(failed)
}
