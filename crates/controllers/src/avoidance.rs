//! Nodes that new pods of a workload keep away from, after a PodRestart of rung Reschedule.
//!
//! The PodRestart says which node and until when; it is kept as long as that. Whoever makes a new pod of the workload (the
//! ReplicaSet controller, or the PodRestart controller for a pod without one) excludes the node in the pod's required node
//! affinity and notes in an annotation until when. The scheduler takes an exclusion that is over for void: a pod's affinity
//! cannot be changed once made, and a pod must not wait for ever for a node other than the only one that is left.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, Affinity, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::Tick;
use rekindle_types::held::Pod;
use rekindle_types::pods::AnyPod;
use rekindle_types::v1alpha1::PodRestart;

use crate::{Kind, Object, View};

/// Which nodes the required node affinity excludes for a while: a JSON object from the node's name to the time.
pub const ANNOTATION: &str = "rekindle.dev/avoided-nodes";
/// The field by which a node is excluded.
const NAME_FIELD: &str = "metadata.name";

/// Nodes and until when they are avoided.
pub(crate) type Avoided = BTreeMap<String, Time>;

/// The node that a request keeps new pods away from, with the time.
pub(crate) fn of_restart(restart: &PodRestart) -> Option<(&str, &Time)> {
    let replacement = restart.status.as_ref()?.replacement.as_ref()?;
    Some((replacement.node_name.as_str(), replacement.avoid_node_until.as_ref()?))
}

/// What new pods of a workload avoid at `now`.
pub(crate) fn of_workload(view: &View, namespace: &str, workload: &str, now: Tick) -> Avoided {
    let mut avoided = Avoided::new();
    for object in view.in_namespace(Kind::PodRestart, namespace) {
        let Object::PodRestart(restart) = object else { continue };
        let replacement = restart.status.as_ref().and_then(|s| s.replacement.as_ref());
        if replacement.and_then(|r| r.workload_uid.as_deref()) != Some(workload) {
            continue;
        }
        let Some((node, until)) = of_restart(restart).filter(|(_, until)| !is_over(until, now))
        else {
            continue;
        };
        let latest = avoided.entry(node.to_owned()).or_insert_with(|| until.clone());
        *latest = latest.clone().max(until.clone());
    }
    avoided
}

/// What the pod itself says that it avoids.
pub(crate) fn of_pod(pod: &impl AnyPod) -> Avoided {
    let text = pod.metadata().annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Makes a pod that is not created yet keep away from these nodes.
pub(crate) fn exclude(pod: &mut v1::Pod, nodes: &Avoided) {
    if nodes.is_empty() {
        return;
    }
    let text = serde_json::to_string(nodes).expect("names and times always encode");
    pod.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), text);
    let spec = pod.spec.get_or_insert_default();
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required =
        affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    } else {
        // an empty term matches no node, and must not begin to match some
        required.node_selector_terms.retain(|term| !is_empty(term));
    }
    for term in &mut required.node_selector_terms {
        term.match_fields.get_or_insert_default().extend(nodes.keys().map(|node| exclusion(node)));
    }
}

/// The pod without any exclusion that was made here.
pub(crate) fn without_exclusions(mut pod: v1::Pod) -> v1::Pod {
    let nodes = of_pod(&pod);
    if let Some(spec) = &mut pod.spec {
        spec.affinity.take_if(|affinity| lift(affinity, &nodes) == Left::Nothing);
    }
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(ANNOTATION);
    }
    pod
}

/// The pod as the scheduler is to see it: without the exclusions that are over.
pub(crate) fn as_of(pod: &Pod, now: Tick) -> Cow<'_, Pod> {
    let mut over = of_pod(pod);
    over.retain(|_, until| is_over(until, now));
    if over.is_empty() {
        return Cow::Borrowed(pod);
    }
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        let affinity = &mut Arc::make_mut(spec).affinity;
        affinity.take_if(|affinity| lift(affinity, &over) == Left::Nothing);
    }
    Cow::Owned(pod)
}

/// When the next exclusion of a pod is over.
pub(crate) fn next_end(pod: &Pod, now: Tick) -> Option<Tick> {
    of_pod(pod).values().map(Tick::from).filter(|until| *until > now).min()
}

fn is_over(until: &Time, now: Tick) -> bool {
    Tick::from(until) <= now
}

/// A field requirement may name one node only (API reference).
fn exclusion(node: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![node.to_owned()]),
    }
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.as_ref().is_none_or(Vec::is_empty)
        && term.match_fields.as_ref().is_none_or(Vec::is_empty)
}

/// What an affinity says after the exclusions were taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

fn lift(affinity: &mut Affinity, nodes: &Avoided) -> Left {
    let excluded: Vec<NodeSelectorRequirement> = nodes.keys().map(|node| exclusion(node)).collect();
    let required = required_terms(affinity);
    let Some(terms) = required.filter(|_| !excluded.is_empty()) else { return Left::Something };
    for term in terms.iter_mut() {
        if let Some(fields) = &mut term.match_fields {
            fields.retain(|field| !excluded.contains(field));
        }
        term.match_fields.take_if(|fields| fields.is_empty());
    }
    if terms.iter().all(is_empty) {
        drop_required(affinity); // nothing but our exclusion was required
    }
    if *affinity == Affinity::default() { Left::Nothing } else { Left::Something }
}

fn required_terms(affinity: &mut Affinity) -> Option<&mut Vec<NodeSelectorTerm>> {
    let affinity = affinity.node_affinity.as_mut()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_mut()?;
    Some(&mut required.node_selector_terms)
}

/// Takes the required node affinity out, and what is empty without it.
fn drop_required(affinity: &mut Affinity) {
    if let Some(node_affinity) = &mut affinity.node_affinity {
        node_affinity.required_during_scheduling_ignored_during_execution = None;
    }
    affinity.node_affinity.take_if(|node_affinity| *node_affinity == Default::default());
}

#[cfg(test)]
mod tests;
