use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartStatus, ReplacementHold, ReplacementStep, RestartLadder,
};

use super::*;
use crate::TokenBucket;
use crate::budget::{BucketScope, BudgetState};
use crate::explanation::DecisionText;

#[test]
fn the_time_of_day_is_of_the_day_in_utc() {
    let clock = clock(Tick::from_secs(86_400 * 20_000 + 15_062));
    assert_eq!((clock.full.as_str(), clock.brief.as_str()), ("04:11:02 UTC", "04:11 UTC"));
}

/// A request that this holds back.
fn held_by(hold: Option<ReplacementHold>) -> PodRestart {
    let mut request = PodRestart::default();
    request.metadata.name = Some("web-1".to_owned());
    request.spec.rung = Some(Rung::Reschedule);
    let since = Tick::from_secs(1).to_time();
    let mut replacement =
        PodReplacement::new(ReplacementStep::Held, since, "uid-1".to_owned(), "n1".to_owned());
    replacement.held_by = hold;
    request.status =
        Some(PodRestartStatus { replacement: Some(replacement), ..PodRestartStatus::default() });
    request
}

#[test]
fn what_holds_a_request_back_fits_into_a_line() {
    use ReplacementHold::{
        DeadlockedBudget, DisruptionBudget, EvictionRefused, LadderLimits, NoOtherNode, PodNotTaken,
    };
    for (hold, by) in [
        (Some(DisruptionBudget), "disruption budget forbids it"),
        (Some(DeadlockedBudget), "disruption budget never allows it"),
        (Some(EvictionRefused), "the API refuses the eviction"),
        (Some(NoOtherNode), "no other node can take the pod"),
        (Some(PodNotTaken), "the API would refuse the new pod"),
        (Some(LadderLimits), "restart budget is full"),
        (None, "it said so"),
    ] {
        let said = held_request(&held_by(hold), "it said so");
        assert_eq!(said.summary, format!("move to other node waits: {by}"));
        assert_eq!(
            said.message,
            "replacing the pod by one on another node is held back: it said so (PodRestart web-1 waits)"
        );
    }
}

#[test]
fn a_due_restart_keeps_its_cause_and_says_which_budget_it_waits_for() {
    let step = RungPolicy { rung: Rung::Pod, attempts: 2, empty_dirs: None, avoid_node_for: None };
    let ladder = RestartLadder::default();
    let policy = LadderPolicy::of_spec("web".to_owned(), None, &ladder.spec);
    let free_at = Tick::from_secs(15_062);
    let bucket = TokenBucket::new(20, 60);
    for (room, summary, message) in [
        (BudgetState::Free, "exit 1 ×3 in 11s; whole-pod restart 1 of 2", "it failed"),
        (
            BudgetState::Concurrent { limit: 1, at_the_latest: free_at },
            "exit 1 ×3 in 11s; whole pod waits (maxConcurrent 1)",
            "it failed; waiting: restart budget is full (maxConcurrent 1 of ladder \"web\"), another pod's restart must end first",
        ),
        (
            BudgetState::Workload { limit: 5, at_the_latest: free_at },
            "exit 1 ×3 in 11s; whole pod waits (5 of workload at once)",
            "it failed; waiting: restart budget is full (the limit of 5 pods of a workload at once), another pod's restart must end first",
        ),
        (
            BudgetState::Rate { limit: 6, free_at },
            "exit 1 ×3 in 11s; whole pod at 04:11 UTC (perMinute 6)",
            "it failed; waiting until 04:11:02 UTC: restart budget is full (perMinute 6 of ladder \"web\")",
        ),
        (
            BudgetState::Bucket { scope: BucketScope::Namespace, bucket, free_at },
            "exit 1 ×3 in 11s; whole pod at 04:11 UTC (namespace limit)",
            "it failed; waiting until 04:11:02 UTC: restart budget is full (the limit of the namespace, 20 restarts at once and 60 a minute)",
        ),
        (
            BudgetState::Bucket { scope: BucketScope::Cluster, bucket, free_at },
            "exit 1 ×3 in 11s; whole pod at 04:11 UTC (cluster limit)",
            "it failed; waiting until 04:11:02 UTC: restart budget is full (the limit of the cluster, 20 restarts at once and 60 a minute)",
        ),
    ] {
        let due = DecisionText::new("it failed", "exit 1 ×3 in 11s", "whole-pod restart 1 of 2");
        let held = held(&policy, &step, room, due);
        assert_eq!((held.summary.as_str(), held.message.as_str()), (summary, message));
    }
}
