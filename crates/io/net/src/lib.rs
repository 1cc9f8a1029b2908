//! The pod network of one machine: a bridge, one veth pair and one IPv4 address per sandbox, and
//! the files in /etc that tell a container about them. No overlay, no `ip` program: netlink only.
//!
//! ```text
//! Network::open ── bridge up, gateway address ──> attach(id, netns) ──> detach(id) ──> (veth gone) ──> address free, reused last
//! ```
//!
//! Where connections to Services and to ports of the node go is in `rules`, the names of Services
//! and pods are in `dns`.
//!
//! Who owns what: `pool` decides addresses and `share` whose they are when several agents share a
//! bridge (both pure), `leases` makes the decision durable, `bridge`, `veth` and `bridge_port` talk
//! netlink with what `links` asks of any interface, `source_filter` and `ipv6` keep a pod from
//! speaking for another one, `network` joins them. A sandbox's id is whatever the caller names it
//! by; everything is idempotent by it.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a driver crate: namespaces, netlink and the lease file are its subject"
)]

mod bridge;
mod bridge_port;
mod counters;
pub mod dns;
mod embedding_prefix;
mod error;
pub mod files;
mod forwarding;
mod ipv6;
mod leases;
mod links;
mod netns;
mod network;
pub mod pool;
pub mod rules;
pub mod share;
mod source_filter;
mod subnet;
mod sysctl;
mod veth;

pub use bridge::{routed_ipv6_subnets, routed_subnets};
pub use counters::{InterfaceCounters, interface_counters};
pub use embedding_prefix::EmbeddingPrefix;
pub use error::NetError;
pub use forwarding::ForwardingUsers;
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use network::{BridgeNetwork, NetworkConfig, SandboxAttachment, SubnetChoice};
pub use share::BridgeShare;
