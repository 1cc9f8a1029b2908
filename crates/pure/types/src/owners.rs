//! Who manages an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The reference that says which controller manages the object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// True for an object that a controller of this kind manages.
pub fn is_controlled_by(meta: &ObjectMeta, kind: &str) -> bool {
    controller_of(meta).is_some_and(|owner| owner.kind == kind)
}
