//! Nodes that a workload keeps away from after a PodRestart of rung Reschedule: however many they
//! are, every pod has a node.

use std::collections::BTreeSet;

use rekindle_controllers::{ObjectId, ResourceKind, ViewObject, pods};
use rekindle_types::v1alpha1::{PodRestartPhase, PodRestartStatus, ReplacementHold};
use serde_json::{Value, json};

use crate::build::{deployment, pod, template};
use crate::world::{World, id};

fn with_nodes(count: usize) -> World {
    let mut world = World::new();
    for number in 1..=count {
        world.api.add_node(&format!("n{number}"), "4", "4Gi", "20"); // so small that pods spread
    }
    world
}

fn moved(world: &mut World, pod: &str, ladder: Value) -> ObjectId {
    let name = format!("off-{pod}-{}", world.api.version);
    let spec = json!({"podName": pod, "rung": "Reschedule", "ladderName": ladder});
    world.create(json!({"kind": "PodRestart", "metadata": {"name": name}, "spec": spec}))
}

fn status(world: &World, id: &ObjectId) -> PodRestartStatus {
    match &world.api.objects[id] {
        ViewObject::PodRestart(restart) => restart.status.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// Name and node of each pod.
fn places(world: &World) -> Vec<(String, String)> {
    let place = |pod: &&rekindle_types::held::HeldPod| {
        (pod.metadata.name.clone().unwrap(), pods::node(pod).unwrap_or("-").to_owned())
    };
    world.api.pods().iter().map(place).collect()
}

fn stateful_set(replicas: usize) -> Value {
    json!({"kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "serviceName": "web", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "one")}})
}

#[track_caller]
fn assert_all_have_nodes(world: &World, replicas: usize, story: &str) {
    let places = places(world);
    assert_eq!(places.len(), replicas, "{story}");
    assert!(places.iter().all(|(_, node)| node != "-"), "{story}: {places:?}");
}

/// Every workload that spreads over the nodes, moved pod by pod by a person or its ladder, and then
/// made bigger.
#[test]
fn a_workload_that_was_moved_off_every_node_has_a_node_for_each_pod() {
    for (kind, nodes, replicas, ladder) in [
        ("StatefulSet", 2, 2, Value::Null),
        ("StatefulSet", 3, 3, Value::Null),
        ("StatefulSet", 3, 3, json!("web")),
        ("StatefulSet", 3, 6, Value::Null),
        ("Deployment", 2, 2, json!("web")),
        ("Deployment", 3, 3, Value::Null),
        ("Deployment", 3, 3, json!("web")),
        ("Deployment", 2, 5, json!("web")),
    ] {
        let story = format!("{kind} of {replicas} on {nodes} nodes, {ladder}");
        let mut world = with_nodes(nodes);
        let made = match kind {
            "StatefulSet" => stateful_set(replicas),
            _ => deployment("web", i32::try_from(replicas).unwrap(), "one"),
        };
        let workload = world.create(made);
        world.converge();
        let used: BTreeSet<String> = places(&world).into_iter().map(|(_, node)| node).collect();
        assert_eq!(used.len(), nodes, "{story}: it is on every node");
        for (name, before) in places(&world) {
            let pod = id(ResourceKind::Pod, &name);
            if ladder != Value::Null {
                world.set_ready(&pod, "False"); // else it is left alone
            }
            let request = moved(&mut world, &name, ladder.clone());
            world.settle();
            world.converge();
            assert_all_have_nodes(&world, replicas, &story);
            let status = status(&world, &request);
            if ladder == Value::Null {
                assert_eq!(status.phase, Some(PodRestartPhase::Succeeded), "{story}: {status:?}");
                let new = status.replacement.unwrap().new_pod_name.unwrap();
                let now = places(&world).into_iter().find(|(name, _)| *name == new).unwrap().1;
                assert_ne!(now, before, "{story}");
            }
        }
        world.api.change(&workload, |workload| workload["spec"]["replicas"] = json!(replicas + 3));
        world.converge();
        assert_all_have_nodes(&world, replicas + 3, &story);
    }
}

#[test]
fn a_ladder_does_not_move_a_pod_to_a_node_that_its_workload_avoids_and_says_which_that_is() {
    let mut world = with_nodes(2);
    world.create(stateful_set(2));
    world.converge();
    let first = moved(&mut world, "web-0", Value::Null);
    world.converge();
    assert_eq!(status(&world, &first).phase, Some(PodRestartPhase::Succeeded));
    let left = status(&world, &first).replacement.unwrap().node_name;
    let second = places(&world).into_iter().find(|(name, _)| name == "web-1").unwrap().1;
    assert_ne!(left, second);
    world.set_ready(&id(ResourceKind::Pod, "web-1"), "False");
    let request = moved(&mut world, "web-1", json!("web"));
    world.settle();
    let held = status(&world, &request);
    assert_eq!(held.replacement.unwrap().held_by, Some(ReplacementHold::NoOtherNode));
    let expected =
        format!("no node but {second} can take the pod but such as are avoided: {left} (until ");
    let message = held.message.unwrap();
    assert!(message.starts_with(&expected), "{message}");
}

/// That a node is avoided is no reason for a pod to wait, and none to have another pod end.
#[test]
fn a_pod_goes_where_it_keeps_away_from_rather_than_wait_or_have_others_end() {
    let mut world = World::new();
    world.api.add_node("small", "1", "100Gi", "1000");
    world.api.add_node("large", "8", "100Gi", "1000");
    let asking = |name: &str, priority: i32| {
        let mut pod = pod(name, json!({"app": name}));
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        pod["spec"]["priority"] = json!(priority);
        pod
    };
    world.create(asking("first", 0));
    world.converge();
    assert_eq!(places(&world), [("first".to_owned(), "large".to_owned())]);
    let request = moved(&mut world, "first", Value::Null);
    world.converge();
    assert_eq!(status(&world, &request).phase, Some(PodRestartPhase::Succeeded));
    assert_eq!(places(&world), [("first".to_owned(), "small".to_owned())]);
    let mut second = asking("second", 10);
    second["metadata"]["annotations"] =
        json!({"rekindle.dev/avoided-nodes": "{\"large\":\"1970-03-01T00:00:00Z\"}"});
    second["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["large"]}]}]}}});
    world.create(second);
    world.converge();
    let expected = [("first", "small"), ("second", "large")];
    assert_eq!(places(&world), expected.map(|(name, node)| (name.to_owned(), node.to_owned())));
}
