//! The veth pair of one sandbox: host end in the bridge, `eth0` in the sandbox's namespace, its
//! addresses, lo, default routes. The host end has no IPv6, and `eth0` has it only for a second
//! address. The host end is guarded before `eth0` goes up.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rekindle_types::IpStack;
use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use sha2::{Digest, Sha256};

use crate::bridge_port::BridgePort;
use crate::embedding_prefix::EmbeddingPrefix;
use crate::error::NetError;
use crate::ipv6;
use crate::links::{EEXIST, ENODEV, errno, index_of, mac_of, netlink};
use crate::netns::NetNs;
use crate::share::BridgeShare;
use crate::source_filter::FilterSupport;

/// The name inside, which every container expects.
const INSIDE: &str = "eth0";
/// lo has this index in every network namespace.
const LO_INDEX: u32 = 1;
/// Bits of an address that stands for itself only.
const HOST_PREFIX: u8 = 32;
const HOST_PREFIX_OF_IPV6: u8 = 128;
/// Begins the names of the host ends of the bridge's owner; hex digits follow.
const PREFIX_OF_OWNER: &str = "rk";
/// The same of guests, followed by two digits of their number.
const PREFIX_OF_GUESTS: &str = "rn";
/// Below the kernel's 15.
const NAME_LENGTH: usize = 14;

/// Where a sandbox is to be plugged in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VethPlug<'a> {
    pub(crate) host_name: &'a str,
    /// A socket of the bridge's namespace.
    pub(crate) lookup: &'a OwnedFd,
    pub(crate) bridge_index: u32,
    pub(crate) address: Ipv4Addr,
    pub(crate) gateway: Ipv4Addr,
    /// Where the second addresses of both come from.
    pub(crate) ipv6: Option<EmbeddingPrefix>,
    /// The bridge's hardware address.
    pub(crate) gateway_mac: [u8; 6],
    pub(crate) mtu: u32,
}

/// The names of one agent's host ends on one bridge: they tell whose an interface is, also to an
/// agent that comes later.
#[derive(Clone, Debug)]
pub(crate) struct VethNames {
    bridge: String,
    share: BridgeShare,
}

impl VethNames {
    pub(crate) fn new(bridge: &str, share: BridgeShare) -> Self {
        Self { bridge: bridge.to_owned(), share }
    }

    /// The host end's name: it follows from bridge, share and id, so a repeated call and a later
    /// agent find the same interface.
    pub(crate) fn host_name(&self, id: &str) -> String {
        let digest =
            Sha256::new().chain_update(&self.bridge).chain_update([0]).chain_update(id).finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let prefix = self.prefix();
        let digits = NAME_LENGTH - prefix.len();
        format!("{prefix}{}", &hex[..digits])
    }

    /// Whether an interface's name is one of ours.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        name.len() == NAME_LENGTH
            && name
                .strip_prefix(&self.prefix())
                .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    fn prefix(&self) -> String {
        match self.share {
            BridgeShare::Owner => PREFIX_OF_OWNER.to_owned(),
            BridgeShare::Guest(number) => format!("{PREFIX_OF_GUESTS}{number:02x}"),
        }
    }

    /// The interface group for deletions of these ports.
    pub(crate) fn removal_group(&self) -> u32 {
        let number = match self.share {
            BridgeShare::Owner => 0,
            BridgeShare::Guest(number) => number,
        };
        let digest = Sha256::digest(&self.bridge);
        // group 0 is what every interface has
        u32::from_le_bytes([digest[0] ^ number, digest[1], digest[2], digest[3]]) | 1 << 30
    }
}

/// Makes pair, address and route. What an earlier, interrupted call made is completed; a host end
/// whose other end is not in this namespace is replaced. Answers whether the kernel filters what
/// the sandbox sends.
pub(crate) async fn plug(
    handle: &Handle,
    netns: &NetNs,
    plug: VethPlug<'_>,
) -> Result<FilterSupport, NetError> {
    let stack = if plug.ipv6.is_some() { IpStack::Dual } else { IpStack::Single };
    let (connection, inside, lookup) = netns.connect(INSIDE, stack, plug.host_name)?;
    let driver = tokio::spawn(connection);
    let ends = || {
        let (host, eth0) = (index_of(plug.lookup, plug.host_name)?, index_of(&lookup, INSIDE)?);
        Ok::<_, NetError>(host.zip(eth0))
    };
    let result = plug_with(handle, &inside, netns, plug, ends).await;
    drop(inside);
    driver.abort();
    result
}

/// `ends` looks for the indexes of host end and `eth0`.
async fn plug_with(
    handle: &Handle,
    inside: &Handle,
    netns: &NetNs,
    plug: VethPlug<'_>,
    ends: impl Fn() -> Result<Option<(u32, u32)>, NetError>,
) -> Result<FilterSupport, NetError> {
    let attach_failed = |error| netlink("attach veth", plug.host_name, error);
    match create(handle, netns, plug).await {
        Err(error) if errno(&error) != Some(EEXIST) => return Err(attach_failed(error)),
        Ok(()) | Err(_) => {}
    }
    let (host_index, eth0) = match ends()? {
        Some(both) => both,
        None => {
            unplug(handle, plug.host_name).await?;
            create(handle, netns, plug).await.map_err(attach_failed)?;
            ends()?.ok_or_else(|| attach_failed(rtnetlink::Error::RequestFailed))?
        }
    };
    let port = BridgePort {
        name: plug.host_name,
        index: host_index,
        bridge_index: plug.bridge_index,
        address: plug.address,
        second_address: plug.ipv6.map(|prefix| prefix.address(plug.address)),
        gateway_mac: plug.gateway_mac,
    };
    let filter = port.set_up(handle).await?;
    configure(inside, eth0, plug).await?;
    Ok(filter)
}

/// One message makes both ends, with the peer already in the sandbox and the host end already in
/// the bridge. Neither is up: first the port is guarded. (The peer could not be: while the kernel
/// makes it, it has no other end yet, ENOTCONN.)
async fn create(
    handle: &Handle,
    netns: &NetNs,
    plug: VethPlug<'_>,
) -> Result<(), rtnetlink::Error> {
    let peer = LinkUnspec::new_with_name(INSIDE)
        .address(mac_of(plug.address).to_vec())
        .mtu(plug.mtu)
        .setns_by_fd(netns.raw_fd())
        .build();
    let message = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
        .name(plug.host_name)
        .mtu(plug.mtu)
        .controller(plug.bridge_index)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .build();
    handle.link().add(message).execute().await
}

/// Sets everything inside up. The gateway's hardware address is there for good: no ARP can give it
/// to another pod. Everything is asked for before the first answer is awaited; the kernel goes by
/// the order.
///
/// The pod has no neighbour but the gateway, so that every packet to another pod passes the node's
/// rules, and so does the answer: an answer that went straight back would bear the endpoint's
/// address, where the client waits for one from the Service's.
async fn configure(inside: &Handle, eth0: u32, plug: VethPlug<'_>) -> Result<(), NetError> {
    let failed = |operation| move |source| netlink(operation, plug.host_name, source);
    let up = |index| LinkUnspec::new_with_index(index).up().build();
    let address = inside.address().add(eth0, plug.address.into(), HOST_PREFIX).replace();
    let gateway = inside
        .neighbours()
        .add(eth0, plug.gateway.into())
        .link_layer_address(&plug.gateway_mac)
        .replace();
    let to_gateway = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(plug.gateway, HOST_PREFIX)
        .output_interface(eth0)
        .scope(RouteScope::Link)
        .build();
    let default = RouteMessageBuilder::<Ipv4Addr>::new().gateway(plug.gateway).build();
    let (lo_up, eth0_up, address, gateway, to_gateway, default) = futures::join!(
        inside.link().change(up(LO_INDEX)).execute(),
        inside.link().change(up(eth0)).execute(),
        address.execute(),
        gateway.execute(),
        inside.route().add(to_gateway).replace().execute(),
        inside.route().add(default).replace().execute(),
    );
    lo_up.map_err(failed("set up lo behind"))?;
    eth0_up.map_err(failed("set up eth0 behind"))?;
    address.map_err(failed("give an address to eth0 behind"))?;
    gateway.map_err(failed("tell the gateway's hardware address behind"))?;
    to_gateway.map_err(failed("set the route to the gateway behind"))?;
    default.map_err(failed("set the default route behind"))?;
    match plug.ipv6 {
        Some(prefix) => configure_ipv6(inside, eth0, plug, prefix).await,
        None => Ok(()),
    }
}

/// The same for the second address.
async fn configure_ipv6(
    inside: &Handle,
    eth0: u32,
    plug: VethPlug<'_>,
    prefix: EmbeddingPrefix,
) -> Result<(), NetError> {
    let failed = |operation| move |source| netlink(operation, plug.host_name, source);
    let [own, gateway] = [plug.address, plug.gateway].map(|first| prefix.address(first));
    let address = inside.address().add(eth0, own.into(), HOST_PREFIX_OF_IPV6).replace();
    let address = ipv6::without_duplicate_detection(address);
    let neighbour = inside
        .neighbours()
        .add(eth0, gateway.into())
        .link_layer_address(&plug.gateway_mac)
        .replace();
    let to_gateway = RouteMessageBuilder::<Ipv6Addr>::new()
        .destination_prefix(gateway, HOST_PREFIX_OF_IPV6)
        .output_interface(eth0)
        .build();
    let default =
        RouteMessageBuilder::<Ipv6Addr>::new().gateway(gateway).output_interface(eth0).build();
    let (address, neighbour, to_gateway, default) = futures::join!(
        address.execute(),
        neighbour.execute(),
        inside.route().add(to_gateway).replace().execute(),
        inside.route().add(default).replace().execute(),
    );
    address.map_err(failed("give a second address to eth0 behind"))?;
    neighbour.map_err(failed("tell the gateway's hardware address for IPv6 behind"))?;
    to_gateway.map_err(failed("set the IPv6 route to the gateway behind"))?;
    default.map_err(failed("set the IPv6 default route behind"))
}

/// Deletes the pair. Absent is success. Takes about 20 ms in the kernel.
async fn unplug(handle: &Handle, host_name: &str) -> Result<(), NetError> {
    let mut message = LinkUnspec::new_with_name(host_name).build();
    message.attributes.retain(|attribute| matches!(attribute, LinkAttribute::IfName(_)));
    absent_is_success(handle.link().del_with_message(message).execute().await)
        .map_err(|error| netlink("remove veth", host_name, error))
}

/// Deletes all these pairs in the time of one: what takes 20 ms is that the kernel waits until
/// nobody uses them any more, and for an interface group it waits once. `group` is a number that
/// only this agent's deletions use.
pub(crate) async fn unplug_all(
    handle: &Handle,
    group: u32,
    host_names: &[String],
) -> Result<(), NetError> {
    for name in host_names {
        let mark = LinkUnspec::new_with_name(name).link_group(group).build();
        absent_is_success(handle.link().change(mark).execute().await)
            .map_err(|error| netlink("mark for removal veth", name, error))?;
    }
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::Group(group));
    absent_is_success(handle.link().del_with_message(message).execute().await)
        .map_err(|error| netlink("remove veths", &host_names.join(" "), error))
}

fn absent_is_success(result: Result<(), rtnetlink::Error>) -> Result<(), rtnetlink::Error> {
    match result {
        Err(error) if errno(&error) != Some(ENODEV) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(bridge: &str) -> VethNames {
        VethNames::new(bridge, BridgeShare::Owner)
    }

    #[test]
    fn host_names_fit_the_kernel_and_differ_by_bridge_and_id() {
        let name = owner("rk0").host_name("a-uid/0");
        assert!(name.len() <= 15 && owner("rk0").is_ours(&name), "{name}");
        assert_eq!(name, owner("rk0").host_name("a-uid/0"));
        assert_ne!(name, owner("rk1").host_name("a-uid/0"));
        assert_ne!(name, owner("rk0").host_name("a-uid/1"));
        assert_ne!(owner("a").host_name("bc"), owner("ab").host_name("c"));
    }

    #[test]
    fn each_agent_on_a_bridge_knows_its_own() {
        let all = [
            BridgeShare::Owner,
            BridgeShare::Guest(1),
            BridgeShare::Guest(2),
            BridgeShare::Guest(128),
        ];
        let ports = all.map(|share| VethNames::new("rk0", share));
        for one in &ports {
            let name = one.host_name("a-uid/0");
            assert!(name.len() <= 15, "{name}");
            let owners = ports.iter().filter(|ports| ports.is_ours(&name)).count();
            assert!(one.is_ours(&name) && owners == 1, "{name}");
            let same = ports.iter().filter(|p| p.removal_group() == one.removal_group()).count();
            assert_eq!(same, 1, "what one deletes is not another's");
        }
    }

    #[test]
    fn other_interfaces_are_not_taken_for_ours() {
        for name in [
            "eth0",
            "rk",
            "rk0",
            "rkindle0",
            "rk0123456789zz",
            "veth0123456789ab",
            "rn01",
            "rné123456789a",
        ] {
            assert!(!owner("rk0").is_ours(name), "{name}");
            assert!(!VethNames::new("rk0", BridgeShare::Guest(1)).is_ours(name), "{name}");
        }
    }
}
