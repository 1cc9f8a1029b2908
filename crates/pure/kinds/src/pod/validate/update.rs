//! What an update of a Pod may change: images, activeDeadlineSeconds (only shorter), more
//! tolerations, less gates; and while there are gates, where it may run.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Toleration};
use rekindle_types::ObjectJson;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde_json::Value;

use crate::validation::tolerations::tolerations;
use crate::validation::{ListKeys, Path, items, numbers, text};

use super::gated;

const IMMUTABLE: &str = "pod updates may not change fields other than \
                         `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The most changed fields an error names.
const CHANGES_SHOWN_MAX: usize = 16;

/// Everything wrong with the change from `old`.
pub(crate) fn pod_update(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let empty = PodSpec::default();
    let (new, old) = (new.spec.as_ref().unwrap_or(&empty), old.spec.as_ref().unwrap_or(&empty));
    let field = Path::new("spec");
    let mut errors = Vec::new();
    let lists = [
        ("containers", new.containers.as_slice(), old.containers.as_slice()),
        (
            "initContainers",
            items(new.init_containers.as_ref()),
            items(old.init_containers.as_ref()),
        ),
    ];
    for (name, new, old) in lists {
        let field = field.child(name);
        if new.len() != old.len() {
            errors.push(FieldError::forbidden(
                &field,
                "pod updates may not add or remove containers",
            ));
            return errors; // what follows compares container with container
        }
        errors.extend(images(new, &field));
    }
    errors.extend(deadline(new, old, &field.child("activeDeadlineSeconds")));
    errors.extend(only_added(
        items(new.tolerations.as_ref()),
        items(old.tolerations.as_ref()),
        &field.child("tolerations"),
    ));
    errors.extend(new_gates(new, old, &field.child("schedulingGates")));
    if gated::is_gated(old) {
        errors.extend(gated::check(new, old, &field));
    }
    let changed = changes(&with_what_may_change(new, old), old);
    if !changed.is_empty() {
        let shown = changed.join(", ");
        errors.push(FieldError::forbidden(field, format!("{IMMUTABLE}\nchanged: {shown}")));
    }
    errors
}

fn images(containers: &[Container], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let field = field.index(index).child("image");
        let image = text(container.image.as_ref());
        if image.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if image.trim() != image {
            errors.push(FieldError::invalid(
                field,
                image,
                "must not have leading or trailing whitespace",
            ));
        }
    }
    errors
}

fn deadline(new: &PodSpec, old: &PodSpec, field: &Path) -> Option<FieldError> {
    match (new.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), Some(old)) if new > old => {
            Some(FieldError::invalid(field, new, "must be less than or equal to previous value"))
        }
        (Some(new), _) => numbers::in_range(new, 0, i64::from(i32::MAX), field),
        (None, Some(_)) => Some(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("null".to_owned()),
            detail: "must not update from a positive integer to nil value".to_owned(),
        }),
        (None, None) => None,
    }
}

fn only_added(new: &[Toleration], old: &[Toleration], field: &Path) -> Vec<FieldError> {
    let given: ListKeys<_> = new.iter().map(without_seconds).collect();
    if !old.iter().all(|old| given.has(&without_seconds(old))) {
        return vec![FieldError::forbidden(
            field,
            "existing toleration can not be modified except its tolerationSeconds",
        )];
    }
    tolerations(new, field)
}

/// What of a toleration may not change.
fn without_seconds(
    toleration: &Toleration,
) -> (&Option<String>, &Option<String>, &Option<String>, &Option<String>) {
    let Toleration { effect, key, operator, value, toleration_seconds: _ } = toleration;
    (effect, key, operator, value)
}

/// The new spec with everything that may change as it was.
fn with_what_may_change(new: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut spec = new.clone();
    let old_init = items(old.init_containers.as_ref());
    let pairs = spec.containers.iter_mut().zip(&old.containers);
    let init_pairs = spec.init_containers.iter_mut().flatten().zip(old_init);
    for (new, old) in pairs.chain(init_pairs) {
        new.image.clone_from(&old.image);
    }
    spec.active_deadline_seconds = old.active_deadline_seconds;
    spec.tolerations.clone_from(&old.tolerations);
    let was_negative = old.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0);
    if was_negative && new.termination_grace_period_seconds == Some(1) {
        spec.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    // that none comes is a rule of its own
    spec.scheduling_gates.clone_from(&old.scheduling_gates);
    if gated::is_gated(old) {
        gated::keep_nodes(&mut spec, old);
    }
    spec
}

/// A gate may be taken away, none may come.
fn new_gates(new: &PodSpec, old: &PodSpec, field: &Path) -> Vec<FieldError> {
    let old = items(old.scheduling_gates.as_ref());
    let old: ListKeys<&str> = old.iter().map(|gate| gate.name.as_str()).collect();
    let gates = items(new.scheduling_gates.as_ref()).iter().enumerate();
    gates
        .filter(|(_, gate)| !old.has(gate.name.as_str()))
        .map(|(index, gate)| {
            let name = &gate.name;
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            FieldError::forbidden(field.index(index).child("name"), why)
        })
        .collect()
}

/// The paths that differ, deepest first named.
fn changes(new: &PodSpec, old: &PodSpec) -> Vec<String> {
    if new == old {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (new, old) = (new.to_value(), old.to_value());
    compare(Some(&new), Some(&old), &Path::new("spec"), &mut found);
    if found.len() > CHANGES_SHOWN_MAX {
        let more = found.len() - CHANGES_SHOWN_MAX;
        found.truncate(CHANGES_SHOWN_MAX);
        found.push(format!("and {more} more"));
    }
    found
}

fn compare(new: Option<&Value>, old: Option<&Value>, path: &Path, found: &mut Vec<String>) {
    match (new, old) {
        (Some(Value::Object(new)), Some(Value::Object(old))) => {
            let mut names: Vec<&String> = new.keys().chain(old.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                compare(new.get(name), old.get(name), &path.child(name), found);
            }
        }
        (Some(Value::Array(new)), Some(Value::Array(old))) if new.len() == old.len() => {
            for (index, (new, old)) in new.iter().zip(old).enumerate() {
                compare(Some(new), Some(old), &path.index(index), found);
            }
        }
        (new, old) if new != old => found.push(path.to_string()),
        _ => {}
    }
}
