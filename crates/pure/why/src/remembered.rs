//! Restarts that are remembered and not there any more. A request is removed some minutes after it
//! is over; the ledger of the ladder that asked for it knows how it ended, so that an account tells
//! the same afterwards.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    LedgerDecision, PodReplacement, PodRestart, PodRestartSpec, PodRestartStatus, RestartLedger,
    RestartOutcome,
};

/// The restarts that were asked for a pod of this name: those that are there, and those that its
/// ledger remembers.
pub fn asked_for(
    pod: &str,
    there: Vec<PodRestart>,
    ledger: Option<&RestartLedger>,
) -> Vec<PodRestart> {
    let status = ledger.and_then(|ledger| ledger.status.as_ref());
    let decisions = status.into_iter().flat_map(|status| status.asked());
    let remembered = decisions.filter_map(|decision| {
        let outcome = decision.outcome.as_ref().filter(|outcome| outcome.pod_name == pod)?;
        let ladder = ledger.map(|ledger| ledger.spec.ladder_name.as_str())?;
        let is_there = there.iter().any(|restart| restart.metadata.name == decision.pod_restart);
        (!is_there).then(|| request(ladder, decision, outcome))
    });
    let remembered: Vec<PodRestart> = remembered.collect();
    remembered.into_iter().chain(there).collect()
}

/// The request as far as accounts look at it. It was asked for when it was decided.
fn request(ladder: &str, decision: &LedgerDecision, outcome: &RestartOutcome) -> PodRestart {
    let asked = Tick::from(&decision.at).whole_second().to_time();
    let replacement = outcome.step.map(|step| {
        let since = outcome.started_at.clone().unwrap_or_else(|| asked.clone());
        PodReplacement {
            new_pod_name: outcome.new_pod_name.clone(),
            ..PodReplacement::new(step, since, String::new(), String::new())
        }
    });
    PodRestart {
        metadata: ObjectMeta {
            name: decision.pod_restart.clone(),
            creation_timestamp: Some(asked),
            ..ObjectMeta::default()
        },
        spec: PodRestartSpec {
            pod_name: outcome.pod_name.clone(),
            rung: Some(outcome.rung),
            reason: Some(decision.reason.clone()),
            ladder_name: Some(ladder.to_owned()),
            ..PodRestartSpec::default()
        },
        status: Some(PodRestartStatus {
            phase: Some(outcome.phase),
            message: outcome.message.clone(),
            started_at: outcome.started_at.clone(),
            finished_at: outcome.finished_at.clone(),
            replacement,
            rollback: outcome.rollback.clone(),
            ..PodRestartStatus::default()
        }),
        ..PodRestart::default()
    }
}
