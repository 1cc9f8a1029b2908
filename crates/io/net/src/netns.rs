//! Netlink inside another network namespace: a socket belongs to the namespace it was made in, so a
//! thread of its own enters, makes the socket and ends; nobody else's namespace changes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rekindle_types::IpStack;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::proto::Connection;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::LinkNameSpaceType;

use crate::error::NetError;
use crate::forwarding;
use crate::ipv6;

/// An open network namespace; it lives at least as long as this.
#[derive(Debug)]
pub(crate) struct NetNs {
    file: File,
}

/// A socket of the calling thread's namespace, for looking interfaces up.
pub(crate) fn lookup_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// Which namespace it is: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetNsIdentity {
    device: u64,
    inode: u64,
}

impl NetNs {
    /// Opens the namespace of sandbox `id`. The one this thread lives in is refused: a slip of the
    /// caller would give the host itself a pod's address and route.
    pub(crate) fn open_other(id: &str, path: &Path) -> Result<Self, NetError> {
        let failed = |source| NetError::Io {
            operation: "open network namespace",
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let own = rustix::fs::stat("/proc/thread-self/ns/net").map_err(|e| failed(e.into()))?;
        let namespace = Self { file };
        let other = namespace.identity().map_err(failed)?;
        if (NetNsIdentity { device: own.st_dev, inode: own.st_ino }) == other {
            return Err(NetError::HostNamespace { id: id.to_owned(), path: path.to_owned() });
        }
        Ok(namespace)
    }

    /// Which one it is.
    pub(crate) fn identity(&self) -> io::Result<NetNsIdentity> {
        let stat = rustix::fs::fstat(&self.file)?;
        Ok(NetNsIdentity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// A netlink connection that acts inside, where from now on no ICMP redirect is heeded, and a
    /// socket that interfaces can be looked up with. Without a second address only lo has IPv6.
    /// `interface` may be there already; `host_name` is what an error names.
    pub(crate) fn connect(
        &self,
        interface: &str,
        stack: IpStack,
        host_name: &str,
    ) -> Result<(Connection<RouteNetlinkMessage>, rtnetlink::Handle, OwnedFd), NetError> {
        let failed = |source: io::Error| NetError::Io {
            operation: "enter network namespace of",
            path: host_name.into(),
            source,
        };
        let reactor = tokio::runtime::Handle::current();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(
                    self.file.as_fd(),
                    Some(LinkNameSpaceType::Network),
                )
                .map_err(|error| failed(error.into()))?;
                match stack {
                    IpStack::Single => {
                        ipv6::disable_on_new_interfaces()?;
                        ipv6::disable_on(interface)?;
                    }
                    IpStack::Dual => {
                        ipv6::enable_on_new_interfaces()?;
                        ipv6::enable_on(interface)?;
                    }
                }
                forwarding::refuse_redirects_on_new_interfaces()?;
                let _in_reactor = reactor.enter();
                let (connection, handle, _multicast) =
                    rtnetlink::new_connection().map_err(failed)?;
                let socket = lookup_socket().map_err(failed)?;
                Ok((connection, handle, socket))
            });
            let panicked = |_| Err(failed(io::Error::other("the thread in it panicked")));
            thread.join().unwrap_or_else(panicked)
        })
    }

    /// The descriptor, for `IFLA_NET_NS_FD`.
    pub(crate) fn raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.file)
    }
}
