//! The bridge: made or adopted, given the gateway's address, looked at for ports and for subnets
//! that are taken.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rekindle_types::{IpFamily, IpStack};
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, RouteMessageBuilder};

use crate::error::NetError;
use crate::forwarding;
use crate::ipv6;
use crate::links::{ENODEV, ESRCH, connect, errno, find, mac_in, mac_of, netlink};
use crate::veth::VethNames;

/// A bridge that stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bridge {
    pub(crate) index: u32,
    /// Its hardware address, which stays.
    pub(crate) mac: [u8; 6],
}

/// The addresses of a bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgeAddresses {
    /// Its own.
    pub(crate) gateway: Ipv4Addr,
    /// The pods' subnet.
    pub(crate) subnet: Ipv4Net,
    /// Both of IPv6, where pods have second addresses.
    pub(crate) second: Option<(Ipv6Addr, Ipv6Net)>,
}

/// Makes the bridge up with the gateway's addresses, without IPv6 if it has none there, and lets
/// pods' packets go on to other pods; one that stands already is adopted, and mended.
pub(crate) async fn ensure(
    handle: &Handle,
    name: &str,
    BridgeAddresses { gateway, subnet, second }: BridgeAddresses,
    mtu: u32,
) -> Result<Bridge, NetError> {
    let failed = |operation| move |source| netlink(operation, name, source);
    let link = match find(handle, name).await? {
        Some(link) if is_bridge(&link) => link,
        Some(_) => {
            return Err(NetError::Config {
                problem: format!("{name} is an interface, but no bridge; choose another name"),
            });
        }
        None => {
            // its own address fixed: otherwise a bridge takes that of its lowest port, and changes
            // it as pods come and go
            let message = LinkBridge::new(name).address(mac_of(gateway).to_vec()).mtu(mtu).build();
            handle.link().add(message).execute().await.map_err(failed("create bridge"))?;
            match find(handle, name).await? {
                Some(link) => link,
                None => {
                    return Err(NetError::Config { problem: format!("bridge {name} vanished") });
                }
            }
        }
    };
    let index = link.header.index;
    let mac = mac_in(&link).unwrap_or(mac_of(gateway));
    match second {
        Some(_) => ipv6::enable_on(name)?,
        None => ipv6::disable_on(name)?,
    }
    forwarding::turn_on_for(name)?;
    let mut up = LinkUnspec::new_with_index(index).up();
    if mac != mac_of(gateway) {
        // Another's bridge may take that of its lowest port, unless it is given one. Not for ours:
        // what is given anew, if the same, costs the bridge its permanent neighbours.
        up = up.address(mac.to_vec());
    }
    handle.link().change(up.build()).execute().await.map_err(failed("set up bridge"))?;
    let give = |gateway: IpAddr, prefix| handle.address().add(index, gateway, prefix).replace();
    let first = give(gateway.into(), subnet.prefix_len());
    let second = second.map(|(gateway, subnet)| {
        ipv6::without_duplicate_detection(give(gateway.into(), subnet.prefix_len()))
    });
    for address in [first].into_iter().chain(second) {
        address.execute().await.map_err(failed("give the gateway address to bridge"))?;
    }
    Ok(Bridge { index, mac })
}

/// The first address of an existing bridge, which says the subnet that it serves.
pub(crate) async fn address(handle: &Handle, name: &str) -> Result<Option<Ipv4Net>, NetError> {
    let Some(link) = find(handle, name).await? else { return Ok(None) };
    let mut replies = handle.address().get().set_link_index_filter(link.header.index).execute();
    while let Some(message) =
        replies.try_next().await.map_err(|e| netlink("list addresses of", name, e))?
    {
        for attribute in &message.attributes {
            if let AddressAttribute::Address(IpAddr::V4(address)) = attribute {
                return Ok(Ipv4Net::new(*address, message.header.prefix_len).ok());
            }
        }
    }
    Ok(None)
}

/// Names of the agent's sandbox interfaces on the bridge.
pub(crate) async fn ports(
    handle: &Handle,
    bridge_index: u32,
    own: &VethNames,
) -> Result<Vec<String>, NetError> {
    let mut names = Vec::new();
    let mut replies = handle.link().get().execute();
    while let Some(link) = replies.try_next().await.map_err(|e| netlink("list", "interfaces", e))? {
        let on_bridge = link.attributes.contains(&LinkAttribute::Controller(bridge_index));
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        if let Some(name) = name.filter(|name| on_bridge && own.is_ours(name)) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// The subnets that the machine's routes lead to, those through the bridge of this name left out.
/// Must run inside a tokio runtime, in the network namespace that the bridge belongs to.
pub async fn routed_subnets(own_bridge: &str) -> Result<Vec<Ipv4Net>, NetError> {
    let (handle, driver) = connect(own_bridge)?;
    let found = async {
        let bridge = find(&handle, own_bridge).await?.map(|link| link.header.index);
        taken_subnets(&handle, bridge).await
    };
    let found = found.await;
    driver.abort();
    found
}

/// The same of IPv6. Link-local and multicast routes are none.
pub async fn routed_ipv6_subnets(own_bridge: &str) -> Result<Vec<Ipv6Net>, NetError> {
    let (handle, driver) = connect(own_bridge)?;
    let found = async {
        let bridge = find(&handle, own_bridge).await?.map(|link| link.header.index);
        let all = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let taken = destinations(&handle, all, bridge).await?;
        let of_ipv6 = taken.into_iter().filter_map(|taken| match taken {
            IpNet::V6(net) => Some(net),
            IpNet::V4(_) => None,
        });
        let is_of_machines = |net: &Ipv6Net| {
            let address = net.network();
            !address.is_unicast_link_local() && !address.is_multicast()
        };
        Ok(of_ipv6.filter(is_of_machines).collect())
    };
    let found = found.await;
    driver.abort();
    found
}

/// Subnets of the machine's routes, those through `own_bridge` left out.
pub(crate) async fn taken_subnets(
    handle: &Handle,
    own_bridge: Option<u32>,
) -> Result<Vec<Ipv4Net>, NetError> {
    let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
    let taken = destinations(handle, all, own_bridge).await?;
    let of_ipv4 = taken.into_iter().filter_map(|taken| match taken {
        IpNet::V4(net) => Some(net),
        IpNet::V6(_) => None,
    });
    Ok(of_ipv4.collect())
}

/// Bits of a default route, or of the half of one: a VPN splits its own to come before the
/// machine's.
const DEFAULT_ROUTE_BITS_MAX: u8 = 1;

/// Where routes lead, those through `own_bridge` and default routes left out: these lead to no
/// network of their own.
async fn destinations(
    handle: &Handle,
    all: RouteMessage,
    own_bridge: Option<u32>,
) -> Result<Vec<IpNet>, NetError> {
    let routes = list_routes(handle, all).await?;
    let is_others = |route: &&RouteMessage| {
        let through = interface_of(route);
        through.is_none() || through != own_bridge
    };
    let taken = routes.iter().filter(is_others).filter_map(destination_of);
    Ok(taken.filter(|net| net.prefix_len() > DEFAULT_ROUTE_BITS_MAX).collect())
}

async fn list_routes(handle: &Handle, all: RouteMessage) -> Result<Vec<RouteMessage>, NetError> {
    let listed = handle.route().get(all).execute().try_collect().await;
    listed.map_err(|error| netlink("list", "routes", error))
}

fn interface_of(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}

/// Nothing for a default route.
fn destination_of(route: &RouteMessage) -> Option<IpNet> {
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::from(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    })?;
    IpNet::new(address, route.header.destination_prefix_length).ok()
}

/// The routes that [`route_into`] made, of this agent or an earlier one. Those of the kernel and
/// those that a user made by hand are others.
pub(crate) async fn routed_into(
    handle: &Handle,
    index: u32,
    stack: IpStack,
) -> Result<BTreeSet<IpNet>, NetError> {
    let mut routes = list_routes(handle, RouteMessageBuilder::<Ipv4Addr>::new().build()).await?;
    if stack.has(IpFamily::V6) {
        let of_ipv6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        routes.extend(list_routes(handle, of_ipv6).await?);
    }
    let is_ours = |route: &&RouteMessage| {
        interface_of(route) == Some(index)
            && route.header.protocol == RouteProtocol::Static
            && route.header.table == RouteHeader::RT_TABLE_MAIN
    };
    Ok(routes.iter().filter(is_ours).filter_map(destination_of).collect())
}

/// Routes these addresses into the bridge.
pub(crate) async fn route_into(handle: &Handle, index: u32, range: IpNet) -> Result<(), NetError> {
    let added = handle.route().add(route_to(index, range)).replace().execute().await;
    added.map_err(|error| netlink("route into the bridge", &range.to_string(), error))
}

/// Takes such a route away. Absent is success.
pub(crate) async fn unroute(handle: &Handle, index: u32, range: IpNet) -> Result<(), NetError> {
    match handle.route().del(route_to(index, range)).execute().await {
        Err(error) if errno(&error) != Some(ESRCH) => {
            Err(netlink("remove route into the bridge", &range.to_string(), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn route_to(index: u32, range: IpNet) -> RouteMessage {
    match range {
        IpNet::V4(range) => RouteMessageBuilder::<Ipv4Addr>::new()
            .protocol(RouteProtocol::Static)
            .destination_prefix(range.network(), range.prefix_len())
            .output_interface(index)
            .scope(RouteScope::Link)
            .build(),
        IpNet::V6(range) => RouteMessageBuilder::<Ipv6Addr>::new()
            .protocol(RouteProtocol::Static)
            .destination_prefix(range.network(), range.prefix_len())
            .output_interface(index)
            .build(),
    }
}

/// Takes the bridge away. Absent is success.
pub(crate) async fn remove(handle: &Handle, name: &str) -> Result<(), NetError> {
    let Some(link) = find(handle, name).await? else { return Ok(()) };
    match handle.link().del(link.header.index).execute().await {
        Err(error) if errno(&error) != Some(ENODEV) => Err(netlink("remove bridge", name, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_bridge(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Bridge)),
        _ => false,
    })
}
