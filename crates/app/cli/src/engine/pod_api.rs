//! How pods reach the API: a second listener, on the bridge's own address and on that device alone.
//! The same API behind the same TLS; whoever asks has to say who they are. Nothing beyond the
//! machine reaches it, and `--listen` stays what the user said.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use rekindle_api_server::{ApiServer, Front, ServerLimits, TlsListener};
use rekindle_net::BridgeNetwork;
use rekindle_node::ApiAddresses;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use super::api_threads::ApiThreads;
use super::opened::OpenedApi;
use super::service_range::ChosenServiceRange;

/// The port, unless something else on the machine has it. Containers are told when they start, so
/// it should not change.
const PORT: u16 = 6443;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// The listener, and what containers are told.
pub struct PodApi {
    listener: TcpListener,
    tls: TlsListener,
    /// Where containers reach the API.
    pub addresses: ApiAddresses,
}

impl PodApi {
    /// Listens on the network's bridge. `main` is where the API listens for everybody else.
    pub fn open(
        network: &BridgeNetwork,
        bridge: &str,
        api: &OpenedApi,
        services: ChosenServiceRange,
        main: SocketAddr,
    ) -> anyhow::Result<Self> {
        let gateway = IpAddr::from(network.gateway());
        let listener = match listen(SocketAddr::new(gateway, PORT), bridge) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(
                    "failed to listen at port {PORT} of the pods' bridge: {error:#}; using another port, which may change"
                );
                listen(SocketAddr::new(gateway, 0), bridge)?
            }
        };
        let addresses =
            ApiAddresses { of_pods: listener.local_addr()?, of_the_node: dialled(main) };
        let listen = [gateway, services.range.first()];
        let tls = TlsListener::new(Arc::clone(&api.pki), &listen, api.clock.shared())
            .context("prepare TLS for pods")?;
        Ok(Self { listener, tls, addresses })
    }

    /// Serves on these threads until `stop` resolves.
    pub fn serve(
        self,
        threads: &ApiThreads,
        front: Front,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<JoinHandle<std::io::Result<()>>> {
        let listener = self.listener.into_std().context("take the listener for pods")?;
        threads.serve(ApiServer::new(front, self.tls, ServerLimits::default()), listener, stop)
    }
}

fn listen(address: SocketAddr, device: &str) -> anyhow::Result<TcpListener> {
    let open = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // so that no packet from elsewhere gets here, whatever the machine forwards
        socket.bind_device(Some(device.as_bytes()))?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().with_context(|| format!("listen for pods on {address} of {device}"))
}

/// An address that can be dialled from the machine itself.
fn dialled(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, listening.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_is_dialled_on_loopback() {
        for (listening, told) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("127.0.0.1:3", "127.0.0.1:3"),
            ("192.0.2.1:4", "192.0.2.1:4"),
        ] {
            assert_eq!(dialled(listening.parse().unwrap()), told.parse().unwrap(), "{listening}");
        }
    }
}
