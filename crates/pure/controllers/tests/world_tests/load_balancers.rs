//! Addresses of Services of type LoadBalancer.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use serde_json::{Value, json};

use crate::world::{World, id};

fn balancer(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "kind": "Service",
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn node(name: &str, addresses: Value) -> Value {
    json!({ "kind": "Node", "metadata": { "name": name }, "status": { "addresses": addresses } })
}

fn ingress(world: &World, name: &str) -> Value {
    let Some(ViewObject::Service(service)) =
        world.api.objects.get(&id(ResourceKind::Service, name))
    else {
        panic!("no Service {name}");
    };
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    json!(balancer.and_then(|balancer| balancer.ingress.as_ref()))
}

fn vip(address: &str) -> Value {
    json!([{ "ip": address, "ipMode": "VIP" }])
}

fn node_id(name: &str) -> ObjectId {
    ObjectId::new(ResourceKind::Node, NamespacedName::new("", name))
}

/// How many events of this reason there were.
fn said(world: &World, reason: &str) -> usize {
    world.notes.iter().filter(|note| note.reason == reason).count()
}

fn two_nodes(world: &mut World) {
    world.create(node("a", json!([{ "type": "InternalIP", "address": "10.88.0.1" }])));
    world.create(node(
        "b",
        json!([{ "type": "InternalIP", "address": "10.88.0.1" },
        { "type": "Hostname", "address": "b" }]),
    ));
}

#[test]
fn a_balancer_gets_the_addresses_of_the_nodes_and_follows_them() {
    let mut world = World::new();
    two_nodes(&mut world);
    world.create(balancer("web", json!({})));
    world.create(balancer("other", json!({ "loadBalancerClass": "example.com/other" })));
    world.settle();
    assert_eq!(ingress(&world, "web"), vip("10.88.0.1"));
    assert_eq!(ingress(&world, "other"), Value::Null, "another implementation has it");
    assert_eq!(said(&world, "EnsuredLoadBalancer"), 1);
    let external = json!([{ "type": "InternalIP", "address": "10.88.0.1" },
        { "type": "ExternalIP", "address": "192.0.2.9" }]);
    world.api.change(&node_id("a"), |node| node["status"]["addresses"] = external);
    world.settle();
    assert_eq!(ingress(&world, "web"), vip("192.0.2.9"));
}

#[test]
fn a_balancer_has_addresses_and_ports_of_its_own_families_only() {
    let mut world = World::new();
    let of_node = json!([{ "type": "InternalIP", "address": "10.88.0.1" },
        { "type": "InternalIP", "address": "fd52::1" }, { "type": "InternalIP", "address": "n" }]);
    world.create(node("a", of_node));
    for (name, families) in [("four", json!(["IPv4"])), ("six", json!(["IPv6"]))] {
        world.create(balancer(name, json!({ "ipFamilies": families })));
    }
    world.settle();
    assert_eq!(ingress(&world, "four"), vip("10.88.0.1"));
    assert_eq!(ingress(&world, "six"), vip("fd52::1"), "the port of IPv4 is another one");
    assert_eq!(said(&world, "PortConflict"), 0);
    world.create(balancer("two", json!({ "ipFamilies": ["IPv6", "IPv4"] })));
    world.settle();
    assert_eq!(ingress(&world, "two"), Value::Null);
    assert!(said(&world, "PortConflict") > 0);
    for older in ["four", "six"] {
        world.api.user_deletes(&id(ResourceKind::Service, older), DependentPolicy::Background);
    }
    world.settle();
    let both =
        json!([{ "ip": "10.88.0.1", "ipMode": "VIP" }, { "ip": "fd52::1", "ipMode": "VIP" }]);
    assert_eq!(ingress(&world, "two"), both);
}

#[test]
fn of_two_that_want_a_port_the_older_one_has_it_until_it_goes() {
    let mut world = World::new();
    two_nodes(&mut world);
    world.create(balancer("old", json!({})));
    world.settle();
    let class = json!({ "loadBalancerClass": "rekindle.dev/node" });
    world.create(balancer("young", class));
    world.create(balancer("udp", json!({ "ports": [{ "port": 80, "protocol": "UDP" }] })));
    world.settle();
    assert_eq!(ingress(&world, "young"), Value::Null);
    assert_eq!(ingress(&world, "udp"), vip("10.88.0.1"));
    assert!(said(&world, "PortConflict") > 0);
    world.api.user_deletes(&id(ResourceKind::Service, "old"), DependentPolicy::Background);
    world.settle();
    assert_eq!(ingress(&world, "young"), vip("10.88.0.1"));
}
