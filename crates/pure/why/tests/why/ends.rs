//! Whom an end is laid to, and which ends are told of a pod that is well.

use expect_test::expect;
use rekindle_why::{AccountState, Cause, PodEvidence, explain_pod, render};
use serde_json::{Value, json};

use crate::support::{NOW, event, evidence, ledger, pod};

/// The last end of a container.
fn end(code: i32, started: &str, finished: &str) -> Value {
    let at = |time: &str| format!("2026-11-21T{time}Z");
    json!({"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": at(started), "finishedAt": at(finished)})
}

/// A pod that is ready, whose init container ended so, and so before.
fn initialized(restarts: u32, now: Value, before: Option<Value>) -> Value {
    let mut pod =
        pod(json!({"ready": true, "state": {"running": {"startedAt": "2026-11-21T11:50:00Z"}}}));
    pod["spec"]["initContainers"] = json!([{"name": "migrate", "image": "shop:v1"}]);
    let before = before.map_or(json!({}), |end| json!({"terminated": end}));
    pod["status"]["initContainerStatuses"] = json!([{
        "name": "migrate", "image": "shop:v1", "imageID": "", "ready": true, "restartCount": restarts,
        "state": {"terminated": now}, "lastState": before,
    }]);
    pod
}

#[test]
fn an_init_container_that_failed_before_it_was_done_is_told_of() {
    let done = end(0, "11:49:58", "11:49:59");
    let failed = end(1, "11:49:50", "11:49:51");
    let pod = initialized(2, done, Some(failed));
    expect![[r#"
        pod shop/web: healthy
          it runs and is ready now; container "migrate" exited with 1; it ended twice before it was done

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-01 12:00:00Z  container "migrate" ended; last it exited with 1 (twice until 2026-11-21 11:49:51Z)
    "#]].assert_eq(&render(&explain_pod(&evidence(pod, vec![]), NOW), NOW));
}

#[test]
fn an_init_container_that_was_done_each_time_has_nothing_to_tell() {
    let done = || end(0, "11:49:58", "11:49:59");
    for pod in [initialized(0, done(), None), initialized(1, done(), Some(done()))] {
        let account = explain_pod(&evidence(pod, vec![]), NOW);
        assert_eq!(account.summary, "it runs and is ready; nothing has ended");
        assert!(account.containers.is_empty(), "{:?}", account.containers);
    }
}

/// A restart by hand makes the last run before a good one, and the API keeps no more than two.
#[test]
fn failures_that_only_the_ladder_counted_are_told_too() {
    let done = || end(0, "11:49:58", "11:49:59");
    let mut evidence = evidence(initialized(3, done(), Some(done())), vec![]);
    evidence.ledger = Some(ledger(json!({"phase": "Healthy", "failuresTotal": 2})));
    let account = explain_pod(&evidence, NOW);
    let says = "it runs and is ready now; ladder \"web\" has counted 2 failures";
    assert_eq!(account.summary, says);
}

#[test]
fn a_container_that_failed_before_it_was_done_does_not_spoil_its_pod() {
    let mut pod = pod(json!({
        "restartCount": 1, "state": {"terminated": end(0, "11:57:58", "11:58:00")},
        "lastState": {"terminated": end(3, "11:57:00", "11:57:01")}
    }));
    pod["spec"]["restartPolicy"] = json!("OnFailure");
    pod["status"]["phase"] = json!("Succeeded");
    let account = explain_pod(&evidence(pod, vec![]), NOW);
    let says =
        "all its containers ran to their end; container \"app\" exited with 3 before it was done";
    assert_eq!((account.state, account.summary.as_str()), (AccountState::Completed, says));
    assert!(account.advice.is_empty(), "{:?}", account.advice);
}

/// A pod whose container `app` crashes and whose container `good` ran until the pod was ended as
/// Failed, for this reason.
fn ended_as_failed(reason: &str, app: (u32, Value), good: (u32, Value)) -> PodEvidence {
    let mut pod = pod(json!({"restartCount": app.0, "state": {"terminated": app.1}}));
    pod["metadata"]["uid"] = json!("u");
    let mut second = pod["spec"]["containers"][0].clone();
    second["name"] = json!("good");
    pod["spec"]["containers"].as_array_mut().unwrap().push(second);
    let status = json!({"name": "good", "image": "shop:v1", "imageID": "", "ready": false, "restartCount": good.0,
        "state": {"terminated": good.1}});
    pod["status"]["containerStatuses"].as_array_mut().unwrap().push(status);
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["reason"] = json!(reason);
    pod["status"]["message"] = json!("container \"app\" exited with 9 again");
    evidence(pod, vec![])
}

/// The ledger of a ladder that has ended its pod, when the only ends were those of `app`.
fn exhausted() -> Value {
    json!({"phase": "Exhausted", "failuresTotal": 3, "podUID": "u", "failingPodUID": "u",
        "observed": [{"name": "app", "endedAttempts": 3}, {"name": "good", "endedAttempts": 1}]})
}

#[test]
fn what_an_exhausted_ladder_ended_is_laid_to_the_ladder() {
    let crash = || (2, end(9, "11:57:00", "11:57:00"));
    // killed, ended by its own will on SIGTERM, and with a code of its own then
    for code in [137, 143, 0, 4] {
        let good = (1, end(code, "11:57:00", "11:57:01"));
        let mut evidence = ended_as_failed("LadderExhausted", crash(), good);
        evidence.ledger = Some(ledger(exhausted()));
        let account = explain_pod(&evidence, NOW);
        let [app, good] = account.containers.as_slice() else { panic!("{account:?}") };
        assert_eq!((app.cause, app.what.as_str()), (Cause::ExitCode, "exited with 9"));
        let says = "was ended by ladder \"web\", which is exhausted (onExhausted Fail)";
        assert_eq!((good.cause, good.what.as_str()), (Cause::EndedWithPod, says), "{code}");
        let advice = "read its last lines; if they do not tell, the exit code is the app's own";
        assert_eq!(account.advice, [advice]);
    }
}

#[test]
fn an_exhausted_ladder_whose_ledger_cannot_be_read_has_ended_what_a_signal_ended() {
    let crash = (2, end(9, "11:57:00", "11:57:00"));
    let evidence = ended_as_failed("LadderExhausted", crash, (1, end(137, "11:57:00", "11:57:01")));
    let account = explain_pod(&evidence, NOW);
    let says = "was ended by its ladder, which is exhausted (onExhausted Fail)";
    assert_eq!(account.containers[1].what, says);
    assert_eq!(account.containers[0].cause, Cause::ExitCode);
}

#[test]
fn what_was_ended_with_its_pod_is_not_asked_who_killed_it() {
    let crash = (2, end(9, "11:57:00", "11:57:00"));
    let evidence = ended_as_failed("Evicted", crash, (0, end(137, "11:00:00", "11:58:00")));
    expect![[r#"
        pod shop/web: failed
          it ended as Failed (Evicted): container "app" exited with 9 again

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-01 12:00:00Z  container "app" ended; last it exited with 9 (3 times until 2026-11-21 11:57:00Z)
          2026-11-21 11:58:00Z  container "good" was ended with its pod (Evicted)

        What would help
          - read its last lines; if they do not tell, the exit code is the app's own
    "#]].assert_eq(&render(&explain_pod(&evidence, NOW), NOW));
}

/// A ladder acts within a second of the crash, and statuses tell whole seconds.
#[test]
fn a_kill_in_the_second_in_which_a_restart_began_is_laid_to_the_restart() {
    let of = |code: i32| {
        let pod = pod(json!({
            "ready": true, "restartCount": 1, "state": {"running": {"startedAt": "2026-11-21T11:57:31Z"}},
            "lastState": {"terminated": end(code, "11:57:30", "11:57:31")}
        }));
        let mut evidence = evidence(pod, vec![]);
        let restart = json!({
            "metadata": {"name": "web-pod-2", "creationTimestamp": "2026-11-21T11:57:30Z"},
            "spec": {"podName": "web", "rung": "Pod"},
            "status": {"phase": "Succeeded", "startedAt": "2026-11-21T11:57:30Z",
                "finishedAt": "2026-11-21T11:57:31Z"}
        });
        evidence.restarts.push(serde_json::from_value(restart).unwrap());
        explain_pod(&evidence, NOW).containers[0].what.clone()
    };
    assert_eq!(of(137), "was ended by PodRestart web-pod-2, rung Pod");
    assert_eq!(of(143), "was ended by PodRestart web-pod-2, rung Pod");
    assert_eq!(of(9), "exited with 9");
}

/// It had run for a while, failed, and its ladder answered within the same second: the other
/// container was ended by that.
#[test]
fn an_end_that_a_ladder_answered_at_once_is_not_laid_to_the_answer() {
    let reason = r#"container "app" exited with 1 three times in 20s; restarting the container did not help (2 of 2 attempts used)"#;
    let ended = |container: &str| {
        let mut pod = pod(json!({
            "ready": true, "restartCount": 1, "state": {"running": {"startedAt": "2026-11-21T11:57:31Z"}},
            "lastState": {"terminated": end(1, "11:57:00", "11:57:30")}
        }));
        pod["spec"]["containers"][0]["name"] = json!(container);
        pod["status"]["containerStatuses"][0]["name"] = json!(container);
        pod
    };
    let by_object = |container: &str| {
        let mut evidence = evidence(ended(container), vec![]);
        let restart = json!({
            "metadata": {"name": "web-pod-1", "creationTimestamp": "2026-11-21T11:57:30Z"},
            "spec": {"podName": "web", "rung": "Pod", "ladderName": "web", "reason": reason},
            "status": {"phase": "Succeeded", "startedAt": "2026-11-21T11:57:30Z",
                "finishedAt": "2026-11-21T11:57:31Z"}
        });
        evidence.restarts.push(serde_json::from_value(restart).unwrap());
        explain_pod(&evidence, NOW).containers[0].what.clone()
    };
    assert_eq!(by_object("app"), "exited with 1");
    assert_eq!(by_object("proxy"), "was ended by PodRestart web-pod-1, rung Pod");
    let by_events = |container: &str| {
        let tell = |kind: &str, words: &str, at: &str| {
            let mut event = event(kind, None, words, 1);
            event["lastTimestamp"] = json!(at);
            event
        };
        let begun = format!("Restarting the whole pod (PodRestart web-pod-1): {reason}");
        let over = "all containers are running again (PodRestart web-pod-1)";
        let events = vec![
            tell("PodRestarting", &begun, "2026-11-21T11:57:30Z"),
            tell("PodRestarted", over, "2026-11-21T11:57:31Z"),
        ];
        explain_pod(&evidence(ended(container), events), NOW).containers[0].what.clone()
    };
    assert_eq!(by_events("app"), "exited with 1");
    assert_eq!(by_events("proxy"), "was ended by PodRestart web-pod-1");
}

/// A pod whose only container exited with this code at 11:57:00 and that was ended as Failed.
fn failed_pod(
    reason: &str,
    message: &str,
    code: i32,
    further: Value,
    events: Vec<Value>,
) -> PodEvidence {
    let mut pod = pod(json!({"state": {"terminated": end(code, "11:50:00", "11:57:00")}}));
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["reason"] = json!(reason);
    pod["status"]["message"] = json!(message);
    for (field, value) in further.as_object().unwrap() {
        match field.as_str() {
            "activeDeadlineSeconds" => pod["spec"][field] = value.clone(),
            "condition" => pod["status"]["conditions"].as_array_mut().unwrap().push(value.clone()),
            _ => pod["status"][field] = value.clone(),
        }
    }
    evidence(pod, events)
}

fn stopped(container: &str, at: &str) -> Value {
    let mut stop = event("Killing", Some(container), &format!("Stopping container {container}"), 1);
    stop["lastTimestamp"] = json!(format!("2026-11-21T{at}Z"));
    stop
}

fn ended_by_node_at(at: &str) -> Value {
    json!({"condition": {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
        "lastTransitionTime": format!("2026-11-21T{at}Z")}})
}

#[test]
fn an_app_that_ends_well_when_its_pod_is_ended_is_not_blamed() {
    let deadline = json!({"startTime": "2026-11-21T11:50:00Z", "activeDeadlineSeconds": 420});
    let low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 1Mi. ";
    let volume = "Usage of EmptyDir volume \"data\" exceeds the limit \"10Mi\". ";
    for (reason, message, code, further, events) in [
        ("DeadlineExceeded", "too long", 0, deadline.clone(), vec![]),
        ("DeadlineExceeded", "too long", 3, deadline, vec![]),
        ("Evicted", low, 0, ended_by_node_at("11:57:20"), vec![]),
        ("Evicted", low, 1, ended_by_node_at("11:57:00"), vec![]),
        ("Evicted", volume, 0, json!({}), vec![]),
        ("Evicted", volume, 4, json!({}), vec![stopped("app", "11:56:58")]),
        (
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
            0,
            json!({}),
            vec![],
        ),
    ] {
        let account = explain_pod(&failed_pod(reason, message, code, further, events), NOW);
        let found = &account.containers[0];
        let says = format!("was ended with its pod ({reason})");
        assert_eq!((found.cause, &found.what), (Cause::EndedWithPod, &says), "{message} {code}");
        assert_eq!(account.advice.len(), 1, "{:?}", account.advice);
        assert!(!account.advice[0].contains("Always"), "{:?}", account.advice);
    }
}

#[test]
fn an_app_that_had_ended_before_its_pod_was_ended_is_told_of() {
    for (code, further, events, expected) in [
        (0, ended_by_node_at("11:59:00"), vec![], Cause::ExitedUnasked),
        (0, json!({}), vec![stopped("other", "11:57:10")], Cause::ExitedUnasked),
        (1, json!({}), vec![], Cause::ExitCode),
        // the stop of an earlier restart is not that of the pod
        (
            0,
            json!({}),
            vec![stopped("app", "11:50:00"), stopped("other", "11:59:10")],
            Cause::ExitedUnasked,
        ),
    ] {
        let account = explain_pod(&failed_pod("Evicted", "x", code, further, events), NOW);
        assert_eq!(account.containers[0].cause, expected, "{account:?}");
    }
}

#[test]
fn who_was_evicted_for_storage_is_told_what_to_do_about_it() {
    for (message, part) in [
        ("Usage of EmptyDir volume \"d\" exceeds the limit \"1Mi\". ", "sizeLimit"),
        (
            "Container app exceeded its local ephemeral storage limit \"1Mi\". ",
            "resources.limits.ephemeral-storage",
        ),
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
            "emptyDir volumes count",
        ),
        (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 1Mi. ",
            "free disk space",
        ),
        ("The node was low on resource: inodes. ", "free files"),
    ] {
        let account = explain_pod(&failed_pod("Evicted", message, 143, json!({}), vec![]), NOW);
        assert!(account.advice[0].contains(part), "{message}: {:?}", account.advice);
    }
}

#[test]
fn what_ended_when_its_node_was_stopped_is_well_again() {
    let mut last = end(0, "11:50:00", "11:57:00");
    last["message"] = json!("The container exited with 0 when its node was stopped: bye");
    let pod = pod(json!({"ready": true, "restartCount": 1, "lastState": {"terminated": last},
        "state": {"running": {"startedAt": "2026-11-21T11:58:00Z"}}}));
    let account = explain_pod(&evidence(pod, vec![]), NOW);
    assert_eq!(
        account.summary,
        "it runs and is ready now; container \"app\" was ended when its node was stopped"
    );
    assert_eq!(account.containers[0].evidence, ["termination message: bye"]);
    assert!(account.advice.is_empty());
}
