//! What the disruption budget of a pod says to its eviction.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rekindle_kinds::pod_disruption_budget::deadlock::{BudgetDeadlock, sync_failure};
use rekindle_kinds::registry::KindEntry;
use rekindle_kinds::validation::{selector, text};
use rekindle_store::{PendingWrite, RangeQuery, StoredObject, WritePrecondition};
use rekindle_types::conditions;
use rekindle_types::disruption::{DISRUPTION_ALLOWED, INSUFFICIENT_PODS, lets_unready_go};
use rekindle_types::reasons::DEADLOCKED_BUDGET;

use crate::admission::disruption_budgets::covered;
use crate::call::{ApiCall, ApiWriteFailure, put};
use crate::keys;
use crate::request::options::DryRun;
use crate::status::{ApiError, FieldCause};

/// Evictions that the budget's controller has not seen yet, at most (upstream's
/// `MaxDisruptedPodSize`).
const UNSEEN_MAX: usize = 2000;
/// Seconds after which a client may ask a budget again that its controller has not looked at yet,
/// as upstream.
const PROCESSING_SECONDS: u32 = 10;
/// The reason of the causes in a 429.
const CAUSE: &str = "DisruptionBudget";
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The budget agrees.
pub(super) enum EvictionPermit {
    /// No budget counts this eviction (or it is a dry run).
    Given,
    /// One disruption was taken from it; this is the write.
    Taken(PendingWrite),
}

/// Asks the budget that covers the pod.
pub(super) fn ask(
    call: &ApiCall<'_>,
    pod: &Pod,
    dry_run: DryRun,
) -> Result<EvictionPermit, ApiWriteFailure> {
    let Some(entry) = call.api.registry.find("policy", "v1", "poddisruptionbudgets") else {
        return Ok(EvictionPermit::Given);
    };
    let mut covering = covering(call, entry, pod)?.into_iter();
    let Some((stored, budget)) = covering.next() else { return Ok(EvictionPermit::Given) };
    if covering.next().is_some() {
        return Err(ApiError::failure(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
        .into());
    }
    match decide(&budget, PodHealth::from_pod(pod)) {
        Ok(BudgetConsent::NotCounted) => Ok(EvictionPermit::Given),
        Ok(BudgetConsent::Counted) if dry_run == DryRun::All => Ok(EvictionPermit::Given),
        Ok(BudgetConsent::Counted) => {
            let mut budget = PodDisruptionBudget::clone(&budget);
            take(&mut budget, text(pod.metadata.name.as_ref()), call.request.now.to_time());
            let expect = WritePrecondition::Revision(stored.revision);
            Ok(EvictionPermit::Taken(put(call.api, stored.key.as_str(), expect, Box::new(budget))?))
        }
        Err(refusal) => {
            let deadlock = || BudgetDeadlock::of_budget(&budget, pod, || covered(call, &budget));
            Err(refusal.into_error(text(budget.metadata.name.as_ref()), deadlock).into())
        }
    }
}

/// A budget, and as what it is stored.
type Covering = (Arc<StoredObject>, Arc<PodDisruptionBudget>);

/// The budgets that cover the pod, as they newest are.
fn covering(call: &ApiCall<'_>, entry: &KindEntry, pod: &Pod) -> Result<Vec<Covering>, ApiError> {
    let prefix = keys::collection(entry, &call.path.namespace);
    let range = call.api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?;
    let mut covering = Vec::new();
    for visible in range.objects {
        let Some(stored) = call.api.store.newest(visible.key.as_str()) else { continue };
        let budget = call.api.read_as::<PodDisruptionBudget>(entry, &stored)?;
        if let Some(budget) = budget.filter(|budget| covers(budget, pod)) {
            covering.push((stored, budget));
        }
    }
    Ok(covering)
}

/// An absent selector covers nothing, an empty one every pod of the namespace.
fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| selector::matches(selector, pod.metadata.labels.as_ref()))
}

/// Whether a pod counts among those that a budget wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodHealth {
    Ready,
    NotReady,
}

impl PodHealth {
    fn from_pod(pod: &Pod) -> Self {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
        if is_ready { Self::Ready } else { Self::NotReady }
    }
}

/// A budget that agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetConsent {
    /// One disruption less is left.
    Counted,
    /// The pod is not among those that are counted.
    NotCounted,
}

/// A budget that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BudgetRefusal {
    /// Its controller has not looked at it since it changed.
    Processing,
    /// Its status makes no sense.
    Broken(&'static str),
    /// No disruption is left. Carries the words of the cause.
    Exhausted(String),
}

fn decide(budget: &PodDisruptionBudget, health: PodHealth) -> Result<BudgetConsent, BudgetRefusal> {
    if health == PodHealth::NotReady && lets_unready_go(budget) {
        return Ok(BudgetConsent::NotCounted);
    }
    let none = PodDisruptionBudgetStatus::default();
    let status = budget.status.as_ref().unwrap_or(&none);
    let name = text(budget.metadata.name.as_ref());
    if status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0) {
        // One that could not be calculated is not being processed any more.
        return Err(sync_failure(budget).map_or(BudgetRefusal::Processing, |why| {
            BudgetRefusal::Exhausted(failed_sync(name, why))
        }));
    }
    if status.disrupted_pods.as_ref().is_some_and(|pods| pods.len() > UNSEEN_MAX) {
        return Err(BudgetRefusal::Broken(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    match status.disruptions_allowed.unwrap_or(0) {
        ..0 => Err(BudgetRefusal::Broken("pdb disruptions allowed is negative")),
        0 => Err(BudgetRefusal::Exhausted(match sync_failure(budget) {
            // The counts of a budget that could not be calculated mean nothing.
            Some(why) => failed_sync(name, why),
            None => why_exhausted(name, status),
        })),
        1.. => Ok(BudgetConsent::Counted),
    }
}

/// In upstream's words.
fn why_exhausted(name: &str, status: &PodDisruptionBudgetStatus) -> String {
    let conditions = status.conditions.iter().flatten();
    let said = conditions
        .into_iter()
        .find(|c| c.type_ == DISRUPTION_ALLOWED && c.status == "False" && !c.message.is_empty());
    let (current, desired) =
        (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    match said {
        _ if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        Some(condition) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            condition.reason, condition.message
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn failed_sync(name: &str, why: &str) -> String {
    format!(
        "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
    )
}

/// With the cause: kubectl shows the message alone, and upstream's names no budget.
fn refused(cause: &str) -> String {
    format!("{REFUSED} {cause}")
}

impl BudgetRefusal {
    fn into_error(self, name: &str, deadlock: impl FnOnce() -> Option<BudgetDeadlock>) -> ApiError {
        let of_reason = |reason: &str, message: String| FieldCause {
            reason: reason.to_owned(),
            message,
            field: String::new(),
        };
        let cause = |message: String| of_reason(CAUSE, message);
        match self {
            Self::Processing => {
                let why =
                    format!("The disruption budget {name} is still being processed by the server.");
                ApiError::too_many_requests(refused(&why), PROCESSING_SECONDS)
                    .with_cause(cause(why))
            }
            Self::Broken(why) => {
                let message = format!("poddisruptionbudget.policy {name:?} is forbidden: {why}");
                ApiError::not_allowed("policy", "poddisruptionbudget", name, message)
            }
            Self::Exhausted(why) => {
                let error = ApiError::refused_for_now(refused(&why)).with_cause(cause(why));
                match deadlock() {
                    None => error,
                    Some(deadlock) => error
                        .with_cause(of_reason(DEADLOCKED_BUDGET, deadlock.warning(name)))
                        .with_warnings(vec![deadlock.warning(name)]),
                }
            }
        }
    }
}

/// Takes one disruption. The controller does not count the pod as healthy from now on, although it
/// has not seen it go.
fn take(budget: &mut PodDisruptionBudget, pod: &str, now: Time) {
    let status = budget.status.get_or_insert_default();
    let left = status.disruptions_allowed.unwrap_or(0) - 1;
    status.disruptions_allowed = Some(left);
    status.disrupted_pods.get_or_insert_default().insert(pod.to_owned(), now.clone());
    if left > 0 {
        return;
    }
    let condition = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: "False".to_owned(),
        reason: INSUFFICIENT_PODS.to_owned(),
        message: String::new(),
        last_transition_time: now,
        observed_generation: status.observed_generation,
    };
    conditions::set(status.conditions.get_or_insert_default(), condition);
}

#[cfg(test)]
mod tests;
