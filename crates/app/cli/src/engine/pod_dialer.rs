//! Connections from the API to pods: the pods' networks are this machine's.

use std::io;
use std::net::SocketAddr;

use futures::FutureExt;
use futures::future::BoxFuture;
use rekindle_api::proxy_request::ProxyScheme;
use rekindle_api_server::{PodConnection, PodDialer};
use tokio::net::TcpStream;

/// Connects to their addresses.
pub struct MachineDialer;

impl PodDialer for MachineDialer {
    fn connect(
        &self,
        address: SocketAddr,
        scheme: ProxyScheme,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodConnection>>> {
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(match scheme {
                ProxyScheme::Http => Box::new(stream) as Box<dyn PodConnection>,
                ProxyScheme::Https => {
                    Box::new(rekindle_node::connect_tls(&address.ip().to_string(), stream).await?)
                }
            })
        }
        .boxed()
    }
}
