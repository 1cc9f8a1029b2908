//! A budget holds a restart back, and lets it go on.

use super::{attempt, clock, object};
use crate::LadderPolicy;
use crate::budget::{BucketScope, BudgetState};
use crate::explanation::{DecisionText, Phrase};
use crate::policy::RungPolicy;

/// A budget holds a restart back that is due.
pub(crate) fn held(
    policy: &LadderPolicy,
    step: &RungPolicy,
    room: BudgetState,
    due: DecisionText,
) -> DecisionText {
    let ladder = &policy.name;
    let (budget, until) = match room {
        BudgetState::Free => return due,
        BudgetState::Concurrent { limit, .. } => (
            Phrase::new(
                format!("maxConcurrent {limit} of ladder {ladder:?}"),
                format!("maxConcurrent {limit}"),
            ),
            None,
        ),
        BudgetState::Workload { limit, .. } => (
            Phrase::new(
                format!("the limit of {limit} pods of a workload at once"),
                format!("{limit} of workload at once"),
            ),
            None,
        ),
        BudgetState::Bucket { scope, bucket, free_at } => {
            let owner = match scope {
                BucketScope::Namespace => "namespace",
                BucketScope::Cluster => "cluster",
            };
            let (burst, per_minute) = (bucket.burst(), bucket.per_minute());
            let limit = format!(
                "the limit of the {owner}, {burst} restarts at once and {per_minute} a minute"
            );
            (Phrase::new(limit, format!("{owner} limit")), Some(free_at))
        }
        BudgetState::Rate { limit, free_at } => (
            Phrase::new(
                format!("perMinute {limit} of ladder {ladder:?}"),
                format!("perMinute {limit}"),
            ),
            Some(free_at),
        ),
    };
    let rung = object(step.rung);
    let brief = &budget.brief;
    due.delayed(&match until.map(clock) {
        Some(until) => Phrase::new(
            format!("waiting until {until}: restart budget is full ({budget})"),
            format!("{rung} at {} ({brief})", until.brief),
        ),
        None => Phrase::new(
            format!(
                "waiting: restart budget is full ({budget}), another pod's restart must end first"
            ),
            format!("{rung} waits ({brief})"),
        ),
    })
}

/// A budget held a restart back, and there is room now.
pub(crate) fn held_restart(step: &RungPolicy, number: u32) -> DecisionText {
    let why = "there is room in the restart budget";
    let attempt = attempt(step, number);
    DecisionText::new(format!("{why}: {attempt}"), "budget has room", &attempt.brief)
}

/// What ended together with most pods of its node was given time, and does not run again.
pub(crate) fn after_outage(step: &RungPolicy, number: u32) -> DecisionText {
    let attempt = attempt(step, number);
    let message = format!("it does not run again as its node's other pods do: {attempt}");
    DecisionText::new(message, "not up again with its node", &attempt.brief)
}

/// A budget lets a request that was held back not go on yet. The PodRestart says this itself.
pub(crate) fn waits_for_room(room: BudgetState) -> String {
    let which = match room {
        BudgetState::Free => return "it goes on".to_owned(),
        BudgetState::Concurrent { limit, .. } => format!("maxConcurrent {limit} of the ladder"),
        BudgetState::Rate { limit, .. } => format!("perMinute {limit} of the ladder"),
        BudgetState::Workload { limit, .. } => {
            format!("the limit of {limit} pods of a workload at once")
        }
        BudgetState::Bucket { scope: BucketScope::Namespace, .. } => {
            "the limit of the namespace".to_owned()
        }
        BudgetState::Bucket { scope: BucketScope::Cluster, .. } => {
            "the limit of the cluster".to_owned()
        }
    };
    format!("waiting: restart budget is full ({which})")
}
