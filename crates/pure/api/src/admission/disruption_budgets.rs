//! Tells who writes a disruption budget that it lets none of the pods that are there be evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_kinds::pod_disruption_budget::deadlock::{BudgetDeadlock, CoveredPods};
use rekindle_kinds::registry::{AnyObject, KindEntry, Subresource};
use rekindle_kinds::validation::{selector, text};
use rekindle_types::disruption::UncountablePods;
use rekindle_types::owners::controller_of;

use super::{ObjectWrite, namespace_pods};
use crate::call::ApiCall;
use crate::keys;
use crate::selectors::labels_of;
use crate::status::ApiError;

/// The warning about the pods that the budget covers now. What its spec says whatever the pods, the
/// kind says itself.
pub(super) fn warnings(write: &ObjectWrite<'_>) -> Result<Vec<String>, ApiError> {
    let budget = write.new.as_any().downcast_ref::<PodDisruptionBudget>();
    Ok(budget.and_then(|budget| warning(write.call, budget)).into_iter().collect())
}

fn warning(call: &ApiCall<'_>, budget: &PodDisruptionBudget) -> Option<String> {
    let spec = budget.spec.as_ref()?;
    if BudgetDeadlock::of_spec(spec).is_some() {
        return None;
    }
    let deadlock = BudgetDeadlock::with_pods(spec, &covered(call, budget)?)?;
    Some(deadlock.warning(text(budget.metadata.name.as_ref())))
}

/// The pods that the budget covers now, as their controllers want them; none when the namespace has
/// too many.
pub(crate) fn covered(call: &ApiCall<'_>, budget: &PodDisruptionBudget) -> Option<CoveredPods> {
    let selector = budget.spec.as_ref()?.selector.as_ref()?;
    let (pods, listed) = namespace_pods::listed(call)?;
    let mut covered = CoveredPods::default();
    let mut scales: BTreeMap<String, WorkloadScale> = BTreeMap::new();
    let mut counted = BTreeSet::new();
    for stored in &listed {
        if !selector::matches(selector, Some(&labels_of(&stored.value))) {
            continue;
        }
        let pod = call.api.read_as::<Pod>(pods, stored).ok()??;
        let Some(controller) = controller_of(&pod.metadata) else {
            covered.unmanaged += 1;
            continue;
        };
        let scale =
            scales.entry(controller.uid.clone()).or_insert_with(|| scale_of(call, controller));
        match scale {
            WorkloadScale::Of { workload, replicas } => {
                if counted.insert(workload.clone()) {
                    covered.wanted = covered.wanted.saturating_add(*replicas);
                }
            }
            WorkloadScale::Gone => covered.uncounted += 1,
            WorkloadScale::None(why) => {
                covered.uncounted += 1;
                covered.uncountable.get_or_insert_with(|| why.clone());
            }
        }
    }
    Some(covered)
}

/// How many pods a controller wants.
#[derive(Clone, Debug)]
enum WorkloadScale {
    /// So many, of the workload of this UID.
    Of { workload: String, replicas: i32 },
    /// It is gone: its pods follow.
    Gone,
    /// It has no such number.
    None(UncountablePods),
}

/// The number of the workload at the top: that of a ReplicaSet's Deployment before its own, as the
/// disruption controller counts.
fn scale_of(call: &ApiCall<'_>, controller: &OwnerReference) -> WorkloadScale {
    let OwnerReference { api_version, kind, .. } = controller;
    let Some(entry) = kind_of(call, controller) else {
        let (kind, api_version) = (kind.clone(), api_version.clone());
        return WorkloadScale::None(UncountablePods::UnknownKind { kind, api_version });
    };
    if !entry.subresources.contains(&Subresource::Scale) {
        return WorkloadScale::None(UncountablePods::NoScale { resource: entry.resource() });
    }
    let Some(mut workload) = stored(call, entry, controller) else { return WorkloadScale::Gone };
    if let Some(above) = controller_of(workload.meta()).cloned()
        && let Some(entry) = kind_of(call, &above)
        && entry.subresources.contains(&Subresource::Scale)
        && let Some(found) = stored(call, entry, &above)
    {
        workload = found;
    }
    let replicas = workload.to_value()["spec"]["replicas"].as_i64().unwrap_or(1);
    WorkloadScale::Of {
        workload: workload.meta().uid.clone().unwrap_or_default(),
        replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
    }
}

fn kind_of<'a>(call: &'a ApiCall<'_>, owner: &OwnerReference) -> Option<&'a Arc<KindEntry>> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let entry = call.api.registry.find_kind(group, &owner.kind);
    entry.filter(|entry| entry.api_version == owner.api_version)
}

/// The owner, unless another object has its name by now.
fn stored(
    call: &ApiCall<'_>,
    entry: &KindEntry,
    owner: &OwnerReference,
) -> Option<Arc<dyn AnyObject>> {
    let key = keys::object(entry, &call.path.namespace, &owner.name);
    let object = call.api.read(entry, &*call.api.store.get(&key)?).ok()?;
    (object.meta().uid.as_ref() == Some(&owner.uid)).then_some(object)
}
