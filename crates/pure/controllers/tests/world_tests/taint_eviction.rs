//! Taints with effect NoExecute and the pods that run under them.

use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::{deployment, pod};
use crate::world::{World, id};

fn node(name: &str) -> ObjectId {
    id(ResourceKind::Node, name)
}

fn taint(world: &mut World, taints: &Value) {
    world.api.change(&node("node-1"), |node| node["spec"]["taints"] = taints.clone());
    world.settle();
}

fn running(world: &mut World, name: &str, tolerations: Value) -> ObjectId {
    let mut pod = pod(name, json!({}));
    pod["spec"]["tolerations"] = tolerations;
    let pod = world.create(pod);
    world.settle();
    world.kubelet();
    world.settle();
    pod
}

fn is_ending(world: &World, pod: &ObjectId) -> bool {
    world.api.objects[pod].meta().deletion_timestamp.is_some()
}

fn tolerates(seconds: i64) -> Value {
    json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

fn down() -> Value {
    json!([{"key": "down", "effect": "NoExecute"}])
}

/// Documentation, "Taints and Tolerations": what a NoExecute taint does to a pod that runs.
#[test]
fn a_pod_stays_as_long_as_its_tolerations_say() {
    let cases = [
        // (tolerations, seconds after which it ends; None: it stays)
        (json!([]), Some(0)),
        (json!([{"key": "other", "operator": "Exists"}]), Some(0)),
        (json!([{"key": "down", "operator": "Exists", "effect": "NoSchedule"}]), Some(0)),
        (json!([{"key": "down", "operator": "Exists"}]), None),
        (json!([{"operator": "Exists"}]), None),
        (tolerates(-1), Some(0)),
        (tolerates(0), Some(0)),
        (tolerates(60), Some(60)),
        (
            json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
                {"operator": "Exists"}]),
            Some(5),
        ),
    ];
    for (tolerations, ends_after) in cases {
        let mut world = World::with_node();
        let pod = running(&mut world, "web", tolerations.clone());
        taint(&mut world, &down());
        match ends_after {
            None => {
                world.advance(TickDuration::from_secs(100_000));
                assert!(!is_ending(&world, &pod), "{tolerations}");
            }
            Some(0) => assert!(is_ending(&world, &pod), "{tolerations}"),
            Some(seconds) => {
                world.advance(TickDuration::from_secs(seconds - 1));
                assert!(!is_ending(&world, &pod), "too early: {tolerations}");
                world.advance(TickDuration::from_secs(1));
                assert!(is_ending(&world, &pod), "{tolerations}");
            }
        }
    }
}

#[test]
fn of_several_taints_the_shortest_stay_counts() {
    let mut world = World::with_node();
    let mut tolerations = tolerates(60);
    let other = json!({"key": "slow", "operator": "Exists", "tolerationSeconds": 20});
    tolerations.as_array_mut().unwrap().push(other);
    let pod = running(&mut world, "web", tolerations);
    taint(
        &mut world,
        &json!([{"key": "down", "effect": "NoExecute"}, {"key": "slow", "effect": "NoExecute"}]),
    );
    world.advance(TickDuration::from_secs(19));
    assert!(!is_ending(&world, &pod));
    world.advance(TickDuration::from_secs(1));
    assert!(is_ending(&world, &pod));
}

#[test]
fn the_end_is_called_off_when_the_taint_goes_in_time() {
    let mut world = World::with_node();
    let pod = running(&mut world, "web", tolerates(60));
    taint(&mut world, &down());
    world.advance(TickDuration::from_secs(59));
    taint(&mut world, &json!([]));
    world.advance(TickDuration::from_secs(1000));
    assert!(!is_ending(&world, &pod));
    taint(&mut world, &down());
    world.advance(TickDuration::from_secs(59));
    assert!(!is_ending(&world, &pod), "a new taint counts from its own beginning");
    world.advance(TickDuration::from_secs(1));
    assert!(is_ending(&world, &pod));
}

#[test]
fn a_pod_that_comes_to_a_tainted_node_has_its_whole_time() {
    let mut world = World::with_node();
    taint(&mut world, &down());
    world.advance(TickDuration::from_secs(500));
    let pod = running(&mut world, "late", tolerates(60));
    world.advance(TickDuration::from_secs(58));
    assert!(!is_ending(&world, &pod));
    world.advance(TickDuration::from_secs(2));
    assert!(is_ending(&world, &pod));
}

#[test]
fn it_is_said_why_and_the_replacement_goes_elsewhere() {
    let mut world = World::with_node();
    world.create(deployment("web", 2, "one"));
    world.converge();
    world.api.add_node("node-2", "100", "100Gi", "1000");
    taint(&mut world, &down());
    let pods = world.api.ids(ResourceKind::Pod, "shop");
    let ending: Vec<_> = pods.iter().filter(|pod| is_ending(&world, pod)).collect();
    assert_eq!(ending.len(), 2, "{pods:?}");
    for id in ending {
        let ViewObject::Pod(pod) = &world.api.objects[id] else { panic!() };
        let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget").unwrap();
        assert_eq!(target.reason.as_deref(), Some("DeletionByTaintManager"));
        let said = format!("TaintManagerEviction: Marking for deletion Pod {}", id.name);
        assert_eq!(world.said().iter().filter(|s| **s == said).count(), 1);
    }
    world.converge();
    for id in world.api.ids(ResourceKind::Pod, "shop") {
        let ViewObject::Pod(pod) = &world.api.objects[&id] else { panic!() };
        assert_eq!(pod.node_name.as_deref(), Some("node-2"));
    }
    let writes = world.writes.len();
    world.advance(TickDuration::from_secs(3600));
    assert_eq!(world.writes.len(), writes, "then there is nothing left to do");
}
