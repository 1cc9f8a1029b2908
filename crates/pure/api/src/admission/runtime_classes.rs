//! What a pod takes over from its RuntimeClass: the overhead, a node selector, tolerations. There
//! is one runtime: a pod of a class with another handler is not bound to a node.
//!
//! Source: admission plugin RuntimeClass. It looks at pods that are created, not at templates.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use k8s_openapi::api::node::v1::RuntimeClass;

use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::runtime_class::HANDLER;
use rekindle_kinds::validation::text;
use rekindle_types::taints;

use super::ObjectWrite;
use crate::call::ApiCall;
use crate::keys;
use crate::status::ApiError;

/// The class of this name, if there is one.
fn class(call: &ApiCall<'_>, name: &str) -> Result<Option<Arc<RuntimeClass>>, ApiError> {
    let Some(entry) = call.api.registry.find("node.k8s.io", "v1", "runtimeclasses") else {
        return Ok(None);
    };
    let Some(stored) = call.api.store.newest(&keys::object(entry, "", name)) else {
        return Ok(None);
    };
    call.api.read_as::<RuntimeClass>(entry, &stored)
}

fn refusal(call: &ApiCall<'_>, pod: &str, why: &str) -> ApiError {
    ApiError::forbidden(call.entry, pod, why)
}

/// Gives a new pod what its class says, and refuses one that contradicts it.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    let name = text(pod.metadata.name.as_ref()).to_owned();
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    let Some(wanted) = spec.runtime_class_name.clone() else { return Ok(()) };
    let Some(class) = class(call, &wanted)? else {
        let why = format!("pod rejected: RuntimeClass {wanted:?} not found");
        return Err(refusal(call, &name, &why));
    };
    let overhead = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.clone());
    if let Some(overhead) = overhead {
        match &spec.overhead {
            Some(own) if *own != overhead => {
                let why =
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
                return Err(refusal(call, &name, why));
            }
            Some(_) | None => spec.overhead = Some(overhead),
        }
    }
    take_scheduling(spec, &class).map_err(|why| refusal(call, &name, &why))
}

/// The nodes that have the runtime, and what it takes to run there.
fn take_scheduling(spec: &mut PodSpec, class: &RuntimeClass) -> Result<(), String> {
    let Some(scheduling) = &class.scheduling else { return Ok(()) };
    for (key, value) in scheduling.node_selector.iter().flatten() {
        let selector = spec.node_selector.get_or_insert_default();
        match selector.get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                ));
            }
            Some(_) => {}
            None => {
                selector.insert(key.clone(), value.clone());
            }
        }
    }
    let mut all = spec.tolerations.take().unwrap_or_default();
    all.extend(scheduling.tolerations.iter().flatten().cloned());
    if all.len() > TOLERATIONS_MAX {
        return Err(format!(
            "pod rejected: it has {} tolerations with those of its RuntimeClass, and may have {TOLERATIONS_MAX}",
            all.len()
        ));
    }
    spec.tolerations = Some(widest(all)).filter(|tolerations| !tolerations.is_empty());
    Ok(())
}

/// The most tolerations of a pod with those of its class: each is compared with each.
const TOLERATIONS_MAX: usize = 1_000;

/// Tolerations without those that another one covers.
fn widest(all: Vec<Toleration>) -> Vec<Toleration> {
    let mut kept: Vec<Toleration> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_covered_before = kept.iter().any(|other| covers(other, toleration));
        let later = &all[index + 1..];
        let is_covered_later =
            later.iter().any(|other| other != toleration && covers(other, toleration));
        if !is_covered_before && !is_covered_later {
            kept.push(toleration.clone());
        }
    }
    kept
}

/// Whether one toleration tolerates all that the other one does.
fn covers(wide: &Toleration, narrow: &Toleration) -> bool {
    if wide == narrow {
        return true;
    }
    let exists = text(wide.operator.as_ref()) == "Exists";
    let is_of_key = wide.key == narrow.key || (text(wide.key.as_ref()).is_empty() && exists);
    let effect = text(narrow.effect.as_ref());
    let is_of_effect = ["", effect].contains(&text(wide.effect.as_ref()));
    let lasts = effect != taints::NO_EXECUTE
        || wide
            .toleration_seconds
            .is_none_or(|most| narrow.toleration_seconds.is_some_and(|seconds| seconds <= most));
    let is_equal = text(narrow.operator.as_ref()) == "Equal" && narrow.value == wide.value;
    let is_of_value = match text(wide.operator.as_ref()) {
        "Exists" => true,
        "Equal" | "" => is_equal,
        _ => false,
    };
    is_of_key && is_of_effect && lasts && is_of_value
}

/// Refuses a new pod with an overhead that no class says, and one that names its node where the
/// node lacks the handler.
pub(super) fn check_create(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    let Some(pod) = object.as_any().downcast_ref::<Pod>() else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    let name = text(pod.metadata.name.as_ref());
    let has_overhead = spec.overhead.as_ref().is_some_and(|overhead| !overhead.is_empty());
    if has_overhead && spec.runtime_class_name.is_none() {
        let why =
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(refusal(call, name, why));
    }
    if text(spec.node_name.as_ref()).is_empty() {
        return Ok(());
    }
    check_handler(call, name, spec)
}

/// Refuses to bind a pod of a runtime that no node has.
pub(crate) fn check_binding(call: &ApiCall<'_>, pod: &Pod) -> Result<(), ApiError> {
    let name = text(pod.metadata.name.as_ref());
    pod.spec.as_ref().map_or(Ok(()), |spec| check_handler(call, name, spec))
}

fn check_handler(call: &ApiCall<'_>, name: &str, spec: &PodSpec) -> Result<(), ApiError> {
    let Some(wanted) = &spec.runtime_class_name else { return Ok(()) };
    let handler = class(call, wanted)?.map(|class| class.handler.clone());
    if handler.as_deref() == Some(HANDLER) {
        return Ok(());
    }
    let why = match handler {
        Some(handler) => {
            format!("no node has the handler {handler:?} of the RuntimeClass {wanted:?}")
        }
        None => format!("pod rejected: RuntimeClass {wanted:?} not found"),
    };
    Err(refusal(call, name, &why))
}
