//! Which runtime a pod asks for. There is one, and no RuntimeClass: a pod that names one asks for
//! another isolation than it would get, and its overhead is what such a class says.
//!
//! Source: admission plugin RuntimeClass. It looks at pods that are created, not at templates.

use k8s_openapi::api::core::v1::Pod;

use super::ObjectWrite;
use crate::status::ApiError;

/// Refuses a new pod that names a class, or has an overhead without one.
pub(super) fn check_create(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    if !call.entry.group.is_empty() || call.entry.kind != "Pod" {
        return Ok(());
    }
    let Some(pod) = object.as_any().downcast_ref::<Pod>() else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some(class) = &spec.runtime_class_name {
        let why = format!("pod rejected: RuntimeClass {class:?} not found");
        return Err(ApiError::forbidden(call.entry, name, &why));
    }
    if spec.overhead.as_ref().is_some_and(|overhead| !overhead.is_empty()) {
        let why =
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(ApiError::forbidden(call.entry, name, why));
    }
    Ok(())
}
