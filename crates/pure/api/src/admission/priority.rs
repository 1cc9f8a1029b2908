//! Priorities: a new pod takes over what its PriorityClass says, one class at most is the default,
//! and every cluster has two.
//!
//! Source: Kubernetes documentation, "Pod Priority and Preemption"; admission plugin Priority.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::priority_class::{PREEMPTION_POLICY, SYSTEM_CLASSES};
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::text;
use rekindle_store::{PendingWrite, RangeQuery, StoreError};
use rekindle_types::Tick;

use super::{ObjectWrite, namespaces};
use crate::call::ApiCall;
use crate::keys;
use crate::shared::ApiShared;
use crate::status::ApiError;

const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";

/// What a pod without a class gets where no class is the default.
const PRIORITY_DEFAULT: i32 = 0;

/// The kind, where it is served.
fn entry(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", PLURAL)
}

fn is_class(entry: &KindEntry) -> bool {
    entry.group == GROUP && entry.kind == "PriorityClass"
}

/// Refuses to delete the two classes that stay.
pub(super) fn check_delete(entry: &KindEntry, name: &str) -> Result<(), ApiError> {
    if is_class(entry) && SYSTEM_CLASSES.iter().any(|class| class.name == name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(ApiError::forbidden(entry, name, why));
    }
    Ok(())
}

/// Makes the system's classes, as far as they are missing.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(entry) = entry(api) else { return Ok(Vec::new()) };
    let mut pending = Vec::new();
    for class in SYSTEM_CLASSES {
        let object = PriorityClass {
            metadata: ObjectMeta { name: Some(class.name.to_owned()), ..ObjectMeta::default() },
            value: Some(class.value),
            description: Some(class.description.to_owned()),
            ..PriorityClass::default()
        };
        pending.extend(namespaces::make_of(api, entry, "", Box::new(object), now)?);
    }
    Ok(pending)
}

/// Gives a pod that is being created its priority and preemption policy. What it says of them
/// itself must be the same.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    if !call.entry.group.is_empty() || call.entry.kind != "Pod" {
        return Ok(());
    }
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    let name = pod.metadata.name.clone().unwrap_or_default();
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    resolve(call, &name, spec)?
        .apply(spec)
        .map_err(|why| ApiError::forbidden(call.entry, &name, &why))
}

/// What a class gives to its pods.
struct PriorityGrant {
    class: Option<String>,
    priority: i32,
    preemption_policy: Option<String>,
}

impl PriorityGrant {
    fn by(class: &PriorityClass) -> Self {
        Self {
            class: class.metadata.name.clone(),
            priority: class.value.unwrap_or_default(),
            preemption_policy: class.preemption_policy.clone(),
        }
    }

    /// Fills the spec, or says what contradicts it there.
    fn apply(self, spec: &mut PodSpec) -> Result<(), String> {
        let priority = self.priority;
        if let Some(given) = spec.priority.filter(|given| *given != priority) {
            return Err(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
                 computed {priority} from the given PriorityClass name"
            ));
        }
        if let Some(policy) = self.preemption_policy {
            let given = spec.preemption_policy.as_ref().filter(|given| **given != policy);
            if let Some(given) = given {
                return Err(format!(
                    "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
                     controller computed {policy} from the given PriorityClass name"
                ));
            }
            spec.preemption_policy = Some(policy);
        }
        spec.priority = Some(priority);
        spec.priority_class_name = self.class;
        Ok(())
    }
}

/// The class that the spec names, or else the default one, or else priority 0.
fn resolve(call: &ApiCall<'_>, pod: &str, spec: &PodSpec) -> Result<PriorityGrant, ApiError> {
    let named = text(spec.priority_class_name.as_ref());
    if named.is_empty() {
        let default = default_class(call.api)?;
        return Ok(default.as_deref().map_or_else(
            || PriorityGrant {
                class: None,
                priority: PRIORITY_DEFAULT,
                preemption_policy: Some(PREEMPTION_POLICY.to_owned()),
            },
            PriorityGrant::by,
        ));
    }
    let found = entry(call.api).and_then(|entry| {
        let stored = call.api.store.newest(&keys::object(entry, "", named))?;
        Some(call.api.read_as::<PriorityClass>(entry, &stored))
    });
    match found.transpose()?.flatten() {
        Some(class) => Ok(PriorityGrant::by(&class)),
        None => {
            let why = format!("no PriorityClass with name {named} was found");
            Err(ApiError::forbidden(call.entry, pod, &why))
        }
    }
}

/// Refuses a second default class. Source: admission plugin Priority.
pub(super) fn check_default(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    if !is_class(call.entry) {
        return Ok(());
    }
    let Some(class) = object.as_any().downcast_ref::<PriorityClass>() else { return Ok(()) };
    if class.global_default != Some(true) {
        return Ok(());
    }
    let name = text(class.metadata.name.as_ref());
    match default_class(call.api)?.and_then(|default| default.metadata.name.clone()) {
        Some(default) if default != name => {
            let why = format!(
                "PriorityClass {default} is already marked as default. Only one default can exist"
            );
            Err(ApiError::forbidden(call.entry, name, &why))
        }
        Some(_) | None => Ok(()),
    }
}

/// The class of pods that name none.
fn default_class(api: &ApiShared) -> Result<Option<Arc<PriorityClass>>, ApiError> {
    let Some(entry) = entry(api) else { return Ok(None) };
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    for stored in api.store.range(&query)?.objects {
        let class = api.read_as::<PriorityClass>(entry, &stored)?;
        let class = class.filter(|class| class.global_default == Some(true));
        if class.is_some() {
            return Ok(class);
        }
    }
    Ok(None)
}
