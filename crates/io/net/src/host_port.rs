//! A port of the node as it is asked for.

use std::fmt;
use std::net::SocketAddr;

/// A port of the node that leads to a port of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// What is spoken there.
    pub protocol: PortProtocol,
    /// Where the node listens; the unspecified address means at all of its addresses.
    pub listen: SocketAddr,
    /// The port in the pod.
    pub pod_port: u16,
}

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortProtocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}
