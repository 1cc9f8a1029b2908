//! How the API server reaches pods, wherever their network is.

use std::io;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use rekindle_api::proxy_request::ProxyScheme;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a pod.
pub trait PodConnection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<C: AsyncRead + AsyncWrite + Unpin + Send> PodConnection for C {}

/// Connects to pods, wherever their network is.
pub trait PodDialer: Send + Sync {
    /// A connection to this address, with TLS if the scheme says so. The certificate does not
    /// matter.
    fn connect(
        &self,
        address: SocketAddr,
        scheme: ProxyScheme,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodConnection>>>;
}

/// Where there are no pods.
pub(super) struct NoPods;

impl PodDialer for NoPods {
    fn connect(
        &self,
        _address: SocketAddr,
        _scheme: ProxyScheme,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodConnection>>> {
        Box::pin(async { Err(io::Error::other("this API server has no pods")) })
    }
}
