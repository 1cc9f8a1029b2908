//! Updates of a pod that waits for its scheduling gates (KEP-3838): no scheduler has seen it yet,
//! so where it may run can be narrowed down. Upstream: `ValidatePodUpdate`.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde::Serialize;

use crate::validation::{Path, items};

/// Whether the pod waits.
pub(super) fn is_gated(spec: &PodSpec) -> bool {
    !items(spec.scheduling_gates.as_ref()).is_empty()
}

/// Everything wrong with what changes of the nodes that the pod asks for.
pub(super) fn check(new: &PodSpec, old: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kept = |(key, value): (&String, &String)| {
        new.node_selector.as_ref().and_then(|selector| selector.get(key)) == Some(value)
    };
    if !old.node_selector.iter().flatten().all(kept) {
        errors.push(invalid(
            field.child("nodeSelector"),
            &new.node_selector,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ));
    }
    let field = field.child("affinity").child("nodeAffinity");
    errors.extend(terms(required_terms(new), required_terms(old), &field));
    errors
}

fn node_affinity(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref())
}

fn required_terms(spec: &PodSpec) -> &[NodeSelectorTerm] {
    node_affinity(spec)
        .and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref())
        .map_or(&[], |required| required.node_selector_terms.as_slice())
}

/// Terms are alternatives: another one would let in more nodes, and one less would be another pod.
/// What a term asks for may grow at its end.
fn terms(new: &[NodeSelectorTerm], old: &[NodeSelectorTerm], field: &Path) -> Vec<FieldError> {
    let field =
        field.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    if old.is_empty() {
        return Vec::new();
    }
    if new.len() != old.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![invalid(field, &new, detail)];
    }
    let pairs = new.iter().zip(old).enumerate();
    pairs
        .filter(|(_, (new, old))| !only_grows(new, old))
        .map(|(index, (new, _))| {
            let detail = "only additions are allowed (no mutations or deletions)";
            invalid(field.index(index), new, detail)
        })
        .collect()
}

fn only_grows(new: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    fn parts(term: &NodeSelectorTerm) -> [&[NodeSelectorRequirement]; 2] {
        [items(term.match_expressions.as_ref()), items(term.match_fields.as_ref())]
    }
    let (new, old) = (parts(new), parts(old));
    // A term without anything fits no node; one that asks for something fits more.
    let was_empty = old.iter().all(|part| part.is_empty());
    if was_empty {
        return new.iter().all(|part| part.is_empty());
    }
    new.iter().zip(old).all(|(new, old)| new.starts_with(old))
}

/// Takes over the nodes that `old` asks for, so that what else has changed can be seen.
pub(super) fn keep_nodes(spec: &mut PodSpec, old: &PodSpec) {
    spec.node_selector.clone_from(&old.node_selector);
    let nodes = node_affinity(old);
    if node_affinity(spec) == nodes {
        return;
    }
    match &mut spec.affinity {
        None => {
            spec.affinity = Some(Affinity { node_affinity: nodes.cloned(), ..Affinity::default() });
        }
        Some(affinity)
            if old.affinity.is_none()
                && affinity.pod_affinity.is_none()
                && affinity.pod_anti_affinity.is_none() =>
        {
            spec.affinity = None;
        }
        Some(affinity) => affinity.node_affinity = nodes.cloned(),
    }
}

fn invalid<T: Serialize>(field: Path, value: &T, detail: &str) -> FieldError {
    let shown = serde_json::to_string(value)
        .expect("selectors and terms have text keys only, so JSON can hold them");
    FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(shown),
        detail: detail.to_owned(),
    }
}
