use rekindle_types::v1alpha1::RestartLadder;
use serde_json::{Value, json};

use super::*;

const NOW: Tick = Tick::from_secs(1_000_000);

fn ago(secs: u64) -> Value {
    json!((NOW - TickDuration::from_secs(secs)).to_time())
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What a pod's container does.
#[derive(Clone, Copy)]
enum Does {
    /// It has been running well.
    Runs,
    /// It failed with this code so many seconds ago.
    Fails(i32, u64),
    /// It failed so many seconds ago, and has been running since.
    RunsAgain { failed: u64, since: u64 },
}

fn pod(name: &str, set: &str, node: &str, does: Does) -> Pod {
    let ended = |code: i32, secs: u64| json!({"terminated": {"exitCode": code, "reason": "Error", "finishedAt": ago(secs)}});
    let running = |secs: u64| json!({"running": {"startedAt": ago(secs)}});
    let (state, last, ready, count) = match does {
        Does::Runs => (running(900), json!({}), true, 0),
        Does::Fails(code, secs) => (ended(code, secs), json!({}), false, 1),
        Does::RunsAgain { failed, since } => (running(since), ended(1, failed), true, 2),
    };
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true});
    typed(json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": ready, "restartCount": count,
                "state": state, "lastState": last,
            }],
        },
    }))
}

fn ledger(pod: &str, set: &str, tried: u64) -> RestartLedger {
    typed(json!({
        "metadata": {
            "name": pod, "namespace": "shop", "uid": format!("ledger-{pod}"), "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set}],
        },
        "spec": {"ladderName": "web", "podName": pod, "podUID": format!("uid-{pod}")},
        "status": {
            "failuresTotal": 3,
            "attempts": [{"rung": "Pod", "at": [(NOW - TickDuration::from_secs(tried)).to_micro_time()]}],
        },
    }))
}

fn policy(rungs: &[&str]) -> Policy {
    let rungs: Vec<Value> = rungs.iter().map(|rung| json!({"rung": rung})).collect();
    let mut ladder: RestartLadder = typed(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "window": "20m", "rungs": rungs},
    }));
    ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    Policy::of(&ladder).unwrap()
}

fn view(objects: impl IntoIterator<Item = Object>) -> View {
    let mut view = View::new();
    for object in objects {
        view.apply(object);
    }
    view
}

#[test]
fn replicas_that_fail_alike_are_counted_and_others_are_not() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let view = view(
        [
            failing.clone(),
            pod("b", "web", "n2", Does::Fails(1, 30)),
            pod("c", "web", "n2", Does::Fails(2, 5)), // in another way
            pod("d", "web", "n2", Does::Runs),
            pod("e", "web", "n2", Does::RunsAgain { failed: 30, since: 25 }), // it is well again
            pod("f", "web", "n2", Does::RunsAgain { failed: 30, since: 4 }),  // not yet
            pod("g", "other", "n2", Does::Fails(1, 5)), // of another controller
        ]
        .map(Object::from),
    );
    let peers = of(&view, &failing, &policy(&["Pod"]), NOW);
    assert_eq!((peers.replicas, peers.failing_alike), (6, 3));
    assert_eq!(peers.revision, "ReplicaSet web");
    assert_eq!((peers.tried, peers.trial, peers.helped), (None, None, None));
    let well = pod("d", "web", "n2", Does::Runs);
    assert_eq!(of(&view, &well, &policy(&["Pod"]), NOW), Peers::default(), "it does not fail");
}

#[test]
fn what_was_tried_on_one_replica_is_known_to_the_others() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let look = |peer: Does, tried: u64| {
        let peer = pod("b", "web", "n2", peer);
        let objects =
            [Object::from(failing.clone()), peer.into(), ledger("b", "web", tried).into()];
        of(&view(objects), &failing, &policy(&["Pod"]), NOW)
    };
    let on_trial = look(Does::RunsAgain { failed: 30, since: 4 }, 20);
    assert_eq!(on_trial.trial.as_ref().map(|trial| trial.pod.as_str()), Some("b"));
    assert_eq!(look(Does::RunsAgain { failed: 30, since: 15 }, 20).helped, Some(Rung::Pod));
    assert_eq!(look(Does::Fails(1, 10), 20).tried, Some(Rung::Pod));
    assert_eq!(look(Does::Fails(2, 10), 20).tried, None, "what failed in another way is no proof");
}

#[test]
fn what_is_tried_on_the_pod_itself_is_not_waited_for() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 25));
    let view = view([Object::from(failing.clone()), ledger("a", "web", 20).into()]);
    assert_eq!(of(&view, &failing, &policy(&["Pod"]), NOW).trial, None);
}

#[test]
fn a_node_is_in_trouble_when_most_of_its_pods_fail_of_two_workloads_and_another_node_does_better() {
    let node = |name: &str| {
        Object::from(typed::<k8s_openapi::api::core::v1::Node>(
            json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}}),
        ))
    };
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let look = |second: &str, elsewhere: Does, rungs: &[&str]| {
        let pods = [
            failing.clone(),
            pod("b", second, "n1", Does::Fails(3, 5)),
            pod("c", "calm", "n1", Does::Runs),
            pod("d", "web", "n2", elsewhere),
        ];
        let objects = pods.map(Object::from).into_iter().chain([node("n1"), node("n2")]);
        of(&view(objects), &failing, &policy(rungs), NOW).node
    };
    let leaves = ["Pod", "Reschedule"];
    let trouble = NodeTrouble { name: "n1".to_owned(), pods: 3, failing: 2 };
    assert_eq!(look("api", Does::Runs, &leaves), Some(trouble));
    assert_eq!(look("web", Does::Runs, &leaves), None, "one workload alone may be sick itself");
    assert_eq!(look("api", Does::Fails(1, 5), &leaves), None, "no node does better");
    assert_eq!(look("api", Does::Runs, &["Pod"]), None, "a ladder that cannot leave does not ask");
}

#[test]
fn a_pod_without_a_sandbox_fails_and_its_node_is_asked_what_is_wrong_with_it() {
    let waits = |name: &str, secs: u64| -> Pod {
        typed(json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "1",
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true},
                ],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]},
            "status": {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": ago(secs)},
                ],
            },
        }))
    };
    let node = |name: &str, ready: &str, network: &str| {
        Object::from(typed::<k8s_openapi::api::core::v1::Node>(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {"conditions": [
                {"type": "NetworkUnavailable", "status": network}, {"type": "Ready", "status": ready},
            ]},
        })))
    };
    let look = |secs: u64, ready: &str, network: &str| {
        let (web, api) = (waits("web", secs), waits("api", 3_000));
        let pods = [web.clone(), api, pod("calm", "calm", "n2", Does::Runs)].map(Object::from);
        let nodes = [node("n1", ready, network), node("n2", "True", "False")];
        of(&view(pods.into_iter().chain(nodes)), &web, &policy(&["Reschedule"]), NOW)
    };
    let trouble = NodeTrouble { name: "n1".to_owned(), pods: 2, failing: 2 };
    for (ready, network, says) in [
        ("True", "False", None),
        ("True", "True", Some("NetworkUnavailable")),
        ("Unknown", "False", Some("that it is not ready")),
    ] {
        let peers = look(600, ready, network);
        assert_eq!(peers.node_says.as_deref(), says);
        assert_eq!(peers.node, Some(trouble.clone()), "both of its pods have no sandbox");
    }
    assert_eq!(look(599, "False", "False"), Peers::default(), "it may still be on its way");
}
