//! Mode act: the rungs that need no agent are carried out, and every crash of the operator between
//! two writes ends in the same state.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_reconcile::LadderMode;
use rekindle_types::v1alpha1::{PodReplacement, PodRestart, PodRestartPhase, RestartLadder, Rung};
use serde_json::json;

use crate::world::{BEGIN, OWN, SHOP, World, typed};

fn world_with_ladder() -> World {
    let mut world = World::new(LadderMode::Act);
    let rungs = json!([
        {"rung": "Container", "attempts": 2}, {"rung": "Pod", "attempts": 2}, {"rung": "Recreate"},
    ]);
    world.ladder(SHOP, rungs, json!({}));
    world
}

#[test]
fn the_rung_that_needs_no_agent_comes_next_and_the_ledger_says_why() {
    let mut world = world_with_ladder();
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({}));
    world.crash(SHOP, "web-a");
    world.crash_again(SHOP, "web-a");
    assert_eq!(world.count("evict"), 0, "these are the kubelet's own restarts");
    world.crash_again(SHOP, "web-a");
    assert!(world.said().contains("the pod's node has no agent for rung Pod"), "{}", world.said());
    assert_eq!(world.count("evict Pod shop/web-a"), 1, "{:?}", world.writes);
    assert_eq!(world.requests()[0].spec.rung, Some(Rung::Recreate));
    assert_eq!(world.accepted().1, "every rung but Pod is carried out: no node has an agent");
}

#[test]
fn the_restart_of_a_container_costs_two_writes_at_most() {
    let mut world = world_with_ladder();
    world.pod(SHOP, "web", None, json!({}));
    world.settle();
    let before = world.writes.len();
    world.crash(SHOP, "web");
    let first = world.writes.len() + world.events - before;
    assert!(first <= 3, "one more for a ledger that is new: {:?}", world.writes);
    world.crash_again(SHOP, "web");
    let second = world.writes.len() + world.events - before - first;
    assert!(second <= 2, "{:?}", world.writes);
}

#[test]
fn a_pod_without_a_controller_is_created_again_whenever_the_operator_is_killed() {
    let mut without_kill = None;
    for killed_after in [None].into_iter().chain((0..12).map(Some)) {
        let mut world = world_with_ladder();
        world.pod(SHOP, "web", None, json!({}));
        world.crash(SHOP, "web");
        world.crash_again(SHOP, "web");
        world.killed_after = killed_after;
        world.crash_again(SHOP, "web");
        world.run(SHOP, "web");
        world.advance(60);
        let request = world.requests().remove(0);
        let phase = request.status.as_ref().and_then(|status| status.phase);
        assert_eq!(phase, Some(PodRestartPhase::Succeeded), "{killed_after:?}: {request:?}");
        assert_eq!(request.metadata.finalizers.unwrap_or_default(), Vec::<String>::new());
        assert_eq!(world.pod_names(), ["shop/web"], "{killed_after:?}");
        let creations = world.count("create Pod shop/web");
        assert!(creations >= 1, "{:?}", world.writes);
        let requests = world.requests().len();
        let end = (requests, world.ledgers().len());
        assert_eq!(*without_kill.get_or_insert(end), end, "{killed_after:?}: {:?}", world.writes);
    }
}

#[test]
fn a_request_that_needs_an_agent_is_refused_with_what_can_be_asked_for() {
    let mut world = world_with_ladder();
    world.pod(SHOP, "web", None, json!({}));
    for rung in ["Container", "Containers", "Pod"] {
        world.put(typed::<PodRestart>(json!({
            "metadata": {"name": rung.to_lowercase(), "namespace": SHOP},
            "spec": {"podName": "web", "rung": rung},
        })));
    }
    world.settle();
    for request in world.requests() {
        let status = request.status.unwrap();
        assert_eq!(status.phase, Some(PodRestartPhase::Refused));
        let rung = request.spec.rung.unwrap();
        let why = format!(
            "the pod's node has no agent for rung {rung}: ask for Recreate, Reschedule or Rollback"
        );
        assert_eq!(status.message, Some(why));
    }
}

#[test]
fn a_request_for_a_pod_without_a_node_or_for_none_says_so() {
    let mut world = world_with_ladder();
    world.pod(SHOP, "web", None, json!({}));
    world.pod(SHOP, "new", None, json!({"nodeName": null}));
    for name in ["new", "lost"] {
        world.put(typed::<PodRestart>(json!({
            "metadata": {"name": name, "namespace": SHOP}, "spec": {"podName": name, "rung": "Pod"},
        })));
    }
    world.settle();
    let said: Vec<Option<String>> =
        world.requests().into_iter().map(|request| request.status.unwrap().message).collect();
    let expected = [
        "there is no pod lost",
        "the pod has no node yet, so there is nothing that rung Pod could restart",
    ];
    assert_eq!(said, expected.map(|text| Some(text.to_owned())));
}

#[test]
fn a_group_without_agents_is_refused_with_what_can_be_asked_for_and_so_is_a_member_of_one() {
    let mut world = world_with_ladder();
    world.pod(SHOP, "web", None, json!({}));
    let labels = json!({"matchLabels": {"app": "web"}});
    for (name, spec) in [
        ("group", json!({"selector": labels})),
        ("member", json!({"podName": "web", "memberOf": "x"})),
    ] {
        let meta = json!({"name": name, "namespace": SHOP});
        world.put(typed::<PodRestart>(json!({"metadata": meta, "spec": spec})));
    }
    world.settle();
    let requests = world.requests().into_iter().map(|request| request.status.unwrap());
    let answers: Vec<_> = requests.map(|s| (s.phase.unwrap(), s.message.unwrap())).collect();
    for ((phase, message), expected) in answers.iter().zip([
        "no agent that freezes pods is ready on the node of pod web: set the chart's value agent.freezePods, or ask for Recreate or Reschedule",
        "the pod's node has no agent for rung Pod: ask for Recreate, Reschedule or Rollback",
    ]) {
        assert_eq!((*phase, message.as_str()), (PodRestartPhase::Refused, expected));
    }
}

#[test]
fn all_pods_of_a_group_are_replaced_when_one_fails_whenever_the_operator_is_killed() {
    for killed_after in [None].into_iter().chain((0..20).map(Some)) {
        let mut world = World::new(LadderMode::Act);
        world.put(typed::<RestartLadder>(json!({
            "metadata": {"name": "web", "namespace": SHOP, "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "scope": "Group",
                "rungs": [{"rung": "Container"}, {"rung": "Pod"}, {"rung": "Recreate"}],
            },
        })));
        for pod in ["a", "b"] {
            world.pod(SHOP, pod, None, json!({}));
        }
        world.settle();
        let accepted = "every rung but Pod is carried out: no agent here does that for a group";
        assert_eq!(world.accepted().1, accepted);
        world.crash(SHOP, "a");
        world.killed_after = killed_after;
        world.crash_again(SHOP, "a");
        assert!(
            world.said().contains("; for a group no agent here carries out rung Pod"),
            "{killed_after:?}: {}",
            world.said()
        );
        for pod in ["a", "b"] {
            assert_eq!(world.count(&format!("evict Pod shop/{pod}")), 1, "{:?}", world.writes);
            world.run(SHOP, pod);
        }
        world.advance(60);
        let requests = world.requests();
        assert_eq!(requests.len(), 3, "{killed_after:?}: the group, and one for each pod");
        for request in &requests {
            let phase = request.status.as_ref().and_then(|status| status.phase);
            assert_eq!(phase, Some(PodRestartPhase::Succeeded), "{killed_after:?}: {request:?}");
        }
        let ledgers = world.ledgers();
        let names: Vec<&str> = ledgers.iter().map(|(l, _)| l.spec.pod_name.as_str()).collect();
        assert_eq!(names, ["web/pods"], "{killed_after:?}");
    }
}

#[test]
fn pods_of_a_node_that_end_together_are_left_to_the_kubelet_first() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, json!([{"rung": "Recreate", "attempts": 2}]), json!({}));
    for pod in ["one", "two", "three", "four"] {
        world.pod(SHOP, pod, None, json!({}));
    }
    // its runtime is restarted
    world.advance(3600);
    for pod in ["one", "two", "three"] {
        world.end(SHOP, pod);
    }
    world.settle();
    world.advance(100);
    assert_eq!(world.count("evict"), 0, "{:?}", world.writes);
    let said = world.ledgers().remove(0).1.message.unwrap();
    assert!(said.contains("3 of 4 pods of node n1 ended together"), "{said}");
    // what the kubelet could not start again by then is replaced
    world.run(SHOP, "one");
    world.run(SHOP, "two");
    world.advance(60);
    assert_eq!(world.count("evict Pod shop/three"), 1, "{:?}", world.writes);
    assert_eq!(world.count("evict"), 1, "{:?}", world.writes);
}

/// A pod of a ReplicaSet fails on n1, and its ladder moves it away.
fn world_that_moves_a_pod() -> World {
    let mut world = World::new(LadderMode::Act);
    world.let_it_taint();
    world.ladder(SHOP, json!([{"rung": "Reschedule", "avoidNodeFor": "20m"}]), json!({}));
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({}));
    world
}

#[test]
fn a_node_that_a_pod_is_moved_from_is_avoided_for_a_while() {
    for killed_after in [None].into_iter().chain((0..8).map(Some)) {
        let mut world = world_that_moves_a_pod();
        world.killed_after = killed_after;
        world.crash(SHOP, "web-a");
        world.advance(1);
        assert_eq!(world.count("evict Pod shop/web-a"), 1, "{killed_after:?} {:?}", world.writes);
        let at = |what: &str| world.writes.iter().position(|write| write == what);
        let order = (at("patch Node n1"), at("evict Pod shop/web-a"));
        assert!(order.0 < order.1 && order.0.is_some(), "{:?}", world.writes);
        assert_eq!(world.taints("n1"), ["rekindle.dev/avoid"]);
        world.advance(19 * 60);
        assert_eq!(world.taints("n1"), ["rekindle.dev/avoid"], "{killed_after:?}");
        world.advance(2 * 60);
        assert_eq!(world.taints("n1"), Vec::<String>::new(), "{killed_after:?}");
        assert_eq!(world.count("patch Node n2"), 0);
    }
}

#[test]
fn a_taint_that_is_refused_holds_nothing_up_for_long() {
    let mut world = world_that_moves_a_pod();
    world.forbids_taints = true;
    world.crash(SHOP, "web-a");
    world.advance(3);
    assert_eq!(world.count("evict"), 0, "it may still come");
    world.advance(4);
    assert_eq!(world.count("evict Pod shop/web-a"), 1, "{:?}", world.writes);
}

#[test]
fn without_the_right_to_taint_a_pod_is_moved_all_the_same() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, json!([{"rung": "Reschedule"}]), json!({}));
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({}));
    world.crash(SHOP, "web-a");
    assert_eq!(world.count("evict Pod shop/web-a"), 1, "{:?}", world.writes);
    assert_eq!(world.count("patch Node"), 0);
}

/// The status of this request says that a node is avoided for a century.
fn claims_that_n1_is_avoided(namespace: &str) -> PodRestart {
    typed(json!({
        "metadata": {"name": "claim", "namespace": namespace},
        "spec": {"podName": "web", "rung": "Reschedule"},
        "status": {
            "phase": "Succeeded",
            "finishedAt": BEGIN.to_time(),
            "replacement": {
                "step": "Starting", "since": BEGIN.to_time(), "podUID": "u", "nodeName": "n1",
                "workloadUID": "w", "avoidNodeUntil": "2126-01-01T00:00:00Z",
            },
        },
    }))
}

#[test]
fn no_request_taints_a_node_from_a_namespace_that_is_not_enabled() {
    for (namespace, labels) in [
        ("other", json!({})),
        ("kube-system", json!({"rekindle.dev/ladder": "enabled"})),
        (OWN, json!({"rekindle.dev/ladder": "enabled"})),
    ] {
        let mut world = World::new(LadderMode::Act);
        world.let_it_taint();
        world.namespace(namespace, labels);
        world.put(claims_that_n1_is_avoided(namespace));
        world.replica_set(namespace, "web");
        world.pod(namespace, "web", Some("web"), json!({}));
        world.put(typed::<PodRestart>(json!({
            "metadata": {"name": "new", "namespace": namespace},
            "spec": {"podName": "web", "rung": "Reschedule"},
        })));
        world.advance(3600);
        assert_eq!(world.count("patch Node"), 0, "{namespace}: {:?}", world.writes);
    }
}

#[test]
fn a_taint_ends_after_720_hours_and_with_the_label_of_its_namespace() {
    const HOUR: u64 = 3600;
    let tainted = || {
        let mut world = World::new(LadderMode::Act);
        world.let_it_taint();
        world.put(claims_that_n1_is_avoided(SHOP));
        world.advance(HOUR);
        assert_eq!(world.taints("n1"), ["rekindle.dev/avoid"]);
        world
    };
    let mut world = tainted();
    world.advance(718 * HOUR);
    assert_eq!(world.taints("n1"), ["rekindle.dev/avoid"]);
    world.advance(2 * HOUR);
    assert_eq!(world.taints("n1"), Vec::<String>::new());
    let mut world = tainted();
    world.namespace(SHOP, json!({}));
    world.settle();
    assert_eq!(world.taints("n1"), Vec::<String>::new());
}

/// A request that evicted a pod and has its only copy, or says so.
fn claims_to_have_a_copy(namespace: &str, phase: &str) -> PodRestart {
    typed(json!({
        "metadata": {
            "name": "claim", "namespace": namespace, "finalizers": ["rekindle.dev/kept-pod"],
        },
        "spec": {"podName": "web", "rung": "Recreate"},
        "status": {
            "phase": phase,
            "message": "the pod is refused",
            "replacement": {
                "step": "Evicting", "since": BEGIN.to_time(), "podUID": "u", "nodeName": "n1",
                "pod": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "web", "namespace": namespace},
                    "spec": {"containers": []},
                },
            },
        },
    }))
}

#[test]
fn where_ladders_never_act_no_pod_is_created_and_no_copy_of_one_is_lost() {
    for namespace in ["kube-system", OWN] {
        for phase in ["Running", "Failed"] {
            for mode in [LadderMode::Act, LadderMode::Observe] {
                let mut world = World::new(mode);
                world.namespace(namespace, json!({"rekindle.dev/ladder": "enabled"}));
                world.put(claims_to_have_a_copy(namespace, phase));
                world.advance(24 * 3600);
                assert_eq!(world.writes, [format!("status PodRestart {namespace}/claim")]);
                let request = world.requests().remove(0);
                assert!(request.metadata.finalizers.is_some_and(|all| !all.is_empty()));
                let status = request.status.unwrap();
                assert!(status.replacement.unwrap().pod.is_some());
                let said = status.message.unwrap();
                let hand = format!(
                    "create pod web by hand: kubectl get podrestart claim -n {namespace} \
                     -o jsonpath='{{.status.replacement.pod}}' | kubectl create -n {namespace} -f -"
                );
                assert!(said.ends_with(&hand), "{said}");
                // it is there again
                world.pod(namespace, "web", None, json!({}));
                world.advance(24 * 3600);
                assert_eq!(world.count("create Pod "), 0, "{:?}", world.writes);
                assert_eq!(world.requests(), [], "it is over, and old: {:?}", world.writes);
            }
        }
    }
}

/// A running request where ladders never act, with something else in its status.
fn claim_with(world: &mut World, change: impl FnOnce(&mut PodReplacement)) {
    claim_of_phase_with(world, "Running", change);
}

fn claim_of_phase_with(world: &mut World, phase: &str, change: impl FnOnce(&mut PodReplacement)) {
    let mut claim = claims_to_have_a_copy(OWN, phase);
    change(claim.status.as_mut().unwrap().replacement.as_mut().unwrap());
    world.put(claim);
}

#[test]
fn a_pod_that_was_never_evicted_is_not_to_be_created() {
    let mut world = World::new(LadderMode::Act);
    world.namespace(OWN, json!({}));
    world.pod(OWN, "web", None, json!({}));
    let uid = world.uid_of(ResourceKind::Pod, OWN, "web");
    claim_with(&mut world, |replacement| replacement.pod_uid = uid);
    world.settle();
    let status = world.requests().remove(0).status.unwrap();
    assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{status:?}");
    assert!(!status.message.unwrap().contains("by hand"));
    world.advance(24 * 3600);
    assert_eq!(world.requests(), [], "it is over, and old: {:?}", world.writes);
}

#[test]
fn a_pod_that_still_ends_is_not_to_be_created_yet() {
    let mut world = World::new(LadderMode::Act);
    world.namespace(OWN, json!({}));
    world.pod(OWN, "web", None, json!({}));
    let web = ObjectId::new(ResourceKind::Pod, NamespacedName::new(OWN, "web"));
    world.start_deletion(&web);
    let uid = world.uid_of(ResourceKind::Pod, OWN, "web");
    claim_with(&mut world, |replacement| replacement.pod_uid = uid);
    world.advance(24 * 3600);
    assert_eq!(world.writes, Vec::<String>::new());
    world.remove(&web);
    world.settle();
    let status = world.requests().remove(0).status.unwrap();
    assert!(status.message.unwrap().contains("create pod web by hand"));
}

#[test]
fn a_kept_pod_is_let_go_with_its_namespace_and_with_a_failed_request() {
    for phase in ["Running", "Failed"] {
        let mut world = World::new(LadderMode::Act);
        world.namespace(OWN, json!({}));
        if phase == "Running" {
            let own = ObjectId::new(ResourceKind::Namespace, NamespacedName::new("", OWN));
            world.start_deletion(&own);
        }
        let mut claim = claims_to_have_a_copy(OWN, phase);
        if phase == "Failed" {
            claim.metadata.deletion_timestamp = Some(BEGIN.to_time());
        }
        world.put(claim);
        world.settle();
        let request = world.requests().remove(0);
        assert_eq!(request.metadata.finalizers.unwrap_or_default(), [""; 0], "{:?}", world.writes);
    }
}

/// The right to write a status is not the right to have anything created.
#[test]
fn no_command_creates_what_is_no_copy_of_the_pod() {
    for (field, value) in [
        ("/kind", json!("ConfigMap")),
        ("/metadata/name", json!("other")),
        ("/metadata/namespace", json!("shop")),
        ("/metadata/namespace", json!(null)),
    ] {
        for phase in ["Running", "Failed"] {
            let mut world = World::new(LadderMode::Act);
            world.namespace(OWN, json!({}));
            claim_of_phase_with(&mut world, phase, |replacement| {
                *replacement.pod.as_mut().unwrap().0.pointer_mut(field).unwrap() = value.clone();
            });
            world.settle();
            let status = world.requests().remove(0).status.unwrap();
            assert_eq!(status.phase, Some(PodRestartPhase::Refused), "{field}: {status:?}");
            assert!(!status.message.unwrap().contains("by hand"), "{field}");
            world.advance(24 * 3600);
            assert_eq!(world.count("create Pod "), 0, "{phase}, {field}: {:?}", world.writes);
            assert_eq!(world.requests(), [], "it is over, and old: {:?}", world.writes);
        }
    }
}

#[test]
fn a_taint_is_not_waited_for_by_the_clock_of_an_api_that_is_ahead() {
    let mut world = world_that_moves_a_pod();
    world.forbids_taints = true;
    world.api_is_ahead_by(3600);
    world.crash(SHOP, "web-a");
    world.advance(7);
    assert_eq!(world.count("evict Pod shop/web-a"), 1, "{:?}", world.writes);
}
