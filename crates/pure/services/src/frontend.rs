//! What the packets of a Service are addressed to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// An address and port at which a Service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    /// The cluster IP, an external IP or a load balancer's IP; 0.0.0.0 or :: for any address of the
    /// node (NodePort).
    pub address: IpAddr,
    /// Of the port.
    pub protocol: TransportProtocol,
    /// The Service's port, or its node port.
    pub port: u16,
}

impl Frontend {
    /// Whether it stands for any address of the node.
    pub fn is_node_port(&self) -> bool {
        self.address.is_unspecified()
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", SocketAddr::new(self.address, self.port), self.protocol)
    }
}
