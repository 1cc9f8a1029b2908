//! Changes of an object's metadata that hold only while the object is as it was looked at: another of its name, or a newer version of it,
//! refuses them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::Object;
use crate::plan::{Part, Write};

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
    let meta = object.meta();
    Write::Patch {
        id: object.id(),
        part: Part::Whole,
        patch: json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            field: value,
        }}),
    }
}
