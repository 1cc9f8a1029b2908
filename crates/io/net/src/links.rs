//! What is asked of any interface, and what an answer means.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use futures::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use crate::error::NetError;

/// There is no such entry, or no such kind of thing in this kernel.
pub(crate) const ENOENT: i32 = 2;
/// There is no such route.
pub(crate) const ESRCH: i32 = 3;
/// There is one already.
pub(crate) const EEXIST: i32 = 17;
/// There is no such interface.
pub(crate) const ENODEV: i32 = 19;

/// Characters of an interface name at most.
const INTERFACE_NAME_MAX: usize = 15;

/// Whether the kernel takes this as the name of an interface.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= INTERFACE_NAME_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
}

/// Opens a netlink socket in this network namespace, to see to the interface `name`. Its answers
/// come while the task runs. Must run inside a tokio runtime.
pub(crate) fn connect(name: &str) -> Result<(Handle, JoinHandle<()>), NetError> {
    let (connection, handle, _multicast) = rtnetlink::new_connection().map_err(|source| {
        NetError::Io { operation: "open netlink socket for", path: name.into(), source }
    })?;
    Ok((handle, tokio::spawn(connection)))
}

/// A hardware address that follows from the IPv4 address (`0a:58:` and its four numbers, as the CNI
/// plugins have it): an address that comes back with another pod does not meet stale neighbour
/// entries.
pub(crate) fn mac_of(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x0a, 0x58, a, b, c, d]
}

/// The hardware address of a link.
pub(crate) fn mac_in(link: &LinkMessage) -> Option<[u8; 6]> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(mac) => mac.as_slice().try_into().ok(),
        _ => None,
    })
}

/// The index of the interface of this name, if there is one, in the network namespace that the
/// socket was made in. Much cheaper than to have the whole link told.
pub(crate) fn index_of(socket: &impl AsFd, name: &str) -> Result<Option<u32>, NetError> {
    match rustix::net::netdevice::name_to_index(socket, name) {
        Ok(index) => Ok(Some(index)),
        Err(Errno::NODEV) => Ok(None),
        Err(error) => Err(NetError::Io {
            operation: "look up interface",
            path: name.into(),
            source: error.into(),
        }),
    }
}

/// The link of this name, if there is one.
pub(crate) async fn find(handle: &Handle, name: &str) -> Result<Option<LinkMessage>, NetError> {
    let mut replies = handle.link().get().match_name(name).execute();
    match replies.try_next().await {
        Ok(link) => Ok(link),
        Err(error) if errno(&error) == Some(ENODEV) => Ok(None),
        Err(error) => Err(netlink("look up interface", name, error)),
    }
}

/// The errno of a refused request.
pub(crate) fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.code.map(|code| -code.get()),
        _ => None,
    }
}

/// A request that was refused.
pub(crate) fn netlink(operation: &'static str, object: &str, source: rtnetlink::Error) -> NetError {
    NetError::Netlink { operation, object: object.to_owned(), source }
}
