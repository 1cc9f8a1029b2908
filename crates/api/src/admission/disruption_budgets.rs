//! Tells who writes a disruption budget that it lets none of the pods that are there be evicted.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rekindle_store::RangeQuery;

use crate::call::Call;
use crate::keys;
use crate::kinds::pod_disruption_budget::deadlock::Deadlock;
use crate::registry::AnyObject;
use crate::selectors::labels_of;
use crate::validation::{selector, text};

/// In a namespace with more pods nobody counts them for a warning.
const PODS_MAX: usize = 5000;

/// The warning about the pods that the budget covers now. What its spec says whatever the pods, the kind says itself.
pub(crate) fn warning(call: &Call<'_>, object: &dyn AnyObject) -> Option<String> {
    let budget = object.as_any().downcast_ref::<PodDisruptionBudget>()?;
    let spec = budget.spec.as_ref()?;
    let selector = spec.selector.as_ref()?;
    if Deadlock::of_spec(spec).is_some() {
        return None;
    }
    let pods = call.api.registry.find("", "v1", "pods")?;
    let query = RangeQuery {
        prefix: keys::collection(pods, &call.path.namespace),
        limit: Some(PODS_MAX),
        ..RangeQuery::default()
    };
    let range = call.api.store.range(&query).ok().filter(|range| range.remaining == 0)?;
    let covered = range
        .objects
        .iter()
        .filter(|pod| selector::matches(selector, Some(&labels_of(&pod.value))));
    let covered = i32::try_from(covered.count()).ok()?;
    let deadlock = Deadlock::with_pods(spec, covered)?;
    Some(deadlock.warning(text(budget.metadata.name.as_ref())))
}
