use k8s_openapi::api::core::v1::{
    self, Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStatus, PodSpec, PodStatus,
};
use rekindle_types::v1alpha1::RungAttempts;

use super::*;

const NOW: Tick = Tick::from_secs(1_000_000);
const WINDOW: TickDuration = TickDuration::from_secs(1_200);

fn ago(secs: u64) -> Tick {
    NOW - TickDuration::from_secs(secs)
}

/// A pod whose container failed last, and has been running since, so many seconds ago.
fn pod(failed: u64, running: Option<u64>) -> Pod {
    started_pod(None, failed, running)
}

/// The same, of which may be known when that attempt had started.
fn started_pod(started: Option<u64>, failed: u64, running: Option<u64>) -> Pod {
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
        Tried::Now(Trial { pod: "web-0".to_owned(), rung: Whole, over_at })
    };
    // failed, running since, rung, attempted, in vain before, what is known
    for (failed, running, rung, attempted, in_vain, expected) in [
        (30, None, Container, 20, None, Tried::Nothing),
        (30, None, Whole, 20, None, trial(20)),
        (20, None, Whole, 20, None, trial(20)), // in the second of the attempt: what it was for
        (30, Some(5), Whole, 20, None, trial(20)),
        (30, Some(12), Whole, 20, None, Tried::Helped(Whole)),
        (15, None, Whole, 20, None, Tried::InVain(Whole)),
        (15, Some(4), Whole, 20, None, Tried::InVain(Whole)),
        (30, None, Whole, 20, Some(Whole), Tried::InVain(Whole)),
        (30, Some(500), Whole, 20, Some(Whole), Tried::InVain(Whole)),
        (700, None, Whole, 650, None, Tried::Nothing), // given up
        (1_300, Some(1_250), Whole, 1_250, None, Tried::Nothing), // out of the window
        (1_300, None, Whole, 1_250, Some(Whole), Tried::InVain(Whole)), // but that is remembered
        (30, None, Recreate, 20, None, Tried::Nothing), // budgets may hold it as long as they like
        (15, None, Recreate, 20, Some(Whole), Tried::InVain(Recreate)),
    ] {
        let ledger = ledger(rung, ago(attempted), in_vain);
        let what = tried(&pod(failed, running), &ledger, NOW, WINDOW);
        assert_eq!(what, expected, "failed {failed}, runs {running:?}, {rung} {attempted} ago");
    }
}

/// A proxy ran beside what failed, and takes its time to end when the pod is restarted for that.
#[test]
fn what_the_trial_itself_has_ended_is_no_proof_against_it() {
    let ended_at = |started: u64, finished: u64| {
        let proxy = started_pod(Some(started), finished, None);
        tried(&proxy, &ledger(Rung::Pod, ago(20), None), NOW, WINDOW)
    };
    assert!(matches!(ended_at(90, 15), Tried::Now(_)), "it ran when the pod was to be restarted");
    assert_eq!(ended_at(20, 15), Tried::InVain(Rung::Pod), "it may have been started by that");
    assert_eq!(ended_at(18, 15), Tried::InVain(Rung::Pod));
}

/// It failed twenty seconds after its start: ten seconds of running prove nothing.
#[test]
fn a_trial_helped_when_the_pod_has_run_for_twice_as_long_as_the_last_time() {
    for (running, helped) in [(12, false), (39, false), (40, true)] {
        let ledger =
            RestartLedgerStatus { last_run_seconds: Some(20), ..ledger(Rung::Pod, ago(50), None) };
        let what = tried(&pod(60, Some(running)), &ledger, NOW, WINDOW);
        assert_eq!(what == Tried::Helped(Rung::Pod), helped, "{running} s: {what:?}");
        assert_eq!(matches!(what, Tried::Now(_)), !helped, "{running} s: {what:?}");
    }
}

#[test]
fn news_of_a_trial_is_that_it_was_in_vain_or_that_the_pod_recovered() {
    let before = ledger(Rung::Pod, NOW, None);
    let in_vain = ledger(Rung::Pod, NOW, Some(Rung::Pod));
    let more = RestartLedgerStatus { failures_total: 9, ..before.clone() };
    assert!(is_news_of_trial(Some(&before), Some(&in_vain)));
    assert!(!is_news_of_trial(Some(&before), Some(&more)));
    assert!(!is_news_of_trial(None, Some(&before)));
    assert!(is_news_of_trial(Some(&in_vain), None), "the ledger is gone");
}
