//! The rules in the kernel that enforce NetworkPolicies: one nftables table of the engine's own,
//! beside that of Services (docs/adr/0061).

mod elements;
mod schema;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_network_policy::{PolicyChanges, PolicyElement, PolicyElements};

use rekindle_types::IpStack;

use crate::rules::batch::RuleBatch;
use crate::rules::elements::EncodedElement;
use crate::rules::error::RuleError;
use crate::rules::monitor::TableMonitor;
use crate::rules::owned_table::OwnedTable;
use crate::rules::{TableOwnership, failed};

/// The table of NetworkPolicies of one engine. Calls may come from any task, and block while the
/// kernel works.
pub struct PolicyTable {
    table: Mutex<OwnedTable>,
    stack: IpStack,
    monitor: Arc<TableMonitor>,
}

impl std::fmt::Debug for PolicyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyTable").finish_non_exhaustive()
    }
}

impl PolicyTable {
    /// Looks whether the kernel can do it, and changes nothing. The table is called after the
    /// pods' bridge. Must run inside a tokio runtime, in the network namespace of the bridge.
    pub fn open(
        bridge: &str,
        stack: IpStack,
        ownership: TableOwnership,
    ) -> Result<Self, RuleError> {
        let table = OwnedTable::open(bridge, "-policies", ownership)?;
        let monitor = TableMonitor::open(&table.name, table.socket.port())
            .map_err(|source| failed("open netlink socket that monitors nftables", source))?;
        Ok(Self { table: Mutex::new(table), stack, monitor })
    }

    /// Gives the table all its rules and exactly these elements, in one transaction: no packet
    /// meets a part of them.
    pub fn replace(&self, elements: &PolicyElements) -> Result<(), RuleError> {
        let replace = |table: &mut OwnedTable| replace(table, self.stack, elements);
        self.monitor.during_replacement(&mut *self.lock(), replace, OwnedTable::has_table)
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
        self.lock().remove()
    }

    fn lock(&self) -> MutexGuard<'_, OwnedTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn replace(
    table: &mut OwnedTable,
    stack: IpStack,
    elements: &PolicyElements,
) -> Result<(), RuleError> {
    match make(table, stack, elements) {
        Err(RuleError::Refused { source, .. }) if table.is_unknown_flag(&source) => {
            table.share();
            make(table, stack, elements)
        }
        result => result,
    }
}

fn make(
    table: &mut OwnedTable,
    stack: IpStack,
    elements: &PolicyElements,
) -> Result<(), RuleError> {
    let found = table.look_up()?;
    let mut batch = RuleBatch::new(&table.name);
    if found.is_some() {
        batch.delete_table();
    }
    batch.add_table(table.flags, "made by Rekindle, which owns it: NetworkPolicies");
    for (id, set) in (1..).zip(schema::sets(stack)) {
        batch.add_set(id, &set);
    }
    for chain in schema::chains(stack) {
        batch.add_chain(&chain);
    }
    for (set, elements) in by_set(elements, elements::encode) {
        batch.add_encoded(set, elements);
    }
    batch.commit(&mut table.socket)
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
