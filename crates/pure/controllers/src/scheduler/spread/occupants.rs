//! The pods that a selector means, counted node by node.

use std::sync::Arc;

use rekindle_types::held::HeldPod;

use super::selector::Selector;
use crate::cluster::NodeNumber;
use crate::{ClusterView, pods};

/// How many pods are on each node, by its number.
#[derive(Default)]
pub(super) struct NodeOccupants(Vec<i64>);

impl NodeOccupants {
    /// The pods of the pod's namespace that the selector means. Pods that terminate do not count,
    /// nor does the pod itself.
    pub(super) fn new(view: &ClusterView, pod: &HeldPod, selector: &Selector<'_>) -> Self {
        let mut counts = vec![0; view.cluster().node_places()];
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let crowds = view.cluster().crowds().with_labels(namespace, selector.pairs());
        for (_, crowd) in crowds.filter(|(labels, _)| selector.matches(Some(labels))) {
            for (node, count) in crowd.places() {
                counts[node.index()] += count.active;
            }
        }
        if let Some(node) = own_place(view, pod, selector) {
            counts[node.index()] -= 1;
        }
        Self(counts)
    }

    /// The same with those that are expected on a node.
    pub(super) fn with_nominated(
        view: &ClusterView,
        pod: &HeldPod,
        selector: &Selector<'_>,
    ) -> Self {
        let mut all = Self::new(view, pod, selector);
        let is_like_it = |other: &&Arc<HeldPod>| {
            other.metadata.uid != pod.metadata.uid
                && other.metadata.namespace == pod.metadata.namespace
                && selector.matches(other.metadata.labels.as_ref())
        };
        for (node, nominated) in view.nominated() {
            if let Some(node) = view.cluster().number_of(node) {
                all.0[node.index()] += nominated.filter(is_like_it).map(|_| 1).sum::<i64>();
            }
        }
        all
    }

    /// The nodes that have any, with how many they have.
    pub(super) fn places(&self) -> impl Iterator<Item = (NodeNumber, i64)> {
        let all = self.0.iter().enumerate().filter(|(_, count)| **count != 0);
        all.map(|(index, count)| (NodeNumber::at(index), *count))
    }

    /// How many are on a node.
    pub(super) fn on(&self, node: NodeNumber) -> i64 {
        self.0.get(node.index()).copied().unwrap_or(0)
    }
}

/// Where the pod itself is counted, if it has a node already.
fn own_place(view: &ClusterView, pod: &HeldPod, selector: &Selector<'_>) -> Option<NodeNumber> {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let itself = view.pod_by_uid(uid).filter(|pod| pods::is_active(pod))?;
    let node = pods::node(itself).filter(|_| selector.matches(itself.metadata.labels.as_ref()))?;
    view.cluster().number_of(node)
}
