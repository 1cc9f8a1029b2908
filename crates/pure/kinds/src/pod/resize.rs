//! `pods/resize` (KEP-1287, KEP-5419): the one way to change the CPU and the memory of a pod that
//! exists. What else a request changes is dropped, as upstream's strategy does; what it changes of
//! the resources beyond the two is refused.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::pods::AnyContainer;
use rekindle_types::resources::qos_class;
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, items};

const IMMUTABLE: &str = "only cpu and memory resources are mutable";

const IMMUTABLE_POD_LEVEL: &str = "only cpu and memory resources are mutable at pod-level";

const IMMUTABLE_INIT: &str =
    "only cpu and memory resources for init or sidecar containers are mutable";

/// Takes everything but the resources from `old`. Containers that do not match are left for
/// validation to name.
pub(super) fn keep_all_but_resources(new: &mut Pod, old: &Pod) {
    let asked = new.spec.take().unwrap_or_default();
    new.status.clone_from(&old.status);
    new.metadata.labels.clone_from(&old.metadata.labels);
    new.metadata.annotations.clone_from(&old.metadata.annotations);
    new.metadata.owner_references.clone_from(&old.metadata.owner_references);
    new.metadata.finalizers.clone_from(&old.metadata.finalizers);
    let mut spec = old.spec.clone().unwrap_or_default();
    let same_names =
        |a: &[Container], b: &[Container]| a.iter().map(|c| &c.name).eq(b.iter().map(|c| &c.name));
    if !same_names(&asked.containers, &spec.containers)
        || !same_names(items(asked.init_containers.as_ref()), items(spec.init_containers.as_ref()))
    {
        spec.containers = asked.containers;
        spec.init_containers = asked.init_containers;
        spec.resources = asked.resources;
        new.spec = Some(spec);
        return;
    }
    let regular = spec.containers.iter_mut().zip(asked.containers);
    let init = spec.init_containers.iter_mut().flatten();
    for (container, asked) in regular.chain(init.zip(asked.init_containers.unwrap_or_default())) {
        container.resources = asked.resources;
        container.resize_policy = asked.resize_policy;
    }
    spec.resources = asked.resources;
    new.spec = Some(spec);
}

/// Everything wrong with the change from `old`.
pub(super) fn validate(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let refused = |why: &str| vec![FieldError::forbidden("", why)];
    let (empty, field) = (PodSpec::default(), Path::new("spec"));
    let (to, from) = (new.spec.as_ref().unwrap_or(&empty), old.spec.as_ref().unwrap_or(&empty));
    if is_mirror(old) {
        return refused("static pods cannot be resized");
    }
    if from.os.as_ref().is_some_and(|os| os.name == "windows") {
        return refused("windows pods cannot be resized");
    }
    let mut errors = Vec::new();
    let class = old.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let class = class.unwrap_or_else(|| qos_class(from));
    if class != qos_class(to) {
        errors.push(FieldError::invalid(
            &field,
            class,
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
    let (of_pod, was) = (to.resources.as_ref(), from.resources.as_ref());
    errors.extend(removed(of_pod, was, &field.child("resources")));
    if other_resources(of_pod) != other_resources(was) {
        errors.push(FieldError::forbidden(&field, IMMUTABLE_POD_LEVEL));
    }
    let moved = moved_containers(to, from, &field);
    if !moved.is_empty() {
        errors.extend(moved);
        return errors;
    }
    errors.extend(init_containers(to, from, &field.child("initContainers")));
    for (index, (new, old)) in to.containers.iter().zip(&from.containers).enumerate() {
        let field = field.child("containers").index(index);
        let (new, old) = (new.resources.as_ref(), old.resources.as_ref());
        errors.extend(removed(new, old, &field.child("resources")));
    }
    errors.extend(other_changes(to, from, &field));
    errors
}

/// Changes of more than CPU and memory. Upstream names the container only if it is an init one.
fn other_changes(to: &PodSpec, from: &PodSpec, field: &Path) -> Vec<FieldError> {
    let refused = |field: Path, why| FieldError::forbidden(field, why);
    let regular = to.containers.iter().zip(&from.containers);
    let mut errors: Vec<FieldError> = regular
        .filter(|(new, old)| changes_more(new, old))
        .map(|_| refused(field.clone(), IMMUTABLE))
        .collect();
    let init = items(to.init_containers.as_ref()).iter().zip(items(from.init_containers.as_ref()));
    let init =
        init.enumerate().filter(|(_, (new, old))| old.is_sidecar() && changes_more(new, old));
    errors.extend(
        init.map(|(index, _)| refused(field.child("initContainers").index(index), IMMUTABLE_INIT)),
    );
    errors
}

fn changes_more(new: &Container, old: &Container) -> bool {
    new.resize_policy != old.resize_policy
        || other_resources(new.resources.as_ref()) != other_resources(old.resources.as_ref())
}

/// What of the resources cannot change: all but CPU and memory.
fn other_resources(resources: Option<&ResourceRequirements>) -> ResourceRequirements {
    let mut others = resources.cloned().unwrap_or_default();
    for list in [&mut others.limits, &mut others.requests] {
        if let Some(amounts) = list {
            amounts.retain(|name, _| !is_resizable(name));
        }
        *list = list.take().filter(|amounts| !amounts.is_empty());
    }
    others
}

/// Containers stay as many, by the same names, in the same order.
fn moved_containers(to: &PodSpec, from: &PodSpec, field: &Path) -> Vec<FieldError> {
    let lists = [
        ("containers", to.containers.as_slice(), from.containers.as_slice()),
        (
            "initContainers",
            items(to.init_containers.as_ref()),
            items(from.init_containers.as_ref()),
        ),
    ];
    let mut errors = Vec::new();
    for (name, to, from) in lists {
        let field = field.child(name);
        if to.len() != from.len() {
            let detail = format!("{name} may not be added or removed on resize");
            errors.push(FieldError::forbidden(field, detail));
        } else if to.iter().zip(from).any(|(to, from)| to.name != from.name) {
            let detail = format!("{name} may not be renamed or reordered on resize");
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    errors
}

fn init_containers(to: &PodSpec, from: &PodSpec, field: &Path) -> Vec<FieldError> {
    let pairs = items(to.init_containers.as_ref()).iter().zip(items(from.init_containers.as_ref()));
    let mut errors = Vec::new();
    for (index, (new, old)) in pairs.enumerate() {
        let field = field.index(index);
        if old.is_sidecar() {
            let (new, old) = (new.resources.as_ref(), old.resources.as_ref());
            errors.extend(removed(new, old, &field.child("resources")));
        } else if new.resources != old.resources {
            errors.push(FieldError::forbidden(
                field.child("resources"),
                "resources for non-sidecar init containers are immutable",
            ));
        }
    }
    errors
}

/// What was set stays set.
fn removed(
    new: Option<&ResourceRequirements>,
    old: Option<&ResourceRequirements>,
    field: &Path,
) -> Vec<FieldError> {
    let none = ResourceRequirements::default();
    let (new, old) = (new.unwrap_or(&none), old.unwrap_or(&none));
    let mut errors = Vec::new();
    let lists = [("requests", &new.requests, &old.requests), ("limits", &new.limits, &old.limits)];
    for (name, new, old) in lists {
        let keeps = |key: &String| new.as_ref().is_some_and(|list| list.contains_key(key));
        let mut resizable =
            old.iter().flatten().map(|(key, _)| key).filter(|key| is_resizable(key));
        if !resizable.all(keeps) {
            let detail = format!("resource {name} cannot be removed");
            errors.push(FieldError::forbidden(field.child(name), detail));
        }
    }
    errors
}

fn is_resizable(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

#[cfg(test)]
mod tests;
