//! The scheduler: ports of a machine that has several nodes.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject, pods};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

/// Nodes `a` and `b` of one address.
fn machine() -> World {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.api.add_node(name, "4", "16Gi", "110");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({"kubernetes.io/hostname": name});
            node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
        });
        says(&mut world, name, "True");
    }
    world.settle();
    world
}

fn says(world: &mut World, node: &str, ready: &str) {
    world.api.change(&id(ResourceKind::Node, node), |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
    });
}

/// A pod that has port 8080 of its node.
fn with_port(name: &str) -> Value {
    let mut pod = pod(name, json!({"app": name}));
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080, "hostPort": 8080}]);
    pod
}

fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    pod
}

fn place(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pods::node(pod).map(str::to_owned),
        other => panic!("{other:?}"),
    }
}

/// A pod with the port on node `a`, and one that waits for it.
fn contest(world: &mut World, first: Value) -> (ObjectId, ObjectId) {
    let first = world.create(on("a", first));
    world.settle();
    world.kubelet_at(&first);
    assert_eq!(place(world, &first).as_deref(), Some("a"));
    let next = world.create(with_port("next"));
    world.settle();
    assert_eq!(place(world, &next), None);
    (first, next)
}

/// An agent carries the bytes of its pods' ports: when it is dead, a sibling can have them. What is
/// on the machine's own network runs on.
#[test]
fn a_port_is_free_beside_a_node_that_is_not_heard_of() {
    for (host_network, expected) in [(false, Some("b")), (true, None)] {
        let mut world = machine();
        let mut first = with_port("first");
        first["spec"]["hostNetwork"] = json!(host_network);
        let (_, next) = contest(&mut world, first);
        says(&mut world, "a", "False");
        world.settle();
        assert_eq!(place(&world, &next), None, "its agent says that it is there");
        says(&mut world, "a", "Unknown");
        world.settle();
        assert_eq!(place(&world, &next).as_deref(), expected, "on its network: {host_network}");
    }
}

#[test]
fn a_node_that_goes_or_is_another_machine_gives_its_ports_back_at_once() {
    let node = id(ResourceKind::Node, "a");
    for is_gone in [true, false] {
        let mut world = machine();
        let (_, next) = contest(&mut world, with_port("first"));
        if is_gone {
            world.api.user_deletes(&node, DependentPolicy::Default);
        } else {
            world.api.change(&node, |node| {
                node["status"]["addresses"][0]["address"] = json!("10.0.0.2");
            });
        }
        world.settle();
        assert_eq!(place(&world, &next).as_deref(), Some("b"), "it is gone: {is_gone}");
    }
}

#[test]
fn a_pod_is_not_in_its_own_way_to_the_node_beside() {
    let mut world = machine();
    let web = world.create(with_port("web"));
    world.converge();
    assert_eq!(place(&world, &web).as_deref(), Some("a"));
    world.create(json!({"kind": "PodRestart", "metadata": {"name": "move"},
        "spec": {"podName": "web", "rung": "Reschedule"}}));
    world.converge();
    assert_eq!(place(&world, &web).as_deref(), Some("b"));
}

/// Room is made on `a` for a pod with the port; another one comes meanwhile.
#[test]
fn a_port_that_is_kept_for_a_nominated_pod_is_kept_on_the_whole_machine() {
    let asks = |mut pod: Value, cpus: u8, priority: i32| {
        pod["spec"]["priority"] = json!(priority);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpus.to_string()}});
        pod
    };
    // (priority of the one that comes, where it goes)
    for (priority, expected) in [(5, None), (10, None), (11, Some("b"))] {
        let mut world = machine();
        let low = world.create(on("a", asks(pod("low", json!({})), 4, 1)));
        world.settle();
        let high = world.create(on("a", asks(with_port("high"), 4, 10)));
        world.settle();
        let next = world.create(on("b", asks(with_port("next"), 1, priority)));
        world.settle();
        assert_eq!(place(&world, &next).as_deref(), expected, "priority {priority}");
        if expected.is_none() {
            let said = "FailedScheduling: 0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
            assert!(world.said().contains(&said.to_owned()), "{:?}", world.said());
            world.api.user_deletes(&high, DependentPolicy::Default);
            world.settle();
            assert_eq!(place(&world, &next).as_deref(), Some("b"), "nobody is to have it now");
        }
        world.kubelet_at(&low);
        world.settle();
    }
}
