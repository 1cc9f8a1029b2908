//! What controllers and node say to each other about volumes of the class local-path, and how a
//! node answers: which claims it makes volumes for, what such a volume is, and what comes next at
//! its end.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::labels::HOSTNAME;

/// The class.
pub const CLASS: &str = "local-path";
/// Who makes its volumes: the node that the first pod goes to.
pub const PROVISIONER: &str = "rekindle.dev/local-path";
/// Annotation of a claim: who is asked for a volume. Source: the API reference.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Annotation of a claim: the node that the scheduler chose for its first pod. Source: the API
/// reference.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume: who made it. Source: the API reference.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Finalizer of a volume that a node made: what lies on its disk has not been dealt with.
pub const FOLDER_FINALIZER: &str = "rekindle.dev/local-path-folder";
/// Finalizer that keeps a volume while a claim is bound to it. Source: the API reference.
const PROTECTION: &str = "kubernetes.io/pv-protection";

/// The volume that is made for the claim with this UID: making it twice is a conflict, never a
/// double.
pub fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// True for a claim that waits for a volume of this node.
pub fn is_asked_for(claim: &PersistentVolumeClaim, node: &str) -> bool {
    let says = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let spec = claim.spec.as_ref();
    spec.and_then(|spec| spec.volume_name.as_ref()).is_none()
        && claim.metadata.deletion_timestamp.is_none()
        && says(STORAGE_PROVISIONER).is_some_and(|who| who == PROVISIONER)
        && says(SELECTED_NODE).is_some_and(|selected| selected == node)
}

/// The class of a claim by which a volume can be made for it. `class` is what is known under the
/// name that the claim says.
///
/// # Errors
/// Why there can be none, as the claim's event says it.
pub fn class_for<'a>(
    claim: &PersistentVolumeClaim,
    class: Option<&'a StorageClass>,
) -> Result<&'a StorageClass, String> {
    let spec = claim.spec.as_ref();
    let name = spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default();
    let Some(class) = class else {
        return Err(format!("storageclass.storage.k8s.io {name:?} not found"));
    };
    match spec.is_some_and(|spec| spec.selector.is_some()) {
        true => Err(format!(
            "failed to provision volume with StorageClass {name:?}: claim.Spec.Selector is not supported"
        )),
        false => Ok(class),
    }
}

/// The volume for a claim: this folder of this node.
pub fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &str,
    path: &str,
) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let requirement = NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![requirement]),
        ..NodeSelectorTerm::default()
    };
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(volume_name(claim.metadata.uid.as_deref().unwrap_or_default())),
            annotations: Some(BTreeMap::from([(
                PROVISIONED_BY.to_owned(),
                PROVISIONER.to_owned(),
            )])),
            finalizers: Some(vec![FOLDER_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|resources| resources.requests),
            claim_ref: Some(reference(claim)),
            local: Some(LocalVolumeSource { path: path.to_owned(), fs_type: None }),
            node_affinity: Some(VolumeNodeAffinity {
                required: Some(NodeSelector { node_selector_terms: vec![term] }),
            }),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// What volumes and events call a claim by.
pub fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// True for a volume that a node made and whose folder has not been dealt with.
pub fn has_folder(volume: &PersistentVolume) -> bool {
    let meta = &volume.metadata;
    let maker = meta.annotations.as_ref().and_then(|all| all.get(PROVISIONED_BY));
    maker.is_some_and(|maker| maker == PROVISIONER)
        && meta.finalizers.iter().flatten().any(|finalizer| finalizer == FOLDER_FINALIZER)
}

/// True for a volume that a node made, and that this node and no other can mount.
pub fn is_of_node(volume: &PersistentVolume, node: &str) -> bool {
    let annotations = volume.metadata.annotations.as_ref();
    let Some(spec) = &volume.spec else { return false };
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice());
    let [NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None }] =
        terms.unwrap_or_default()
    else {
        return false;
    };
    let [NodeSelectorRequirement { key, operator, values: Some(values) }] = expressions.as_slice()
    else {
        return false;
    };
    (key.as_str(), operator.as_str()) == (HOSTNAME, "In")
        && *values == [node]
        && spec.local.is_some()
        && annotations
            .is_some_and(|all| all.get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER))
}

/// The next step of a volume's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeCleanup {
    /// It is not at its end, or a claim may still be bound to it.
    NotYet,
    /// It is to be deleted.
    Delete,
    /// Its folder goes, and then the finalizer.
    WithFolder,
    /// The finalizer goes, and the folder stays as it is.
    WithoutFolder,
}

impl VolumeCleanup {
    /// What comes next for a volume of [`has_folder`].
    pub fn from_volume(volume: &PersistentVolume) -> Self {
        let policy =
            volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let goes = policy == Some("Delete");
        let meta = &volume.metadata;
        if meta.deletion_timestamp.is_none() {
            return if goes && phase == Some("Released") { Self::Delete } else { Self::NotYet };
        }
        match meta.finalizers.iter().flatten().any(|finalizer| finalizer == PROTECTION) {
            true => Self::NotYet,
            false if goes => Self::WithFolder,
            false => Self::WithoutFolder,
        }
    }
}

/// The finalizers of a volume whose folder has been dealt with.
pub fn finalizers_left(volume: &PersistentVolume) -> Vec<String> {
    let finalizers = volume.metadata.finalizers.iter().flatten();
    finalizers.filter(|finalizer| *finalizer != FOLDER_FINALIZER).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn released(meta: Value, policy: &str, phase: &str) -> PersistentVolume {
        let mut volume = json!({
            "metadata": {
                "name": "pvc-1", "annotations": {PROVISIONED_BY: PROVISIONER},
                "finalizers": [FOLDER_FINALIZER],
            },
            "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase},
        });
        for (field, value) in meta.as_object().expect("an object") {
            volume["metadata"][field] = value.clone();
        }
        serde_json::from_value(volume).expect("it is one")
    }

    #[test]
    fn a_volume_ends_step_by_step_and_never_while_a_claim_may_have_it() {
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let held = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [PROTECTION, FOLDER_FINALIZER],
        });
        let cases = [
            (json!({}), "Delete", "Bound", VolumeCleanup::NotYet),
            (json!({}), "Delete", "Released", VolumeCleanup::Delete),
            (json!({}), "Retain", "Released", VolumeCleanup::NotYet),
            (held, "Delete", "Released", VolumeCleanup::NotYet),
            (going.clone(), "Delete", "Released", VolumeCleanup::WithFolder),
            (going, "Retain", "Released", VolumeCleanup::WithoutFolder),
        ];
        for (meta, policy, phase, expected) in cases {
            let volume = released(meta.clone(), policy, phase);
            assert!(has_folder(&volume));
            assert_eq!(VolumeCleanup::from_volume(&volume), expected, "{meta} {policy} {phase}");
        }
    }

    #[test]
    fn a_volume_is_made_for_a_claim_that_waits_for_this_node_and_is_reserved_for_it() {
        let claim = |selected: &str, volume: Option<&str>| -> PersistentVolumeClaim {
            serde_json::from_value(json!({
                "metadata": {
                    "name": "data", "namespace": "shop", "uid": "u1",
                    "annotations": {STORAGE_PROVISIONER: PROVISIONER, SELECTED_NODE: selected},
                },
                "spec": {
                    "storageClassName": CLASS, "volumeName": volume, "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }))
            .expect("it is one")
        };
        assert!(is_asked_for(&claim("node-1", None), "node-1"));
        assert!(!is_asked_for(&claim("node-2", None), "node-1"));
        assert!(!is_asked_for(&claim("node-1", Some("other")), "node-1"));
        let class =
            StorageClass { reclaim_policy: Some("Delete".to_owned()), ..StorageClass::default() };
        let waits = claim("node-1", None);
        let why = class_for(&waits, None).expect_err("there is no class");
        assert_eq!(why, "storageclass.storage.k8s.io \"local-path\" not found");
        let class = class_for(&waits, Some(&class)).expect("nothing is in its way");
        let made = volume(&waits, class, "node-1", "/data/pvc-u1");
        assert_eq!(made.metadata.name.as_deref(), Some("pvc-u1"));
        let spec = made.spec.expect("it has one");
        assert_eq!(spec.claim_ref, Some(reference(&waits)));
        assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    }
}
