//! Grace periods as the object gives them, in seconds.

use k8s_openapi::api::core::v1::Pod;

/// Grace of a pod that gives none: the API's default.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// `spec.terminationGracePeriodSeconds`.
pub fn spec_grace_seconds(pod: &Pod) -> i64 {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE_SECONDS)
}

/// The grace of a pod that is being deleted; `None` of one that is not.
pub fn deletion_grace_seconds(pod: &Pod) -> Option<i64> {
    pod.metadata.deletion_timestamp.as_ref()?;
    Some(pod.metadata.deletion_grace_period_seconds.unwrap_or_else(|| spec_grace_seconds(pod)))
}
