//! The rules in the kernel that enforce NetworkPolicies: one nftables table of the engine's own,
//! beside that of Services (docs/adr/0061).

mod elements;
mod schema;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use elements::part_lengths;
use netlink_packet_netfilter::nftables::{
    NfTablesMessage, TableAttribute, TableFlags, TableMessage,
};
use rekindle_network_policy::{PolicyChanges, PolicyElement, PolicyElements};
use rustix::io::Errno;

use crate::links;
use crate::rules::batch::{RuleBatch, of_table};
use crate::rules::elements::EncodedElement;
use crate::rules::error::RuleError;
use crate::rules::monitor::TableMonitor;
use crate::rules::socket::NetfilterSocket;
use crate::rules::{TableOwnership, failed};

/// The table of NetworkPolicies of one engine. Calls may come from any task, and block while the
/// kernel works.
pub struct PolicyTable {
    table: Arc<Mutex<OpenPolicyTable>>,
    monitor: TableMonitor,
}

impl std::fmt::Debug for PolicyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyTable").finish_non_exhaustive()
    }
}

struct OpenPolicyTable {
    name: String,
    socket: NetfilterSocket,
    flags: TableFlags,
}

impl PolicyTable {
    /// Looks whether the kernel can do it, and changes nothing. The table is called after the
    /// pods' bridge. Must run inside a tokio runtime, in the network namespace of the bridge.
    pub fn open(bridge: &str, ownership: TableOwnership) -> Result<Self, RuleError> {
        if !links::is_name(bridge) {
            return Err(RuleError::BridgeName { bridge: bridge.to_owned() });
        }
        let open = |source| failed("open netlink socket to nftables", source);
        let socket = NetfilterSocket::open().map_err(open)?;
        let flags = match ownership {
            TableOwnership::Exclusive => TableFlags::Owner | TableFlags::Persisent,
            TableOwnership::Shared => TableFlags::empty(),
        };
        let name = format!("rekindle-{bridge}-policies");
        let monitor = TableMonitor::open(&name, socket.port())
            .map_err(|source| failed("open netlink socket that monitors nftables", source))?;
        let mut table = OpenPolicyTable { name, socket, flags };
        table.is_there().map_err(open)?;
        Ok(Self { table: Arc::new(Mutex::new(table)), monitor })
    }

    /// Gives the table all its rules and exactly these elements, in one transaction: no packet
    /// meets a part of them.
    pub fn replace(&self, elements: &PolicyElements) -> Result<(), RuleError> {
        let replace = |table: &mut OpenPolicyTable| table.replace(elements);
        let is_intact = |table: &mut OpenPolicyTable| matches!(table.is_there(), Ok(true));
        self.monitor.during_replacement(&mut *self.lock(), replace, is_intact)
    }

    /// Makes these changes in one transaction. On an error nothing has changed.
    pub fn apply(&self, changes: &PolicyChanges) -> Result<(), RuleError> {
        let mut table = self.lock();
        let mut batch = RuleBatch::new(&table.name);
        for (set, elements) in by_set(&changes.removed, elements::encode_key) {
            batch.remove_encoded(set, elements);
        }
        for (set, elements) in by_set(&changes.added, elements::encode) {
            batch.add_encoded(set, elements);
        }
        batch.commit(&mut table.socket)
    }

    /// Returns when another process has changed the table or may have: it is to be replaced.
    /// Safe to drop.
    pub async fn changed_by_others(&self) -> Result<(), RuleError> {
        self.monitor.changed().await.map_err(RuleError::from)
    }

    /// Removes the table. Absent is success.
    pub fn remove(&self) -> Result<(), RuleError> {
        let mut table = self.lock();
        let is_there = table.is_there();
        if !is_there.map_err(|source| failed("look for nftables table", source))? {
            return Ok(());
        }
        let mut batch = RuleBatch::new(&table.name);
        batch.delete_table();
        batch.commit(&mut table.socket)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenPolicyTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenPolicyTable {
    fn is_there(&mut self) -> io::Result<bool> {
        let attributes = vec![TableAttribute::Name(self.name.clone())];
        let get = of_table(NfTablesMessage::GetTable(TableMessage { attributes }));
        match self.socket.ask(get) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    fn replace(&mut self, elements: &PolicyElements) -> Result<(), RuleError> {
        match self.make(elements) {
            // an earlier kernel knows no owners that leave their table behind
            Err(RuleError::Refused { source, .. })
                if !self.flags.is_empty()
                    && matches!(
                        Errno::from_io_error(&source),
                        Some(Errno::OPNOTSUPP | Errno::INVAL)
                    ) =>
            {
                self.flags = TableFlags::empty();
                self.make(elements)
            }
            result => result,
        }
    }

    fn make(&mut self, elements: &PolicyElements) -> Result<(), RuleError> {
        let found = self.is_there();
        let found = found.map_err(|source| failed("look for nftables table", source))?;
        let mut batch = RuleBatch::new(&self.name);
        if found {
            batch.delete_table();
        }
        batch.add_table(self.flags, "made by Rekindle, which owns it: NetworkPolicies");
        for (id, set) in (1..).zip(schema::sets()) {
            batch.add_set(id, &set);
        }
        for chain in schema::chains() {
            batch.add_chain(&chain);
        }
        for (set, elements) in by_set(elements, elements::encode) {
            batch.add_encoded(set, elements);
        }
        batch.commit(&mut self.socket)
    }
}

fn by_set(
    elements: &PolicyElements,
    encode: fn(&PolicyElement) -> (&'static str, EncodedElement),
) -> BTreeMap<&'static str, Vec<EncodedElement>> {
    let mut by_set: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (set, element) in elements.iter().map(encode) {
        by_set.entry(set).or_default().push(element);
    }
    by_set
}
