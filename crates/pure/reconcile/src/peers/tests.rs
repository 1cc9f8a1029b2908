use rekindle_types::held::HeldContainerState;
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

fn pod(name: &str, set: &str, node: &str, does: Does) -> HeldPod {
    typed(pod_value(name, set, node, does))
}

fn pod_value(name: &str, set: &str, node: &str, does: Does) -> Value {
    let ended = |code: i32, secs: u64| json!({"terminated": {"exitCode": code, "reason": "Error", "startedAt": ago(secs + 1), "finishedAt": ago(secs)}});
    let running = |secs: u64| json!({"running": {"startedAt": ago(secs)}});
    let (state, last, ready, count) = match does {
        Does::Runs => (running(900), json!({}), true, 0),
        Does::Fails(code, secs) => (ended(code, secs), json!({}), false, 1),
        Does::RunsAgain { failed, since } => (running(since), ended(1, failed), true, 2),
    };
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true});
    let said = if ready { "True" } else { "False" };
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {"pod-template-hash": "5d4f"}, "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": said}],
            "containerStatuses": [{
                "name": "app", "image": "app", "imageID": "", "ready": ready, "restartCount": count,
                "state": state, "lastState": last,
            }],
        },
    })
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

fn policy(rungs: &[&str]) -> LadderPolicy {
    let rungs: Vec<Value> = rungs.iter().map(|rung| json!({"rung": rung})).collect();
    let mut ladder: RestartLadder = typed(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "window": "20m", "rungs": rungs},
    }));
    ladder.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    LadderPolicy::from_ladder(&ladder).unwrap()
}

fn view(objects: impl IntoIterator<Item = ViewObject>) -> ClusterView {
    let mut view = ClusterView::new();
    for object in objects {
        view.apply(object);
    }
    view
}

/// For a pod with the ledger that is among the objects.
fn look_at(view: &ClusterView, pod: &HeldPod, policy: &LadderPolicy, now: Tick) -> RevisionPeers {
    let uid = pod.metadata.uid.as_deref().unwrap();
    let controller = owners::controller_of(&pod.metadata);
    let ledgers = controller.map(|controller| ledgers_by_pod(view, &controller.uid));
    let ledger = ledgers.as_ref().and_then(|ledgers| ledgers.get(uid));
    revision_peers(view, pod, ledger.and_then(|ledger| ledger.status.as_ref()), policy, now)
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
        .map(ViewObject::from),
    );
    let peers = look_at(&view, &failing, &policy(&["Pod"]), NOW);
    assert_eq!((peers.replicas, peers.failing_alike), (6, 3));
    assert_eq!(peers.revision, "ReplicaSet web");
    assert_eq!((peers.tried, peers.trial, peers.helped), (None, None, None));
    let well = pod("d", "web", "n2", Does::Runs);
    assert_eq!(
        look_at(&view, &well, &policy(&["Pod"]), NOW),
        RevisionPeers::default(),
        "it does not fail"
    );
}

/// Each of them fails some twenty seconds after its start, again and again. Which of them does so
/// first is a matter of milliseconds.
#[test]
fn replicas_that_fail_again_and_again_fail_alike_until_they_have_outlived_their_last_end() {
    let ran = |name: &str, seconds: u64, since: u64| {
        let mut peer = pod_value(name, "web", "n1", Does::RunsAgain { failed: since + 1, since });
        peer["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] =
            ago(since + 1 + seconds);
        typed::<HeldPod>(peer)
    };
    let failing = pod("a", "web", "n1", Does::Fails(1, 0));
    let alike = |b: HeldPod, c: HeldPod| {
        let objects = [ViewObject::from(failing.clone()), b.into(), c.into()];
        look_at(&view(objects), &failing, &policy(&["Pod"]), NOW).failing_alike
    };
    assert_eq!(alike(ran("b", 20, 20), ran("c", 20, 39)), 3);
    assert_eq!(alike(ran("b", 20, 40), ran("c", 1, 10)), 1, "they are well");
    // of what ran for longer than the window once is not known that it fails again and again
    assert_eq!(alike(ran("b", 3_600, 10), ran("c", 3_600, 9)), 2);
}

#[test]
fn what_was_tried_on_one_replica_is_known_to_the_others() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let look = |peer: Does, tried: u64| {
        let peer = pod("b", "web", "n2", peer);
        let objects =
            [ViewObject::from(failing.clone()), peer.into(), ledger("b", "web", tried).into()];
        look_at(&view(objects), &failing, &policy(&["Pod"]), NOW)
    };
    let on_trial = look(Does::RunsAgain { failed: 30, since: 4 }, 20);
    assert_eq!(on_trial.trial.as_ref().map(|trial| trial.pod.as_str()), Some("b"));
    assert_eq!(look(Does::RunsAgain { failed: 30, since: 15 }, 20).helped, Some(Rung::Pod));
    assert_eq!(look(Does::Fails(1, 10), 20).tried, Some(Rung::Pod));
    assert_eq!(look(Does::Fails(2, 10), 20).tried, None, "what failed in another way is no proof");
}

/// Three replicas fail within a second. All containers of the first are being restarted, so that it
/// is not seen which of them failed; the third has failed once, and has been running for twenty
/// seconds.
#[test]
fn a_replica_that_is_being_restarted_counts_with_those_that_fail_until_it_is_ready() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 0));
    let look = |ready: &str| {
        let mut first = pod_value("b", "web", "n2", Does::Fails(1, 1));
        first["status"]["conditions"] = json!([
            {"type": "Ready", "status": ready},
            {"type": "AllContainersRestarting", "status": "True", "lastTransitionTime": ago(1)},
        ]);
        let third = pod("c", "web", "n2", Does::RunsAgain { failed: 21, since: 20 });
        let objects = [
            ViewObject::from(failing.clone()),
            typed::<HeldPod>(first).into(),
            third.into(),
            ledger("b", "web", 1).into(),
        ];
        look_at(&view(objects), &failing, &policy(&["Pod"]), NOW)
    };
    let restarting = look("False");
    assert_eq!((restarting.replicas, restarting.failing_alike), (3, 2));
    assert!(restarting.trial.is_some());
    assert_eq!(look("True").failing_alike, 1);
}

/// A replica whose app failed twenty seconds ago and which was restarted within that second; its
/// proxy, which comes first in its spec, ended so many seconds ago with this code.
fn restarted(proxy_exit: i32, proxy_ended: u64) -> (Value, RestartLedger) {
    let mut pod = pod_value("b", "web", "n2", Does::RunsAgain { failed: 20, since: 19 });
    pod["spec"]["containers"] =
        json!([{"name": "proxy", "image": "proxy"}, {"name": "app", "image": "app"}]);
    let app = &mut pod["status"]["containerStatuses"][0];
    app["lastState"]["terminated"]["startedAt"] = ago(80);
    let mut proxy = app.clone();
    proxy["name"] = json!("proxy");
    proxy["lastState"]["terminated"] = json!({
        "exitCode": proxy_exit, "reason": "Error", "startedAt": ago(500), "finishedAt": ago(proxy_ended),
    });
    pod["status"]["containerStatuses"].as_array_mut().unwrap().insert(0, proxy);
    let mut ledger = ledger("b", "web", 20);
    let attempts = ledger.status.as_mut().and_then(|status| status.attempts.as_mut()).unwrap();
    attempts[0].at = vec![(NOW - TickDuration::from_millis(19_400)).to_micro_time()];
    (pod, ledger)
}

#[test]
fn a_replica_that_was_restarted_shows_what_failed_and_not_what_the_restart_has_ended() {
    let alike = |proxy_exit: i32, proxy_ended: u64| {
        let (restarted, ledger) = restarted(proxy_exit, proxy_ended);
        let failing = pod("a", "web", "n1", Does::Fails(1, 0));
        let objects =
            [ViewObject::from(failing.clone()), typed::<HeldPod>(restarted).into(), ledger.into()];
        look_at(&view(objects), &failing, &policy(&["Pod"]), NOW).failing_alike
    };
    assert_eq!([alike(143, 20), alike(137, 20), alike(3, 18)], [2, 2, 2]);
    assert_eq!(alike(3, 20), 1, "the proxy failed, and comes first");
}

#[test]
fn what_a_restart_has_ended_and_cannot_start_again_is_seen() {
    let (mut restarted, ledger) = restarted(143, 18);
    let mut failing = pod_value("a", "web", "n1", Does::Runs);
    failing["spec"]["containers"][0]["name"] = json!("proxy");
    failing["status"]["containerStatuses"][0]["name"] = json!("proxy");
    for (pod, reason) in [(&mut restarted, "ErrImagePull"), (&mut failing, "ImagePullBackOff")] {
        let proxy = &mut pod["status"]["containerStatuses"][0];
        (proxy["state"], proxy["ready"]) = (json!({"waiting": {"reason": reason}}), json!(false));
    }
    let failing: HeldPod = typed(failing);
    let objects =
        [ViewObject::from(failing.clone()), typed::<HeldPod>(restarted).into(), ledger.into()];
    assert_eq!(look_at(&view(objects), &failing, &policy(&["Pod"]), NOW).failing_alike, 2);
}

#[test]
fn what_is_tried_on_the_pod_itself_is_not_waited_for() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 25));
    let view = view([ViewObject::from(failing.clone()), ledger("a", "web", 20).into()]);
    assert_eq!(look_at(&view, &failing, &policy(&["Pod"]), NOW).trial, None);
}

/// A node that takes pods.
fn node(name: &str) -> k8s_openapi::api::core::v1::Node {
    typed(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

/// The pod as one that is owned by this kind, at this revision.
fn of_revision(mut pod: HeldPod, kind: &str, revision: &str) -> HeldPod {
    let owners = pod.metadata.owner_references.as_mut().unwrap();
    owners[0].kind = kind.to_owned();
    pod.metadata.labels =
        Some([("controller-revision-hash".to_owned(), revision.to_owned())].into());
    pod
}

#[test]
fn a_node_is_in_trouble_when_most_of_its_pods_fail_of_two_workloads_and_another_node_does_better() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let look = |second: &str, elsewhere: Does, rungs: &[&str]| {
        let pods = [
            failing.clone(),
            pod("b", second, "n1", Does::Fails(3, 5)),
            pod("c", "calm", "n1", Does::Runs),
            pod("d", "web", "n2", elsewhere),
        ];
        let nodes = [node("n1"), node("n2")].map(ViewObject::from);
        let objects = pods.map(ViewObject::from).into_iter().chain(nodes);
        look_at(&view(objects), &failing, &policy(rungs), NOW).node
    };
    let leaves = ["Pod", "Reschedule"];
    let trouble = NodeTrouble { name: "n1".to_owned(), pods: 3, failing: 2 };
    assert_eq!(look("api", Does::Runs, &leaves), Some(trouble));
    assert_eq!(look("web", Does::Runs, &leaves), None, "one workload alone may be sick itself");
    assert_eq!(look("api", Does::Fails(1, 5), &leaves), None, "no node does better");
    assert_eq!(look("api", Does::Runs, &["Pod"]), None, "a ladder that cannot leave does not ask");
}

#[test]
fn a_node_that_runs_nothing_or_takes_nothing_does_not_do_better() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let look = |other: Option<k8s_openapi::api::core::v1::Node>, on_it: Option<HeldPod>| {
        let pods =
            [failing.clone(), pod("b", "api", "n1", Does::Fails(3, 5))].map(ViewObject::from);
        let nodes = [Some(node("n1")), other].into_iter().flatten().map(ViewObject::from);
        let objects = pods.into_iter().chain(nodes).chain(on_it.map(ViewObject::from));
        look_at(&view(objects), &failing, &policy(&["Reschedule"]), NOW).node.is_some()
    };
    let calm = || Some(pod("c", "calm", "n2", Does::Runs));
    let (mut not_ready, mut cordoned) = (node("n2"), node("n2"));
    not_ready.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "Unknown".into();
    cordoned.spec = Some(typed(json!({"unschedulable": true})));
    let agent = of_revision(pod("agent-2", "agent", "n2", Does::Runs), "DaemonSet", "one");
    for (what, other, on_it, expected) in [
        ("it runs a pod that is well", Some(node("n2")), calm(), true),
        ("it is empty", Some(node("n2")), None, false),
        ("it is not there", None, None, false),
        ("it is not ready", Some(not_ready), calm(), false),
        ("it is cordoned", Some(cordoned), calm(), false),
        ("it runs what every node runs", Some(node("n2")), Some(agent), false),
        (
            "its pod was well",
            Some(node("n2")),
            Some(pod("c", "calm", "n2", Does::Fails(9, 1))),
            false,
        ),
    ] {
        assert_eq!(look(other, on_it), expected, "{what}");
    }
}

#[test]
fn one_end_of_each_pod_is_no_sick_node_for_a_machine_that_boots_ends_all() {
    let rebooted = |name: &str, set: &str, attempts: u64| -> HeldPod {
        let mut pod = pod(name, set, "n1", Does::Fails(137, 5));
        let status = pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap();
        status[0].restart_count = i32::try_from(attempts).unwrap() - 1;
        let HeldContainerState::Terminated(ended) = &mut status[0].state else { panic!() };
        ended.started_at = Some((NOW - TickDuration::from_secs(90_000)).to_time());
        pod
    };
    let look = |own: HeldPod, other: HeldPod| {
        let objects =
            [own.clone(), other, pod("c", "calm", "n2", Does::Runs)].map(ViewObject::from);
        let nodes = [node("n1"), node("n2")].map(ViewObject::from);
        let peers =
            look_at(&view(objects.into_iter().chain(nodes)), &own, &policy(&["Reschedule"]), NOW);
        peers.node.is_some()
    };
    assert!(!look(rebooted("a", "web", 1), rebooted("b", "api", 1)), "their first end");
    assert!(!look(rebooted("a", "web", 4), rebooted("b", "api", 9)), "they had ended days before");
    let again = |name: &str, set: &str| pod(name, set, "n1", Does::Fails(1, 5));
    assert!(!look(rebooted("a", "web", 1), again("b", "api")), "one alone fails again");
    assert!(look(again("a", "web"), again("b", "api")));
}

#[test]
fn a_node_is_not_left_when_the_revision_fails_alike_elsewhere_and_is_well_nowhere() {
    let fails = Does::Fails(1, 5);
    // what web does on n2, and whether n1, where another workload fails too, is left for n3, which
    // does better
    for (elsewhere, expected) in [
        (vec![fails, fails], false),     // a dependency that is down
        (vec![fails, Does::Runs], true), // one of the three is well
        (vec![Does::Fails(2, 5)], true), // it fails in another way
        (vec![Does::RunsAgain { failed: 9, since: 4 }], false), // it runs again, and is not well yet
        (vec![], true),
    ] {
        let own = pod("a", "web", "n1", fails);
        let replicas = elsewhere
            .iter()
            .enumerate()
            .map(|(number, does)| pod(&format!("web-{number}"), "web", "n2", *does));
        let pods = [own.clone(), pod("b", "api", "n1", fails), pod("c", "calm", "n3", Does::Runs)];
        let objects = pods.into_iter().chain(replicas).map(ViewObject::from);
        let nodes = ["n1", "n2", "n3"].map(node).map(ViewObject::from);
        let view = view(objects.chain(nodes));
        let peers = look_at(&view, &own, &policy(&["Pod", "Reschedule"]), NOW);
        assert_eq!(
            peers.node.is_some(),
            expected,
            "{} replicas elsewhere: {peers:?}",
            elsewhere.len()
        );
    }
}

#[test]
fn a_dependency_that_is_down_is_no_sick_node_where_one_node_is_less_crowded() {
    let pods = ["web", "api"].into_iter().flat_map(|set| {
        ["n1", "n2", "n3"].map(|node| pod(&format!("{set}-{node}"), set, node, Does::Fails(1, 5)))
    });
    let pods: Vec<HeldPod> =
        pods.chain(["c", "d"].map(|name| pod(name, "calm", "n3", Does::Runs))).collect();
    let objects = pods.iter().cloned().map(ViewObject::from);
    let view = view(objects.chain(["n1", "n2", "n3"].map(node).map(ViewObject::from)));
    let peers = look_at(&view, &pods[0], &policy(&["Pod", "Reschedule"]), NOW);
    assert_eq!((peers.replicas, peers.failing_alike, peers.node), (3, 3, None));
}

#[test]
fn of_a_controller_with_several_revisions_only_pods_of_the_same_one_are_peers() {
    for (kind, name) in [("DaemonSet", "agent"), ("StatefulSet", "db")] {
        let at = |number: usize, revision: &str, does: Does| {
            let on = format!("n{number}");
            of_revision(pod(&format!("{name}-{number}"), name, &on, does), kind, revision)
        };
        let fails = Does::Fails(1, 5);
        let new = [at(0, "new", fails), at(1, "new", fails), at(2, "new", fails)];
        let old = (3..10).map(|number| at(number, "old", Does::Runs));
        let view = view(new.iter().cloned().chain(old).map(ViewObject::from));
        let peers = look_at(&view, &new[0], &policy(&["Pod"]), NOW);
        assert_eq!((peers.replicas, peers.failing_alike), (3, 3), "{kind}");
        assert_eq!(peers.revision, format!("{kind} {name} at revision new"));
    }
}

/// A pod of a controller of that kind, made from a template with this image and these resources.
fn of_template(name: &str, kind: &str, image: &str, resources: Value, does: Does) -> HeldPod {
    let mut pod = pod_value(name, "web", "n1", does);
    pod["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
    pod["metadata"]["labels"] = json!({});
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod["spec"]["containers"][0]["resources"] = resources;
    typed(pod)
}

#[test]
fn where_nothing_marks_the_template_only_pods_of_the_same_one_are_peers() {
    for kind in ["ReplicationController", "ReplicaSet"] {
        let at = |number: usize, image: &str, does: Does| {
            of_template(&format!("web-{number}"), kind, image, json!({}), does)
        };
        let fails = Does::Fails(1, 5);
        let limits = json!({"limits": {"memory": "1Gi"}});
        let resized = of_template("web-2", kind, "new", limits, fails);
        let new = [at(0, "new", fails), at(1, "new", fails), resized];
        let old = (3..10).map(|number| at(number, "old", Does::Runs));
        let view = view(new.iter().cloned().chain(old).map(ViewObject::from));
        let peers = look_at(&view, &new[0], &policy(&["Pod"]), NOW);
        assert_eq!((peers.replicas, peers.failing_alike), (3, 3), "{kind}");
        assert_eq!(peers.revision, format!("{kind} web with the same template"));
    }
}

#[test]
fn all_pods_that_a_job_has_at_work_are_peers_and_have_nothing_to_go_back_to() {
    let of_job = |name: &str, does: Does| of_template(name, "Job", "app", json!({}), does);
    let failing = ["a", "b", "c"].map(|name| of_job(name, Does::Fails(1, 5)));
    let mut done = ["d", "e", "f", "g"].map(|name| of_job(name, Does::Runs));
    for pod in &mut done {
        pod.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    }
    let view = view(failing.iter().cloned().chain(done).map(ViewObject::from));
    let peers = look_at(&view, &failing[0], &policy(&["Recreate", "Rollback"]), NOW);
    assert_eq!((peers.replicas, peers.failing_alike), (3, 3));
    assert_eq!(peers.revision, "Job web");
    assert_eq!(crate::revisions::target_of(&view, &failing[0]), None);
}

#[test]
fn a_pod_without_a_sandbox_fails_and_its_node_is_asked_what_is_wrong_with_it() {
    let waits = |name: &str, secs: u64| -> HeldPod {
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
        ViewObject::from(typed::<k8s_openapi::api::core::v1::Node>(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {"conditions": [
                {"type": "NetworkUnavailable", "status": network}, {"type": "Ready", "status": ready},
            ]},
        })))
    };
    let look = |secs: u64, ready: &str, network: &str| {
        let (web, api) = (waits("web", secs), waits("api", 3_000));
        let pods = [web.clone(), api, pod("calm", "calm", "n2", Does::Runs)].map(ViewObject::from);
        let nodes = [node("n1", ready, network), node("n2", "True", "False")];
        look_at(&view(pods.into_iter().chain(nodes)), &web, &policy(&["Reschedule"]), NOW)
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
    assert_eq!(look(599, "False", "False"), RevisionPeers::default(), "it may still be on its way");
}

/// One replica's restart was refused, or waits. The others hear of what was really done.
#[test]
fn a_restart_of_a_peer_that_was_not_carried_out_is_not_told_as_tried() {
    let failing = pod("a", "web", "n1", Does::Fails(1, 5));
    let asked = |outcome: Value| {
        let mut asked = ledger("b", "web", 20);
        let at = (NOW - TickDuration::from_secs(20)).to_micro_time();
        let decision = json!({"at": at, "rung": "Pod", "reason": "it failed", "count": 1, "podRestart": "b-pod-1",
            "outcome": outcome});
        asked.status.as_mut().unwrap().decisions = Some(vec![typed(decision)]);
        asked
    };
    let request = |status: Value| -> PodRestart {
        typed(json!({
            "metadata": {"name": "b-pod-1", "namespace": "shop", "uid": "r", "resourceVersion": "1"},
            "spec": {"podName": "b", "rung": "Pod"}, "status": status,
        }))
    };
    let heard = |ledger: RestartLedger, request: Option<PodRestart>| {
        let b = pod("b", "web", "n2", Does::Fails(1, 5));
        let objects = [ViewObject::from(failing.clone()), b.into(), ledger.into()];
        let view = view(objects.into_iter().chain(request.map(ViewObject::from)));
        let peers = look_at(&view, &failing, &policy(&["Pod"]), NOW);
        (peers.tried, peers.trial.map(|trial| trial.pod))
    };
    let refused = || request(json!({"phase": "Refused", "message": "no"}));
    let begun = json!({"phase": "Failed", "startedAt": ago(19), "message": "out of time"});
    assert_eq!(heard(asked(Value::Null), Some(refused())), (None, None));
    let remembered = json!({"phase": "Refused", "podName": "b", "rung": "Pod", "message": "no"});
    assert_eq!(heard(asked(remembered), None), (None, None), "the request is gone by now");
    let waits = Some(request(json!({})));
    assert_eq!(heard(asked(Value::Null), waits), (None, Some("b".to_owned())), "it is tried yet");
    assert_eq!(heard(asked(Value::Null), Some(request(begun))), (Some(Rung::Pod), None));
}

/// The times are of the node's clock, which may be ahead of ours or behind it.
#[test]
fn what_ended_together_is_waited_for_by_our_own_clock() {
    let ended = |name: &str, set: &str| -> HeldPod {
        let mut pod = pod_value(name, set, "n1", Does::Fails(137, 0));
        pod["status"]["containerStatuses"][0]["restartCount"] = 0.into();
        typed(pod)
    };
    let view = view([ended("a", "web"), ended("b", "web"), ended("c", "db")].map(ViewObject::from));
    let pod = view.pod(&NamespacedName::new("shop", "a")).unwrap();
    let secs = TickDuration::from_secs;
    let over_at = |now: Tick| {
        node_outage(&view, pod, now, secs(1200)).map(|outage| outage.over_at.since(now).as_secs())
    };
    for (now, waits) in [
        (NOW, Some(120)),
        (NOW + secs(30), Some(90)),
        (NOW + secs(120), None),
        (NOW - secs(2), Some(120)),   // the node's clock is ahead
        (NOW - secs(119), Some(120)), // no longer than an outage lasts
        (NOW - secs(3600), None),     // that says nothing
    ] {
        assert_eq!(over_at(now), waits, "{:?} from the end", now.abs_diff(NOW));
    }
}
