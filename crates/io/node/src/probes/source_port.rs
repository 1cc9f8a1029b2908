//! Source ports of probes: apart from those of the node's other clients (docs/adr/0097).
//!
//! A pod remembers the addresses and ports of an ended connection for a minute (TIME_WAIT). A probe
//! has the node's address, and so has a client on the node that asks a Service. When both happen
//! on one port, the pod takes the second one's first packet for an old one and drops it: its
//! timestamps have another offset, as the first one was sent to another address. The sender tries
//! again, at worst after a second. The namespace of the pod counts it as `PAWSTimewait`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::{TcpSocket, TcpStream};

/// The ports that the kernel gives to clients, of both families.
const CLIENT_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Fewer ports than this are not enough for the probes of a node.
const PORTS_MIN: usize = 1000;
/// Ports to try when one is taken.
const TRIES_MAX: usize = 8;

static SOURCE_PORTS: LazyLock<Option<SourcePorts>> = LazyLock::new(SourcePorts::of_machine);

/// Ports that are taken in turn.
struct SourcePorts {
    ports: RangeInclusive<u16>,
    next: AtomicU32,
}

impl SourcePorts {
    fn of_machine() -> Option<Self> {
        let ports = above_clients(&std::fs::read_to_string(CLIENT_PORTS).ok()?)?;
        // several nodes of a machine begin at different places
        Some(Self { ports, next: AtomicU32::new(std::process::id()) })
    }

    fn next(&self) -> u16 {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let count = self.ports.len();
        self.ports.clone().nth(turn % count).unwrap_or(*self.ports.start())
    }
}

/// The ports above those of clients, if there are enough.
fn above_clients(sysctl: &str) -> Option<RangeInclusive<u16>> {
    let last: u16 = sysctl.split_whitespace().nth(1)?.parse().ok()?;
    let ports = last.checked_add(1)?..=u16::MAX;
    Some(ports).filter(|ports| ports.len() >= PORTS_MIN)
}

/// A connection from a port of probes; from any, where none of them is free.
pub(super) async fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    connect_by(SOURCE_PORTS.as_ref(), server).await
}

async fn connect_by(ports: Option<&SourcePorts>, server: SocketAddr) -> io::Result<TcpStream> {
    if let Some(ports) = ports {
        for _try in 0..TRIES_MAX {
            match connect_from(ports.next(), server).await {
                Err(error) if is_taken(&error) => {}
                connected => return connected,
            }
        }
    }
    TcpStream::connect(server).await
}

async fn connect_from(port: u16, server: SocketAddr) -> io::Result<TcpStream> {
    let (socket, any) = match server {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    // several connections may have one port, if they lead to different servers
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(any, port))?;
    socket.connect(server).await
}

/// Whether the port is in use, or was a moment ago for the same server.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn probes_have_the_ports_above_those_of_clients() {
        let cases = [
            ("32768\t60999\n", Some(61_000..=65_535)),
            ("1024\t64535\n", Some(64_536..=65_535)),
            ("1024\t64536\n", None),
            ("1024\t65535\n", None),
            ("", None),
        ];
        for (sysctl, expected) in cases {
            assert_eq!(above_clients(sysctl), expected, "{sysctl:?}");
        }
    }

    #[test]
    fn ports_are_taken_in_turn() {
        let ports = SourcePorts { ports: 65_533..=65_535, next: AtomicU32::new(u32::MAX) };
        let taken: Vec<u16> = std::iter::repeat_with(|| ports.next()).take(4).collect();
        assert_eq!(taken, [65_533, 65_533, 65_534, 65_535]);
    }

    async fn ports_seen_by(listener: TcpListener) -> BTreeSet<u16> {
        let ports = SourcePorts { ports: 61_000..=65_535, next: AtomicU32::new(7) };
        let server = listener.local_addr().unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let _probe = connect_by(Some(&ports), server).await.unwrap();
            seen.insert(listener.accept().await.unwrap().1.port());
        }
        seen
    }

    #[tokio::test]
    async fn a_server_sees_ports_that_no_client_has() {
        let of_probes = |seen: &BTreeSet<u16>| seen.len() > 1 && seen.iter().all(|p| *p >= 61_000);
        let seen = ports_seen_by(TcpListener::bind("127.0.0.1:0").await.unwrap()).await;
        assert!(of_probes(&seen), "{seen:?}");
        // not every machine has IPv6
        if let Ok(listener) = TcpListener::bind("[::1]:0").await {
            let seen = ports_seen_by(listener).await;
            assert!(of_probes(&seen), "{seen:?}");
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let other = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = other.local_addr().unwrap().port();
        let taken = connect_from(port, server).await.unwrap_err();
        assert!(is_taken(&taken), "{taken}");
        let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let error = connect(refused).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
