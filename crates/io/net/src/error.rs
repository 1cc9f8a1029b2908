//! What can go wrong with the pod network. Each text names the object and the operation; the source
//! has the cause.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::Ipv4Net;

/// A failed network operation.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The configuration cannot work.
    #[error("network configuration: {problem}")]
    Config {
        /// What, and what to do.
        problem: String,
    },
    /// The subnet has no address left.
    #[error("no free address in {subnet}: {leased} are in use")]
    Exhausted {
        /// The pods' subnet.
        subnet: Ipv4Net,
        /// Addresses given out.
        leased: usize,
    },
    /// The kernel refused a netlink request.
    #[error("{operation} {object}")]
    Netlink {
        /// `create bridge`, `attach veth`, …
        operation: &'static str,
        /// The interface or address.
        object: String,
        /// Why.
        #[source]
        source: rtnetlink::Error,
    },
    /// Cluster DNS cannot be served.
    #[error("serve DNS at {address}")]
    Dns {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file or namespace could not be used.
    #[error("{operation} {}", path.display())]
    Io {
        /// `open network namespace`, `write`, …
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The lease file cannot be read, and sandboxes hold addresses that only it knows.
    #[error("{}: damaged ({problem}), and {ports} interfaces of sandboxes are on the bridge; stop the pods, then remove the file", path.display())]
    Damaged {
        /// The lease file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// Interfaces found.
        ports: usize,
    },
    /// The namespace given for a sandbox is the one the agent itself lives in.
    #[error("attach {id}: {} is the host's own network namespace", path.display())]
    HostNamespace {
        /// The sandbox.
        id: String,
        /// Its namespace, as given.
        path: PathBuf,
    },
    /// An address is already on the machine.
    #[error("subnet {subnet} overlaps with {taken} on this machine")]
    Overlap {
        /// The subnet asked for.
        subnet: Ipv4Net,
        /// A route or address in the way.
        taken: Ipv4Net,
    },
    /// None of the subnets we would take by ourselves is free.
    #[error("none of the default pod subnets is free on this machine; choose one")]
    NoDefaultSubnet,
}
