//! Nodes that are not heard of any more, and what else becomes of what is known of a node.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

const TYPES: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

fn secs(seconds: u64) -> TickDuration {
    TickDuration::from_secs(seconds)
}

fn node() -> ObjectId {
    id(ResourceKind::Node, "node-1")
}

fn lease() -> ObjectId {
    ObjectId::new(ResourceKind::Lease, NamespacedName::new("kube-node-lease", "node-1"))
}

/// The agent's own view of its node.
fn says(world: &mut World, ready: &str) {
    let conditions: Vec<Value> = TYPES
        .iter()
        .map(|t| json!({"type": t, "status": if *t == "Ready" { ready } else { "False" }}))
        .collect();
    world.api.change(&node(), |node| node["status"]["conditions"] = json!(conditions));
}

fn beat(world: &mut World) {
    let now = world.api.now.to_micro_time();
    world.api.change(&lease(), |lease| lease["spec"]["renewTime"] = json!(now));
}

/// A node with an agent that was last heard of long ago.
fn world() -> World {
    let mut world = World::with_node();
    says(&mut world, "True");
    world.create(json!({"kind": "Lease",
        "metadata": {"name": "node-1", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "node-1", "renewTime": "1970-01-01T00:00:00.000000Z"}}));
    world
}

fn as_node(world: &World) -> Value {
    match &world.api.objects[&node()] {
        ViewObject::Node(node) => serde_json::to_value(node.as_ref()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ready(world: &World) -> String {
    as_node(world)["status"]["conditions"][0]["status"].as_str().unwrap().to_owned()
}

fn taints(world: &World) -> Vec<String> {
    let node = as_node(world);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text =
        |t: &Value| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap());
    taints.iter().map(text).collect()
}

#[test]
fn a_node_that_renews_its_lease_in_time_is_left_alone() {
    for period in [1, 10, 30, 49] {
        let mut world = world();
        for _ in 0..100 {
            beat(&mut world);
            world.advance(secs(period));
        }
        assert_eq!(world.writes, [], "every {period} s");
    }
}

#[test]
fn a_renewal_wakes_nobody() {
    let mut world = world();
    world.settle();
    beat(&mut world);
    while world.watch_next(ResourceKind::Lease) {}
    let woken: Vec<_> = world.queue.iter().map(ToString::to_string).collect();
    assert!(!woken.iter().any(|key| key.contains("Node")), "{woken:?}");
}

/// The texts are upstream's.
#[test]
fn a_silent_node_becomes_unknown_after_the_grace_and_gets_no_pods() {
    let mut world = world();
    beat(&mut world);
    world.advance(secs(49));
    assert_eq!((ready(&world).as_str(), taints(&world)), ("True", vec![]));
    world.advance(secs(1));
    let node = as_node(&world);
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), TYPES.len());
    for condition in conditions {
        assert_eq!(condition["status"], "Unknown", "{condition}");
        assert_eq!(condition["reason"], "NodeStatusUnknown");
        assert_eq!(condition["message"], "Kubelet stopped posting node status.");
    }
    assert_eq!(taints(&world), ["node.kubernetes.io/unreachable:NoSchedule"]);
    let event = "NodeNotReady: Node node-1 status is now: NodeNotReady";
    assert_eq!(world.said().iter().filter(|said| *said == event).count(), 1);
    let writes = world.writes.len();
    world.advance(secs(3600));
    assert_eq!(world.writes.len(), writes, "that is all");
    let web = world.create(pod("web", json!({})));
    world.settle();
    let waits = "node(s) had untolerated taint(s)";
    assert!(world.said().iter().any(|said| said.contains(waits)), "{:?}", world.said());
    says(&mut world, "True");
    beat(&mut world);
    world.settle();
    assert_eq!(taints(&world), Vec::<String>::new());
    let ViewObject::Pod(web) = &world.api.objects[&web] else { panic!() };
    assert_eq!(web.node_name.as_deref(), Some("node-1"));
}

#[test]
fn the_pods_of_a_silent_node_are_left_to_run() {
    let mut world = world();
    let web = world.create(pod("web", json!({})));
    world.converge();
    world.advance(secs(100_000));
    assert_eq!(ready(&world), "Unknown");
    assert!(world.api.objects[&web].meta().deletion_timestamp.is_none());
}

#[test]
fn conditions_that_were_never_written_say_so() {
    let mut world = world();
    world.api.change(&node(), |node| node["status"]["conditions"] = json!([]));
    world.advance(secs(50));
    let node = as_node(&world);
    assert_eq!(node["status"]["conditions"][0]["reason"], "NodeStatusNeverUpdated");
    assert_eq!(node["status"]["conditions"][0]["message"], "Kubelet never posted node status.");
}

#[test]
fn an_engine_that_starts_gives_a_node_its_whole_grace() {
    let mut world = world(); // the lease was renewed long ago
    world.advance(secs(49));
    assert_eq!(ready(&world), "True");
    world.advance(secs(1));
    assert_eq!(ready(&world), "Unknown");
}

#[test]
fn the_time_in_which_the_engine_slept_does_not_count() {
    let mut world = world();
    beat(&mut world);
    world.advance(secs(40));
    world.api.now = world.api.now + secs(8 * 3600); // nobody looked
    world.advance(secs(49));
    assert_eq!(ready(&world), "True");
    world.advance(secs(1));
    assert_eq!(ready(&world), "Unknown");
}

#[test]
fn a_node_without_a_lease_is_not_waited_for() {
    let mut world = World::with_node();
    says(&mut world, "True");
    world.advance(secs(100_000));
    assert_eq!(world.writes, []);
}

#[test]
fn what_is_known_of_a_node_is_in_its_taints() {
    let mut world = World::with_node();
    says(&mut world, "False");
    world.settle();
    assert_eq!(taints(&world), ["node.kubernetes.io/not-ready:NoSchedule"]);
    says(&mut world, "Unknown");
    world.settle();
    assert_eq!(taints(&world), ["node.kubernetes.io/unreachable:NoSchedule"]);
    says(&mut world, "True");
    world.api.change(&node(), |node| node["spec"]["unschedulable"] = json!(true));
    world.settle();
    assert_eq!(taints(&world), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    world.api.change(&node(), |node| node["spec"]["unschedulable"] = Value::Null);
    world.settle();
    assert_eq!(taints(&world), Vec::<String>::new());
}
