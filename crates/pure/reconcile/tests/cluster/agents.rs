//! Rungs in place where a node has an agent.

use rekindle_reconcile::{
    AGENT_LABEL, AGENT_LABEL_VALUE, FREEZES_PODS_LABEL, FREEZES_PODS_LABEL_VALUE, LadderMode,
};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, RestartLadder, Rung};
use serde_json::{Value, json};

use crate::world::{OWN, SHOP, World, typed};

fn rungs() -> Value {
    json!([{"rung": "Container"}, {"rung": "Pod"}, {"rung": "Recreate"}])
}

/// A pod with the label of agents, which is ready.
fn agent(world: &mut World, namespace: &str, node: &str) {
    labelled_agent(world, namespace, node, json!({AGENT_LABEL: AGENT_LABEL_VALUE}));
}

/// The same, which freezes pods.
fn freezing_agent(world: &mut World, node: &str) {
    let labels = json!({
        AGENT_LABEL: AGENT_LABEL_VALUE, FREEZES_PODS_LABEL: FREEZES_PODS_LABEL_VALUE,
    });
    labelled_agent(world, OWN, node, labels);
}

fn labelled_agent(world: &mut World, namespace: &str, node: &str, labels: Value) {
    let name = format!("agent-{node}");
    world.pod(namespace, &name, None, json!({"nodeName": node}));
    world.relabel(namespace, &name, labels);
    world.settle();
}

/// The rungs that a ladder asks for when a pod of n1 fails twice.
fn asked(world: &mut World) -> Vec<Rung> {
    world.ladder(SHOP, rungs(), json!({}));
    world.pod(SHOP, "web", None, json!({}));
    world.crash(SHOP, "web");
    world.crash_again(SHOP, "web");
    world.requests().iter().map(|request| request.spec.rung()).collect()
}

#[test]
fn a_ladder_asks_for_the_pod_where_its_node_has_an_agent_that_is_ready() {
    let mut world = World::new(LadderMode::Act);
    agent(&mut world, OWN, "n1");
    assert_eq!(asked(&mut world), [Rung::Pod]);
    assert!(!world.said().contains("no agent"), "{}", world.said());
    let request = world.requests().remove(0);
    assert_eq!(request.status.and_then(|status| status.phase), None, "the agent answers it");
    assert_eq!(world.accepted().1, "every rung is carried out");
}

/// The rungs that were asked for so far.
fn all_asked(world: &World) -> Vec<Rung> {
    world.requests().iter().map(|request| request.spec.rung()).collect()
}

#[test]
fn a_ladder_that_was_exhausted_for_want_of_an_agent_goes_on_when_one_comes() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, json!([{"rung": "Container"}, {"rung": "Pod"}]), json!({}));
    world.pod(SHOP, "web", None, json!({}));
    world.settle();
    assert!(world.accepted().1.contains("no node has an agent"), "{:?}", world.accepted());
    world.crash(SHOP, "web");
    world.crash_again(SHOP, "web");
    assert!(world.said().contains("no agent for rung Pod"), "{}", world.said());
    agent(&mut world, OWN, "n1");
    assert_eq!(world.accepted().1, "every rung is carried out");
    assert!(world.said().contains("the pod's node has an agent now"), "{}", world.said());
    assert_eq!(all_asked(&world), []);
    world.crash_again(SHOP, "web");
    assert_eq!(all_asked(&world), [Rung::Pod], "{}", world.said());
}

#[test]
fn a_rung_in_place_that_was_passed_over_is_tried_when_nothing_is_left_above() {
    let mut world = World::new(LadderMode::Act);
    world.ladder(SHOP, rungs(), json!({}));
    world.replica_set(SHOP, "web");
    world.pod(SHOP, "web-a", Some("web"), json!({}));
    world.crash(SHOP, "web-a");
    world.crash_again(SHOP, "web-a");
    assert_eq!(all_asked(&world), [Rung::Recreate]);
    let names = world.pod_names();
    let new = names.iter().find_map(|name| name.strip_prefix("shop/")).expect("a new pod");
    world.relabel(SHOP, new, json!({"app": "web"}));
    world.crash(SHOP, new);
    world.crash_again(SHOP, new);
    assert!(world.said().contains("every rung was tried"), "{}", world.said());
    agent(&mut world, OWN, "n1");
    world.crash_again(SHOP, new);
    assert!(all_asked(&world).contains(&Rung::Pod), "{}", world.said());
}

#[test]
fn an_agent_elsewhere_or_of_somebody_else_is_none() {
    for (namespace, node) in [(OWN, "n2"), (SHOP, "n1")] {
        let mut world = World::new(LadderMode::Act);
        agent(&mut world, namespace, node);
        assert_eq!(asked(&mut world), [Rung::Recreate], "{namespace} {node}");
    }
    let mut world = World::new(LadderMode::Act);
    agent(&mut world, OWN, "n1");
    world.end(OWN, "agent-n1");
    assert_eq!(asked(&mut world), [Rung::Recreate], "it is not ready");
}

#[test]
fn the_operator_answers_no_request_that_an_agent_has_begun_or_can() {
    for mode in [LadderMode::Observe, LadderMode::Act] {
        let mut world = World::new(mode);
        agent(&mut world, OWN, "n1");
        world.pod(SHOP, "web", None, json!({}));
        for (name, status) in
            [("open", json!({})), ("begun", json!({"phase": "Running", "nodeName": "n1"}))]
        {
            world.put(typed::<PodRestart>(json!({
                "metadata": {"name": name, "namespace": SHOP},
                "spec": {"podName": "web", "rung": "Pod"}, "status": status,
            })));
        }
        world.settle();
        world.end(OWN, "agent-n1");
        world.settle();
        let phases: Vec<Option<PodRestartPhase>> = world
            .requests()
            .into_iter()
            .filter(|request| request.metadata.name.as_deref() == Some("begun"))
            .map(|request| request.status.and_then(|status| status.phase))
            .collect();
        assert_eq!(phases, [Some(PodRestartPhase::Running)], "{mode:?}: what was begun goes on");
    }
}

#[test]
fn a_request_names_the_pods_of_the_node_that_its_ladder_names() {
    let mut world = World::new(LadderMode::Act);
    agent(&mut world, OWN, "n1");
    world.ladder(SHOP, rungs(), json!({"rekindle.dev/ladder-includes": "HostNetwork"}));
    world.pod(SHOP, "web", None, json!({"hostNetwork": true}));
    world.crash(SHOP, "web");
    world.crash_again(SHOP, "web");
    let annotations = world.requests().remove(0).metadata.annotations.unwrap_or_default();
    let named = annotations.get("rekindle.dev/restart-includes").map(String::as_str);
    assert_eq!(named, Some("HostNetwork"));
}

/// Two pods on two nodes, and a ladder that restarts them as one.
fn group(world: &mut World, rungs: Value) {
    world.put(typed::<RestartLadder>(json!({
        "metadata": {"name": "web", "namespace": SHOP, "generation": 1,
            "annotations": {"rekindle.dev/ladder-includes": "OnFailure"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "scope": "Group", "rungs": rungs},
    })));
    for (pod, node) in [("a", "n1"), ("b", "n2")] {
        world.pod(SHOP, pod, None, json!({"nodeName": node}));
    }
    world.settle();
}

/// What a member's agent writes.
fn answers(world: &mut World, pod: &str, status: Value) {
    let asked = world.requests().into_iter().find(|request| request.spec.pod_name == pod);
    let mut request = asked.expect("a request of the member");
    request.status = Some(typed(status));
    world.put(request);
    world.settle();
}

#[test]
fn a_group_is_restarted_in_place_where_agents_hold_all_of_it_back() {
    let mut world = World::new(LadderMode::Act);
    freezing_agent(&mut world, "n1");
    freezing_agent(&mut world, "n2");
    group(&mut world, json!([{"rung": "Container"}, {"rung": "Containers"}, {"rung": "Pod"}]));
    let accepted = "every rung but Containers is carried out: no agent here does that for a group";
    assert_eq!(world.accepted().1, accepted);
    world.crash(SHOP, "a");
    world.crash_again(SHOP, "a");
    let said = world.said();
    assert!(said.contains("; for a group no agent here carries out rung Containers"), "{said}");
    let of_group = |world: &World| {
        let group = world.requests().into_iter().find(PodRestart::is_of_group).expect("a group");
        group.status.expect("it was taken up")
    };
    assert_eq!(of_group(&world).message.as_deref(), Some("stopping 2 pods"));
    let stopped = |node: &str| json!({"phase": "Running", "nodeName": node, "stoppedAt": "2027-01-15T08:00:00Z"});
    answers(&mut world, "a", stopped("n1"));
    assert_eq!(of_group(&world).message.as_deref(), Some("stopping 2 pods"), "one is missing");
    answers(&mut world, "b", stopped("n2"));
    assert_eq!(of_group(&world).message.as_deref(), Some("2 pods stopped, starting"));
    for (pod, node) in [("a", "n1"), ("b", "n2")] {
        world.run(SHOP, pod);
        answers(&mut world, pod, json!({"phase": "Succeeded", "nodeName": node}));
    }
    let status = of_group(&world);
    assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{status:?}");
    assert_eq!(world.count("evict"), 0);
    for request in world.requests() {
        let annotations = request.metadata.annotations.unwrap_or_default();
        let named = annotations.get("rekindle.dev/restart-includes").map(String::as_str);
        assert_eq!(named, Some("OnFailure"), "as the ladder names them");
    }
}

#[test]
fn a_group_of_which_a_node_has_no_agent_that_freezes_pods_is_replaced() {
    let mut world = World::new(LadderMode::Act);
    freezing_agent(&mut world, "n1");
    agent(&mut world, OWN, "n2");
    group(&mut world, json!([{"rung": "Container"}, {"rung": "Pod"}, {"rung": "Recreate"}]));
    assert_eq!(world.accepted().1, "every rung is carried out", "somewhere");
    world.put(typed::<PodRestart>(json!({
        "metadata": {"name": "by-hand", "namespace": SHOP},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    })));
    world.settle();
    let refused = world.requests().remove(0).status.unwrap();
    assert_eq!(refused.phase, Some(PodRestartPhase::Refused));
    let expected = "no agent that freezes pods is ready on the node of pod b:";
    assert!(refused.message.as_deref().unwrap().starts_with(expected), "{refused:?}");
    world.crash(SHOP, "a");
    world.crash_again(SHOP, "a");
    assert_eq!(world.count("evict"), 2, "{}", world.said());
}

#[test]
fn a_group_that_was_exhausted_for_want_of_agents_is_restarted_when_they_come() {
    let mut world = World::new(LadderMode::Act);
    group(&mut world, json!([{"rung": "Container"}, {"rung": "Containers"}, {"rung": "Pod"}]));
    world.crash(SHOP, "a");
    world.crash_again(SHOP, "a");
    assert!(world.said().contains("no agent here carries out rungs Containers and Pod"));
    assert_eq!(all_asked(&world), []);
    freezing_agent(&mut world, "n1");
    freezing_agent(&mut world, "n2");
    world.crash_again(SHOP, "a");
    assert!(all_asked(&world).contains(&Rung::Pod), "{}", world.said());
}
