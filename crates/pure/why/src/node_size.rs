//! Whether a pod that no node takes asks for more than any node has, even one that is empty: then
//! no room helps.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::Quantity;
use rekindle_types::resources::{Amounts, pod_requests};

use crate::evidence::PodEvidence;

/// A resource of which the pod asks for more than the largest node has.
pub(crate) struct OversizedRequest {
    resource: String,
    asked: Quantity,
    largest: Quantity,
    node: String,
}

/// The resources that no node ever has enough of; none where the nodes cannot be read.
pub(crate) fn oversizes(evidence: &PodEvidence) -> Vec<OversizedRequest> {
    let Some(spec) = &evidence.pod.spec else { return Vec::new() };
    let requests = pod_requests(spec);
    let found = requests.iter().filter_map(|(resource, asked)| {
        let (largest, node) = largest(&evidence.nodes, resource)?;
        (asked.millis() > largest.millis()).then(|| OversizedRequest {
            resource: resource.to_owned(),
            asked,
            largest,
            node: node.metadata.name.clone().unwrap_or_default(),
        })
    });
    found.collect()
}

/// The most of a resource that a node has to give, and which node that is; the first by name of
/// several.
fn largest<'a>(nodes: &'a [Node], resource: &str) -> Option<(Quantity, &'a Node)> {
    let has = |node: &'a Node| {
        let status = node.status.as_ref()?;
        Some((Amounts::read(status.allocatable.as_ref()).get(resource), node))
    };
    let key =
        |(amount, node): &(Quantity, &Node)| (amount.millis(), Reverse(node.metadata.name.clone()));
    nodes.iter().filter_map(has).max_by_key(key)
}

impl OversizedRequest {
    /// As a sentence goes on after the scheduler's own.
    pub(crate) fn sentence(&self) -> String {
        let Self { resource, asked, largest, node } = self;
        format!(
            "no node is large enough: it asks for {asked} {resource}, the largest node {node:?} has {largest}"
        )
    }

    /// What helps.
    pub(crate) fn advice(&self) -> String {
        let Self { resource, largest, .. } = self;
        format!(
            "lower its requests of {resource} to at most {largest}, or add a node that has as much; to make room does not help"
        )
    }
}
