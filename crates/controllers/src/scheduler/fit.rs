//! Whether a pod fits a node: what the pod asks, looked up once, and then asked of node after node. As upstream: of several
//! plugins that refuse a node the first one speaks.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::claims::Claims;
use super::cluster::{NodeState, Shift};
use super::filter;
use super::neighbours::Neighbours;
use super::ports::Ports;
use super::refusal::Refusal;
use super::requests::Requests;
use super::spread::Spread;
use crate::View;

/// A pod that looks for a node.
#[derive(Clone)]
pub(super) struct Fit<'a> {
    pub(super) pod: &'a Pod,
    pub(super) requests: Requests,
    pub(super) neighbours: Neighbours<'a>,
    ports: Ports<'a>,
    claims: &'a Claims<'a>,
    spread: Spread<'a>,
}

impl<'a> Fit<'a> {
    /// Looks up what the pod asks for.
    pub(super) fn of(view: &'a View, pod: &'a Pod, claims: &'a Claims<'a>) -> Self {
        Self {
            pod,
            requests: Requests::of(pod),
            neighbours: Neighbours::of(view, pod),
            ports: Ports::of(pod),
            claims,
            spread: Spread::of(view, pod),
        }
    }

    /// What keeps the pod from the node, if anything.
    pub(super) fn refusal(&self, node: &Node, state: &NodeState) -> Option<Refusal> {
        filter::placement_refusal(self.pod, node, state)
            .or_else(|| self.shortage(state))
            .or_else(|| self.claims.refusal(node))
            .or_else(|| self.spread.reason_against(node))
            .or_else(|| self.neighbours.reason_against(node))
    }

    /// What the node lacks: a port, or room.
    fn shortage(&self, state: &NodeState) -> Option<Refusal> {
        if self.ports.are_taken_on(state) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Some(Refusal::of_pods(reason));
        }
        filter::shortages(&self.requests, state.allocatable(), state.used())
    }

    /// A pod comes to a node or leaves it, as far as its neighbours are concerned.
    pub(super) fn shift_on(
        &mut self,
        other: &'a std::sync::Arc<Pod>,
        node: &'a Node,
        shift: Shift,
    ) {
        self.spread.shift_on(other, node, shift);
        self.neighbours.shift_on(other, node, shift);
    }
}
