//! The table as one socket sees it. Each call is a transaction, and blocks while the kernel works.

use std::collections::BTreeSet;
use std::io;

use netlink_packet_netfilter::nftables::{
    NfTablesMessage, SetElementList, SetElementMessage, TableAttribute, TableFlags, TableMessage,
};
use rekindle_services::{RuleChanges, RuleElements, StaleFlow};
use rustix::io::Errno;

use crate::rules::batch::{RuleBatch, of_table};
use crate::rules::elements::{EncodedElement, ListedElement, decode};
use crate::rules::error::RuleError;
use crate::rules::schema::{self, AFFINITY, ElementSet, NeededChain};
use crate::rules::socket::{NetfilterSocket, malformed};
use crate::rules::{RuleTableConfig, TableOwnership, conntrack, failed};

/// Tries to list a set that changes while it is listed.
const LIST_ATTEMPTS: u32 = 20;
/// Characters of an interface name at most.
const INTERFACE_NAME_MAX: usize = 15;

/// See the module.
pub(super) struct OpenTable {
    config: RuleTableConfig,
    name: String,
    socket: NetfilterSocket,
    flags: TableFlags,
    /// Those in the kernel.
    needed_chains: BTreeSet<NeededChain>,
}

impl OpenTable {
    pub(super) fn open(config: &RuleTableConfig) -> Result<Self, RuleError> {
        let bridge = &config.bridge;
        let is_bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        if bridge.is_empty() || bridge.len() > INTERFACE_NAME_MAX || bridge.contains(is_bad) {
            return Err(RuleError::BridgeName { bridge: bridge.clone() });
        }
        let socket = NetfilterSocket::open().map_err(unavailable)?;
        let flags = match config.ownership {
            TableOwnership::Exclusive => TableFlags::Owner | TableFlags::Persisent,
            TableOwnership::Shared => TableFlags::empty(),
        };
        let name = format!("rekindle-{bridge}");
        let needed_chains = BTreeSet::new();
        let mut table = Self { config: config.clone(), name, socket, flags, needed_chains };
        table.look_up().map_err(unavailable)?;
        Ok(table)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Whether the table is in the kernel.
    pub(super) fn is_there(&mut self) -> bool {
        self.look_up().unwrap_or(false)
    }

    fn look_up(&mut self) -> io::Result<bool> {
        let attributes = vec![TableAttribute::Name(self.name.clone())];
        let get = of_table(NfTablesMessage::GetTable(TableMessage { attributes }));
        match self.socket.request(get) {
            Ok(()) => Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn replace(&mut self, elements: &RuleElements) -> Result<(), RuleError> {
        let clients = self.clients();
        match self.replace_with(elements, clients.clone()) {
            // an earlier kernel knows no owners that leave their table behind
            Err(RuleError::Refused { source, .. })
                if self.flags != TableFlags::empty() && is_unknown_flag(&source) =>
            {
                tracing::debug!(table = self.name, "this kernel has no owners of nftables tables");
                self.flags = TableFlags::empty();
                self.replace_with(elements, clients)
            }
            result => result,
        }
    }

    fn replace_with(
        &mut self,
        elements: &RuleElements,
        clients: Vec<EncodedElement>,
    ) -> Result<(), RuleError> {
        let needed_chains: BTreeSet<NeededChain> =
            elements.iter().flat_map(NeededChain::of_element).collect();
        let mut batch = RuleBatch::new(&self.name);
        if self.look_up().map_err(|source| failed("look for nftables table", source))? {
            batch.delete_table();
        }
        batch.add_table(self.flags);
        for (id, set) in (1..).zip(schema::sets()) {
            batch.add_set(id, &set);
        }
        for chain in schema::chains(&self.config) {
            batch.add_chain(&chain);
        }
        for chain in &needed_chains {
            batch.add_needed_chain(*chain);
        }
        batch.add_elements(elements)?;
        batch.add_encoded(AFFINITY, clients);
        batch.commit(&mut self.socket)?;
        self.needed_chains = needed_chains;
        Ok(())
    }

    pub(super) fn apply(&mut self, changes: &RuleChanges) -> Result<(), RuleError> {
        let needed: BTreeSet<NeededChain> =
            changes.added.iter().flat_map(NeededChain::of_element).collect();
        let missing: Vec<NeededChain> = needed.difference(&self.needed_chains).copied().collect();
        if !missing.is_empty() {
            // first: who sees the elements must not find chains whose rules do not count yet
            let mut batch = RuleBatch::new(&self.name);
            for chain in &missing {
                batch.add_needed_chain(*chain);
            }
            batch.commit(&mut self.socket)?;
            self.needed_chains.extend(missing);
        }
        let mut batch = RuleBatch::new(&self.name);
        batch.remove_elements(&changes.removed)?;
        batch.add_elements(&changes.added)?;
        batch.commit(&mut self.socket)
    }

    pub(super) fn read_back(&mut self) -> Result<RuleElements, RuleError> {
        let mut elements = RuleElements::new();
        for set in ElementSet::ALL {
            let unreadable =
                |problem| RuleError::Unreadable { set: set.name().to_owned(), problem };
            for element in self.list(set.name())? {
                elements.insert(decode(set, &element).map_err(unreadable)?);
            }
        }
        Ok(elements)
    }

    pub(super) fn forget_udp_flows(
        &mut self,
        flows: &BTreeSet<StaleFlow>,
    ) -> Result<usize, RuleError> {
        conntrack::forget_udp_flows(&mut self.socket, flows)
            .map_err(|source| failed("forget UDP flows to endpoints that are gone", source))
    }

    pub(super) fn remove(&mut self) -> Result<(), RuleError> {
        if self.look_up().map_err(|source| failed("look for nftables table", source))? {
            let mut batch = RuleBatch::new(&self.name);
            batch.delete_table();
            batch.commit(&mut self.socket)?;
        }
        self.needed_chains.clear();
        Ok(())
    }

    /// The clients that stay with their endpoint, each with the time that is left to it. None can
    /// be told of a table that is not there or not of this version.
    fn clients(&mut self) -> Vec<EncodedElement> {
        let clients = self.list(AFFINITY).unwrap_or_default();
        clients.into_iter().map(ListedElement::encode).collect()
    }

    fn list(&mut self, set: &str) -> Result<Vec<ListedElement>, RuleError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let attributes =
                vec![SetElementList::Table(self.name.clone()), SetElementList::Set(set.to_owned())];
            let get = NfTablesMessage::GetSetElement(SetElementMessage { attributes });
            let mut elements = Vec::new();
            let listed = self.socket.dump(of_table(get), |attributes| {
                ListedElement::read_all(attributes, &mut elements).map_err(malformed)
            });
            match listed {
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted && attempt < LIST_ATTEMPTS => {}
                Err(source) => return Err(failed(&format!("read nftables set {set}"), source)),
                Ok(()) => return Ok(elements),
            }
        }
    }
}

fn is_unknown_flag(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::INVAL))
}

/// Why nftables cannot be used at all.
fn unavailable(source: io::Error) -> RuleError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => RuleError::NoPermission { source },
        // no netfilter, no netlink of it, no nf_tables
        Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP) => {
            RuleError::Unsupported { source }
        }
        _ => failed("open netlink socket to nftables", source),
    }
}
