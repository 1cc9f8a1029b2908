//! What of a Job may change (upstream: `ValidateJobSpecUpdate`).

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{Affinity, Container, PodSpec, PodTemplateSpec};
use rekindle_types::ObjectJson;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde::Serialize;

use crate::validation::{json, text};

/// Everything wrong with the change from `old`.
pub(super) fn check(new: &Job, old: &Job) -> Vec<FieldError> {
    let none = JobSpec::default();
    let (new_spec, old_spec) =
        (new.spec.as_ref().unwrap_or(&none), old.spec.as_ref().unwrap_or(&none));
    let mut errors = Vec::new();
    errors.extend(completions(new_spec, old_spec));
    errors.extend(immutable("spec.selector", &new_spec.selector, &old_spec.selector));
    let mut template = old_spec.template.clone();
    let is_still = is_suspended_and_still(old);
    if is_still {
        take_placement(&mut template, &new_spec.template);
        take_resources(&mut template, &new_spec.template);
    }
    errors.extend(template_change(&new_spec.template, &template, is_still));
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

/// A change of the template beyond what a suspended Job may still change. Of such a Job upstream
/// compares and names the spec of the pods alone.
fn template_change(
    new: &PodTemplateSpec,
    allowed: &PodTemplateSpec,
    is_still: bool,
) -> Option<FieldError> {
    let shown = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
    match is_still {
        true if new.spec != allowed.spec => {
            let spec = new.spec.as_ref().map_or_else(|| b"{}".to_vec(), PodSpec::to_json);
            Some(changed("spec.template.spec", shown(spec)))
        }
        false if new != allowed => Some(changed("spec.template", shown(new.to_json()))),
        true | false => None,
    }
}

fn immutable<T: PartialEq + Serialize>(field: &str, new: &T, old: &T) -> Option<FieldError> {
    (new != old).then(|| changed(field, json(new)))
}

fn changed(field: &str, shown: String) -> FieldError {
    FieldError {
        field: field.to_owned(),
        problem: FieldProblem::Invalid(shown),
        detail: "field is immutable".to_owned(),
    }
}

/// An Indexed Job may change its completions when its parallelism goes with them (elastic Indexed
/// Jobs). That it has any is a rule of its own.
fn completions(new: &JobSpec, old: &JobSpec) -> Option<FieldError> {
    let field = "spec.completions";
    if text(new.completion_mode.as_ref()) != "Indexed" {
        return immutable(field, &new.completions, &old.completions);
    }
    let changed = new.completions.filter(|_| new.completions != old.completions)?;
    (new.completions != new.parallelism).then(|| {
        FieldError::invalid(field, changed, "can only be modified in tandem with spec.parallelism")
    })
}

/// A suspended Job without running pods may still be told where its pods shall run and what they
/// get (KEP-2926, KEP-5440).
fn is_suspended_and_still(old: &Job) -> bool {
    let is_suspended = old.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    let is_still = |status: &JobStatus| {
        let mut conditions = status.conditions.iter().flatten();
        let is_told = conditions.any(|c| c.type_ == "Suspended" && c.status == "True");
        status.active.unwrap_or_default() == 0 && (status.start_time.is_none() || is_told)
    };
    is_suspended && old.status.as_ref().is_none_or(is_still)
}

/// What says where pods run, and the labels and annotations that go with it.
fn take_placement(template: &mut PodTemplateSpec, from: &PodTemplateSpec) {
    template.metadata.clone_from(&from.metadata);
    let (Some(to), Some(from)) = (&mut template.spec, &from.spec) else { return };
    to.node_selector.clone_from(&from.node_selector);
    to.tolerations.clone_from(&from.tolerations);
    to.scheduling_gates.clone_from(&from.scheduling_gates);
    let Some(from) = &from.affinity else {
        // what says nothing but which nodes may go as a whole
        let mut rest = to.affinity.take().unwrap_or_default();
        rest.node_affinity = None;
        to.affinity = (rest != Affinity::default()).then_some(rest);
        return;
    };
    to.affinity.get_or_insert_default().node_affinity.clone_from(&from.node_affinity);
}

/// What the containers of the same names ask for and may have.
fn take_resources(template: &mut PodTemplateSpec, from: &PodTemplateSpec) {
    let (Some(to), Some(from)) = (&mut template.spec, &from.spec) else { return };
    let new = from.containers.iter().chain(from.init_containers.iter().flatten());
    let new: BTreeMap<&str, &Container> = new.map(|new| (new.name.as_str(), new)).collect();
    for container in to.containers.iter_mut().chain(to.init_containers.iter_mut().flatten()) {
        if let Some(new) = new.get(container.name.as_str()) {
            container.resources.clone_from(&new.resources);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value, status: Value) -> Job {
        let mut all = json!({
            "completions": 10, "parallelism": 3, "completionMode": "Indexed", "suspend": true,
            "template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}},
        });
        json_patch::merge(&mut all, &spec);
        serde_json::from_value(json!({"metadata": {"name": "sum"}, "spec": all, "status": status}))
            .unwrap()
    }

    fn said(new: Value, old: Value, status: Value) -> Vec<String> {
        let errors = check(&job(new, Value::Null), &job(old, status));
        errors.iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
    }

    #[test]
    fn completions_of_an_indexed_job_go_with_its_parallelism() {
        let tandem = "spec.completions: can only be modified in tandem with spec.parallelism";
        let fixed = "spec.completions: field is immutable";
        for (new, expected) in [
            (json!({"completions": 5, "parallelism": 5}), vec![]),
            (json!({"parallelism": 7}), vec![]),
            (json!({"completions": 5}), vec![tandem]),
            (
                json!({"completions": 5, "parallelism": 5, "completionMode": "NonIndexed"}),
                vec![fixed, "spec.completionMode: field is immutable"],
            ),
        ] {
            assert_eq!(said(new.clone(), json!({}), json!({})), expected, "{new}");
        }
    }

    #[test]
    fn what_a_suspended_job_gets_and_where_it_runs_may_change_while_no_pod_runs() {
        let of_pod = |spec: Value| json!({"template": {"spec": spec}});
        let with = |more: Value| {
            let mut container = json!({"name": "a", "image": "a:1"});
            json_patch::merge(&mut container, &more);
            of_pod(json!({"containers": [container]}))
        };
        let fixed = vec!["spec.template: field is immutable"];
        let resources = with(json!({"resources": {"limits": {"cpu": "2"}}}));
        let started = json!({"startTime": "2026-11-22T10:00:00Z"});
        let mut told = started.clone();
        told["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
        let mut ending = told.clone();
        ending["active"] = json!(1);
        for (new, status, expected) in [
            (resources.clone(), json!({}), vec![]),
            (resources.clone(), told, vec![]),
            (resources.clone(), started, fixed.clone()),
            (resources.clone(), ending, fixed.clone()),
            (
                with(json!({"image": "a:2"})),
                json!({}),
                vec!["spec.template.spec: field is immutable"],
            ),
            (of_pod(json!({"nodeSelector": {"disk": "ssd"}})), json!({}), vec![]),
        ] {
            assert_eq!(said(new.clone(), json!({}), status.clone()), expected, "{new} {status}");
        }
        assert_eq!(said(resources, json!({"suspend": false}), json!({})), fixed);
    }

    #[test]
    fn node_affinity_of_a_suspended_job_comes_changes_and_goes() {
        let affinity = |affinity: Value| json!({"template": {"spec": {"affinity": affinity}}});
        let nodes = |weight: i32| {
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": weight, "preference": {}}]}})
        };
        let mut with_pods = nodes(1);
        with_pods["podAffinity"] = json!({});
        let fixed = vec!["spec.template.spec: field is immutable"];
        for (new, old, expected) in [
            (nodes(1), Value::Null, vec![]),
            (json!({}), Value::Null, vec![]),
            (nodes(2), nodes(1), vec![]),
            (Value::Null, nodes(1), vec![]),
            (Value::Null, with_pods.clone(), fixed.clone()),
            (json!({"podAffinity": {}}), with_pods.clone(), vec![]),
            (with_pods, nodes(1), fixed),
        ] {
            let what = format!("{old} -> {new}");
            assert_eq!(said(affinity(new), affinity(old), json!({})), expected, "{what}");
        }
    }
}
