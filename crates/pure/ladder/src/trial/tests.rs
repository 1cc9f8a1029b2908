use k8s_openapi::api::core::v1::{
    self, Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStatus, PodSpec, PodStatus,
};
use rekindle_types::v1alpha1::{LedgerDecision, RungAttempts};

use serde_json::{Value, json};

use super::*;

const NOW: Tick = Tick::from_secs(1_000_000);
const WINDOW: TickDuration = TickDuration::from_secs(1_200);

/// The request is not there.
const NOBODYS: Option<&PodRestart> = None;

fn ago(secs: u64) -> Tick {
    NOW - TickDuration::from_secs(secs)
}

/// A pod whose container failed last, and has been running since, so many seconds ago.
fn pod(failed: u64, running: Option<u64>) -> HeldPod {
    started_pod(None, failed, running)
}

/// The same, of which may be known when that attempt had started.
fn started_pod(started: Option<u64>, failed: u64, running: Option<u64>) -> HeldPod {
    let ended = ContainerStateTerminated {
        exit_code: 1,
        reason: Some("Error".to_owned()),
        started_at: started.map(|secs| ago(secs).to_time()),
        finished_at: Some(ago(failed).to_time()),
        ..Default::default()
    };
    let runs = running.map(|secs| ContainerStateRunning { started_at: Some(ago(secs).to_time()) });
    let status = ContainerStatus {
        name: "app".to_owned(),
        ready: runs.is_some(),
        restart_count: 3,
        state: Some(ContainerState { running: runs, ..Default::default() }),
        last_state: Some(ContainerState { terminated: Some(ended), ..Default::default() }),
        ..Default::default()
    };
    let mut pod = v1::Pod::default();
    pod.metadata.name = Some("web-0".to_owned());
    let container = Container { name: "app".to_owned(), ..Default::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..Default::default() });
    let statuses = Some(vec![status]);
    pod.status = Some(PodStatus { container_statuses: statuses, ..Default::default() });
    pod.into()
}

fn ledger(rung: Rung, at: Tick, in_vain: Option<Rung>) -> RestartLedgerStatus {
    let attempts = vec![RungAttempts { rung, at: vec![at.to_micro_time()] }];
    RestartLedgerStatus { attempts: Some(attempts), in_vain, ..Default::default() }
}

#[test]
fn a_trial_ends_with_a_failure_or_with_ten_seconds_of_running() {
    use Rung::{Container, Pod as Whole, Recreate};
    let trial = |secs: u64| {
        let over_at = ago(secs) + GIVEN_UP_AFTER;
        TrialState::Now(Trial { pod: "web-0".to_owned(), rung: Whole, over_at })
    };
    // failed, running since, rung, attempted, in vain before, what is known
    for (failed, running, rung, attempted, in_vain, expected) in [
        (30, None, Container, 20, None, TrialState::Nothing),
        (30, None, Whole, 20, None, trial(20)),
        (20, None, Whole, 20, None, trial(20)), // in the second of the attempt: what it was for
        (30, Some(5), Whole, 20, None, trial(20)),
        (30, Some(12), Whole, 20, None, TrialState::Helped(Whole)),
        (15, None, Whole, 20, None, TrialState::InVain(Whole)),
        (15, Some(4), Whole, 20, None, TrialState::InVain(Whole)),
        (30, None, Whole, 20, Some(Whole), TrialState::InVain(Whole)),
        (30, Some(500), Whole, 20, Some(Whole), TrialState::InVain(Whole)),
        (700, None, Whole, 650, None, TrialState::Nothing), // given up
        (1_300, Some(1_250), Whole, 1_250, None, TrialState::Nothing), // out of the window
        (1_300, None, Whole, 1_250, Some(Whole), TrialState::InVain(Whole)), // but that is remembered
        (30, None, Recreate, 20, None, TrialState::Nothing), // budgets may hold it as long as they like
        (15, None, Recreate, 20, Some(Whole), TrialState::InVain(Recreate)),
    ] {
        let ledger = ledger(rung, ago(attempted), in_vain);
        let what = tried(&pod(failed, running), &ledger, NOBODYS, NOW, WINDOW);
        assert_eq!(what, expected, "failed {failed}, runs {running:?}, {rung} {attempted} ago");
    }
}

/// A proxy ran beside what failed, and takes its time to end when the pod is restarted for that.
#[test]
fn what_the_trial_itself_has_ended_is_no_proof_against_it() {
    let ended_at = |started: u64, finished: u64| {
        let proxy = started_pod(Some(started), finished, None);
        tried(&proxy, &ledger(Rung::Pod, ago(20), None), NOBODYS, NOW, WINDOW)
    };
    assert!(
        matches!(ended_at(90, 15), TrialState::Now(_)),
        "it ran when the pod was to be restarted"
    );
    assert_eq!(ended_at(20, 15), TrialState::InVain(Rung::Pod), "it may have been started by that");
    assert_eq!(ended_at(18, 15), TrialState::InVain(Rung::Pod));
}

/// It failed twenty seconds after its start: ten seconds of running prove nothing.
#[test]
fn a_trial_helped_when_the_pod_has_run_for_twice_as_long_as_the_last_time() {
    for (running, helped) in [(12, false), (39, false), (40, true)] {
        let ledger =
            RestartLedgerStatus { last_run_seconds: Some(20), ..ledger(Rung::Pod, ago(50), None) };
        let what = tried(&pod(60, Some(running)), &ledger, NOBODYS, NOW, WINDOW);
        assert_eq!(what == TrialState::Helped(Rung::Pod), helped, "{running} s: {what:?}");
        assert_eq!(matches!(what, TrialState::Now(_)), !helped, "{running} s: {what:?}");
    }
}

/// A ledger that asked for a restart so many seconds ago, which is another matter than that it was
/// carried out.
fn asked(
    rung: Rung,
    at: Tick,
    in_vain: Option<Rung>,
    outcome: Option<Value>,
) -> RestartLedgerStatus {
    let outcome = outcome.map(|outcome| serde_json::from_value(outcome).unwrap());
    let decision = LedgerDecision {
        at: at.to_micro_time(),
        first_at: None,
        rung: Some(rung),
        reason: "it failed".to_owned(),
        count: 1,
        pod_restart: Some("web-0-1".to_owned()),
        outcome,
    };
    RestartLedgerStatus { decisions: Some(vec![decision]), ..ledger(rung, at, in_vain) }
}

#[test]
fn what_was_not_carried_out_is_neither_in_vain_nor_a_help_whatever_the_pod_does() {
    use Rung::{Containers, Pod as Whole, Recreate};
    let outcome = |phase: &str, started: bool| {
        let started = started.then(|| ago(19).to_time());
        Some(
            json!({"phase": phase, "podName": "web-0", "rung": "Pod", "message": "no", "startedAt": started}),
        )
    };
    let request = |status: Value| {
        let request = json!({"metadata": {"name": "web-0-1"}, "spec": {"podName": "web-0"}, "status": status});
        Some(serde_json::from_value::<PodRestart>(request).unwrap())
    };
    let trial = TrialState::Now(Trial {
        pod: "web-0".to_owned(),
        rung: Whole,
        over_at: ago(20) + GIVEN_UP_AFTER,
    });
    let (failed_again, well_again) = ((15, None), (30, Some(12)));
    let held = json!({"phase": "Running", "replacement": {"step": "Held", "since": ago(19).to_time(), "podUID": "u", "nodeName": "n"}});
    // the pod, the rung, in vain before, how the request ended, the request, what is known
    for ((failed, running), rung, in_vain, outcome, request, expected) in [
        (failed_again, Whole, None, outcome("Refused", false), None, TrialState::Nothing),
        (well_again, Whole, None, outcome("Refused", false), None, TrialState::Nothing),
        (failed_again, Whole, None, outcome("Failed", false), None, TrialState::Nothing),
        (
            failed_again,
            Whole,
            Some(Containers),
            outcome("Refused", false),
            None,
            TrialState::InVain(Containers),
        ),
        (failed_again, Whole, None, outcome("Failed", true), None, TrialState::InVain(Whole)), // out of its time, while it ran
        (failed_again, Whole, None, outcome("Succeeded", true), None, TrialState::InVain(Whole)),
        (well_again, Whole, None, outcome("Succeeded", true), None, TrialState::Helped(Whole)),
        // the ledger does not tell yet
        (
            failed_again,
            Whole,
            None,
            None,
            request(json!({"phase": "Refused"})),
            TrialState::Nothing,
        ),
        (failed_again, Whole, None, None, request(json!({})), trial.clone()),
        (well_again, Whole, None, None, request(json!({})), trial.clone()),
        (failed_again, Whole, Some(Whole), None, request(json!({})), TrialState::InVain(Whole)),
        (
            failed_again,
            Whole,
            None,
            None,
            request(json!({"phase": "Running", "startedAt": ago(19).to_time()})),
            TrialState::InVain(Whole),
        ),
        (failed_again, Recreate, None, None, request(held), TrialState::Nothing), // a disruption budget may hold it for ever
        (failed_again, Whole, None, None, None, TrialState::InVain(Whole)), // nothing is known of it any more
    ] {
        let case = format!("failed {failed}, runs {running:?}, {rung} {outcome:?} {request:?}");
        let ledger = asked(rung, ago(20), in_vain, outcome);
        let what = tried(&pod(failed, running), &ledger, request.as_ref(), NOW, WINDOW);
        assert_eq!(what, expected, "{case}");
    }
    let pending = RestartLedgerStatus {
        pending_restart: Some("web-0-1".to_owned()),
        ..asked(Whole, ago(20), None, None)
    };
    assert_eq!(tried(&pod(15, None), &pending, NOBODYS, NOW, WINDOW), trial, "it is not made yet");
}

/// It ran when the restart was decided that was refused then: nobody but itself has ended it.
#[test]
fn what_ends_after_a_restart_was_refused_has_failed() {
    let failed = started_pod(Some(90), 15, None);
    let symptom = |outcome: Value| {
        let ledger = asked(Rung::Pod, ago(20), None, Some(outcome));
        symptom_of(&failed, Some(&ledger), NOW, WINDOW)
    };
    assert!(symptom(json!({"phase": "Refused", "podName": "web-0", "rung": "Pod"})).is_some());
    let done = json!({"phase": "Succeeded", "podName": "web-0", "rung": "Pod", "startedAt": ago(20).to_time()});
    assert!(symptom(done).is_none(), "the restart has ended it");
}

#[test]
fn news_of_a_trial_is_that_it_was_in_vain_or_that_the_pod_recovered() {
    let before = ledger(Rung::Pod, NOW, None);
    let in_vain = ledger(Rung::Pod, NOW, Some(Rung::Pod));
    let more = RestartLedgerStatus { failures_total: 9, ..before.clone() };
    assert!(is_news_of_trial(Some(&before), Some(&in_vain)));
    assert!(!is_news_of_trial(Some(&before), Some(&more)));
    assert!(!is_news_of_trial(None, Some(&before)));
    let refused = json!({"phase": "Refused", "podName": "web-0", "rung": "Pod"});
    let refused = asked(Rung::Pod, NOW, None, Some(refused));
    assert!(is_news_of_trial(Some(&before), Some(&refused)), "nobody waits for it any more");
    assert!(is_news_of_trial(Some(&in_vain), None), "the ledger is gone");
}
