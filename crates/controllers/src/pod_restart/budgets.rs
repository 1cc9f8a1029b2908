//! Whether the disruption budgets of a pod would let it go, as far as they say so themselves: what an eviction would be answered, without
//! asking. Source: "API-initiated Eviction" of the Kubernetes documentation, and upstream's `EvictionREST`.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use rekindle_types::held::Pod;

use crate::{Kind, Object, View, pods};

/// `spec.unhealthyPodEvictionPolicy` of a budget that lets every pod go that is not ready.
const ALWAYS_ALLOW: &str = "AlwaysAllow";

/// True when no budget stands in the way of an eviction now.
pub(super) fn let_go(view: &View, pod: &Pod) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.as_ref();
    let mut covering = view.covering(Kind::PodDisruptionBudget, namespace, labels);
    match (covering.next(), covering.next()) {
        (None, _) => true,
        (Some(Object::PodDisruptionBudget(budget)), None) => lets_go(budget, pod),
        // the API refuses what two budgets cover
        (Some(_), _) => false,
    }
}

fn lets_go(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let none = PodDisruptionBudgetStatus::default();
    let status = budget.status.as_ref().unwrap_or(&none);
    let (current, desired) =
        (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    let policy = budget.spec.as_ref().and_then(|s| s.unhealthy_pod_eviction_policy.as_deref());
    let is_undisrupted = current >= desired && desired > 0;
    if !pods::is_ready(pod) && (policy == Some(ALWAYS_ALLOW) || is_undisrupted) {
        return true;
    }
    // of an older generation it says nothing about the budget as it is
    let is_current =
        status.observed_generation.unwrap_or(0) >= budget.metadata.generation.unwrap_or(0);
    is_current && status.disruptions_allowed.unwrap_or(0) > 0
}
