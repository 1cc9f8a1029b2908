//! The node's own resolvers, asked about names that are not the cluster's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::base::Message;
use domain::base::iana::Rcode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::Instant;

use super::message::{DnsQuery, DnsTransport};
use crate::files::{NAMESERVERS_MAX, resolver_of};

const PORT: u16 = 53;
/// How long one resolver is waited for. A client asks again after 5 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the node's resolv.conf is believed: a laptop changes networks.
const FILE_BELIEVED_FOR: Duration = Duration::from_secs(5);
/// Bytes of an answer over UDP: no more is asked for.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// The resolvers, as the node's file names them.
#[derive(Debug)]
pub(super) struct UpstreamResolvers {
    file: PathBuf,
    /// The server itself: whatever the node's file says, it is not asked in turn.
    own: IpAddr,
    known: Mutex<Option<(Instant, Vec<IpAddr>)>>,
}

impl UpstreamResolvers {
    pub(super) fn new(file: PathBuf, own: IpAddr) -> Self {
        Self { file, own, known: Mutex::default() }
    }

    /// Asks one after the other until one has an answer. `None`: the node has no resolver, or none
    /// answers.
    pub(super) async fn ask(
        &self,
        query: &DnsQuery,
        target: Option<&str>,
        transport: DnsTransport,
    ) -> Option<Vec<u8>> {
        let mut refused = None;
        for resolver in self.resolvers() {
            let message = query.to_upstream(random_id()?, target)?;
            let address = SocketAddr::new(resolver, PORT);
            let asked = async {
                match transport {
                    DnsTransport::Udp => over_udp(address, &message).await,
                    DnsTransport::Tcp => over_tcp(address, &message).await,
                }
            };
            match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
                Ok(Ok(answer)) if is_final(&answer) => return Some(answer),
                Ok(Ok(answer)) => refused = Some(answer),
                Ok(Err(error)) => tracing::debug!(%resolver, %error, "a resolver cannot be asked"),
                Err(_) => tracing::debug!(%resolver, "a resolver does not answer"),
            }
        }
        refused
    }

    fn resolvers(&self) -> Vec<IpAddr> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &*known {
            Some((read_at, resolvers)) if now.duration_since(*read_at) < FILE_BELIEVED_FOR => {
                return resolvers.clone();
            }
            Some(_) | None => {}
        }
        // a small file of the node, and seldom
        let resolvers = match resolver_of(&self.file) {
            Ok(found) => {
                let addresses = found.nameservers.iter().filter_map(|text| text.parse().ok());
                addresses.filter(|address| *address != self.own).take(NAMESERVERS_MAX).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the node's resolvers");
                Vec::new()
            }
        };
        *known = Some((now, resolvers.clone()));
        resolvers
    }
}

/// One that another resolver cannot better.
fn is_final(answer: &[u8]) -> bool {
    let code = Message::from_octets(answer).map(|message| message.header().rcode());
    code.is_ok_and(|code| !matches!(code, Rcode::SERVFAIL | Rcode::REFUSED | Rcode::NOTIMP))
}

/// Nobody can guess it, and so nobody else can answer.
fn random_id() -> Option<u16> {
    let mut id = [0; 2];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).ok()?;
    Some(u16::from_ne_bytes(id))
}

async fn over_udp(resolver: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match resolver.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // a port of its own for each question: the kernel chooses it, and takes answers of this
    // resolver only
    let socket = UdpSocket::bind(any).await?;
    socket.connect(resolver).await?;
    socket.send(message).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let len = socket.recv(&mut answer).await?;
        if answers(&answer[..len], message) {
            answer.truncate(len);
            return Ok(answer);
        }
    }
}

async fn over_tcp(resolver: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes()[..], message].concat()).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; len.into()];
    stream.read_exact(&mut answer).await?;
    match answers(&answer, message) {
        true => Ok(answer),
        false => Err(io::Error::other("it answers another question")),
    }
}

fn answers(answer: &[u8], message: &[u8]) -> bool {
    match (Message::from_octets(answer), Message::from_octets(message)) {
        (Ok(answer), Ok(message)) => answer.is_answer(&message),
        (Err(_), _) | (_, Err(_)) => false,
    }
}
