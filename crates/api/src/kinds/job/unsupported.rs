//! Fields of a Job that this version does not carry out. A Job that sets one is refused: run without it, it would do something
//! else than its user asked for.

use k8s_openapi::api::batch::v1::JobSpec;

use crate::registry::field_error::FieldError;
use crate::validation::{Path, text};

/// What of the spec is not carried out here.
pub(super) fn check(spec: &JobSpec, field: &Path) -> Vec<FieldError> {
    let replacement = text(spec.pod_replacement_policy.as_ref());
    let manager = text(spec.managed_by.as_ref());
    let set = [
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.is_some()),
        ("managedBy", !matches!(manager, "" | "kubernetes.io/job-controller")),
        ("maxFailedIndexes", spec.max_failed_indexes.is_some()),
        ("podFailurePolicy", spec.pod_failure_policy.is_some()),
        ("podReplacementPolicy", replacement == "Failed"),
        ("successPolicy", spec.success_policy.is_some()),
    ];
    let refused = set.into_iter().filter(|(_, is_set)| *is_set);
    refused
        .map(|(name, _)| {
            FieldError::forbidden(
                field.child(name),
                "not supported by this version of Rekindle: the Job would run as if it were not set",
            )
        })
        .collect()
}
