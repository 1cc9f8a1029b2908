//! The nodes, by name and by number: what is counted for each of them is found by its number,
//! without comparing names.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;

use super::PodShift;
use super::node_state::NodeState;
use super::numbers::NameNumbers;

/// The number of a node. It is another's when nothing is known of the node any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeNumber(usize);

impl NodeNumber {
    /// That of a place in such a table.
    pub(crate) const fn at(index: usize) -> Self {
        Self(index)
    }

    /// Its place in a table of all nodes.
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// The number of a zone that nodes are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ZoneNumber(usize);

impl ZoneNumber {
    /// Its place in a table of all zones.
    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// A node that exists.
#[derive(Clone, Copy)]
pub(crate) struct NodeEntry<'a> {
    pub(crate) number: NodeNumber,
    pub(crate) name: &'a str,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) state: &'a NodeState,
}

/// The nodes; also those that do not exist and that pods are bound to.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterNodes {
    numbers: NameNumbers,
    /// By number; void where a number is nobody's.
    states: Vec<NodeState>,
    /// In which zone each is, by its number.
    zones: Vec<Option<ZoneNumber>>,
    zone_numbers: NameNumbers,
    /// How many of them exist.
    count: usize,
}

impl ClusterNodes {
    /// A node is there, as it is now.
    pub(super) fn appear(&mut self, name: &str, node: &Arc<Node>) {
        let NodeNumber(number) = self.number_of(name);
        let state = &mut self.states[number];
        self.count += usize::from(state.node().is_none());
        let before = state.appear(node);
        let zone = state.zone();
        self.zones[number] = zone.map(|zone| ZoneNumber(self.zone_numbers.take(zone)));
        if let Some(before) = before {
            self.zone_numbers.give_back(&before);
        }
    }

    /// A node is gone; what its pods take stays.
    pub(super) fn disappear(&mut self, name: &str) {
        let Some(number) = self.numbers.of(name) else { return };
        let state = &mut self.states[number];
        self.count -= usize::from(state.node().is_some());
        let zone = state.disappear();
        self.zones[number] = None;
        if let Some(zone) = zone {
            self.zone_numbers.give_back(&zone);
        }
        self.drop_if_void(name);
    }

    /// A pod comes to a node or leaves it. The node is known until it has been let go by
    /// [`drop_if_void`](Self::drop_if_void).
    pub(super) fn shift(&mut self, name: &str, pod: &HeldPod, shift: PodShift) -> NodeNumber {
        let number = self.number_of(name);
        self.states[number.0].shift(pod, shift);
        number
    }

    fn number_of(&mut self, name: &str) -> NodeNumber {
        if let Some(number) = self.numbers.of(name) {
            return NodeNumber(number);
        }
        let number = self.numbers.take(name);
        if number == self.states.len() {
            self.states.push(NodeState::default());
            self.zones.push(None);
        }
        NodeNumber(number)
    }

    /// Forgets a node that does not exist and has no pods.
    pub(super) fn drop_if_void(&mut self, name: &str) {
        if let Some(number) = self.numbers.of(name)
            && self.states[number].is_void()
        {
            self.states[number] = NodeState::default();
            self.numbers.give_back(name);
        }
    }

    /// Those that exist, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeEntry<'_>> {
        self.numbers.iter().filter_map(|(name, number)| {
            let state = &self.states[number];
            Some(NodeEntry { number: NodeNumber(number), name, node: state.node()?, state })
        })
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// One that exists.
    pub(super) fn named(&self, name: &str) -> Option<NodeEntry<'_>> {
        let (name, number) = self.numbers.get(name)?;
        let state = &self.states[number];
        Some(NodeEntry { number: NodeNumber(number), name, node: state.node()?, state })
    }

    /// What is known of a node, whether it exists or not.
    pub(super) fn state(&self, name: &str) -> Option<&NodeState> {
        self.numbers.of(name).map(|number| &self.states[number])
    }

    /// The number of a node, whether it exists or not.
    pub(super) fn number(&self, name: &str) -> Option<NodeNumber> {
        self.numbers.of(name).map(NodeNumber)
    }

    /// The node of a number, if it exists.
    pub(super) fn numbered(&self, NodeNumber(number): NodeNumber) -> Option<&Arc<Node>> {
        self.states.get(number)?.node()
    }

    /// The zone of a node, if a label says so.
    pub(super) fn zone_of(&self, NodeNumber(number): NodeNumber) -> Option<ZoneNumber> {
        self.zones.get(number).copied().flatten()
    }

    /// The numbers of all nodes are below this.
    pub(super) fn bound(&self) -> usize {
        self.numbers.bound()
    }

    /// The numbers of all zones are below this.
    pub(super) fn zone_bound(&self) -> usize {
        self.zone_numbers.bound()
    }
}

#[cfg(test)]
impl ClusterNodes {
    /// The name of a number that is somebody's.
    pub(super) fn name_of(&self, NodeNumber(wanted): NodeNumber) -> &str {
        let mut all = self.numbers.iter();
        all.find(|(_, number)| *number == wanted).map(|(name, _)| name).unwrap()
    }
}

/// Numbers do not count: they tell only in which order the nodes came.
#[cfg(test)]
impl PartialEq for ClusterNodes {
    fn eq(&self, other: &Self) -> bool {
        fn by_name(nodes: &ClusterNodes) -> Vec<(&str, &NodeState, bool)> {
            let all = nodes.numbers.iter().map(|(name, number)| {
                let state = &nodes.states[number];
                let zone = state.zone().and_then(|zone| nodes.zone_numbers.of(zone));
                (name, state, zone.map(ZoneNumber) == nodes.zones[number])
            });
            all.collect()
        }
        let void = |nodes: &Self| nodes.states.iter().filter(|state| !state.is_void()).count();
        by_name(self) == by_name(other)
            && void(self) == void(other)
            && self.zone_numbers == other.zone_numbers
            && self.count == other.count
    }
}
