//! The rules in the kernel that route Services: one nftables table of the engine's own, made and
//! changed over netlink.
//!
//! ```text
//! RuleTable::open ──► replace(all elements) ──► apply(changes) … ──► remove
//!                          ▲                        │
//!                          └── changed_by_others ◄──┘
//! ```
//! The kernel changes rules in transactions: a kill -9 leaves those of before or those of after. A
//! table that an earlier engine left behind works on until `replace`.
//!
//! `schema` has sets, chains and rules, `expressions` what rules are made of, `elements` how an
//! element of the rules is one of a set. `batch` makes a transaction of them, `socket` talks to the
//! kernel. `monitor` sees what others do to the table, `conntrack` forgets flows, `queue` has the
//! connections that wait.
//!
//! Of the tables of others `listed_rules` reads what matters to pods, and `packet_path` follows
//! their packets through it. `firewall` finds what stands in the way, `source_nat` who needs the
//! machine to forward.

mod batch;
mod conntrack;
mod elements;
mod error;
mod expressions;
mod firewall;
mod listed_rules;
mod monitor;
mod needed_chains;
mod open_table;
mod owned_table;
mod packet_path;
mod policies;
mod queue;
mod schema;
mod socket;
mod source_nat;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rekindle_services::{Frontend, RuleChanges, RuleElements, StaleFlow};
use rekindle_types::{IpFamily, IpStack, causes};
use sha2::{Digest, Sha256};

pub use error::RuleError;
pub use firewall::{DroppingFirewall, FirewallKind, dropping_firewalls};
pub use listed_rules::{TableFamily, TableName};
use monitor::TableMonitor;
use open_table::OpenTable;
pub use packet_path::PodTraffic;
pub use policies::PolicyTable;
pub use queue::HeldPacket;
use queue::PacketQueue;
pub(crate) use source_nat::table_with_source_nat;

use crate::error::NetError;
use crate::sysctl;

/// How the rules are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTableConfig {
    /// The pods' bridge. The table is called after it.
    pub bridge: String,
    /// Where the pods' addresses come from.
    pub pods: Ipv4Net,
    /// Where the Services' cluster IPs come from: connections to those of no Service
    /// are rejected.
    pub services: Option<Ipv4Net>,
    /// The same of IPv6, where pods have addresses of both families.
    pub ipv6: Option<Ipv6Ranges>,
    /// What becomes of the pods' packets that leave the machine.
    pub egress: PodEgress,
    /// Whether NodePorts are served at 127.0.0.1.
    pub loopback_node_ports: LoopbackNodePorts,
    /// Who may change the table.
    pub ownership: TableOwnership,
}

/// Where pods and Services have their second addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Ranges {
    /// Of pods.
    pub pods: Ipv6Net,
    /// Of Services.
    pub services: Option<Ipv6Net>,
}

impl RuleTableConfig {
    /// The families that the rules are for.
    pub const fn stack(&self) -> IpStack {
        match self.ipv6 {
            Some(_) => IpStack::Dual,
            None => IpStack::Single,
        }
    }

    fn pods(&self, family: IpFamily) -> Option<IpNet> {
        match family {
            IpFamily::V4 => Some(self.pods.into()),
            IpFamily::V6 => self.ipv6.map(|ranges| ranges.pods.into()),
        }
    }

    fn services(&self, family: IpFamily) -> Option<IpNet> {
        match family {
            IpFamily::V4 => self.services.map(IpNet::from),
            IpFamily::V6 => self.ipv6?.services.map(IpNet::from),
        }
    }
}

/// What becomes of the pods' packets that leave the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEgress {
    /// They get the machine's address, so that answers find back.
    Masquerade,
    /// They go as they are.
    Leave,
}

/// Whether NodePorts are served at 127.0.0.1, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopbackNodePorts {
    /// They are. The bridge gets `route_localnet`, and a rule that keeps pods from 127.0.0.0/8.
    Serve,
    /// A process of the host that listens there has the port.
    Leave,
}

/// Who may change the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOwnership {
    /// This process only: `nft flush ruleset` passes the table by, and a second engine with this
    /// bridge is refused. The rules stay when the process ends. Needs Linux 6.9; an earlier kernel
    /// gets [`Self::Shared`].
    Exclusive,
    /// Everyone with the right to change rules.
    Shared,
}

/// The table of one engine. Calls may come from any task.
pub struct RuleTable {
    table: Arc<Mutex<OpenTable>>,
    monitor: Arc<TableMonitor>,
    queue: Option<PacketQueue>,
    config: RuleTableConfig,
}

impl std::fmt::Debug for RuleTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleTable").field("config", &self.config).finish_non_exhaustive()
    }
}

impl RuleTable {
    /// Looks whether the kernel can do it, and changes nothing. Must run inside a tokio runtime, in
    /// the network namespace of the bridge.
    pub fn open(config: RuleTableConfig) -> Result<Self, RuleError> {
        let mut table = OpenTable::open(&config)?;
        let monitor = TableMonitor::open(table.name(), table.port())
            .map_err(|source| failed("open netlink socket that monitors nftables", source))?;
        let queue = match open_queue(&mut table) {
            Ok(queue) => Some(queue),
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "failed to open a queue for connections that wait (modules nfnetlink_queue, xt_NFQUEUE and nft_compat): while the last pod of a Service is restarted they are refused"
                );
                None
            }
        };
        let table = Arc::new(Mutex::new(table));
        Ok(Self { table, monitor, queue, config })
    }

    /// The name of the table.
    pub fn name(&self) -> String {
        lock(&self.table).name().to_owned()
    }

    /// Gives the table all its rules and exactly these elements. One that stands is renewed without
    /// a gap: no connection is lost. Clients with affinity stay where they are. Answers what that
    /// changes; from a table that cannot be read nothing is removed.
    pub async fn replace(&self, elements: &RuleElements) -> Result<RuleChanges, RuleError> {
        let elements = elements.clone();
        let monitor = Arc::clone(&self.monitor);
        let replace = move |table: &mut OpenTable| {
            let replace = |table: &mut OpenTable| table.replace(&elements);
            monitor.during_replacement(table, replace, OpenTable::has_table)
        };
        let changes = self.run(replace).await?;
        if self.config.loopback_node_ports == LoopbackNodePorts::Serve {
            self.route_loopback("1");
        }
        Ok(changes)
    }

    /// From the next replacement on connections to these ranges, beside those of the configuration,
    /// are rejected where no Service has the address.
    pub fn serve_ranges(&self, further: Vec<IpNet>) {
        lock(&self.table).serve_ranges(further);
    }

    /// Makes these changes, and returns when the kernel has made them. On an error nothing has
    /// changed: an element to be removed was not there, or the table is gone.
    pub async fn apply(&self, changes: &RuleChanges) -> Result<(), RuleError> {
        let changes = changes.clone();
        self.run(move |table| table.apply(&changes)).await
    }

    /// What the kernel has.
    pub async fn read_back(&self) -> Result<RuleElements, RuleError> {
        self.run(OpenTable::read_back).await
    }

    /// The host ports that the kernel has, and where each leads.
    pub async fn host_ports(&self) -> Result<Vec<(Frontend, SocketAddr)>, RuleError> {
        self.run(OpenTable::host_ports).await
    }

    /// Returns when another process has changed the table or may have: it is to be replaced.
    /// Safe to drop.
    pub async fn changed_by_others(&self) -> Result<(), RuleError> {
        let changed = self.monitor.changed().await;
        changed.map_err(RuleError::from)
    }

    /// Returns when another process has changed tables that are no engine's, or may have: there may
    /// be another firewall. Changes before it is asked count, and many count as one. It works only
    /// while [`changed_by_others`](Self::changed_by_others) is waited for. Safe to drop.
    pub async fn changed_elsewhere(&self) {
        self.monitor.changed_elsewhere().await;
    }

    /// Connections that have begun to wait, because their frontend is [held]: each is to be
    /// [released](Self::release). Safe to drop.
    ///
    /// [held]: rekindle_services::RuleElement::Held
    pub async fn held(&self) -> Result<Vec<HeldPacket>, RuleError> {
        match &self.queue {
            Some(queue) => {
                let held = queue.next().await;
                held.map_err(|source| failed("read the queue of connections that wait", source))
            }
            None => std::future::pending().await,
        }
    }

    /// Lets a connection go on, by the rules that the kernel has now.
    pub fn release(&self, packet: HeldPacket) -> Result<(), RuleError> {
        let released = self.queue.as_ref().map_or(Ok(()), |queue| queue.release(packet));
        released.map_err(|source| failed("let a connection go on that has waited", source))
    }

    /// Has the kernel forget UDP flows that still go to endpoints that are gone, and tells how many
    /// there were. Call it when the changes are applied.
    pub async fn forget_udp_flows(&self, flows: &BTreeSet<StaleFlow>) -> Result<usize, RuleError> {
        if flows.is_empty() {
            return Ok(0);
        }
        let flows = flows.clone();
        self.run(move |table| table.forget_udp_flows(&flows)).await
    }

    /// The same for all flows by frontends of these elements to endpoints that they do not have:
    /// an engine before may have ended between a change and its flows.
    pub async fn forget_stray_udp_flows(&self, elements: RuleElements) -> Result<usize, RuleError> {
        self.run(move |table| table.forget_stray_udp_flows(&elements)).await
    }

    /// Removes the table, and has the kernel forget the flows of pods. Absent is success.
    pub async fn remove(&self) -> Result<(), RuleError> {
        if self.config.loopback_node_ports == LoopbackNodePorts::Serve {
            // while pods are still kept from the loopback
            self.route_loopback("0");
        }
        self.run(OpenTable::remove).await?;
        self.run(OpenTable::forget_flows_of_pods).await.map(drop)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut OpenTable) -> T + Send + 'static,
    ) -> T {
        let table = Arc::clone(&self.table);
        on_blocking_thread(move || work(&mut lock(&table))).await
    }

    /// Whether the bridge takes packets with addresses of the loopback: answers to 127.0.0.1 come
    /// back by it. Not a reason to fail: only NodePorts at 127.0.0.1 need it.
    fn route_loopback(&self, value: &str) {
        let bridge = &self.config.bridge;
        match sysctl::set(&format!("ipv4/conf/{bridge}/route_localnet"), value) {
            // with the bridge its settings are gone
            Err(NetError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                tracing::debug!(bridge, "no bridge to set route_localnet of");
            }
            Err(error) => {
                let error = causes(&error);
                tracing::warn!(
                    bridge,
                    error,
                    "failed to set route_localnet; NodePorts do not work at 127.0.0.1"
                );
            }
            Ok(()) => {}
        }
    }
}

/// Does this where it may block. It goes on when the caller does not wait.
pub async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // the runtime ends, and with it this task
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

/// Opens a queue, and has the table use it.
fn open_queue(table: &mut OpenTable) -> Result<PacketQueue, RuleError> {
    let queue = PacketQueue::open(first_queue(table.name()));
    let queue = queue.map_err(|source| failed("open a queue of packets", source))?;
    table.use_queue(queue.number())?;
    Ok(queue)
}

/// The number of the queue that a table tries first. It is the same each time: a table that has to
/// be made anew is without rules for a moment.
fn first_queue(table: &str) -> u16 {
    const BEGIN: u16 = 0x4000;
    const COUNT: u16 = 0x4000;
    let digest = Sha256::digest(table);
    BEGIN + u16::from_be_bytes([digest[0], digest[1]]) % COUNT
}

fn lock(table: &Mutex<OpenTable>) -> std::sync::MutexGuard<'_, OpenTable> {
    // what a transaction changes in it is written after the kernel has it
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(operation: &str, source: std::io::Error) -> RuleError {
    RuleError::Socket { operation: operation.to_owned(), source }
}
