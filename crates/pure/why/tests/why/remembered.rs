//! A PodRestart is removed some minutes after it is over. The ledger of the ladder that asked for
//! it remembers how it ended: the account stays.

use rekindle_types::v1alpha1::{PodRestart, RestartLedger, RestartOutcome};
use rekindle_why::{GoneEvidence, PodEvidence, asked_for, explain_gone, explain_pod, render};
use serde_json::{Value, json};

use crate::support::{NOW, evidence, ledger, pod};

/// A request of the ladder that was decided at 11:57:30.
fn request(rung: &str, status: Value) -> PodRestart {
    serde_json::from_value(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "creationTimestamp": "2026-11-21T11:57:30Z"},
        "spec": {"podName": "web", "rung": rung, "reason": "it failed: trying it", "ladderName": "web"},
        "status": status,
    }))
    .unwrap()
}

/// The ledger that asked for it, with what it remembers of how it ended.
fn remembering(request: &PodRestart) -> RestartLedger {
    let outcome = RestartOutcome::from_restart(request).unwrap();
    ledger(json!({"failuresTotal": 1, "decisions": [{
        "at": "2026-11-21T11:57:30.250000Z", "rung": request.spec.rung, "reason": "it failed: trying it", "count": 1,
        "podRestart": "web-1", "outcome": outcome,
    }]}))
}

#[test]
fn what_a_restart_has_ended_is_told_by_its_rung_when_the_request_is_gone() {
    let request = request(
        "Containers",
        json!({"phase": "Succeeded", "message": "Restarted all containers", "podUID": "u",
            "startedAt": "2026-11-21T11:57:31Z", "finishedAt": "2026-11-21T11:58:01Z"}),
    );
    let end = json!({"exitCode": 143, "reason": "Error", "startedAt": "2026-11-21T11:50:00Z", "finishedAt": "2026-11-21T11:58:00Z"});
    let restarted = pod(json!({"ready": true, "restartCount": 1, "lastState": {"terminated": end},
        "state": {"running": {"startedAt": "2026-11-21T11:58:01Z"}}}));
    let account = |there: Vec<PodRestart>| {
        let ledger = remembering(&request);
        let restarts = asked_for("web", there, Some(&ledger));
        let ledger = Some(ledger);
        let evidence = PodEvidence { restarts, ledger, ..evidence(restarted.clone(), vec![]) };
        render(&explain_pod(&evidence, NOW), NOW)
    };
    let with_it = account(vec![request.clone()]);
    assert!(with_it.contains("was ended by PodRestart web-1, rung Containers"), "{with_it}");
    assert!(with_it.contains("succeeded: Restarted all containers"), "{with_it}");
    assert_eq!(account(vec![]), with_it);
    // objects tell whole seconds, and a ledger more: the request does not come before what it
    // follows from
    let place = |words: &str| with_it.find(words).unwrap();
    assert!(place("Containers: it failed") < place("PodRestart web-1, rung Containers, succeeded"));
}

#[test]
fn who_took_a_pod_away_and_who_goes_on_is_told_when_the_request_is_gone() {
    for (rung, status) in [
        (
            "Recreate",
            json!({"phase": "Succeeded", "message": "pod shop/web-b on node-1 took its place", "startedAt": "2026-11-21T11:57:31Z",
                "replacement": {"step": "Starting", "since": "2026-11-21T11:57:31Z", "podUID": "u", "nodeName": "n",
                    "newPodName": "web-b"}}),
        ),
        (
            "Rollback",
            json!({"phase": "Succeeded", "message": "Deployment web is at revision 1 again",
                "rollback": {"deploymentName": "web", "fromReplicaSet": "a", "toReplicaSet": "b", "toRevision": 1}}),
        ),
        ("Pod", json!({"phase": "Refused", "message": "a static pod is its node's"})),
        ("Reschedule", json!({"phase": "Withdrawn", "message": "pod shop/web is ready again"})),
    ] {
        let request = request(rung, status);
        let account = |there: Vec<PodRestart>| {
            let ledger = remembering(&request);
            let restarts = asked_for("web", there, Some(&ledger));
            let (namespace, name) = ("shop".to_owned(), "web".to_owned());
            let left =
                GoneEvidence { namespace, name, events: vec![], ledger: Some(ledger), restarts };
            render(&explain_gone(&left), NOW)
        };
        assert_eq!(account(vec![]), account(vec![request.clone()]), "{rung}");
        assert!(account(vec![]).contains("PodRestart web-1"), "{rung}: {}", account(vec![]));
    }
}

#[test]
fn a_restart_of_an_earlier_pod_of_the_ledger_is_none_of_this_one() {
    let request = request("Pod", json!({"phase": "Succeeded"}));
    let ledger = remembering(&request);
    assert_eq!(asked_for("web", vec![], Some(&ledger)).len(), 1);
    assert_eq!(asked_for("web-b", vec![], Some(&ledger)).len(), 0);
    assert_eq!(asked_for("web", vec![request], Some(&ledger)).len(), 1, "told once");
    assert_eq!(asked_for("web", vec![], None).len(), 0);
}
