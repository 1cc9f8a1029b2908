//! The accounts of pods that people read, one of each kind of trouble.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use rekindle_types::v1alpha1::PodRestart;
use rekindle_why::{AccountState, Cause, PodEvidence, explain_pod, render};
use serde_json::json;

use crate::support::{NOW, crashed, event, evidence, ledger, pod};

fn check(evidence: &PodEvidence, expected: &Expect) {
    expected.assert_eq(&render(&explain_pod(evidence, NOW), NOW));
}

#[test]
fn a_crash_loop_of_twenty_days_is_one_line() {
    let routine = |reason, text| event(reason, Some("app"), text, 5941);
    let mut evidence = evidence(
        crashed(5940, json!({})),
        vec![
            routine("Pulled", "Container image \"shop:v1\" already present on machine"),
            routine("Created", "Container created"),
            routine("Started", "Container started"),
            routine("BackOff", "Back-off restarting failed container app in pod web_shop(u)"),
        ],
    );
    let lines = ["starting", "no such table: orders\u{1b}[2J"].map(str::to_owned).to_vec();
    evidence.last_lines = BTreeMap::from([("app".to_owned(), lines)]);
    let account = explain_pod(&evidence, NOW);
    assert_eq!(account.history.len(), 2, "placed, and ended 5,941 times");
    check(
        &evidence,
        &expect![[r#"
            pod shop/web: failing
              container "app" exited with 1; it ended 5,941 times since the pod's start 20d ago, every 4m50s

            Container "app" exited with 1
              its last lines:
                | starting
                | no such table: orders [2J

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it exited with 1 (5,941 times until 2026-11-21 11:58:00Z, every 4m50s)

            Next
              in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

            What would help
              - read its last lines; if they do not tell, the exit code is the app's own
        "#]],
    );
}

#[test]
fn restarts_that_are_asked_for_again_and_again_are_one_line() {
    let mut evidence = evidence(crashed(2, json!({})), vec![]);
    for (minute, name) in ["x7k2p", "abcde", "zz9qq"].iter().enumerate() {
        let restart = json!({
            "metadata": {"name": format!("web-{name}"), "creationTimestamp": format!("2026-11-21T11:5{minute}:00Z")},
            "spec": {"podName": "web", "rung": "Pod"},
            "status": {"phase": "Succeeded", "message": "Restarted the whole pod in place"}
        });
        evidence.restarts.push(serde_json::from_value::<PodRestart>(restart).unwrap());
    }
    let account = explain_pod(&evidence, NOW);
    let told: Vec<_> = account.history.iter().filter(|e| e.what.contains("PodRestart")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].count, told[0].every_seconds), (3, Some(60)));
    assert!(told[0].what.starts_with("PodRestart web-zz9qq, rung Pod"), "{}", told[0].what);
}

/// Ended at 11:58, and running again since.
fn restarted() -> serde_json::Value {
    pod(json!({
        "ready": true, "restartCount": 1, "state": {"running": {"startedAt": "2026-11-21T11:58:00Z"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "Error",
            "startedAt": "2026-11-20T08:00:00Z", "finishedAt": "2026-11-21T11:58:00Z"}}
    }))
}

#[test]
fn what_a_restart_in_place_ended_is_not_blamed_for_its_end() {
    let mut evidence = evidence(restarted(), vec![]);
    let restart = json!({
        "metadata": {"name": "web-x7k2p", "creationTimestamp": "2026-11-21T11:57:30Z"},
        "spec": {"podName": "web", "rung": "Containers"},
        "status": {"phase": "Succeeded", "message": "Restarted all containers",
            "startedAt": "2026-11-21T11:57:30Z", "finishedAt": "2026-11-21T11:58:00Z"}
    });
    evidence.restarts.push(serde_json::from_value::<PodRestart>(restart).unwrap());
    check(
        &evidence,
        &expect![[r#"
        pod shop/web: healthy
          it runs and is ready now; container "app" was ended by PodRestart web-x7k2p, rung Containers

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:57:30Z  PodRestart web-x7k2p, rung Containers, succeeded: Restarted all containers
          2026-11-21 11:58:00Z  container "app" was ended by PodRestart web-x7k2p, rung Containers
    "#]],
    );
}

#[test]
fn a_restart_of_another_container_ended_nothing_here() {
    let of = |container: &str| {
        let restart = json!({
            "metadata": {"name": "web-x7k2p", "creationTimestamp": "2026-11-21T11:57:30Z"},
            "spec": {"podName": "web", "rung": "Container", "containerName": container},
            "status": {"phase": "Succeeded", "startedAt": "2026-11-21T11:57:30Z",
                "finishedAt": "2026-11-21T11:58:00Z"}
        });
        let mut evidence = evidence(restarted(), vec![]);
        evidence.restarts.push(serde_json::from_value::<PodRestart>(restart).unwrap());
        let account = explain_pod(&evidence, NOW);
        let asked = format!("PodRestart web-x7k2p, rung Container of container {container:?}, ");
        let told = account.history.iter().any(|entry| entry.what.starts_with(&asked));
        assert!(told, "{:?}", account.history);
        account.containers[0].what.clone()
    };
    assert_eq!(of("app"), "was ended by PodRestart web-x7k2p, rung Container");
    assert!(of("proxy").starts_with("was killed by SIGKILL"));
    // the same, when its object is gone
    let told = |container: &str| {
        let tell = |reason: &str, at: &str| {
            let words = "Restarting one of them (PodRestart web-x7k2p)";
            let mut event = event(reason, Some(container), words, 1);
            event["lastTimestamp"] = json!(at);
            event
        };
        let begun = tell("PodRestarting", "2026-11-21T11:57:30Z");
        let events = vec![begun, tell("PodRestarted", "2026-11-21T11:58:01Z")];
        explain_pod(&evidence(restarted(), events), NOW).containers[0].what.clone()
    };
    assert_eq!(told("app"), "was ended by PodRestart web-x7k2p");
    assert!(told("proxy").starts_with("was killed by SIGKILL"));
}

#[test]
fn a_restart_whose_object_is_gone_is_known_from_its_events() {
    let events = |restarted: &str| {
        let mut begun = event(
            "PodRestarting",
            None,
            "Restarting the whole pod (PodRestart web-x7k2p): new feed",
            1,
        );
        begun["lastTimestamp"] = json!("2026-11-21T11:57:30Z");
        let mut over = event(
            "PodRestarted",
            None,
            "Restarted the whole pod in place (PodRestart web-x7k2p)",
            1,
        );
        over["lastTimestamp"] = json!(restarted);
        vec![begun, over]
    };
    let what = |events| explain_pod(&evidence(restarted(), events), NOW).containers[0].what.clone();
    assert_eq!(what(events("2026-11-21T11:58:01Z")), "was ended by PodRestart web-x7k2p");
    // it was over before
    assert!(what(events("2026-11-21T11:57:31Z")).starts_with("was killed by SIGKILL"));
}

#[test]
fn a_container_that_is_not_ready_after_a_restart_tells_of_its_probe() {
    let mut pod = restarted();
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
    pod["status"]["conditions"][1]["status"] = json!("False");
    let restart = json!({
        "metadata": {"name": "web-x7k2p"}, "spec": {"podName": "web"},
        "status": {"phase": "Running", "startedAt": "2026-11-21T11:57:30Z"}
    });
    let restart = serde_json::from_value::<PodRestart>(restart).unwrap();
    let mut silent = evidence(pod.clone(), vec![]);
    silent.restarts.push(restart.clone());
    let account = explain_pod(&silent, NOW);
    assert_eq!(
        (account.state, account.containers[0].cause),
        (AccountState::NotReady, Cause::Restarted)
    );
    assert!(account.advice.is_empty(), "{:?}", account.advice);
    let unhealthy = event("Unhealthy", Some("app"), "Readiness probe failed: not yet", 3);
    let mut probed = evidence(pod, vec![unhealthy]);
    probed.restarts.push(restart);
    assert_eq!(explain_pod(&probed, NOW).containers[0].cause, Cause::ReadinessFailed);
}

#[test]
fn a_container_that_runs_out_of_memory_is_told_its_limit() {
    let pod = crashed(3, json!({"exitCode": 137, "reason": "OOMKilled"}));
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
            pod shop/web: failing
              container "app" was killed for lack of memory (OOMKilled): its limit is 64Mi; it ended 4 times since the pod's start 20d ago

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it was killed for lack of memory (OOMKilled): its limit is 64Mi (4 times until 2026-11-21 11:58:00Z)

            Next
              in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

            What would help
              - raise resources.limits.memory above 64Mi, or make it use less; no restart helps
        "#]],
    );
}

#[test]
fn a_container_that_runs_out_of_memory_tells_what_its_cgroup_said() {
    let message =
        "OOM killer: 1 kill, limit 67108864 bytes, peak 67100672 bytes: loading the catalogue";
    let pod = crashed(3, json!({"exitCode": 137, "reason": "OOMKilled", "message": message}));
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
        pod shop/web: failing
          container "app" was killed for lack of memory (OOMKilled): its limit is 64Mi; it ended 4 times since the pod's start 20d ago

        Container "app" was killed for lack of memory (OOMKilled): its limit is 64Mi
          its memory when it died: 1 process was killed, its limit was 64Mi, its peak 63.9Mi
          termination message: loading the catalogue

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-01 12:00:00Z  container "app" ended; last it was killed for lack of memory (OOMKilled): its limit is 64Mi (4 times until 2026-11-21 11:58:00Z)

        Next
          in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

        What would help
          - raise resources.limits.memory above 64Mi, or make it use less; no restart helps
    "#]],
    );
}

#[test]
fn a_container_that_pretends_to_have_run_out_of_memory_is_not_believed() {
    let pod =
        crashed(0, json!({"exitCode": 1, "message": "OOM killer: 9 kills, no limit of its own"}));
    let account = explain_pod(&evidence(pod, vec![]), NOW);
    assert_eq!(account.containers[0].memory, None);
    let says = "termination message: OOM killer: 9 kills, no limit of its own";
    assert_eq!(account.containers[0].evidence, [says]);
}

#[test]
fn a_kill_that_was_not_for_memory_is_not_called_so() {
    check(
        &evidence(crashed(0, json!({"exitCode": 137})), vec![]),
        &expect![[r#"
        pod shop/web: failing
          container "app" was killed by SIGKILL (exit code 137), not for its own memory limit

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:58:00Z  container "app" was killed by SIGKILL (exit code 137), not for its own memory limit

        Next
          in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

        What would help
          - look who killed it: a grace period that was too short, a process of its own, or the machine out of memory
    "#]],
    );
}

#[test]
fn a_bad_image_is_told_with_the_registrys_answer() {
    let pod = pod(json!({"state": {"waiting": {"reason": "ImagePullBackOff",
        "message": "Back-off pulling image \"shop:v1\": ErrImagePull: manifest unknown"}}}));
    let events = vec![
        event("Failed", Some("app"), "Failed to pull image \"shop:v1\": manifest unknown", 12),
        event("Failed", Some("app"), "Error: ErrImagePull", 12),
        event("BackOff", Some("app"), "Back-off pulling image \"shop:v1\"", 200),
    ];
    check(
        &evidence(pod, events),
        &expect![[r#"
        pod shop/web: blocked
          container "app" waits for its image "shop:v1", which cannot be had: Back-off pulling image "shop:v1": ErrImagePull: manifest unknown

        Container "app" waits for its image "shop:v1", which cannot be had
          Back-off pulling image "shop:v1": ErrImagePull: manifest unknown

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:00:00Z  container "app": Failed: Failed to pull image "shop:v1": manifest unknown (12 times until 2026-11-21 11:57:59Z, every 5m16s)

        What would help
          - mend the image's name, the registry or the credentials; the node tries again by itself
    "#]],
    );
}

#[test]
fn a_missing_command_is_not_worth_a_restart() {
    let message = "exec: \"/bin/serve\": no such file or directory";
    let pod = crashed(4, json!({"exitCode": 128, "reason": "StartError", "message": message}));
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
            pod shop/web: failing
              container "app" could not be started: exec: "/bin/serve": no such file or directory; it ended 5 times since the pod's start 20d ago

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it could not be started: exec: "/bin/serve": no such file or directory (5 times until 2026-11-21 11:58:00Z)

            Next
              in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

            What would help
              - mend the command, the working directory or the image; no restart helps
        "#]],
    );
}

#[test]
fn a_missing_config_map_is_named() {
    let pod = pod(json!({"state": {"waiting": {"reason": "CreateContainerConfigError",
        "message": "configmap \"settings\" not found"}}}));
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
        pod shop/web: blocked
          container "app" cannot be configured: configmap "settings" not found

        Container "app" cannot be configured
          configmap "settings" not found

        What happened
          2026-11-01 12:00:00Z  placed on node-1

        What would help
          - create what it refers to, or mend the reference; the node goes on by itself
    "#]],
    );
}

#[test]
fn a_liveness_failure_is_told_with_what_the_probe_said() {
    let pod = crashed(7, json!({"exitCode": 137}));
    let events = vec![
        event(
            "Unhealthy",
            Some("app"),
            "Liveness probe failed: HTTP probe failed with statuscode: 503",
            24,
        ),
        event("Killing", Some("app"), "Container app failed liveness probe, will be restarted", 8),
    ];
    check(
        &evidence(pod, events),
        &expect![[r#"
            pod shop/web: failing
              container "app" was killed because its liveness probe failed 3 times in a row; it ended 8 times since the pod's start 20d ago

            Container "app" was killed because its liveness probe failed 3 times in a row
              Liveness probe failed: HTTP probe failed with statuscode: 503

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it was killed because its liveness probe failed 3 times in a row (8 times until 2026-11-21 11:58:00Z)
              2026-11-21 11:00:00Z  container "app": Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503 (24 times until 2026-11-21 11:57:59Z, every 2m31s)

            Next
              in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

            What would help
              - find out why it does not answer; if it is slow and not stuck, raise the probe's timeoutSeconds or failureThreshold, or give it a startupProbe
        "#]],
    );
}

#[test]
fn a_liveness_failure_that_events_do_not_tell_of_any_more_is_told_by_the_status() {
    let message = "Ended by its node: liveness probe failed (\"stale lock\"): cleaning up";
    let account = explain_pod(
        &evidence(crashed(1, json!({"exitCode": 137, "message": message})), vec![]),
        NOW,
    );
    let app = &account.containers[0];
    assert_eq!(app.cause, Cause::LivenessFailed);
    assert_eq!(
        app.evidence,
        ["termination message: cleaning up", "Liveness probe failed: stale lock"]
    );
}

#[test]
fn an_exhausted_ladder_says_what_it_tried() {
    let mut evidence = evidence(crashed(6, json!({})), vec![]);
    evidence.ledger = Some(ledger(json!({
        "phase": "Exhausted", "rung": "Pod", "failuresTotal": 7,
        "message": "container \"app\" exited with 1 again; every rung was tried (Container 2, Pod 1)",
        "attempts": [{"rung": "Container", "at": ["2026-11-21T11:50:00.000000Z", "2026-11-21T11:51:00.000000Z"]},
                     {"rung": "Pod", "at": ["2026-11-21T11:55:00.000000Z"]}],
        "decisions": [
            {"at": "2026-11-21T11:51:00.000000Z", "rung": "Container", "count": 2, "reason": "container \"app\" exited with 1: left to the container's own restart (2 of 2)"},
            {"at": "2026-11-21T11:55:00.000000Z", "rung": "Pod", "count": 1, "reason": "restarting the whole pod (1 of 1)", "podRestart": "web-1"},
            {"at": "2026-11-21T11:58:00.000000Z", "count": 3, "firstAt": "2026-11-21T11:57:00.000000Z", "reason": "container \"app\" exited with 1 again; every rung was tried (Container 2, Pod 1)"}
        ]
    })));
    evidence.restarts = vec![
        serde_json::from_value::<PodRestart>(json!({
            "metadata": {"name": "web-1", "creationTimestamp": "2026-11-21T11:55:00Z"},
            "spec": {"podName": "web", "rung": "Pod"},
            "status": {"phase": "Succeeded", "message": "Restarted the whole pod in place"}
        }))
        .unwrap(),
    ];
    check(
        &evidence,
        &expect![[r#"
            pod shop/web: failing
              container "app" exited with 1; it ended 7 times since the pod's start 20d ago; its ladder is exhausted

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it exited with 1 (7 times until 2026-11-21 11:58:00Z)
              2026-11-21 11:51:00Z  Container: container "app" exited with 1: left to the container's own restart (2 of 2) (twice until 2026-11-21 11:51:00Z)
              2026-11-21 11:55:00Z  Pod: restarting the whole pod (1 of 1)
              2026-11-21 11:55:00Z  PodRestart web-1, rung Pod, succeeded: Restarted the whole pod in place
              2026-11-21 11:57:00Z  ladder: container "app" exited with 1 again; every rung was tried (Container 2, Pod 1) (3 times until 2026-11-21 11:58:00Z, every 30s)

            Ladder "web", Exhausted, on rung Pod
              container "app" exited with 1 again; every rung was tried (Container 2, Pod 1)
              attempts inside the window: Container 2, Pod 1
              failures counted: 7

            Next
              in 3m, 2026-11-21 12:03:00Z: the back-off of container "app" ends and it is started again

            What would help
              - read its last lines; if they do not tell, the exit code is the app's own
        "#]],
    );
}

#[test]
fn what_began_first_and_goes_on_is_told_however_much_else_happened() {
    let events = (0..60).map(|number| {
        let letters: String = (0..=number).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        event("Odd", None, &format!("something {letters}"), 1)
    });
    let account = explain_pod(&evidence(crashed(5940, json!({})), events.collect()), NOW);
    assert_eq!(account.history.len(), 40);
    assert!(account.history.iter().any(|entry| entry.count == 5941), "{:?}", account.history);
}

#[test]
fn a_restart_that_a_budget_holds_back_is_said_to_be_due() {
    let mut evidence = evidence(crashed(3, json!({})), vec![]);
    evidence.ledger = Some(ledger(json!({
        "phase": "Holding", "rung": "Container", "heldRung": "Pod", "failuresTotal": 3,
        "nextAttemptAt": "2026-11-21T12:00:30.000000Z",
        "message": "restarting the whole pod is due, held back by perMinute 1 of ladder \"web\": it waits until 12:00:30 UTC"
    })));
    check(
        &evidence,
        &expect![[r#"
            pod shop/web: failing
              container "app" exited with 1; it ended 4 times since the pod's start 20d ago; rung Pod is due and held by a budget

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it exited with 1 (4 times until 2026-11-21 11:58:00Z)

            Ladder "web", Holding, on rung Container
              restarting the whole pod is due, held back by perMinute 1 of ladder "web": it waits until 12:00:30 UTC
              failures counted: 3

            Next
              in 30s, 2026-11-21 12:00:30Z: the ladder looks again whether there is room for rung Pod

            What would help
              - read its last lines; if they do not tell, the exit code is the app's own
        "#]],
    );
}

#[test]
fn what_would_help_follows_from_why_no_node_takes_a_pod() {
    for (message, helps) in [
        ("1 Insufficient memory", "make room:"),
        (
            "2 node(s) didn't have free ports for the requested pod ports",
            "another pod has the node's port:",
        ),
        ("1 node(s) had untolerated taint(s)", "uncordon a node"),
        ("1 node(s) didn't match Pod's node affinity/selector", "label a node"),
        ("pod has unbound immediate PersistentVolumeClaims", "look at its PersistentVolumeClaims"),
        (
            "1 node(s) didn't match PersistentVolume's node affinity",
            "look at its PersistentVolumeClaims",
        ),
        ("1 something new", "mend what the message names"),
    ] {
        let mut pod = pod(json!({}));
        pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": format!("0/1 nodes are available: {message}.")}]});
        let advice = explain_pod(&evidence(pod, vec![]), NOW).advice;
        assert!(advice[0].starts_with(helps), "{message}: {advice:?}");
    }
}

#[test]
fn a_pod_that_no_node_has_room_for_is_blocked() {
    let mut pod = pod(json!({}));
    pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory."}]});
    let seen =
        event("FailedScheduling", None, "0/1 nodes are available: 1 Insufficient memory.", 9);
    check(
        &evidence(pod, vec![seen]),
        &expect![[r#"
        pod shop/web: blocked
          no node takes it: 0/1 nodes are available: 1 Insufficient memory.

        What would help
          - make room: lower its requests or those of others, end what is not needed, or add a node
    "#]],
    );
}

#[test]
fn a_healthy_pod_is_said_to_be_healthy() {
    let running =
        json!({"ready": true, "state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}});
    check(
        &evidence(pod(running), vec![]),
        &expect![[r#"
        pod shop/web: healthy
          it runs and is ready; nothing has ended

        What happened
          2026-11-01 12:00:00Z  placed on node-1
    "#]],
    );
}

#[test]
fn a_pod_that_recovered_tells_what_was() {
    let pod = pod(json!({"ready": true, "restartCount": 2,
        "state": {"running": {"startedAt": "2026-11-21T11:58:10Z"}},
        "lastState": {"terminated": {"exitCode": 139, "reason": "Error", "finishedAt": "2026-11-21T11:58:00Z"}}}));
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
            pod shop/web: healthy
              it runs and is ready now; container "app" exited with 139 (SIGSEGV); it ended twice since the pod's start 20d ago

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-01 12:00:00Z  container "app" ended; last it exited with 139 (SIGSEGV) (twice until 2026-11-21 11:58:00Z)
        "#]],
    );
}

#[test]
fn a_sandbox_that_cannot_be_made_is_the_reason() {
    let mut pod = pod(json!({"state": {"waiting": {"reason": "ContainerCreating"}}}));
    pod["status"]["phase"] = json!("Pending");
    let text = "Failed to create pod sandbox: no free address in 10.1.0.0/24";
    let events = vec![event("FailedCreatePodSandBox", None, text, 31)];
    check(
        &evidence(pod, events),
        &expect![[r#"
        pod shop/web: blocked
          it cannot begin: FailedCreatePodSandBox, 31 times: Failed to create pod sandbox: no free address in 10.1.0.0/24

        What happened
          2026-11-01 12:00:00Z  placed on node-1
          2026-11-21 11:00:00Z  FailedCreatePodSandBox: Failed to create pod sandbox: no free address in 10.1.0.0/24 (31 times until 2026-11-21 11:57:59Z, every 1m55s)

        What would help
          - look at the node: its network, its runtime and its disk; the node tries again by itself
    "#]],
    );
}

#[test]
fn a_completed_job_is_completed() {
    let mut pod = pod(
        json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-11-01T12:05:00Z"}}}),
    );
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["status"]["phase"] = json!("Succeeded");
    check(
        &evidence(pod, vec![]),
        &expect![[r#"
        pod shop/web: completed
          all its containers ran to their end

        What happened
          2026-11-01 12:00:00Z  placed on node-1
    "#]],
    );
}

#[test]
fn a_readiness_probe_that_fails_is_not_a_crash() {
    let pod = pod(json!({"state": {"running": {"startedAt": "2026-11-01T12:00:00Z"}}}));
    let text = "Readiness probe failed: HTTP probe failed with statuscode: 500";
    check(
        &evidence(pod, vec![event("Unhealthy", Some("app"), text, 12_000)]),
        &expect![[r#"
            pod shop/web: not ready
              container "app" runs and is not ready: its readiness probe fails: Readiness probe failed: HTTP probe failed with statuscode: 500

            Container "app" runs and is not ready: its readiness probe fails
              Readiness probe failed: HTTP probe failed with statuscode: 500

            What happened
              2026-11-01 12:00:00Z  placed on node-1
              2026-11-21 11:00:00Z  container "app": Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500 (12,000 times until 2026-11-21 11:57:59Z)

            What would help
              - look at what the probe asks for; no restart follows from a failed readiness probe
        "#]],
    );
}

#[test]
fn the_json_names_cause_and_counts() {
    let pod = crashed(3, json!({"exitCode": 137, "reason": "OOMKilled"}));
    let account = serde_json::to_value(explain_pod(&evidence(pod, vec![]), NOW)).unwrap();
    assert_eq!(account["state"], "Failing");
    assert_eq!(account["containers"][0]["cause"], "OutOfMemory");
    assert_eq!(account["containers"][0]["ends"], 4);
    assert_eq!(account["history"][1]["count"], 4);
    assert_eq!(account["next"]["at"], "2026-11-21T12:03:00Z");
}
