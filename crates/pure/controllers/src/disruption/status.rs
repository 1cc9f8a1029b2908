//! A budget's status and its condition.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rekindle_types::disruption::{
    DISRUPTION_ALLOWED, INSUFFICIENT_PODS, SUFFICIENT_PODS, SYNC_FAILED,
};
use rekindle_types::{Tick, conditions};

use super::disrupted::BudgetPods;
use super::expected::BudgetTarget;

/// What the condition says.
#[derive(Clone, Copy)]
enum DisruptionCondition<'a> {
    SufficientPods,
    InsufficientPods,
    SyncFailed(&'a str),
}

/// The status as the pods are.
pub(super) fn calculated(
    budget: &PodDisruptionBudget,
    counts: &BudgetTarget,
    disrupted: BudgetPods<'_>,
    now: Tick,
) -> PodDisruptionBudgetStatus {
    let BudgetTarget { expected, desired, .. } = *counts;
    let left = disrupted.healthy.saturating_sub(desired).max(0);
    // While no pods are known a budget allows nothing: it may not have seen its first ones.
    let allowed = if expected <= 0 { 0 } else { left };
    let verdict = if allowed > 0 {
        DisruptionCondition::SufficientPods
    } else {
        DisruptionCondition::InsufficientPods
    };
    let observed_generation = budget.metadata.generation;
    PodDisruptionBudgetStatus {
        conditions: conditions(budget, verdict, observed_generation, now),
        current_healthy: Some(disrupted.healthy),
        desired_healthy: Some(desired),
        disrupted_pods: Some(disrupted.waiting).filter(|waiting| !waiting.is_empty()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation,
    }
}

/// The status when nobody can say how many pods there should be: nothing is allowed, and the rest
/// stays as it was.
pub(super) fn failed(
    budget: &PodDisruptionBudget,
    problem: &str,
    now: Tick,
) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    let verdict = DisruptionCondition::SyncFailed(problem);
    status.conditions = conditions(budget, verdict, status.observed_generation, now);
    status
}

/// True when there is nothing to write. A count that is absent is 0, an empty map an absent one.
pub(super) fn is_same(
    known: Option<&PodDisruptionBudgetStatus>,
    new: &PodDisruptionBudgetStatus,
) -> bool {
    let Some(known) = known else { return false };
    let normal = |status: &PodDisruptionBudgetStatus| {
        let mut status = status.clone();
        for count in [
            &mut status.current_healthy,
            &mut status.desired_healthy,
            &mut status.disruptions_allowed,
            &mut status.expected_pods,
        ] {
            count.get_or_insert(0);
        }
        status.disrupted_pods.take_if(|pods| pods.is_empty());
        status
    };
    normal(known) == normal(new)
}

fn conditions(
    budget: &PodDisruptionBudget,
    verdict: DisruptionCondition<'_>,
    observed_generation: Option<i64>,
    now: Tick,
) -> Option<Vec<Condition>> {
    let known = budget.status.as_ref().and_then(|status| status.conditions.clone());
    let mut known = known.unwrap_or_default();
    let (status, reason, message) = match verdict {
        DisruptionCondition::SufficientPods => ("True", SUFFICIENT_PODS, ""),
        DisruptionCondition::InsufficientPods => ("False", INSUFFICIENT_PODS, ""),
        DisruptionCondition::SyncFailed(problem) => ("False", SYNC_FAILED, problem),
    };
    let condition = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now.to_time(),
        observed_generation,
    };
    conditions::set(&mut known, condition);
    Some(known)
}
