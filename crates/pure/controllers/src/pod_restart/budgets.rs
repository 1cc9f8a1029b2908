//! Whether the disruption budgets of a pod would let it go, as far as they say so themselves: what
//! an eviction would be answered, without asking. Source: "API-initiated Eviction" of the
//! Kubernetes documentation, and upstream's `EvictionREST`.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rekindle_types::disruption::lets_unready_go;
use rekindle_types::held::HeldPod;

use crate::{ClusterView, ResourceKind, ViewObject, pods};

/// True when no budget stands in the way of an eviction now.
pub(super) fn let_go(view: &ClusterView, pod: &HeldPod) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.as_ref();
    let mut covering = view.covering(ResourceKind::PodDisruptionBudget, namespace, labels);
    match (covering.next(), covering.next()) {
        (None, _) => true,
        (Some(ViewObject::PodDisruptionBudget(budget)), None) => lets_go(budget, pod),
        // the API refuses what two budgets cover
        (Some(_), _) => false,
    }
}

fn lets_go(budget: &PodDisruptionBudget, pod: &HeldPod) -> bool {
    if !pods::is_ready(pod) && lets_unready_go(budget) {
        return true;
    }
    let Some(status) = &budget.status else { return false };
    // of an older generation it says nothing about the budget as it is
    let is_current =
        status.observed_generation.unwrap_or(0) >= budget.metadata.generation.unwrap_or(0);
    is_current && status.disruptions_allowed.unwrap_or(0) > 0
}
