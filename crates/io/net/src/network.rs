//! The pod network as the node agent sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rekindle_types::IpStack;
use tokio::sync::watch;

use crate::bridge::{self, Bridge, BridgeAddresses};
use crate::bridge_port::forget_neighbours;
use crate::embedding_prefix::EmbeddingPrefix;
use crate::error::NetError;
use crate::ipv6;
use crate::leases::{LeaseFile, LeaseFileContent};
use crate::links;
use crate::netns::{NetNs, NetNsIdentity, lookup_socket};
use crate::pool::AddressPool;
use crate::share::{self, BridgeShare};
use crate::source_filter::FilterSupport;
use crate::subnet;
use crate::veth::{self, VethNames, VethPlug};

/// Deleting a veth holds the kernel's network lock for about 20 ms; so it waits until a pod restart
/// under way is done.
const DELETE_DELAY: Duration = Duration::from_millis(500);

/// How the network is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The bridge's name, 15 characters at most, not used by anything else. Each engine of a
    /// machine has its own.
    pub bridge: String,
    /// Where the pods' addresses come from.
    pub subnet: SubnetChoice,
    /// Where their second addresses come from; none: they have none.
    pub ipv6: Option<EmbeddingPrefix>,
    /// Whether the bridge is this agent's own, and which of the subnet's addresses are its pods'.
    pub share: BridgeShare,
    /// The folder of the lease file; made when absent.
    pub state_dir: PathBuf,
    /// Bytes of a packet on pod interfaces; 1500 is usual.
    pub mtu: u32,
}

/// Where the pods' addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubnetChoice {
    /// The one used before, else the first of 10.88.0.0/16, 10.89.0.0/16, … that overlaps with
    /// nothing on the machine.
    Auto,
    /// This one, /8 to /30.
    Fixed(Ipv4Net),
}

/// A sandbox's place in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxAttachment {
    /// The pod's IP.
    pub ip: Ipv4Addr,
    /// Its second one.
    pub second_ip: Option<Ipv6Addr>,
    /// The default route's next hop: the bridge.
    pub gateway: Ipv4Addr,
    /// eth0's hardware address.
    pub mac: [u8; 6],
    /// The host's end of the veth pair.
    pub host_interface: String,
}

/// The pod network of one engine. All calls are idempotent by the sandbox's id.
#[derive(Debug)]
pub struct BridgeNetwork {
    inner: Arc<SharedNetwork>,
    /// A change ends the delay of all deletions under way; they give up when it is dropped.
    hurry: watch::Sender<()>,
    /// Drives the netlink socket.
    driver: tokio::task::JoinHandle<()>,
}

/// What a sandbox is plugged in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlugPurpose {
    /// It is a pod's.
    Use,
    /// It will be a pod's some time.
    Later,
}

#[derive(Debug)]
struct SharedNetwork {
    config: NetworkConfig,
    ports: VethNames,
    bridge: Bridge,
    netlink: rtnetlink::Handle,
    /// A socket of the bridge's namespace.
    lookup: OwnedFd,
    leases: LeaseFile,
    pool: Mutex<AddressPool>,
    /// The namespaces that were plugged in ahead of need, by id: nothing is left to do when they
    /// are first asked for.
    prepared: Mutex<BTreeMap<String, NetNsIdentity>>,
    /// Ids whose interface is being deleted; their address is not free yet.
    detaching: watch::Sender<BTreeSet<String>>,
    /// One sandbox at a time: the kernel's network lock allows no more anyway.
    attaching: tokio::sync::Mutex<()>,
    /// One batch of deletions at a time.
    deleting: tokio::sync::Mutex<()>,
    /// Whether the log says that this kernel cannot filter what pods send.
    missing_filter_told: Once,
}

impl BridgeNetwork {
    /// Creates or adopts the bridge and reads the leases of an earlier agent. Must run inside a
    /// tokio runtime, in the network namespace that the bridge belongs to.
    pub async fn open(config: NetworkConfig) -> Result<Self, NetError> {
        check(&config)?;
        let leases = LeaseFile::new(&config.state_dir)?;
        let (netlink, driver) = links::connect(&config.bridge)?;
        match Self::open_with(config, leases, netlink).await {
            Ok(inner) => Ok(Self { inner: Arc::new(inner), hurry: watch::Sender::new(()), driver }),
            Err(error) => {
                driver.abort();
                Err(error)
            }
        }
    }

    /// The same for an agent that only ends what is left. Where IPv6 was switched off since, pods
    /// have no second addresses any more.
    pub async fn open_to_end(mut config: NetworkConfig) -> Result<Self, NetError> {
        config.ipv6 = config.ipv6.filter(|_| ipv6::check_machine().is_ok());
        Self::open(config).await
    }

    async fn open_with(
        config: NetworkConfig,
        leases: LeaseFile,
        netlink: rtnetlink::Handle,
    ) -> Result<SharedNetwork, NetError> {
        if config.ipv6.is_some() {
            ipv6::check_machine()?;
        }
        let mut pool = recover(&config, &leases, &netlink).await?;
        let range = share::range(pool.subnet(), config.share);
        if !range.is_some_and(|range| pool.restrict(range)) {
            let problem = format!("subnet {} has no room for so many nodes", pool.subnet());
            return Err(NetError::Config { problem });
        }
        let lookup = lookup_socket().map_err(|source| NetError::Io {
            operation: "open socket for",
            path: PathBuf::from(&config.bridge),
            source,
        })?;
        let bridge =
            bridge::ensure(&netlink, &config.bridge, bridge_addresses(&config, &pool), config.mtu)
                .await?;
        leases.write(&pool)?;
        Ok(SharedNetwork {
            ports: VethNames::new(&config.bridge, config.share),
            config,
            bridge,
            netlink,
            lookup,
            leases,
            pool: Mutex::new(pool),
            prepared: Mutex::default(),
            detaching: watch::Sender::new(BTreeSet::new()),
            attaching: tokio::sync::Mutex::new(()),
            deleting: tokio::sync::Mutex::new(()),
            missing_filter_told: Once::new(),
        })
    }

    /// The pods' subnet.
    pub fn subnet(&self) -> Ipv4Net {
        self.inner.pool().subnet()
    }

    /// The part of it that this agent's pods get addresses from.
    pub fn range(&self) -> Ipv4Net {
        self.inner.pool().range()
    }

    /// The bridge's address, where pods reach the host.
    pub fn gateway(&self) -> Ipv4Addr {
        self.inner.pool().gateway()
    }

    /// The families that pods have addresses of.
    pub fn stack(&self) -> IpStack {
        match self.inner.config.ipv6 {
            Some(_) => IpStack::Dual,
            None => IpStack::Single,
        }
    }

    /// Where second addresses come from.
    pub fn ipv6_prefix(&self) -> Option<EmbeddingPrefix> {
        self.inner.config.ipv6
    }

    /// The pods' second subnet.
    pub fn ipv6_subnet(&self) -> Option<Ipv6Net> {
        self.inner.config.ipv6.map(|prefix| prefix.subnet(self.subnet()))
    }

    /// The part of it that this agent's pods get addresses from.
    pub fn ipv6_range(&self) -> Option<Ipv6Net> {
        self.inner.config.ipv6.map(|prefix| prefix.subnet(self.range()))
    }

    /// The bridge's second address.
    pub fn ipv6_gateway(&self) -> Option<Ipv6Addr> {
        self.inner.config.ipv6.map(|prefix| prefix.address(self.gateway()))
    }

    /// The second address of whoever has this one.
    pub fn second_address(&self, first: Ipv4Addr) -> Option<Ipv6Addr> {
        self.inner.config.ipv6.map(|prefix| prefix.address(first))
    }

    /// Who holds which address, interfaces being deleted included.
    pub fn leases(&self) -> BTreeMap<String, Ipv4Addr> {
        self.inner.pool().leases().clone()
    }

    /// Gives sandbox `id` an address and plugs its network namespace (`/proc/<pid>/ns/net`) into
    /// the bridge. Repeated, it answers the same; what an interrupted call left undone is done.
    pub async fn attach(&self, id: &str, netns: &Path) -> Result<SandboxAttachment, NetError> {
        self.plug(id, netns, PlugPurpose::Use).await
    }

    /// The same ahead of need: the next [`attach`](Self::attach) of this sandbox has nothing left
    /// to do, and looks at nothing.
    pub async fn prepare(&self, id: &str, netns: &Path) -> Result<(), NetError> {
        self.plug(id, netns, PlugPurpose::Later).await.map(drop)
    }

    async fn plug(
        &self,
        id: &str,
        netns: &Path,
        purpose: PlugPurpose,
    ) -> Result<SandboxAttachment, NetError> {
        let namespace = NetNs::open_other(id, netns)?;
        self.until_detaching(|ids| !ids.contains(id)).await;
        let _one_at_a_time = self.inner.attaching.lock().await;
        let (address, gateway) = self.inner.lease(id)?;
        let host_interface = self.inner.ports.host_name(id);
        let attachment = SandboxAttachment {
            ip: address,
            second_ip: self.second_address(address),
            gateway,
            mac: links::mac_of(address),
            host_interface: host_interface.clone(),
        };
        let identity = namespace.identity().map_err(|source| NetError::Io {
            operation: "look at network namespace",
            path: netns.to_owned(),
            source,
        })?;
        let prepared = lock(&self.inner.prepared).remove(id);
        if purpose == PlugPurpose::Use && prepared == Some(identity) {
            return Ok(attachment);
        }
        let plug = VethPlug {
            host_name: &host_interface,
            lookup: &self.inner.lookup,
            bridge_index: self.inner.bridge.index,
            address,
            gateway,
            ipv6: self.inner.config.ipv6,
            gateway_mac: self.inner.bridge.mac,
            mtu: self.inner.config.mtu,
        };
        match veth::plug(&self.inner.netlink, &namespace, plug).await? {
            FilterSupport::Present => {}
            FilterSupport::Missing => self.inner.warn_of_missing_filter(),
        }
        match purpose {
            PlugPurpose::Use => {}
            PlugPurpose::Later => drop(lock(&self.inner.prepared).insert(id.to_owned(), identity)),
        }
        Ok(attachment)
    }

    /// Sends what the machine itself sends to Services into the bridge, where rules lead it to
    /// pods: also on a machine without a default route. The route goes with the bridge.
    pub async fn route_services(&self, range: IpNet) -> Result<(), NetError> {
        bridge::route_into(&self.inner.netlink, self.inner.bridge.index, range).await
    }

    /// The ranges of Services that are routed into the bridge, also by an earlier agent.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn routed_services(&self) -> Result<BTreeSet<IpNet>, NetError> {
        // a socket lists one thing at a time, and others may list by that of this network
        let (netlink, driver) = links::connect(&self.inner.config.bridge)?;
        let found = bridge::routed_into(&netlink, self.inner.bridge.index, self.stack()).await;
        driver.abort();
        found
    }

    /// Takes the route to a range of Services away. Absent is success.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn unroute_services(&self, range: IpNet) -> Result<(), NetError> {
        bridge::unroute(&self.inner.netlink, self.inner.bridge.index, range).await
    }

    /// Unplugs sandbox `id` in the background; its address is free once the interface is gone.
    /// Absent is success. The sandbox itself may be gone already, or still stand.
    pub fn detach(&self, id: &str) {
        if !self.inner.detaching.send_if_modified(|ids| ids.insert(id.to_owned())) {
            return;
        }
        lock(&self.inner.prepared).remove(id);
        let inner = Arc::clone(&self.inner);
        let id = id.to_owned();
        let mut hurry = self.hurry.subscribe();
        tokio::spawn(async move {
            let go_on = tokio::select! {
                () = tokio::time::sleep(DELETE_DELAY) => true,
                hurried = hurry.changed() => hurried.is_ok(),
            };
            // else the agent ends: the lease stays, and its next start sees to it
            if go_on {
                inner.delete_all_with(&id).await;
            }
        });
    }

    /// Detaches every sandbox not in `ids`, and deletes interfaces on the bridge that belong to
    /// none of them: for the agent's start, with the sandboxes that its runtime found alive.
    pub async fn release_all_except(&self, ids: &BTreeSet<String>) -> Result<(), NetError> {
        let gone: Vec<String> = self.leases().into_keys().filter(|id| !ids.contains(id)).collect();
        for id in &gone {
            self.detach(id);
        }
        let known: BTreeSet<String> =
            ids.iter().chain(&gone).map(|id| self.inner.ports.host_name(id)).collect();
        let mut strays =
            bridge::ports(&self.inner.netlink, self.inner.bridge.index, &self.inner.ports).await?;
        strays.retain(|port| !known.contains(port));
        if strays.is_empty() {
            return Ok(());
        }
        let _one_batch_at_a_time = self.inner.deleting.lock().await;
        let group = self.inner.ports.removal_group();
        veth::unplug_all(&self.inner.netlink, group, &strays).await
    }

    /// Waits until all detached sandboxes' interfaces are gone, without further delay.
    pub async fn settle(&self) {
        self.until_detaching(BTreeSet::is_empty).await;
    }

    async fn until_detaching(&self, mut done: impl FnMut(&BTreeSet<String>) -> bool) {
        let mut detaching = self.inner.detaching.subscribe();
        if done(&detaching.borrow_and_update()) {
            return;
        }
        self.hurry.send_replace(());
        drop(detaching.wait_for(done).await.expect("self holds the sender"));
    }

    /// Takes everything away: interfaces, bridge, lease file. A guest leaves the bridge to its
    /// owner.
    pub async fn close(self) -> Result<(), NetError> {
        self.release_all_except(&BTreeSet::new()).await?;
        self.settle().await;
        match self.inner.config.share {
            BridgeShare::Owner => {
                bridge::remove(&self.inner.netlink, &self.inner.config.bridge).await?;
            }
            BridgeShare::Guest(_) => {}
        }
        self.inner.leases.remove()
    }
}

impl Drop for BridgeNetwork {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl SharedNetwork {
    fn pool(&self) -> MutexGuard<'_, AddressPool> {
        lock(&self.pool)
    }

    fn warn_of_missing_filter(&self) {
        self.missing_filter_told.call_once(|| {
            tracing::warn!(
                bridge = self.config.bridge,
                "failed to filter what pods send: this kernel has no sch_ingress or no cls_bpf; a pod with NET_RAW can forge ARP and \
                 IPv4 addresses of other pods"
            );
        });
    }

    /// The durable lease of `id`: stored before it is used.
    fn lease(&self, id: &str) -> Result<(Ipv4Addr, Ipv4Addr), NetError> {
        let mut pool = self.pool();
        let held = pool.leases().contains_key(id);
        let address = pool
            .allocate(id)
            .map_err(|e| NetError::Exhausted { subnet: e.subnet, leased: e.leased })?;
        if !held && let Err(error) = self.leases.write(&pool) {
            pool.release(id);
            return Err(error);
        }
        Ok((address, pool.gateway()))
    }

    /// Deletes the interfaces of `id` and of all others that wait for it, then frees their
    /// addresses. When that fails the leases stay, and the agent's next start tries again.
    async fn delete_all_with(&self, id: &str) {
        let _one_batch_at_a_time = self.deleting.lock().await;
        let ids = self.detaching.borrow().clone();
        if !ids.contains(id) {
            return; // another one's batch had it
        }
        let names: Vec<String> = ids.iter().map(|id| self.ports.host_name(id)).collect();
        let group = self.ports.removal_group();
        let deleted = veth::unplug_all(&self.netlink, group, &names).await;
        let freed = match deleted {
            Ok(()) => self.free(&ids).await,
            Err(error) => Err(error),
        };
        if let Err(error) = freed {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(sandboxes = ?ids, %error, cause, "failed to detach sandboxes");
        }
        self.detaching.send_modify(|detaching| detaching.retain(|id| !ids.contains(id)));
    }

    async fn free(&self, ids: &BTreeSet<String>) -> Result<(), NetError> {
        let leases = self.pool().leases().clone();
        let addresses = ids.iter().filter_map(|id| leases.get(id).copied());
        let addresses = addresses.flat_map(|first| {
            let second = self.config.ipv6.map(|prefix| prefix.address(first).into());
            [Some(IpAddr::from(first)), second].into_iter().flatten()
        });
        forget_neighbours(&self.netlink, self.bridge.index, addresses).await?;
        let mut pool = self.pool();
        let freed = ids.iter().filter(|id| pool.release(id).is_some()).count();
        match freed {
            0 => Ok(()),
            _ => self.leases.write(&pool),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // nothing here panics halfway through a change
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bridge_addresses(config: &NetworkConfig, pool: &AddressPool) -> BridgeAddresses {
    let (gateway, subnet) = (pool.gateway(), pool.subnet());
    let second = |prefix: EmbeddingPrefix| (prefix.address(gateway), prefix.subnet(subnet));
    BridgeAddresses { gateway, subnet, second: config.ipv6.map(second) }
}

fn check(config: &NetworkConfig) -> Result<(), NetError> {
    let name = &config.bridge;
    if !links::is_name(name) {
        return Err(NetError::Config {
            problem: format!(
                "bridge {name:?} is no interface name: 1 to 15 characters, no blanks, / or :"
            ),
        });
    }
    match config.subnet {
        SubnetChoice::Fixed(net) if !(8..=30).contains(&net.prefix_len()) => {
            Err(NetError::Config {
                problem: format!("subnet {net}: a prefix from /8 to /30 is needed"),
            })
        }
        SubnetChoice::Fixed(_) | SubnetChoice::Auto => Ok(()),
    }
}

/// The pool to go on with.
async fn recover(
    config: &NetworkConfig,
    leases: &LeaseFile,
    netlink: &rtnetlink::Handle,
) -> Result<AddressPool, NetError> {
    let bridge_index = links::find(netlink, &config.bridge).await?.map(|link| link.header.index);
    let used_before = match leases.read()? {
        LeaseFileContent::Nothing => None,
        LeaseFileContent::EarlierBoot(subnet) => Some(subnet),
        LeaseFileContent::Current(stored) => {
            let subnet = stored.pool.subnet();
            match (fits(config, subnet), stored.pool.leases().is_empty()) {
                (true, _) => return Ok(stored.pool),
                (false, true) => None,
                (false, false) => {
                    let problem = format!(
                        "sandboxes of {subnet} are still there; end them before the subnet is changed"
                    );
                    return Err(NetError::Config { problem });
                }
            }
        }
        LeaseFileContent::Damaged(problem) => {
            let ports = match bridge_index {
                Some(index) => {
                    let own = VethNames::new(&config.bridge, config.share);
                    bridge::ports(netlink, index, &own).await?.len()
                }
                None => 0,
            };
            if ports > 0 {
                return Err(NetError::Damaged { path: leases.path().to_owned(), problem, ports });
            }
            let file = leases.path().display();
            tracing::warn!(%file, problem, "ignored a damaged lease file: no sandbox is left");
            None
        }
    };
    let used_before = match used_before {
        Some(subnet) => Some(subnet),
        None => bridge::address(netlink, &config.bridge).await?.map(|net| net.trunc()),
    };
    let taken = bridge::taken_subnets(netlink, bridge_index).await?;
    let subnet = choose(config, used_before, &taken)?;
    AddressPool::new(subnet).ok_or_else(|| NetError::Config {
        problem: format!("subnet {subnet} has no room for pods"),
    })
}

fn choose(
    config: &NetworkConfig,
    used_before: Option<Ipv4Net>,
    taken: &[Ipv4Net],
) -> Result<Ipv4Net, NetError> {
    match config.subnet {
        SubnetChoice::Fixed(net) => match subnet::overlapping(net, taken) {
            Some(taken) => Err(NetError::Overlap { subnet: net, taken }),
            None => Ok(net.trunc()),
        },
        SubnetChoice::Auto => match used_before {
            Some(net) if subnet::overlapping(net, taken).is_none() => Ok(net),
            Some(_) | None => subnet::choose_default(taken),
        },
    }
}

fn fits(config: &NetworkConfig, subnet: Ipv4Net) -> bool {
    match config.subnet {
        SubnetChoice::Auto => true,
        SubnetChoice::Fixed(net) => net.trunc() == subnet,
    }
}
