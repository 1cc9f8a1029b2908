//! Connections that begin inside a pod's network namespace.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rekindle_runtime::{NamespaceOwner, SandboxInfo};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::LinkNameSpaceType;
use tokio::net::{TcpSocket, TcpStream};

/// On a loopback an answer comes at once, unless the port's queue is full.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Opens a sandbox's network namespace. It is the agent's own for a pod on the node's network, and
/// for no other: whatever else its path has come to mean, the sandbox is gone.
pub(super) fn open_namespace(sandbox: &SandboxInfo) -> io::Result<File> {
    let namespace = File::open(&sandbox.netns)?;
    let own = std::fs::metadata("/proc/self/ns/net")?;
    let found = namespace.metadata()?;
    let is_own = (own.dev(), own.ino()) == (found.dev(), found.ino());
    let is_meant = match sandbox.namespaces.network {
        NamespaceOwner::Own => !is_own,
        NamespaceOwner::Host => is_own,
    };
    if is_meant { Ok(namespace) } else { Err(io::Error::other("the sandbox is gone")) }
}

/// Connects to the loopback there: by IPv4, then by IPv6.
pub(super) async fn connect(namespace: File, port: u16) -> io::Result<TcpStream> {
    let v4 = connect_to(&namespace, Ipv4Addr::LOCALHOST.into(), port).await;
    match v4 {
        Ok(stream) => Ok(stream),
        Err(error) => {
            let v6 = connect_to(&namespace, Ipv6Addr::LOCALHOST.into(), port).await;
            v6.map_err(|_| error) // the first reason is the one people expect
        }
    }
}

async fn connect_to(namespace: &File, address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_inside(namespace.try_clone()?, family)?;
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
    match tokio::time::timeout(CONNECT_TIME, socket.connect(SocketAddr::new(address, port))).await {
        Ok(connected) => connected,
        Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A socket belongs for ever to the namespace that it was made in. The thread that goes there for
/// it never comes back, so that none of the agent's can be left in a pod's namespace.
fn socket_inside(namespace: File, family: AddressFamily) -> io::Result<OwnedFd> {
    let thread = std::thread::Builder::new().name("pod-socket".to_owned()).spawn(move || {
        rustix::thread::move_into_link_name_space(
            namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(family, SocketType::STREAM, flags, None)
    })?;
    // It takes microseconds.
    match thread.join() {
        Ok(socket) => Ok(socket?),
        Err(_panic) => Err(io::Error::other("the thread for a pod's socket panicked")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rekindle_runtime::Namespaces;

    use super::*;

    #[test]
    fn the_agents_own_namespace_is_opened_for_a_pod_on_the_nodes_network_only() {
        let sandbox = |network| SandboxInfo {
            id: "a".to_owned(),
            netns: PathBuf::from("/proc/self/ns/net"),
            pid: std::process::id(),
            namespaces: Namespaces { network, ..Namespaces::default() },
        };
        assert!(open_namespace(&sandbox(NamespaceOwner::Host)).is_ok());
        let problem = open_namespace(&sandbox(NamespaceOwner::Own)).unwrap_err().to_string();
        assert_eq!(problem, "the sandbox is gone");
        // Anything that is not the agent's own: here another kind of namespace.
        let elsewhere = PathBuf::from("/proc/self/ns/uts");
        let sandbox = SandboxInfo { netns: elsewhere, ..sandbox(NamespaceOwner::Host) };
        assert!(open_namespace(&sandbox).is_err());
    }
}
