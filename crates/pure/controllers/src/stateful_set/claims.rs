//! The claims of a StatefulSet's pods: made before the pod, kept when it goes, and given back as
//! the retention policy says.
//!
//! Whose end is the end of a claim is told by an owner reference, which the garbage collector
//! follows: to the set, when claims go with it; to the pod, when the pod is being scaled away and
//! its claims go with it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_types::held::HeldPod;
use serde_json::json;

use super::{identity, writes};
use crate::patches::references_patch;
use crate::plan::PlannedWrite;
use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject, owners};

/// Whether the set wants the pod of an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrdinalNeed {
    Wanted,
    ScaledAway,
}

/// How the claims of a pod are.
#[derive(Debug)]
pub(super) enum OrdinalClaims {
    /// These are to be made first; none when all are there.
    Missing(Vec<PlannedWrite>),
    /// One is being deleted, or will be, with an earlier pod of the name.
    Going,
}

/// The templates of the set's claims.
pub(super) fn templates(set: &StatefulSet) -> impl Iterator<Item = &PersistentVolumeClaim> {
    set.spec.volume_claim_templates.iter().flatten()
}

/// The name of a template, by which the pods' containers mount it.
pub(super) fn template_name(template: &PersistentVolumeClaim) -> &str {
    template.metadata.name.as_deref().unwrap_or_default()
}

/// The name of the claim of an ordinal.
pub(super) fn name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}", template_name(template), identity::pod_name(set, ordinal))
}

/// True when a claim has a name that one of the set's pods would give it.
pub(super) fn is_of(set: &StatefulSet, claim: &str) -> bool {
    templates(set).any(|template| {
        let pod = claim.strip_prefix(template_name(template)).and_then(|c| c.strip_prefix('-'));
        pod.is_some_and(|pod| identity::ordinal_in(set, pod).is_some())
    })
}

/// The claims that the pod of an ordinal needs.
pub(super) fn needed(
    view: &ClusterView,
    set: &Arc<StatefulSet>,
    ordinal: i32,
    pod: Option<&HeldPod>,
) -> OrdinalClaims {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let pod_name = identity::pod_name(set, ordinal);
    let uid = pod.and_then(|pod| pod.metadata.uid.as_deref());
    let mut missing = Vec::new();
    for template in templates(set) {
        let name = name(set, template, ordinal);
        match view.persistent_volume_claim(&NamespacedName::new(namespace, name.as_str())) {
            Some(claim) => {
                let of_another = |owner: &OwnerReference| {
                    is_pod(owner, &pod_name) && Some(owner.uid.as_str()) != uid
                };
                let references = owners::references(&claim.metadata);
                if owners::is_terminating(&claim.metadata) || references.iter().any(of_another) {
                    return OrdinalClaims::Going;
                }
            }
            None => {
                let claim = new(set, template, name);
                missing.push(writes::claim_creation(set, claim, &pod_name));
            }
        }
    }
    OrdinalClaims::Missing(missing)
}

fn new(set: &StatefulSet, template: &PersistentVolumeClaim, name: String) -> PersistentVolumeClaim {
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
    let owner = keeper(set, OrdinalNeed::Wanted, None);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Patches that make the owners of a pod's claims what the retention policy says.
pub(super) fn retained(
    view: &ClusterView,
    set: &StatefulSet,
    pod: &HeldPod,
    wanted: OrdinalNeed,
) -> Vec<PlannedWrite> {
    if templates(set).next().is_none() {
        return Vec::new();
    }
    let Some(ordinal) = identity::ordinal_of(set, &pod.metadata) else { return Vec::new() };
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let pod_name = identity::pod_name(set, ordinal);
    let owner = keeper(set, wanted, Some(pod));
    let mut patches = Vec::new();
    for template in templates(set) {
        let name = NamespacedName::new(namespace, name(set, template, ordinal));
        let Some(claim) = view.persistent_volume_claim(&name) else { continue };
        let is_ours = |reference: &OwnerReference| {
            set.metadata.uid.as_ref() == Some(&reference.uid) || is_pod(reference, &pod_name)
        };
        let before = owners::references(&claim.metadata);
        let is_controller = |r: &OwnerReference| r.controller == Some(true);
        // The end of a claim that another controller manages is that one's matter.
        let is_of_another = before.iter().any(|r| is_controller(r) && !is_ours(r));
        let owner = owner.as_ref().filter(|_| !is_of_another);
        let is_same = {
            let mut ours = before.iter().filter(|r| is_ours(r));
            let kept = ours.next();
            kept.map(|r| &r.uid) == owner.map(|owner| &owner.uid)
                && kept.is_none_or(is_controller)
                && ours.next().is_none()
        };
        if !is_same {
            let mut references: Vec<OwnerReference> =
                before.iter().filter(|r| !is_ours(r)).cloned().collect();
            references.extend(owner.cloned());
            let object = ViewObject::PersistentVolumeClaim(claim.clone());
            patches.push(PlannedWrite::from(references_patch(&object, json!(references))));
        }
    }
    patches
}

/// With whom a claim goes; with nobody when it is retained.
fn keeper(set: &StatefulSet, wanted: OrdinalNeed, pod: Option<&HeldPod>) -> Option<OwnerReference> {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |field: Option<&String>| field.is_some_and(|when| when == "Delete");
    let when_scaled = deletes(policy.and_then(|policy| policy.when_scaled.as_ref()));
    let when_deleted = deletes(policy.and_then(|policy| policy.when_deleted.as_ref()));
    match (wanted, pod) {
        (OrdinalNeed::ScaledAway, Some(pod)) if when_scaled => {
            Some(owners::controller_reference(ResourceKind::Pod, &pod.metadata))
        }
        (OrdinalNeed::Wanted | OrdinalNeed::ScaledAway, _) if when_deleted => {
            Some(owners::controller_reference(ResourceKind::StatefulSet, &set.metadata))
        }
        (OrdinalNeed::Wanted | OrdinalNeed::ScaledAway, _) => None,
    }
}

fn is_pod(reference: &OwnerReference, name: &str) -> bool {
    reference.kind == "Pod" && reference.api_version == "v1" && reference.name == name
}
