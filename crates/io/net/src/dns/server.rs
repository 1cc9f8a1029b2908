//! The sockets of cluster DNS, and what limits those who ask.
//!
//! It listens at the bridge's address, and answers who is on the pods' subnet, or at that address:
//! pods, and processes of the node. Whoever writes an address from elsewhere on a packet has it
//! answered to nobody; with that of another pod it is answered to that pod, and counts against that
//! pod's places.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::PORT;
use super::answer::{DnsAnswer, DnsRecord, DnsReply, DnsZone, ResponseCode, reply};
use super::message::{DnsQuery, DnsTransport, IncomingMessage, read};
use super::upstream::UpstreamResolvers;
use super::view::DnsView;
use crate::error::NetError;

#[cfg(test)]
mod tests;

/// Bytes of a query at most; longer ones are no questions.
const QUERY_BYTES_MAX: usize = 4096;
/// Questions to other servers, and connections, under way at a time.
const PLACES_MAX: usize = 512;
/// Those of one client: it cannot take all of them.
const PLACES_OF_A_CLIENT_MAX: usize = 64;
/// How long a connection may be silent, or may take to write or to read a message.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// After a socket failed.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What names are answered from; written by whoever watches the API.
pub type SharedView = Arc<RwLock<DnsView>>;

/// What the server is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsSettings {
    /// What it is responsible for, and where it is.
    pub zone: DnsZone,
    /// The resolv.conf that names the resolvers for everything else.
    pub resolv_conf: PathBuf,
}

/// A server that listens. What is asked of it waits until it serves.
#[derive(Debug)]
pub struct DnsServer {
    udp: UdpSocket,
    tcp: TcpListener,
    settings: DnsSettings,
}

/// What the tasks share.
struct SharedServer {
    zone: DnsZone,
    view: SharedView,
    upstream: UpstreamResolvers,
    places: Arc<Semaphore>,
    /// Places in use, by client.
    clients: Mutex<BTreeMap<IpAddr, usize>>,
}

/// What is done about a question.
enum DnsServerStep {
    Send(Vec<u8>),
    Ask(Box<DnsQuery>, Vec<DnsRecord>, Option<String>),
    Drop,
}

impl DnsServer {
    /// Begins to listen. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// When something else on the machine has the port.
    pub async fn open(settings: DnsSettings) -> Result<Self, NetError> {
        Self::open_at(PORT, settings).await
    }

    async fn open_at(port: u16, settings: DnsSettings) -> Result<Self, NetError> {
        let address = SocketAddr::new(settings.zone.server.into(), port);
        let failed = |source| NetError::Dns { address, source };
        let udp = UdpSocket::bind(address).await.map_err(failed)?;
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self { udp, tcp, settings })
    }

    /// Goes on with sockets that another process has listened on.
    pub(super) fn with_sockets(
        udp: OwnedFd,
        tcp: OwnedFd,
        settings: DnsSettings,
    ) -> io::Result<Self> {
        // both are non-blocking already: that belongs to the socket, not to the process
        let udp = UdpSocket::from_std(udp.into())?;
        let tcp = TcpListener::from_std(tcp.into())?;
        Ok(Self { udp, tcp, settings })
    }

    /// The numbers of its sockets in this process: UDP and TCP.
    pub(super) fn socket_numbers(&self) -> [RawFd; 2] {
        [self.udp.as_raw_fd(), self.tcp.as_raw_fd()]
    }

    /// What it serves.
    pub(super) fn settings(&self) -> &DnsSettings {
        &self.settings
    }

    /// Where it listens.
    pub fn address(&self) -> Ipv4Addr {
        self.settings.zone.server
    }

    /// Answers from this view, until it is dropped.
    pub async fn serve(self, view: SharedView) {
        let DnsSettings { zone, resolv_conf } = self.settings;
        let shared = Arc::new(SharedServer {
            upstream: UpstreamResolvers::new(resolv_conf, zone.server.into()),
            zone,
            view,
            places: Arc::new(Semaphore::new(PLACES_MAX)),
            clients: Mutex::default(),
        });
        tokio::join!(serve_udp(self.udp, shared.clone()), serve_tcp(self.tcp, shared));
    }
}

async fn serve_udp(socket: UdpSocket, shared: Arc<SharedServer>) {
    let socket = Arc::new(socket);
    let mut asking = JoinSet::new();
    let mut buffer = vec![0; QUERY_BYTES_MAX];
    loop {
        while asking.try_join_next().is_some() {}
        let (len, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "the DNS socket receives nothing");
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        if shared.serves(client.ip()) {
            match shared.step(&buffer[..len], DnsTransport::Udp) {
                // a datagram may be lost
                DnsServerStep::Send(bytes) => drop(socket.send_to(&bytes, client).await),
                DnsServerStep::Drop => {}
                DnsServerStep::Ask(query, chain, target) => {
                    match ClientPermit::take(&shared, client.ip()) {
                        None => {
                            let busy = query
                                .answer(&DnsAnswer::bare(ResponseCode::Failure), DnsTransport::Udp);
                            drop(socket.send_to(&busy, client).await);
                        }
                        Some(place) => {
                            let socket = socket.clone();
                            asking.spawn(async move {
                                let shared = &place.shared;
                                let answer =
                                    shared.ask(&query, &chain, target, DnsTransport::Udp).await;
                                drop(socket.send_to(&answer, client).await);
                            });
                        }
                    }
                }
            }
        }
        // a flood gets one turn in many
        tokio::task::yield_now().await;
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<SharedServer>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, client)) if shared.serves(client.ip()) => {
                // who has too many is not heard
                if let Some(place) = ClientPermit::take(&shared, client.ip()) {
                    connections.spawn(async move {
                        if let Err(error) = converse(stream, &place.shared).await {
                            tracing::trace!(%client, %error, "a DNS connection ended");
                        }
                    });
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a DNS connection is not accepted");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

/// One question after the other, until the client is silent or says what is none.
async fn converse(mut stream: TcpStream, shared: &SharedServer) -> io::Result<()> {
    loop {
        let asked = async {
            let len = usize::from(stream.read_u16().await?);
            if len > QUERY_BYTES_MAX {
                return Err(io::Error::other("a query that is too long"));
            }
            let mut bytes = vec![0; len];
            stream.read_exact(&mut bytes).await?;
            Ok(bytes)
        };
        let bytes = tokio::time::timeout(SILENT_MAX, asked).await??;
        let answer = match shared.step(&bytes, DnsTransport::Tcp) {
            DnsServerStep::Send(answer) => answer,
            DnsServerStep::Ask(query, chain, target) => {
                shared.ask(&query, &chain, target, DnsTransport::Tcp).await
            }
            DnsServerStep::Drop => return Ok(()),
        };
        let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let message = [&len.to_be_bytes()[..], &answer].concat();
        tokio::time::timeout(SILENT_MAX, stream.write_all(&message)).await??;
    }
}

impl SharedServer {
    fn serves(&self, client: IpAddr) -> bool {
        match client {
            IpAddr::V4(client) => client == self.zone.server || self.zone.subnet.contains(&client),
            IpAddr::V6(_) => false,
        }
    }

    fn step(&self, bytes: &[u8], transport: DnsTransport) -> DnsServerStep {
        let query = match read(bytes) {
            IncomingMessage::Nothing => return DnsServerStep::Drop,
            IncomingMessage::Wrong(answer) => return DnsServerStep::Send(answer),
            IncomingMessage::Query(query) => query,
        };
        let found = {
            let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
            reply(&view, &self.zone, &query.question, query.turn())
        };
        match found {
            DnsReply::Answer(answer) => DnsServerStep::Send(query.answer(&answer, transport)),
            DnsReply::Alias { chain, target } => DnsServerStep::Ask(query, chain, Some(target)),
            DnsReply::NotOurs => DnsServerStep::Ask(query, Vec::new(), None),
        }
    }

    async fn ask(
        &self,
        query: &DnsQuery,
        chain: &[DnsRecord],
        target: Option<String>,
        transport: DnsTransport,
    ) -> Vec<u8> {
        match (self.upstream.ask(query, target.as_deref(), transport).await, &target) {
            (None, _) => query.answer(&DnsAnswer::bare(ResponseCode::Failure), transport),
            (Some(answer), None) => query.pass_on(answer, transport),
            (Some(answer), Some(_)) => query.continue_with(chain, &answer, transport),
        }
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        // nothing panics halfway through a change
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's place among what is under way.
struct ClientPermit {
    shared: Arc<SharedServer>,
    client: IpAddr,
    _of_all: tokio::sync::OwnedSemaphorePermit,
}

impl ClientPermit {
    fn take(shared: &Arc<SharedServer>, client: IpAddr) -> Option<Self> {
        let of_all = shared.places.clone().try_acquire_owned().ok()?;
        let mut clients = shared.clients();
        let mine = clients.entry(client).or_default();
        if *mine >= PLACES_OF_A_CLIENT_MAX {
            return None;
        }
        *mine += 1;
        drop(clients);
        Some(Self { shared: shared.clone(), client, _of_all: of_all })
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut clients = self.shared.clients();
        if let Some(mine) = clients.get_mut(&self.client) {
            *mine -= 1;
            if *mine == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
