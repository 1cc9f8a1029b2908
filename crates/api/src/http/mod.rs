//! The front: HTTP in front of [`crate::Api`], over TLS or in process. The only place with async
//! code and IO.
#![allow(
    clippy::disallowed_methods,
    reason = "the front is a driver: it owns sockets and the clock"
)]

mod aggregation;
mod answer;
mod bad_tokens;
mod body;
mod caller;
mod clock;
mod connections;
mod front;
mod impersonate;
mod in_process;
mod logs;
mod metrics;
pub mod node_link;
mod nodes;
mod request_body;
mod response;
mod server;
mod shares;
mod streams;
mod tls;
mod work_pool;

pub use aggregation::keep_roles_aggregated;
pub use body::{FrontBody, LogStream};
pub use clock::{Clock, SystemClock};
pub use connections::ConnectionLimits;
pub use front::{Front, FrontParts};
pub use in_process::InProcess;
pub use logs::{LogError, NoLogs, NodeLogs};
pub use nodes::{NoNodes, NodeUnavailable, Nodes};
pub use server::{Server, ServerLimits};
pub use streams::{Connection, NoStreams, NodeStreams, Reader, Session, StreamError, Writer};
pub use tls::{OsEntropy, Tls};
