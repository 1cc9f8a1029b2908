//! Changes of an object that hold only while the object is as it was looked at: another of its
//! name, or a newer version of it, refuses them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::plan::{Part, Write};
use crate::{Kind, NamespacedName, Object, ObjectId};

/// Replaces its owner references.
pub(crate) fn references_patch(object: &Object, references: Value) -> Write {
    patch(object, "ownerReferences", references)
}

/// Puts a finalizer on, after those that it has.
pub(crate) fn with_finalizer(object: &Object, finalizer: &str) -> Write {
    patch(object, "finalizers", finalizers_with(object.meta(), finalizer))
}

/// Takes a finalizer off.
pub(crate) fn without_finalizer(object: &Object, finalizer: &str) -> Write {
    let all = object.meta().finalizers.iter().flatten();
    patch(object, "finalizers", json!(all.filter(|f| *f != finalizer).collect::<Vec<_>>()))
}

/// The finalizers with one more.
pub(crate) fn finalizers_with(meta: &ObjectMeta, finalizer: &str) -> Value {
    let present = meta.finalizers.iter().flatten().map(String::as_str);
    json!(present.chain([finalizer]).collect::<Vec<_>>())
}

fn patch(object: &Object, field: &str, value: Value) -> Write {
    let mut metadata = decided_on(object.meta());
    metadata[field] = value;
    Write::Patch { id: object.id(), part: Part::Whole, patch: json!({"metadata": metadata}) }
}

/// Changes what is named of its status.
pub(crate) fn status_patch(kind: Kind, meta: &ObjectMeta, status: Value) -> Write {
    Write::Patch {
        id: ObjectId::new(kind, NamespacedName::of(meta)),
        part: Part::Status,
        patch: json!({"metadata": decided_on(meta), "status": status}),
    }
}

/// What a patch holds for: this object, in this version.
pub(crate) fn decided_on(meta: &ObjectMeta) -> Value {
    json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
}
