//! Adoption and release of objects by their labels, the same for pods of a ReplicaSet and
//! ReplicaSets of a Deployment.
//!
//! The patch names the UID and the resourceVersion it was decided on: an object that changed
//! meanwhile is looked at again instead of being taken from somebody.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use serde_json::json;

use crate::patches::references_patch;
use crate::plan::{PlannedWrite, WriteOperation};
use crate::{ClusterView, ResourceKind, ViewObject, WritePlan, owners};

/// What an object is to an owner.
pub(crate) enum OwnershipClaim {
    /// It is the owner's.
    Own,
    /// It should be: this patch makes it so.
    Adopt(WriteOperation),
    /// It should no longer be: this patch lets it go.
    Release(WriteOperation),
    /// It is none of the owner's business.
    Leave,
}

/// What `object` is to the owner, whose selector matches it or not.
pub(crate) fn claim(
    kind: ResourceKind,
    owner: &ObjectMeta,
    object: &ViewObject,
    is_selected: bool,
) -> OwnershipClaim {
    let owner_uid = owner.uid.as_deref().unwrap_or_default();
    let is_owner_kept = !owners::is_terminating(owner);
    match owners::controller_of(object.meta()) {
        Some(controller) if controller.uid != owner_uid => OwnershipClaim::Leave,
        Some(_) if is_selected || !is_owner_kept => OwnershipClaim::Own,
        Some(_) => OwnershipClaim::Release(release(object, owner_uid)),
        None if is_selected && is_owner_kept && !owners::is_terminating(object.meta()) => {
            if is_of_no_use(kind, object) {
                OwnershipClaim::Leave
            } else {
                OwnershipClaim::Adopt(adopt(kind, owner, object))
            }
        }
        None => OwnershipClaim::Leave,
    }
}

/// True for a pod that has ended where pods are only counted (upstream, `FilterActivePods`).
/// Whoever gives his pods names or places, or counts how they ended, takes them as well.
fn is_of_no_use(kind: ResourceKind, object: &ViewObject) -> bool {
    matches!(kind, ResourceKind::ReplicaSet | ResourceKind::ReplicationController)
        && matches!(object, ViewObject::Pod(pod) if crate::pods::is_finished(pod))
}

/// Claims the pods that should be the owner's and lets go those that should not; the result is what
/// is its own now.
pub(crate) fn claim_pods<'a>(
    view: &'a ClusterView,
    kind: ResourceKind,
    owner: &'a ObjectMeta,
    selects: impl Fn(&ObjectMeta) -> bool,
    plan: &mut WritePlan,
) -> Vec<&'a Arc<HeldPod>> {
    let uid = owner.uid.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let mut own = Vec::new();
    let mut patches = Vec::new();
    for object in view
        .dependents_of(uid, ResourceKind::Pod)
        .chain(view.unmanaged(ResourceKind::Pod, namespace))
    {
        let ViewObject::Pod(pod) = object else { continue };
        match claim(kind, owner, object, selects(&pod.metadata)) {
            OwnershipClaim::Own => own.push(pod),
            // An adopted pod counts once the patch is answered; that answer brings us here again.
            OwnershipClaim::Adopt(write) | OwnershipClaim::Release(write) => {
                patches.push(PlannedWrite::from(write))
            }
            OwnershipClaim::Leave => {}
        }
    }
    plan.then_all(patches);
    own
}

fn adopt(kind: ResourceKind, owner: &ObjectMeta, object: &ViewObject) -> WriteOperation {
    let mut references = owners::references(object.meta()).to_vec();
    references.push(owners::controller_reference(kind, owner));
    references_patch(object, json!(references))
}

fn release(object: &ViewObject, owner_uid: &str) -> WriteOperation {
    let references: Vec<_> =
        owners::references(object.meta()).iter().filter(|r| r.uid != owner_uid).collect();
    references_patch(object, json!(references))
}
