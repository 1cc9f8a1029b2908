//! What the agent of a node may make: mirrors of its own files, and the Node and the Lease of its own name. Upstream's admission
//! plugin NodeRestriction.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::references::pod_references;

use crate::auth::Identity;
use crate::call::Call;
use crate::node_rights::{account, node_of};
use crate::registry::AnyObject;
use crate::status::ApiError;

/// Refuses what a node's agent may not make: pods but mirrors of its own files, which refer to nothing; Nodes and Leases of other names.
pub(crate) fn check_create(call: &Call<'_>, object: &dyn AnyObject) -> Result<(), ApiError> {
    let Identity::User(user) = &call.request.identity else { return Ok(()) };
    let Some(node) = node_of(user) else { return Ok(()) };
    let made = object.as_any();
    let name = object.meta().name.as_deref().unwrap_or_default();
    let why = match made.downcast_ref::<Pod>() {
        Some(pod) if !is_own_mirror(node, pod) => "mirror pods of its own files",
        None if (made.is::<Node>() || made.is::<Lease>()) && name != node => {
            "the Node and the Lease of its own name"
        }
        Some(_) | None => return Ok(()),
    };
    let why = format!("node {node:?} may only create {why}");
    Err(ApiError::forbidden(call.entry, name, &why))
}

fn is_own_mirror(node: &str, pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    is_mirror(pod)
        && spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
        && account(pod).is_none()
        && pod_references(pod).is_empty()
}
