//! The bridge: made or adopted, given the gateway's address, looked at for ports and for subnets
//! that are taken.

use std::net::{IpAddr, Ipv4Addr};

use futures::TryStreamExt;
use ipnet::Ipv4Net;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteScope};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, RouteMessageBuilder};

use crate::error::NetError;
use crate::forwarding;
use crate::ipv6;
use crate::links::{ENODEV, connect, errno, find, mac_in, mac_of, netlink};
use crate::veth::VethNames;

/// A bridge that stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bridge {
    pub(crate) index: u32,
    /// Its hardware address, which stays.
    pub(crate) mac: [u8; 6],
}

/// Makes the bridge up with the gateway's address and without IPv6, and lets pods' packets go on to
/// other pods; one that stands already is adopted, and mended.
pub(crate) async fn ensure(
    handle: &Handle,
    name: &str,
    gateway: Ipv4Addr,
    subnet: Ipv4Net,
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
    ipv6::disable_on(name)?;
    forwarding::turn_on_for(name)?;
    let mut up = LinkUnspec::new_with_index(index).up();
    if mac != mac_of(gateway) {
        // Another's bridge may take that of its lowest port, unless it is given one. Not for ours:
        // what is given anew, if the same, costs the bridge its permanent neighbours.
        up = up.address(mac.to_vec());
    }
    handle.link().change(up.build()).execute().await.map_err(failed("set up bridge"))?;
    handle
        .address()
        .add(index, IpAddr::V4(gateway), subnet.prefix_len())
        .replace()
        .execute()
        .await
        .map_err(failed("give the gateway address to bridge"))?;
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

/// Subnets of the machine's routes, those through `own_bridge` left out.
pub(crate) async fn taken_subnets(
    handle: &Handle,
    own_bridge: Option<u32>,
) -> Result<Vec<Ipv4Net>, NetError> {
    let mut taken = Vec::new();
    let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
    let mut replies = handle.route().get(all).execute();
    while let Some(route) = replies.try_next().await.map_err(|e| netlink("list", "routes", e))? {
        let through = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        });
        if through.is_some() && through == own_bridge {
            continue;
        }
        for attribute in &route.attributes {
            if let RouteAttribute::Destination(RouteAddress::Inet(address)) = attribute {
                taken.extend(Ipv4Net::new(*address, route.header.destination_prefix_length).ok());
            }
        }
    }
    Ok(taken)
}

/// Routes these addresses into the bridge.
pub(crate) async fn route_into(
    handle: &Handle,
    index: u32,
    range: Ipv4Net,
) -> Result<(), NetError> {
    let route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(range.network(), range.prefix_len())
        .output_interface(index)
        .scope(RouteScope::Link)
        .build();
    let added = handle.route().add(route).replace().execute().await;
    added.map_err(|error| netlink("route into the bridge", &range.to_string(), error))
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
