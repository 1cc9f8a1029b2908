//! Adoption and release of objects by their labels, the same for pods of a ReplicaSet and
//! ReplicaSets of a Deployment.
//!
//! The patch names the UID and the resourceVersion it was decided on: an object that changed
//! meanwhile is looked at again instead of being taken from somebody.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::Pod;
use serde_json::json;

use crate::patches::references_patch;
use crate::plan::{Step, Write};
use crate::{Kind, Object, Plan, View, owners};

/// What an object is to an owner.
pub(crate) enum Claim {
    /// It is the owner's.
    Own,
    /// It should be: this patch makes it so.
    Adopt(Write),
    /// It should no longer be: this patch lets it go.
    Release(Write),
    /// It is none of the owner's business.
    Leave,
}

/// What `object` is to the owner, whose selector matches it or not.
pub(crate) fn claim(kind: Kind, owner: &ObjectMeta, object: &Object, is_selected: bool) -> Claim {
    let owner_uid = owner.uid.as_deref().unwrap_or_default();
    let is_owner_kept = !owners::is_terminating(owner);
    match owners::controller_of(object.meta()) {
        Some(controller) if controller.uid != owner_uid => Claim::Leave,
        Some(_) if is_selected || !is_owner_kept => Claim::Own,
        Some(_) => Claim::Release(release(object, owner_uid)),
        None if is_selected && is_owner_kept && !owners::is_terminating(object.meta()) => {
            if is_of_no_use(kind, object) {
                Claim::Leave
            } else {
                Claim::Adopt(adopt(kind, owner, object))
            }
        }
        None => Claim::Leave,
    }
}

/// True for a pod that has ended where pods are only counted (upstream, `FilterActivePods`).
/// Whoever gives his pods names or places, or counts how they ended, takes them as well.
fn is_of_no_use(kind: Kind, object: &Object) -> bool {
    matches!(kind, Kind::ReplicaSet | Kind::ReplicationController)
        && matches!(object, Object::Pod(pod) if crate::pods::is_finished(pod))
}

/// Claims the pods that should be the owner's and lets go those that should not; the result is what
/// is its own now.
pub(crate) fn claim_pods<'a>(
    view: &'a View,
    kind: Kind,
    owner: &'a ObjectMeta,
    selects: impl Fn(&ObjectMeta) -> bool,
    plan: &mut Plan,
) -> Vec<&'a Arc<Pod>> {
    let uid = owner.uid.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let mut own = Vec::new();
    let mut patches = Vec::new();
    for object in view.dependents_of(uid, Kind::Pod).chain(view.unmanaged(Kind::Pod, namespace)) {
        let Object::Pod(pod) = object else { continue };
        match claim(kind, owner, object, selects(&pod.metadata)) {
            Claim::Own => own.push(pod),
            // An adopted pod counts once the patch is answered; that answer brings us here again.
            Claim::Adopt(write) | Claim::Release(write) => patches.push(Step::from(write)),
            Claim::Leave => {}
        }
    }
    plan.then_all(patches);
    own
}

fn adopt(kind: Kind, owner: &ObjectMeta, object: &Object) -> Write {
    let mut references = owners::references(object.meta()).to_vec();
    references.push(owners::controller_reference(kind, owner));
    references_patch(object, json!(references))
}

fn release(object: &Object, owner_uid: &str) -> Write {
    let references: Vec<_> =
        owners::references(object.meta()).iter().filter(|r| r.uid != owner_uid).collect();
    references_patch(object, json!(references))
}
