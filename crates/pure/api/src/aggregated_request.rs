//! A request that another API server answers, and how that server is reached.

use std::net::SocketAddr;

use bytes::Bytes;
use k8s_openapi::api::authentication::v1::UserInfo as ShownUser;

/// Which certificate a server may show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerTrust {
    /// One that this bundle (PEM) vouches for.
    Bundle(Bytes),
    /// One that the machine trusts.
    Machine,
    /// Any.
    Anything,
}

/// The server behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedServer {
    /// The name that its certificate must be for: `NAME.NAMESPACE.svc`.
    pub host: String,
    /// What is trusted.
    pub trust: ServerTrust,
}

/// A request that the caller may make, on its way to another server. Method, path, query and
/// headers are those of the request itself.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatedRequest {
    /// Who answers.
    pub server: AggregatedServer,
    /// Where.
    pub address: SocketAddr,
    /// Who asks: the server hears it from us.
    pub user: ShownUser,
    /// Whether the answer may begin late.
    pub is_watch: bool,
    /// What is sent there.
    pub body: Bytes,
}
