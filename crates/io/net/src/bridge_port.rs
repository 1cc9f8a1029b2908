//! The host end of a sandbox's veth pair: a port of the bridge that takes in only what its pod may
//! send, and where the bridge has to learn nothing. Two guards that know nothing of each other: the
//! filter on the port's ingress, and a port that is locked to one hardware address (Linux 5.18;
//! earlier kernels ignore that flag).
//!
//! The port is not isolated from others, although pods send to the gateway only: where packets on
//! bridges pass through iptables (`bridge-nf-call-iptables`), the kernel hands a connection to a
//! Service's endpoint from port to port, and back to the same port (hairpin) where a pod reaches
//! itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_route::neighbour::{NeighbourFlags, NeighbourState};
use rtnetlink::{Handle, LinkBridgePort, LinkUnspec};

use crate::error::NetError;
use crate::ipv6;
use crate::links::{ENODEV, ENOENT, errno, mac_of, netlink};
use crate::source_filter::{self, AllowedFrames, FilterSupport};

/// A port that is made, and not up yet unless an earlier agent had it so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgePort<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) bridge_index: u32,
    /// The pod's.
    pub(crate) address: Ipv4Addr,
    pub(crate) second_address: Option<Ipv6Addr>,
    /// The bridge's hardware address.
    pub(crate) gateway_mac: [u8; 6],
}

impl BridgePort<'_> {
    /// What the pod may send.
    fn allowed(self, mac: [u8; 6]) -> AllowedFrames {
        let Self { address, second_address, gateway_mac, .. } = self;
        AllowedFrames { mac, address, second_address, gateway_mac }
    }

    /// Guards the port, tells bridge and host the pod's hardware address for good, and sets the
    /// port up. Repeated, it changes nothing. Everything is asked for before the first answer is
    /// awaited.
    pub(crate) async fn set_up(self, handle: &Handle) -> Result<FilterSupport, NetError> {
        let failed = |operation| move |source| netlink(operation, self.name, source);
        ipv6::disable_on(self.name)?;
        let mac = mac_of(self.address);
        let flags = LinkBridgePort::new(self.index)
            .learning(false)
            .flood(false)
            .bcast_flood(false)
            .mcast_flood(false)
            .locked(true)
            .hairpin(true)
            .build();
        let up = LinkUnspec::new_with_index(self.index).up().build();
        let bridge_entry = handle
            .neighbours()
            .add_bridge(self.index, &mac)
            .state(NeighbourState::Noarp)
            .flags(NeighbourFlags::Controller)
            .replace();
        let addresses = [Some(IpAddr::from(self.address)), self.second_address.map(IpAddr::from)];
        let host_entries = addresses.into_iter().flatten().map(|address| {
            let entry = handle.neighbours().add(self.bridge_index, address);
            entry.link_layer_address(&mac).replace().execute()
        });
        let (filter, flags, bridge_entry, host_entries, up) = futures::join!(
            source_filter::install(handle, self.index, self.allowed(mac)),
            handle.link().set_port(flags).execute(),
            bridge_entry.execute(),
            futures::future::try_join_all(host_entries),
            handle.link().change(up).execute(),
        );
        let filter = filter.map_err(failed("filter what comes in from"))?;
        flags.map_err(failed("lock bridge port"))?;
        bridge_entry.map_err(failed("tell the bridge the hardware address behind"))?;
        host_entries.map_err(failed("tell the host the hardware address behind"))?;
        up.map_err(failed("set up veth"))?;
        Ok(filter)
    }
}

/// The host forgets the hardware addresses of pods that are gone. An unknown one is success.
pub(crate) async fn forget_neighbours(
    handle: &Handle,
    bridge_index: u32,
    addresses: impl IntoIterator<Item = IpAddr>,
) -> Result<(), NetError> {
    let removals = addresses.into_iter().map(|address| async move {
        // what is added says which one it is
        let mut entry = handle.neighbours().add(bridge_index, address);
        match handle.neighbours().del(entry.message_mut().clone()).execute().await {
            Err(error) if !matches!(errno(&error), Some(ENOENT | ENODEV)) => {
                Err(netlink("forget the hardware address of", &address.to_string(), error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    });
    futures::future::join_all(removals).await.into_iter().collect()
}
