//! An account is made of every reason that a node, a kubelet or a runtime writes. Crate `diagnosis`
//! holds that it knows all of those (its `tests/diagnosis/known_reasons.rs`); the ladder has the
//! same test: crates/pure/ladder/tests/decisions/reasons.rs.

use rekindle_diagnosis::{PodReason, TerminatedReason, WaitFamily, WaitingReason};
use rekindle_why::{AccountState, Cause, explain_pod};
use serde_json::json;

use crate::support::{NOW, crashed, evidence, pod};

fn waits(reason: &str) -> rekindle_why::Account {
    let waits = pod(json!({"state": {"waiting": {"reason": reason, "message": "x"}}}));
    explain_pod(&evidence(waits, vec![]), NOW)
}

#[test]
fn every_reason_for_which_a_container_waits_is_known() {
    for reason in WaitingReason::KNOWN {
        let account = waits(reason.as_str());
        let (is_told, state) = match reason.family() {
            WaitFamily::OnItsWay | WaitFamily::AfterFailure => (false, AccountState::Starting),
            WaitFamily::Image
            | WaitFamily::Configuration
            | WaitFamily::Creation
            | WaitFamily::Run
            | WaitFamily::Sandbox
            | WaitFamily::Predecessor => (true, AccountState::Blocked),
            WaitFamily::Unknown => panic!("{reason:?} is known"),
        };
        assert_eq!(!account.containers.is_empty(), is_told, "{reason:?}");
        assert_eq!((account.state, account.advice.is_empty()), (state, !is_told), "{reason:?}");
    }
}

#[test]
fn a_wait_for_a_reason_that_nobody_knows_is_told_as_that() {
    let account = waits("Sparkling");
    let says = "container \"app\" waits for a reason that is not known here: Sparkling: x";
    assert_eq!((account.state, account.summary.as_str()), (AccountState::Starting, says));
    assert_eq!(account.containers[0].cause, Cause::UnknownWait);
}

/// A kubelet says so for a moment, and kills the container for it.
#[test]
fn a_container_that_waits_after_its_hook_failed_was_killed_for_that() {
    let mut pod = crashed(1, json!({"exitCode": 137, "reason": "Error"}));
    pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] =
        json!("PostStartHookError");
    let account = explain_pod(&evidence(pod, vec![]), NOW);
    let found = &account.containers[0];
    let says = "was killed because its postStart hook failed";
    assert_eq!((found.cause, found.what.as_str()), (Cause::PostStartFailed, says));
}

#[test]
fn every_reason_for_which_a_container_ends_is_known() {
    for reason in TerminatedReason::KNOWN {
        let (code, cause) = match reason {
            TerminatedReason::Completed => (0, Cause::ExitedUnasked),
            TerminatedReason::Error | TerminatedReason::DeadlineExceeded => (1, Cause::ExitCode),
            TerminatedReason::OomKilled => (137, Cause::OutOfMemory),
            TerminatedReason::StartError | TerminatedReason::ContainerCannotRun => {
                (128, Cause::StartError)
            }
            TerminatedReason::ContainerStatusUnknown => (137, Cause::Unknown),
            TerminatedReason::Unknown => (255, Cause::Unknown),
            TerminatedReason::SeccompKilled => (159, Cause::Signal),
            TerminatedReason::Other(_) => panic!("{reason:?} is known"),
        };
        let end = json!({"exitCode": code, "reason": reason.as_str(), "message": "x"});
        let account = explain_pod(&evidence(crashed(1, end), vec![]), NOW);
        assert_eq!(account.containers[0].cause, cause, "{reason:?}");
        assert_eq!(account.advice.len(), 1, "{reason:?}");
    }
}

#[test]
fn every_reason_for_which_a_pod_is_ended_comes_with_what_would_help() {
    for reason in PodReason::KNOWN {
        let mut pod = pod(json!({}));
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["reason"] = json!(reason.as_str());
        pod["status"]["message"] = json!("The node had condition: [DiskPressure]. ");
        let account = explain_pod(&evidence(pod, vec![]), NOW);
        // an exhausted ladder's message says it all
        let has_advice = *reason != PodReason::LadderExhausted;
        assert_eq!(
            (account.state, !account.advice.is_empty()),
            (AccountState::Failed, has_advice),
            "{reason:?}"
        );
    }
}
