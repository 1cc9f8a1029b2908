//! Cluster DNS: the names of Services and pods, answered at the bridge's address by a process that
//! outlives the engine (`process`).
//!
//! ```text
//!  pod ──UDP, TCP──► server ── message (bytes in) ──► answer (question + view -> reply) ── message (bytes out) ──► pod
//!                      │                                 ▲
//!                      │ names of others                 │ view: Services, endpoints and pods, kept up to date
//!                      ▼                                 │ by whoever watches the API
//!                   upstream: the node's resolvers
//! ```
//!
//! Source of behaviour: the specification of Kubernetes' DNS-based service discovery, version
//! 1.1.0, and where it leaves things open CoreDNS' plugin `kubernetes`. `view`, `answer` and
//! `message` are pure. What comes from a pod is bounded in size, and in what it can make the server
//! do: a question of this cluster is answered from memory, one of elsewhere holds a place among
//! those under way.

mod answer;
mod message;
mod process;
mod server;
mod upstream;
mod view;

/// Where DNS is served.
const PORT: u16 = 53;

pub use answer::DnsZone;
pub use process::{DnsProcessClient, DnsProcessIdentity, serve_process};
pub use server::{DnsServer, DnsSettings, SharedView};
pub use view::{DnsEndpoint, DnsPod, DnsPort, DnsService, DnsSlice, DnsUpdate, DnsView};
