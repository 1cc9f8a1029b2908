//! The nodes of a DaemonSet: which of them should have a pod, and which pods are there.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnyPod;
use rekindle_types::{Tick, TickDuration, taints};

use super::make;
use crate::pods::{self, PodAvailability};
use crate::view::PodActivity;
use crate::{ClusterView, ResourceKind, ViewObject, scheduler};

/// What a node is to the pods of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFit {
    /// It should have one.
    Wanted,
    /// It gets none, for a taint NoSchedule; one that is there stays.
    Tolerated,
    /// It should have none.
    Unfit,
    /// It does not exist. What is bound to it is the pod garbage collector's.
    Gone,
}

/// A pod of the set as one look finds it. What is asked of it more than once is asked of the pod
/// only once: a thousand of them are more than a processor keeps at hand.
#[derive(Clone, Copy)]
pub(super) struct DaemonPod<'a> {
    pub(super) pod: &'a Arc<HeldPod>,
    /// The node that it is on, or may only go to.
    node: &'a str,
    pub(super) availability: PodAvailability,
    /// It is of the template as it is now.
    pub(super) is_updated: bool,
    /// One that has ended and is being deleted is none of them.
    pub(super) standing: PodActivity,
}

impl<'a> DaemonPod<'a> {
    /// None for a pod that is of no node, or that has ended and is being deleted.
    fn new(pod: &'a Arc<HeldPod>, hash: &str, min_ready: TickDuration, now: Tick) -> Option<Self> {
        let standing = PodActivity::from_pod(pod);
        if standing == PodActivity::Finished && pods::is_terminating(pod) {
            return None;
        }
        Some(Self {
            pod,
            node: target(pod)?,
            availability: pods::availability(pod, min_ready, now),
            is_updated: make::hash_of(pod) == hash,
            standing,
        })
    }

    /// It is not being deleted.
    pub(super) fn stays(&self) -> bool {
        self.standing != PodActivity::Terminating
    }

    /// It is ready, if not for long.
    pub(super) fn is_ready(&self) -> bool {
        self.availability != PodAvailability::NotReady
    }

    /// The bound ones of a node before those that wait, and of them the oldest first.
    fn rank(&self) -> impl Ord {
        let meta = &self.pod.metadata;
        let born = meta.creation_timestamp.as_ref().map(|at| at.0);
        (Reverse(pods::node(self.pod).is_some()), born, meta.name.as_deref())
    }
}

/// The pods of a set as they are now, by their nodes, in the order of their ranks.
pub(super) fn daemons<'a>(
    pods: &[&'a Arc<HeldPod>],
    hash: &str,
    min_ready: TickDuration,
    now: Tick,
) -> Vec<DaemonPod<'a>> {
    let mut daemons: Vec<DaemonPod<'_>> = Vec::with_capacity(pods.len());
    daemons.extend(pods.iter().filter_map(|pod| DaemonPod::new(pod, hash, min_ready, now)));
    daemons.sort_by(|a, b| a.node.cmp(b.node).then_with(|| a.rank().cmp(&b.rank())));
    daemons
}

/// A node, and the pods that are there or are to go there.
#[derive(Clone, Copy)]
pub(super) struct DaemonNode<'a> {
    pub(super) node: &'a str,
    pub(super) fit: NodeFit,
    /// In the order of their ranks.
    pub(super) pods: &'a [DaemonPod<'a>],
}

/// All places of a DaemonSet.
pub(super) struct DaemonNodes<'a> {
    /// By the node's name.
    pub(super) all: Vec<DaemonNode<'a>>,
    /// So many nodes should have a pod.
    pub(super) wanted: usize,
}

impl<'a> DaemonNodes<'a> {
    /// Nodes and pods side by side, both by the names of nodes.
    pub(super) fn new(
        view: &'a ClusterView,
        set: &DaemonSet,
        daemons: &'a [DaemonPod<'a>],
    ) -> Self {
        let model = make::model(set);
        let mut places = Self { all: Vec::new(), wanted: 0 };
        let mut groups = daemons.chunk_by(|a, b| a.node == b.node).peekable();
        let gone =
            |pods: &'a [DaemonPod<'a>]| DaemonNode { node: pods[0].node, fit: NodeFit::Gone, pods };
        for (id, object) in view.of_kind(ResourceKind::Node) {
            let ViewObject::Node(node) = object else { continue };
            let name = id.name.name.as_str();
            while let Some(pods) = groups.next_if(|pods| pods[0].node < name) {
                places.all.push(gone(pods));
            }
            let pods = groups.next_if(|pods| pods[0].node == name).unwrap_or_default();
            let fit = fit(&model, node);
            places.wanted += usize::from(fit == NodeFit::Wanted);
            places.all.push(DaemonNode { node: name, fit, pods });
        }
        places.all.extend(groups.map(gone));
        places
    }
}

/// What a node is to a pod made after the template.
pub(super) fn fit(pod: &impl AnyPod, node: &Node) -> NodeFit {
    if pods::node(pod).is_some_and(|only| node.metadata.name.as_deref() != Some(only))
        || !scheduler::matches_node(pod, node)
    {
        return NodeFit::Unfit;
    }
    let untolerated: Vec<&str> = taints::node_taints(node)
        .iter()
        .filter(|taint| !taints::is_tolerated(taints::tolerations(pod), taint))
        .map(|taint| taint.effect.as_str())
        .collect();
    if untolerated.contains(&taints::NO_EXECUTE) {
        NodeFit::Unfit
    } else if untolerated.contains(&taints::NO_SCHEDULE) {
        NodeFit::Tolerated
    } else {
        NodeFit::Wanted
    }
}

/// The node that a pod is on, or may only go to.
pub(crate) fn target(pod: &impl AnyPod) -> Option<&str> {
    if let Some(node) = pods::node(pod) {
        return Some(node);
    }
    let affinity = pods::affinity(pod)?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let [term] = required.node_selector_terms.as_slice() else { return None };
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let by_name =
        fields.iter().find(|field| field.key == "metadata.name" && field.operator == "In")?;
    match by_name.values.as_deref().unwrap_or_default() {
        [node] => Some(node),
        _ => None,
    }
}
