//! Changes of an object that hold only while the object is as it was looked at: another of its
//! name, or a newer version of it, refuses them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::plan::{PatchTarget, WriteOperation};
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject};

/// Replaces its owner references.
pub(crate) fn references_patch(object: &ViewObject, references: Value) -> WriteOperation {
    patch(object, "ownerReferences", references)
}

/// Puts a finalizer on, after those that it has.
pub(crate) fn with_finalizer(object: &ViewObject, finalizer: &str) -> WriteOperation {
    patch(object, "finalizers", finalizers_with(object.meta(), finalizer))
}

/// Takes a finalizer off.
pub(crate) fn without_finalizer(object: &ViewObject, finalizer: &str) -> WriteOperation {
    let all = object.meta().finalizers.iter().flatten();
    patch(object, "finalizers", json!(all.filter(|f| *f != finalizer).collect::<Vec<_>>()))
}

/// The finalizers with one more.
pub(crate) fn finalizers_with(meta: &ObjectMeta, finalizer: &str) -> Value {
    let present = meta.finalizers.iter().flatten().map(String::as_str);
    json!(present.chain([finalizer]).collect::<Vec<_>>())
}

fn patch(object: &ViewObject, field: &str, value: Value) -> WriteOperation {
    let mut metadata = decided_on(object.meta());
    metadata[field] = value;
    WriteOperation::Patch {
        id: object.id(),
        part: PatchTarget::Whole,
        patch: json!({"metadata": metadata}),
    }
}

/// Changes what is named of its status.
pub(crate) fn status_patch(kind: ResourceKind, meta: &ObjectMeta, status: Value) -> WriteOperation {
    WriteOperation::Patch {
        id: ObjectId::new(kind, NamespacedName::from_meta(meta)),
        part: PatchTarget::Status,
        patch: json!({"metadata": decided_on(meta), "status": status}),
    }
}

/// What a patch holds for: this object, in this version.
pub(crate) fn decided_on(meta: &ObjectMeta) -> Value {
    json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
}
