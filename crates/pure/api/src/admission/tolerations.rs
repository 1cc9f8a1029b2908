//! How long pods stay on a node that is not ready or not reachable, where they do not say so
//! themselves.
//!
//! Source: admission plugin DefaultTolerationSeconds. Its default of 300 s is among the defaults of
//! a pod; here is what the API server's flags `--default-not-ready-toleration-seconds` and
//! `--default-unreachable-toleration-seconds` are for.

use k8s_openapi::api::core::v1::Pod;
use rekindle_kinds::pod::defaults::default_tolerations;
use rekindle_kinds::registry::AnyObject;

use crate::call::ApiCall;
use crate::status::ApiError;

/// Gives a new pod the tolerations of this API server. Before the defaults, which add what is still
/// missing.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    if !call.entry.group.is_empty() || call.entry.kind != "Pod" {
        return Ok(());
    }
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    default_tolerations(&mut spec.tolerations, call.api.toleration_seconds());
    Ok(())
}
