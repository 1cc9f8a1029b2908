//! The nodes of a DaemonSet: which of them should have a pod, and which pods are there.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_types::taints;

use super::make;
use crate::{Kind, Object, View, pods, scheduler};

/// What a node is to the pods of a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It should have one.
    Wanted,
    /// It gets none, for a taint NoSchedule; one that is there stays.
    Tolerated,
    /// It should have none.
    Unfit,
    /// It does not exist. What is bound to it is the pod garbage collector's.
    Gone,
}

/// A node, and the pods that are there or are to go there.
pub(super) struct Place<'a> {
    pub(super) fit: Fit,
    /// The oldest first, bound ones before those that wait. Without those that have ended and are being deleted.
    pub(super) pods: Vec<&'a Arc<Pod>>,
}

/// All places of a DaemonSet, by the node's name.
pub(super) struct Places<'a>(pub(super) BTreeMap<&'a str, Place<'a>>);

impl<'a> Places<'a> {
    pub(super) fn of(view: &'a View, set: &DaemonSet, pods: &[&'a Arc<Pod>]) -> Self {
        let model = make::model(set);
        let mut places = BTreeMap::new();
        for (id, object) in view.of_kind(Kind::Node) {
            let Object::Node(node) = object else { continue };
            let fit = fit(&model, node);
            places.insert(id.name.name.as_str(), Place { fit, pods: Vec::new() });
        }
        for pod in pods {
            if pods::is_finished(pod) && pods::is_terminating(pod) {
                continue;
            }
            let Some(node) = target(pod) else { continue };
            let gone = || Place { fit: Fit::Gone, pods: Vec::new() };
            places.entry(node).or_insert_with(gone).pods.push(pod);
        }
        for place in places.values_mut() {
            place.pods.sort_by_key(|pod| {
                let meta = &pod.metadata;
                let born = meta.creation_timestamp.as_ref().map(|at| at.0);
                (Reverse(pods::node(pod).is_some()), born, meta.name.clone())
            });
        }
        Self(places)
    }

    /// So many nodes should have a pod.
    pub(super) fn wanted(&self) -> usize {
        self.0.values().filter(|place| place.fit == Fit::Wanted).count()
    }
}

/// What a node is to a pod made after the template.
pub(super) fn fit(pod: &Pod, node: &Node) -> Fit {
    let spec = pod.spec.as_ref();
    let only = spec.and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
    if only.is_some_and(|only| node.metadata.name.as_deref() != Some(only))
        || !scheduler::matches_node(pod, node)
    {
        return Fit::Unfit;
    }
    let untolerated: Vec<&str> = taints::of_node(node)
        .iter()
        .filter(|taint| !taints::is_tolerated(taints::tolerations(pod), taint))
        .map(|taint| taint.effect.as_str())
        .collect();
    if untolerated.contains(&taints::NO_EXECUTE) {
        Fit::Unfit
    } else if untolerated.contains(&taints::NO_SCHEDULE) {
        Fit::Tolerated
    } else {
        Fit::Wanted
    }
}

/// The node that a pod is on, or may only go to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    if let Some(node) = pods::node(pod) {
        return Some(node);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
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
