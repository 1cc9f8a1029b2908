//! Nodes that a pod keeps away from for a while, as they stand in the pod itself: its required node
//! affinity excludes them, and an annotation says until when. A pod's affinity cannot be changed
//! once it is made: the scheduler looks past what is over, and past all of it rather than leave the
//! pod without a node; the node that gets the pod then takes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pods::AnyPod;

/// Which nodes the required node affinity excludes for a while: a JSON object from the node's name
/// to the time.
pub const ANNOTATION: &str = "rekindle.dev/avoided-nodes";
/// The field by which a node is excluded.
const NAME_FIELD: &str = "metadata.name";

/// Nodes and until when they are avoided.
pub type Avoided = BTreeMap<String, Time>;

/// What the pod itself says that it avoids.
pub fn nodes_avoided_by(pod: &impl AnyPod) -> Avoided {
    let text = pod.metadata().annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Makes a pod that is not created yet keep away from these nodes.
pub fn exclude(pod: &mut Pod, nodes: &Avoided) {
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
#[must_use]
pub fn without_exclusions(mut pod: Pod) -> Pod {
    let nodes = nodes_avoided_by(&pod);
    if let Some(spec) = &mut pod.spec {
        spec.affinity.take_if(|affinity| lift(affinity, &nodes) == RemainingAffinity::Nothing);
    }
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(ANNOTATION);
    }
    pod
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
pub enum RemainingAffinity {
    /// It still asks for something.
    Something,
    /// It is empty.
    Nothing,
}

/// Takes the exclusions of these nodes out.
pub fn lift(affinity: &mut Affinity, nodes: &Avoided) -> RemainingAffinity {
    let excluded: Vec<NodeSelectorRequirement> = nodes.keys().map(|node| exclusion(node)).collect();
    let required = required_terms(affinity);
    let Some(terms) = required.filter(|_| !excluded.is_empty()) else {
        return RemainingAffinity::Something;
    };
    for term in terms.iter_mut() {
        if let Some(fields) = &mut term.match_fields {
            for exclusion in &excluded {
                // ours was put behind one of the pod's own that says the same
                fields.iter().rposition(|field| field == exclusion).map(|at| fields.remove(at));
            }
        }
        term.match_fields.take_if(|fields| fields.is_empty());
    }
    if terms.iter().all(is_empty) {
        drop_required(affinity); // nothing but our exclusion was required
    }
    if *affinity == Affinity::default() {
        RemainingAffinity::Nothing
    } else {
        RemainingAffinity::Something
    }
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
