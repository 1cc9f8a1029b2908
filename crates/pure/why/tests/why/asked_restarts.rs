//! Restarts that were asked for and are not over: what they wait for, and what would let them go
//! on.

use rekindle_types::v1alpha1::PodRestart;
use rekindle_why::explain_pod;
use serde_json::json;

use crate::support::{NOW, crashed, evidence};

#[test]
fn a_restart_that_was_asked_for_and_does_not_go_on_says_what_it_waits_for() {
    let held = |by: Option<&str>, message: &str| {
        let replacement = json!({"step": "Held", "heldBy": by, "since": "2026-11-21T11:58:00Z", "podUID": "u", "nodeName": "n"});
        json!({"phase": "Running", "message": message, "replacement": replacement})
    };
    // (rung, status, what comes next, what would help)
    let cases = [
        (
            "Recreate",
            held(
                Some("DisruptionBudget"),
                "Cannot evict pod as it would violate the pod's disruption budget.",
            ),
            "PodRestart web-1 waits, and is tried again: Cannot evict pod as it would violate the pod's disruption budget.",
            Some(
                "make other pods of its workload healthy, or let the disruption budget allow one more to be away",
            ),
        ),
        (
            "Recreate",
            held(Some("DeadlockedBudget"), "budget \"web\" lets no pod be evicted"),
            "PodRestart web-1 waits, and is tried again: budget \"web\" lets no pod be evicted",
            Some(
                "change the disruption budget, or delete it: it never lets a pod go, however healthy the others are",
            ),
        ),
        (
            "Reschedule",
            held(
                Some("NoOtherNode"),
                "no node but node-1 can take the pod: 0/1 nodes are available",
            ),
            "PodRestart web-1 waits, and is tried again: no node but node-1 can take the pod: 0/1 nodes are available",
            Some(
                "add a node that takes the pod, or mend what keeps the others away; a node that is avoided takes it again when the finished PodRestart that it is avoided for is deleted",
            ),
        ),
        (
            "Reschedule",
            held(Some("LadderLimits"), "held back by perMinute 1 of ladder \"web\""),
            "PodRestart web-1 waits, and is tried again: held back by perMinute 1 of ladder \"web\"",
            None,
        ),
        (
            "Reschedule",
            held(None, "what an earlier version held back"),
            "PodRestart web-1 waits, and is tried again: what an earlier version held back",
            None,
        ),
        (
            "Pod",
            json!({}),
            "PodRestart web-1 is not taken up yet",
            Some("look whether the pod's node node-1 answers: it carries the restart out"),
        ),
        (
            "Pod",
            json!({"message": "node node-1 is not ready"}),
            "PodRestart web-1 is not taken up yet: node node-1 is not ready",
            Some("look whether the pod's node node-1 answers: it carries the restart out"),
        ),
        (
            "Recreate",
            json!({
                "phase": "Running", "message": "Evicting the pod; node node-1 is not ready",
                "replacement": {"step": "Evicting", "since": "2026-11-21T11:58:00Z", "podUID": "u", "nodeName": "n"},
            }),
            "PodRestart web-1 is being carried out: Evicting the pod; node node-1 is not ready",
            None,
        ),
        (
            "Recreate",
            json!({}),
            "PodRestart web-1 is not taken up yet",
            Some("look whether the controllers run: they carry the restart out"),
        ),
        ("Pod", json!({"phase": "Running"}), "PodRestart web-1 is being carried out", None),
    ];
    let all: Vec<&str> = cases.iter().filter_map(|(_, _, _, helps)| *helps).collect();
    for (rung, status, next, helps) in cases {
        let mut evidence = evidence(crashed(3, json!({})), vec![]);
        let restart = json!({
            "metadata": {"name": "web-1", "creationTimestamp": "2026-11-21T11:58:00Z"},
            "spec": {"podName": "web", "rung": rung}, "status": status
        });
        evidence.restarts = vec![serde_json::from_value::<PodRestart>(restart).unwrap()];
        let account = explain_pod(&evidence, NOW);
        assert_eq!(account.next.map(|next| next.what).as_deref(), Some(next), "{rung}");
        let advice = account.advice.iter().map(String::as_str);
        let added: Vec<&str> = advice.filter(|advice| all.contains(advice)).collect();
        assert_eq!(added, Vec::from_iter(helps), "{rung}: {:?}", account.advice);
    }
}

#[test]
fn a_restart_that_was_taken_up_for_an_earlier_pod_of_the_name_is_not_what_comes_next() {
    let next = |uid: &str| {
        let mut evidence = evidence(crashed(3, json!({})), vec![]);
        let uid = match uid {
            "own" => evidence.pod.metadata.uid.clone(),
            other => Some(other.to_owned()),
        };
        let restart = json!({
            "metadata": {"name": "web-1", "creationTimestamp": "2026-11-21T11:58:00Z"},
            "spec": {"podName": "web"}, "status": {"phase": "Running", "podUID": uid}
        });
        evidence.restarts = vec![serde_json::from_value::<PodRestart>(restart).unwrap()];
        explain_pod(&evidence, NOW).next.map(|next| next.what).unwrap_or_default()
    };
    assert!(next("own").contains("web-1"), "{}", next("own"));
    assert!(!next("earlier").contains("web-1"), "{}", next("earlier"));
}
