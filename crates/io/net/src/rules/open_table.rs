//! The table as one socket sees it. Each call is a transaction, and blocks while the kernel works.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::{
    NfTablesMessage, SetElementList, SetElementMessage, TableFlags,
};
use rekindle_services::{Frontend, RuleChanges, RuleElements, StaleFlow, host_ports_in};
use rekindle_types::IpFamily;
use sha2::{Digest, Sha256};

use crate::rules::batch::{RuleBatch, comment, of_table};
use crate::rules::elements::{EncodedElement, ListedElement, decode};
use crate::rules::error::RuleError;
use crate::rules::expressions::wait_in_queue;
use crate::rules::needed_chains::NeededChain;
use crate::rules::owned_table::OwnedTable;
use crate::rules::schema::{
    self, AFFINITY, ChainDefinition, ElementSet, NODE_PICKS, PICKS, STICKY,
};
use crate::rules::{RuleTableConfig, conntrack, failed};

/// See the module.
pub(super) struct OpenTable {
    config: RuleTableConfig,
    table: OwnedTable,
    /// Where connections wait.
    queue: Option<u16>,
    /// Ranges of Services that users have added.
    further: Vec<IpNet>,
    /// Those in the kernel.
    needed_chains: BTreeSet<NeededChain>,
}

impl OpenTable {
    pub(super) fn open(config: &RuleTableConfig) -> Result<Self, RuleError> {
        let table = OwnedTable::open(&config.bridge, "", config.ownership)?;
        let (config, needed_chains) = (config.clone(), BTreeSet::new());
        Ok(Self { config, table, queue: None, further: Vec::new(), needed_chains })
    }

    /// Has connections wait in this queue from now on, if the kernel can have such rules.
    pub(super) fn use_queue(&mut self, queue: u16) -> Result<(), RuleError> {
        // a table that is gone in the same transaction
        let name = format!("{}-trial", self.table.name);
        let trial = ChainDefinition {
            name: "hold".to_owned(),
            base: None,
            rules: vec![vec![wait_in_queue(queue)]],
        };
        let mut batch = RuleBatch::new(&name);
        batch.add_table(TableFlags::empty(), "of Rekindle, for a moment");
        batch.add_chain(&trial);
        batch.delete_table();
        batch.commit(&mut self.table.socket)?;
        self.queue = Some(queue);
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.table.name
    }

    pub(super) fn port(&self) -> u32 {
        self.table.socket.port()
    }

    /// Whether this table of an engine is in the kernel.
    pub(super) fn has_table(&mut self, name: &str) -> bool {
        self.table.has_table(name)
    }

    /// Answers what that changes, as far as what there was can be read.
    pub(super) fn replace(&mut self, elements: &RuleElements) -> Result<RuleChanges, RuleError> {
        match self.renew_or_make(elements) {
            Err(RuleError::Refused { source, .. }) if self.table.is_unknown_flag(&source) => {
                self.table.share();
                self.renew_or_make(elements)
            }
            result => result,
        }
    }

    fn renew_or_make(&mut self, elements: &RuleElements) -> Result<RuleChanges, RuleError> {
        let found = self.table.look_up()?;
        let is_of_this_version = found == Some(comment(&self.description()));
        if is_of_this_version {
            match self.renew(elements) {
                Err(error @ (RuleError::TableBusy { .. } | RuleError::MixedFamilies { .. })) => {
                    return Err(error);
                }
                Err(RuleError::Refused { source, object, table })
                    if self.table.is_unknown_flag(&source) =>
                {
                    return Err(RuleError::Refused { source, object, table });
                }
                Err(error) => {
                    // more than rules and elements was changed
                    tracing::debug!(table = self.table.name, %error, "nftables table is made anew");
                }
                Ok(changes) => return Ok(changes),
            }
        }
        // of a table that is not there or of another version this may be nothing
        let (present, clients) = (self.read_back().unwrap_or_default(), self.clients());
        self.make(found.is_some(), elements, clients)?;
        Ok(RuleChanges::between(&present, elements))
    }

    fn chains(&self) -> Vec<ChainDefinition> {
        schema::chains(&self.config, self.queue, &self.further)
    }

    /// Connections to these ranges are rejected where no Service is, from the next replacement on.
    pub(super) fn serve_ranges(&mut self, further: Vec<IpNet>) {
        self.further = further;
    }

    /// What the table says about itself. It differs between versions of the rules, and with the
    /// configuration. Further ranges make no other version: they come and go in the same table.
    fn description(&self) -> String {
        let chains = schema::chains(&self.config, self.queue, &[]);
        let sets_and_chains = (schema::sets(&self.config), chains);
        let digest = Sha256::digest(format!("{:?} {sets_and_chains:?}", self.config));
        let version: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("made by Rekindle, which owns it; version {version}")
    }

    /// Makes the table anew, in one transaction. A connection of just this moment may miss both.
    fn make(
        &mut self,
        exists: bool,
        elements: &RuleElements,
        clients: Vec<(IpFamily, Vec<EncodedElement>)>,
    ) -> Result<(), RuleError> {
        let needed_chains: BTreeSet<NeededChain> =
            elements.iter().flat_map(NeededChain::of_element).collect();
        let mut batch = RuleBatch::new(&self.table.name);
        if exists {
            batch.delete_table();
        }
        batch.add_table(self.table.flags, &self.description());
        for (id, set) in (1..).zip(schema::sets(&self.config)) {
            batch.add_set(id, &set);
        }
        for chain in self.chains() {
            batch.add_chain(&chain);
        }
        for chain in &needed_chains {
            batch.add_needed_chain(*chain);
        }
        batch.add_elements(elements)?;
        for (family, clients) in clients {
            batch.add_encoded(AFFINITY.of(family), clients);
        }
        batch.commit(&mut self.table.socket)?;
        self.needed_chains = needed_chains;
        Ok(())
    }

    /// Makes rules and elements right in a table that stands: first all rules, then the elements
    /// that differ. No connection misses a rule, and clients stay remembered.
    fn renew(&mut self, elements: &RuleElements) -> Result<RuleChanges, RuleError> {
        let present = self.read_back()?;
        let needed_chains: BTreeSet<NeededChain> =
            present.union(elements).flat_map(NeededChain::of_element).collect();
        let mut batch = RuleBatch::new(&self.table.name);
        batch.add_table(self.table.flags, &self.description());
        for chain in self.chains() {
            batch.add_chain_only(&chain);
        }
        for chain in &needed_chains {
            batch.add_chain_only(&chain.definition());
        }
        batch.flush_rules();
        for family in self.config.stack().families() {
            for map in [PICKS, NODE_PICKS, STICKY] {
                batch.flush_set(map.of(*family));
            }
        }
        for chain in self.chains() {
            batch.add_rules(&chain);
        }
        for chain in &needed_chains {
            batch.add_needed_chain(*chain);
        }
        batch.add_sticky(&present);
        batch.commit(&mut self.table.socket)?;
        self.needed_chains = needed_chains;
        let changes = RuleChanges::between(&present, elements);
        self.apply(&changes)?;
        Ok(changes)
    }

    pub(super) fn apply(&mut self, changes: &RuleChanges) -> Result<(), RuleError> {
        let needed: BTreeSet<NeededChain> =
            changes.added.iter().flat_map(NeededChain::of_element).collect();
        let missing: Vec<NeededChain> = needed.difference(&self.needed_chains).copied().collect();
        if !missing.is_empty() {
            // first: elements must not lead to chains that have no rules yet
            let mut batch = RuleBatch::new(&self.table.name);
            for chain in &missing {
                batch.add_needed_chain(*chain);
            }
            batch.commit(&mut self.table.socket)?;
            self.needed_chains.extend(missing);
        }
        let mut batch = RuleBatch::new(&self.table.name);
        batch.remove_elements(&changes.removed)?;
        batch.add_elements(&changes.added)?;
        batch.commit(&mut self.table.socket)
    }

    pub(super) fn read_back(&mut self) -> Result<RuleElements, RuleError> {
        self.read_sets(&ElementSet::ALL)
    }

    pub(super) fn host_ports(&mut self) -> Result<Vec<(Frontend, SocketAddr)>, RuleError> {
        // the endpoints may be many
        if self.read_sets(&[ElementSet::HostPorts])?.is_empty() {
            return Ok(Vec::new());
        }
        let elements = self.read_sets(&[ElementSet::HostPorts, ElementSet::Endpoints])?;
        Ok(host_ports_in(&elements).collect())
    }

    fn read_sets(&mut self, sets: &[ElementSet]) -> Result<RuleElements, RuleError> {
        let mut elements = RuleElements::new();
        for family in self.config.stack().families() {
            for set in sets {
                let name = set.name(*family);
                let unreadable = |problem| RuleError::Unreadable { set: name.to_owned(), problem };
                for element in self.list(name)? {
                    elements.insert(decode(*set, *family, &element).map_err(unreadable)?);
                }
            }
        }
        Ok(elements)
    }

    pub(super) fn forget_udp_flows(
        &mut self,
        flows: &BTreeSet<StaleFlow>,
    ) -> Result<usize, RuleError> {
        conntrack::forget_udp_flows(&mut self.table.socket, self.config.stack(), flows)
            .map_err(|source| failed("forget UDP flows to endpoints that are gone", source))
    }

    pub(super) fn forget_flows_of_pods(&mut self) -> Result<usize, RuleError> {
        let first = IpNet::V4(self.config.pods);
        let second = self.config.ipv6.map(|ranges| IpNet::V6(ranges.pods));
        let subnets: Vec<IpNet> = std::iter::once(first).chain(second).collect();
        conntrack::forget_flows_within(&mut self.table.socket, &subnets)
            .map_err(|source| failed("forget flows of pods", source))
    }

    pub(super) fn forget_stray_udp_flows(
        &mut self,
        elements: &RuleElements,
    ) -> Result<usize, RuleError> {
        conntrack::forget_stray_udp_flows(&mut self.table.socket, self.config.stack(), elements)
            .map_err(|source| failed("forget UDP flows to endpoints that are gone", source))
    }

    pub(super) fn remove(&mut self) -> Result<(), RuleError> {
        self.table.remove()?;
        self.needed_chains.clear();
        Ok(())
    }

    /// The clients that stay with their endpoint, each with the time that is left to it. None can
    /// be told of a table that is not there or not of this version.
    fn clients(&mut self) -> Vec<(IpFamily, Vec<EncodedElement>)> {
        let families = self.config.stack().families().iter();
        let clients = families.map(|family| {
            let clients = self.list(AFFINITY.of(*family)).unwrap_or_default();
            (*family, clients.into_iter().map(ListedElement::encode).collect())
        });
        clients.collect()
    }

    fn list(&mut self, set: &str) -> Result<Vec<ListedElement>, RuleError> {
        let attributes = vec![
            SetElementList::Table(self.table.name.clone()),
            SetElementList::Set(set.to_owned()),
        ];
        let get = of_table(NfTablesMessage::GetSetElement(SetElementMessage { attributes }));
        let listed = self.table.socket.list(&get, ListedElement::read_all);
        listed.map_err(|source| failed(&format!("read nftables set {set}"), source))
    }
}
