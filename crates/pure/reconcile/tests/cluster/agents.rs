//! Rungs in place where a node has an agent.

use rekindle_reconcile::{AGENT_LABEL, AGENT_LABEL_VALUE, LadderMode};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, Rung};
use serde_json::{Value, json};

use crate::world::{OWN, SHOP, World, typed};

fn rungs() -> Value {
    json!([{"rung": "Container"}, {"rung": "Pod"}, {"rung": "Recreate"}])
}

/// A pod with the label of agents, which is ready.
fn agent(world: &mut World, namespace: &str, node: &str) {
    world.pod(namespace, "agent", None, json!({"nodeName": node}));
    world.relabel(namespace, "agent", json!({AGENT_LABEL: AGENT_LABEL_VALUE}));
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

#[test]
fn an_agent_elsewhere_or_of_somebody_else_is_none() {
    for (namespace, node) in [(OWN, "n2"), (SHOP, "n1")] {
        let mut world = World::new(LadderMode::Act);
        agent(&mut world, namespace, node);
        assert_eq!(asked(&mut world), [Rung::Recreate], "{namespace} {node}");
    }
    let mut world = World::new(LadderMode::Act);
    agent(&mut world, OWN, "n1");
    world.end(OWN, "agent");
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
        world.end(OWN, "agent");
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
