//! The API's server: HTTP in front of [`rekindle_api::Api`], over TLS or in process. It owns
//! sockets, certificates, keys, the clock and the threads. The core decides.
//!
//! ```text
//!  bytes -> server, tls -> front -> rekindle_api::Api::handle -> answer -> bytes
//!           connections,   pki, shares, bad_tokens,              logs, streams,
//!        certificate_gate  flow_gate, work_pool                  nodes, node_link
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "the server is a driver: it owns sockets, files, threads and the clock"
)]

mod aggregation;
mod answer;
mod api_servers;
mod audit;
mod backup;
mod bad_tokens;
mod body;
mod caller;
mod certificate_gate;
mod certificates;
mod clock;
mod connections;
mod flow_gate;
mod front;
mod in_process;
mod logs;
#[cfg(test)]
mod memory_front;
mod metrics;
pub mod node_link;
mod nodes;
mod own_requests;
pub mod pki;
mod pod_dialer;
mod proxy;
mod request_body;
mod response;
mod server;
mod server_trust;
mod shares;
mod shown_certificate;
mod storage_migration;
mod store_feed;
mod streams;
mod tls;
mod token_secrets;
mod webhooks;
mod work_pool;

pub use aggregation::keep_roles_aggregated;
pub use api_servers::follow_api_servers;
pub use audit::{
    AuditCarriers, AuditLog, AuditMode, AuditSink, AuditTargets, BatchLimits, EventReceiver,
    RotationLimits,
};
pub use body::{FrontBody, LogStream};
pub use certificates::{RingSignatures, sign_certificates};
pub use clock::{Clock, SystemClock};
pub use connections::ConnectionLimits;
pub use flow_gate::keep_flow_control;
pub use front::{Front, FrontParts};
pub use in_process::InProcessService;
pub use logs::{LogRequestError, NoLogs, NodeLogs};
pub use metrics::process_files;
pub use nodes::{NoNodes, NodeQueries, NodeUnavailable};
pub use pod_dialer::{PodConnection, PodDialer};
pub use server::{ApiServer, ServerLimits};
pub use storage_migration::migrate_storage;
pub use streams::{
    NoStreams, NodeStreamError, NodeStreams, PortConnection, ProcessSession, Reader, Writer,
};
pub use tls::{OsEntropy, TlsListener};
pub use token_secrets::keep_token_secrets;
