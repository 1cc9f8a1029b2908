//! A request that is handed on to a pod.

use std::net::SocketAddr;

use bytes::Bytes;

/// How a pod is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyScheme {
    /// In the clear.
    Http,
    /// Over TLS. Any certificate will do, as upstream.
    Https,
}

impl ProxyScheme {
    /// As URLs spell it; empty is http.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }
}

/// Where a request goes, and what the target is to see of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRequest {
    /// How the target is spoken to.
    pub scheme: ProxyScheme,
    /// The target.
    pub address: SocketAddr,
    /// The path of the subresource in this API, up to `proxy`. Links of the target are below it.
    pub own_path: String,
    /// The path that the target sees; empty for its root without a slash.
    pub path: String,
    /// What is sent there.
    pub body: Bytes,
}
