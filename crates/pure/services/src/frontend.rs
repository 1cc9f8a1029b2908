//! What the packets of a Service are addressed to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use rekindle_types::IpFamily;
use serde::{Deserialize, Serialize};

use crate::source_range::SourceRange;

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TransportProtocol {
    /// TCP, the default.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl TransportProtocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// As `protocol` of a port spells it; TCP when it says nothing.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text.filter(|text| !text.is_empty()) {
            None => Some(Self::Tcp),
            Some(text) => Self::ALL.into_iter().find(|protocol| protocol.name() == text),
        }
    }

    /// As `protocol` of a port spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Its number in the header of an IP packet (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl fmt::Display for TransportProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An address and port at which a Service or a pod's host port is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frontend {
    /// The cluster IP, an external IP, a load balancer's IP or a `hostIP`; 0.0.0.0 or :: for any
    /// address of the node (NodePort, `hostPort`).
    pub address: IpAddr,
    /// Of the port.
    pub protocol: TransportProtocol,
    /// The Service's port, its node port, or the host port.
    pub port: u16,
}

/// A port of the node that leads to a port of a pod (`hostPort`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// Where the node is asked: `hostIP`, or any address of the node.
    pub frontend: Frontend,
    /// The port in the pod.
    pub pod_port: u16,
}

impl Frontend {
    /// Whether it stands for any address of the node.
    pub fn is_node_port(&self) -> bool {
        self.address.is_unspecified()
    }

    /// The same port at any address of the node, of the same IP family.
    #[must_use]
    pub const fn of_node(self) -> Self {
        Self { address: self.family().unspecified(), ..self }
    }

    /// The family of its address.
    pub const fn family(&self) -> IpFamily {
        IpFamily::from_address(self.address)
    }

    /// Whether one packet may be for both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_anywhere = self.is_node_port() || other.is_node_port();
        self.protocol == other.protocol
            && self.family() == other.family()
            && self.port == other.port
            && (self.address == other.address || is_anywhere)
    }
}

/// A frontend as clients of one place see it: those on a node may be led to other endpoints than
/// all others (`internalTrafficPolicy: Local`, `trafficDistribution`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientView {
    /// What they ask for.
    pub frontend: Frontend,
    /// Where they are.
    pub clients: Clients,
}

/// Where clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clients {
    /// Anywhere that is no range of its own.
    All,
    /// In the range of a node's pods.
    Within(SourceRange),
}

impl Clients {
    /// How many bits of a client's address count, if it matters where a client is.
    pub const fn prefix(self) -> Option<u8> {
        match self {
            Self::All => None,
            Self::Within(range) => Some(range.prefix),
        }
    }
}

impl From<Frontend> for ClientView {
    fn from(frontend: Frontend) -> Self {
        Self { frontend, clients: Clients::All }
    }
}

impl fmt::Display for ClientView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clients {
            Clients::All => self.frontend.fmt(f),
            Clients::Within(range) => write!(f, "{} of {range}", self.frontend),
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", SocketAddr::new(self.address, self.port), self.protocol)
    }
}
