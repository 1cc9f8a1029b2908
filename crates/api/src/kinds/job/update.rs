//! What of a Job may change (upstream: `ValidateJobSpecUpdate`).

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::Serialize;

use crate::kinds::template;
use crate::registry::field_error::{FieldError, Problem};
use crate::validation::text;

/// Everything wrong with the change from `old`.
pub(super) fn check(new: &Job, old: &Job) -> Vec<FieldError> {
    let none = JobSpec::default();
    let (new_spec, old_spec) =
        (new.spec.as_ref().unwrap_or(&none), old.spec.as_ref().unwrap_or(&none));
    let mut errors = Vec::new();
    if !is_scaled_as_a_whole(new_spec, old_spec) {
        errors.extend(immutable("spec.completions", &new_spec.completions, &old_spec.completions));
    }
    errors.extend(immutable("spec.selector", &new_spec.selector, &old_spec.selector));
    let mut template = old_spec.template.clone();
    if may_be_placed_anew(old) {
        take_placement(&mut template, &new_spec.template);
    }
    errors.extend(immutable("spec.template", &new_spec.template, &template));
    let modes = (&new_spec.completion_mode, &old_spec.completion_mode);
    errors.extend(immutable("spec.completionMode", modes.0, modes.1));
    let policies = (&new_spec.pod_failure_policy, &old_spec.pod_failure_policy);
    errors.extend(immutable("spec.podFailurePolicy", policies.0, policies.1));
    let limits = (&new_spec.backoff_limit_per_index, &old_spec.backoff_limit_per_index);
    errors.extend(immutable("spec.backoffLimitPerIndex", limits.0, limits.1));
    errors.extend(immutable("spec.managedBy", &new_spec.managed_by, &old_spec.managed_by));
    let policies = (&new_spec.success_policy, &old_spec.success_policy);
    errors.extend(immutable("spec.successPolicy", policies.0, policies.1));
    errors
}

fn immutable<T: PartialEq + Serialize>(field: &str, new: &T, old: &T) -> Option<FieldError> {
    (new != old).then(|| FieldError {
        field: field.to_owned(),
        problem: Problem::Invalid(template::json(new)),
        detail: "field is immutable".to_owned(),
    })
}

/// An Indexed Job may change its completions when its parallelism goes with them (elastic Indexed Jobs).
fn is_scaled_as_a_whole(new: &JobSpec, old: &JobSpec) -> bool {
    text(new.completion_mode.as_ref()) == "Indexed"
        && text(old.completion_mode.as_ref()) == "Indexed"
        && new.completions.is_some()
        && new.completions == new.parallelism
        && old.completions == old.parallelism
}

/// A suspended Job that never started may still be told where its pods shall run.
fn may_be_placed_anew(old: &Job) -> bool {
    let is_suspended = old.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    is_suspended && old.status.as_ref().is_none_or(|status| status.start_time.is_none())
}

/// What says where pods run, and the labels and annotations that go with it.
fn take_placement(template: &mut PodTemplateSpec, from: &PodTemplateSpec) {
    template.metadata.clone_from(&from.metadata);
    let (Some(to), Some(from)) = (&mut template.spec, &from.spec) else { return };
    to.node_selector.clone_from(&from.node_selector);
    to.tolerations.clone_from(&from.tolerations);
    to.scheduling_gates.clone_from(&from.scheduling_gates);
    let node_affinity = from.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    if node_affinity.is_some() || to.affinity.is_some() {
        to.affinity.get_or_insert_default().node_affinity = node_affinity;
    }
}
