//! Whether a pod fits a node: what the pod asks, looked up once, and then asked of node after node.
//! As upstream: of several plugins that refuse a node the first one speaks.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;
use rekindle_types::node_ports::NO_FREE_PORT;

use super::claims::VolumeClaims;
use super::neighbours::PodAffinities;
use super::refusal::NodeRefusal;
use super::spread::TopologySpread;
use super::{filter, machine_ports, those_ahead};
use crate::ClusterView;
use crate::cluster::{NodeEntry, NodeState, PodHostPorts, PodShift, ResourceAmounts};

/// A pod that looks for a node.
#[derive(Clone)]
pub(super) struct PodPlacement<'a> {
    pub(super) pod: &'a HeldPod,
    pub(super) requests: ResourceAmounts,
    pub(super) neighbours: PodAffinities<'a>,
    view: &'a ClusterView,
    ports: PodHostPorts<'a>,
    claims: &'a VolumeClaims<'a>,
    spread: TopologySpread<'a>,
    /// Room is being made for some pod on some node.
    is_room_made: bool,
}

impl<'a> PodPlacement<'a> {
    /// Looks up what the pod asks for.
    pub(super) fn new(
        view: &'a ClusterView,
        pod: &'a HeldPod,
        claims: &'a VolumeClaims<'a>,
    ) -> Self {
        Self {
            pod,
            requests: ResourceAmounts::from_pod(pod),
            neighbours: PodAffinities::new(view, pod),
            view,
            ports: PodHostPorts::from_pod(pod),
            claims,
            spread: TopologySpread::new(view, pod),
            is_room_made: view.is_any_nominated(),
        }
    }

    /// The node as it will be when those have come that are expected there, or what keeps the pod
    /// from it. Room that is kept or made for others of its priority or a higher one is not its
    /// own.
    pub(super) fn with_nominated(
        &self,
        NodeEntry { name, node, state, .. }: NodeEntry<'a>,
    ) -> Result<Cow<'a, NodeState>, NodeRefusal> {
        let as_it_is = || match self.refusal(node, state) {
            Some(refusal) => Err(refusal),
            None => Ok(Cow::Borrowed(state)),
        };
        if !self.is_room_made {
            return as_it_is();
        }
        let mut ahead = those_ahead(self.view, self.pod, name).peekable();
        if ahead.peek().is_none() {
            return as_it_is();
        }
        let (mut fit, mut thought) = (self.clone(), state.clone());
        for other in ahead {
            thought.shift(other, PodShift::In);
            fit.shift_on(other, node, PodShift::In);
        }
        // Whom it wants to be near of must be there already.
        match fit.refusal(node, &thought).or_else(|| self.refusal(node, state)) {
            Some(refusal) => Err(refusal),
            None => Ok(Cow::Owned(thought)),
        }
    }

    /// What keeps the pod from the node as it is, if anything.
    pub(super) fn refusal(&self, node: &Node, state: &NodeState) -> Option<NodeRefusal> {
        filter::placement_refusal(self.pod, node, state)
            .or_else(|| self.shortage(node, state))
            .or_else(|| self.claims.refusal(node))
            .or_else(|| self.spread.reason_against(node))
            .or_else(|| self.neighbours.reason_against(node))
    }

    /// What the node lacks: a port, or room.
    fn shortage(&self, node: &Node, state: &NodeState) -> Option<NodeRefusal> {
        if self.ports.are_taken_on(state) {
            return Some(NodeRefusal::of_pods(NO_FREE_PORT));
        }
        if machine_ports::are_taken_beside(self.view, self.pod, &self.ports, node) {
            return Some(NodeRefusal::final_for(NO_FREE_PORT));
        }
        filter::shortages(&self.requests, state.allocatable(), state.used())
    }

    /// A pod comes to a node or leaves it, as far as its neighbours are concerned.
    pub(super) fn shift_on(&mut self, other: &'a Arc<HeldPod>, node: &'a Node, shift: PodShift) {
        self.spread.shift_on(other, node, shift);
        self.neighbours.shift_on(other, node, shift);
    }
}
