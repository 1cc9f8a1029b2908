//! Owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub use rekindle_types::owners::controller_of;

use crate::{ClusterView, ResourceKind, ViewObject};

/// The UID of the workload that an object belongs to: of its controller's controller, else of its
/// controller, else its own.
pub fn root_uid(view: &ClusterView, object: &ViewObject) -> String {
    root_of(view, object.meta()).map_or_else(|| object.uid().to_owned(), |root| root.uid.clone())
}

/// The workload that an object belongs to: its controller's controller, else its controller. None
/// of an object without a controller.
pub fn root_of<'a>(view: &'a ClusterView, meta: &'a ObjectMeta) -> Option<&'a OwnerReference> {
    let controller = controller_of(meta)?;
    let above = view.by_uid(&controller.uid).and_then(|object| controller_of(object.meta()));
    Some(above.unwrap_or(controller))
}

/// All owner references.
pub fn references(meta: &ObjectMeta) -> &[OwnerReference] {
    meta.owner_references.as_deref().unwrap_or_default()
}

/// A controller reference to an object.
pub fn controller_reference(kind: ResourceKind, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.info().kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// True when the object is being deleted.
pub fn is_terminating(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// True when it carries this finalizer.
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}
