//! Ephemeral containers: what one may have, and that those that are there stay as they are.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, ResourceRequirements};
use rekindle_types::ephemeral::as_container;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::validation::field_error::FieldError;

use super::checked_pod::CheckedPod;
use super::container;
use crate::validation::{ListKeys, Path, items, text};

const NOT_HERE: &str = "cannot be set for an Ephemeral Container";

/// Checks the list of a pod.
pub(super) fn all(pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let spec = pod.spec;
    let mut errors = Vec::new();
    let lasting = || spec.containers.iter().chain(items(spec.init_containers.as_ref()));
    let others: ListKeys<&str> = lasting().map(|container| container.name.as_str()).collect();
    let mut names = others.clone();
    for (index, ephemeral) in items(spec.ephemeral_containers.as_ref()).iter().enumerate() {
        let field = field.index(index);
        let converted = as_container(ephemeral);
        errors.extend(container::common(&converted, pod, &field));
        if !ephemeral.name.is_empty() && names.add(&ephemeral.name).is_some() {
            errors.push(FieldError::duplicate(field.child("name"), &ephemeral.name));
        }
        let target = text(ephemeral.target_container_name.as_ref());
        if !target.is_empty() && !others.has(target) {
            errors.push(FieldError::not_found(field.child("targetContainerName"), target));
        }
        errors.extend(only_what_is_allowed(&converted, &field));
    }
    errors
}

/// No pod should rely on one, so nothing that others could rely on.
fn only_what_is_allowed(container: &Container, field: &Path) -> Vec<FieldError> {
    let resources = container.resources.as_ref();
    let set = [
        ("ports", !items(container.ports.as_ref()).is_empty()),
        ("resources", resources.is_some_and(|given| *given != ResourceRequirements::default())),
        ("resizePolicy", !items(container.resize_policy.as_ref()).is_empty()),
        ("restartPolicy", container.restart_policy.is_some()),
        ("restartPolicyRules", !items(container.restart_policy_rules.as_ref()).is_empty()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
    ];
    let set = set.into_iter().filter(|(_, set)| *set);
    let mut errors: Vec<FieldError> =
        set.map(|(name, _)| FieldError::forbidden(field.child(name), NOT_HERE)).collect();
    for (index, mount) in items(container.volume_mounts.as_ref()).iter().enumerate() {
        let field = field.child("volumeMounts").index(index);
        for (name, path) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
            if !text(path.as_ref()).is_empty() {
                errors.push(FieldError::forbidden(field.child(name), NOT_HERE));
            }
        }
    }
    errors
}

/// They may be added, and neither changed nor removed. In whatever order: a patch keeps none.
pub(crate) fn update(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let list = |pod: &'_ Pod| -> Vec<EphemeralContainer> {
        let spec = pod.spec.as_ref();
        spec.and_then(|spec| spec.ephemeral_containers.clone()).unwrap_or_default()
    };
    let field = Path::new("spec").child("ephemeralContainers");
    if is_mirror(old) {
        let why = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden(Path::new(""), why)];
    }
    let mut errors = Vec::new();
    let new = list(new);
    let last: ListKeys<&str> = new.iter().rev().map(|new| new.name.as_str()).collect();
    for old in list(old) {
        let place = last.place(old.name.as_str());
        let problem = match place.and_then(|place| new.iter().rev().nth(place)) {
            None => "removed",
            Some(new) if *new != old => "changed",
            Some(_) => continue,
        };
        let name = &old.name;
        errors.push(FieldError::forbidden(
            &field,
            format!("existing ephemeral containers {name:?} may not be {problem}"),
        ));
    }
    errors
}
