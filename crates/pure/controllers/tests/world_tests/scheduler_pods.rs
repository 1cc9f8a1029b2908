//! The scheduler: pods that look at other pods (affinity, spreading, ports of the node).

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

/// Nodes with their zone.
fn world(nodes: &[(&str, &str)]) -> World {
    let mut world = World::new();
    for (name, zone) in nodes {
        world.api.add_node(name, "8", "16Gi", "110");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({"zone": zone, "kubernetes.io/hostname": name});
        });
    }
    world
}

fn pod_with(name: &str, app: &str, spec: &Value) -> Value {
    let mut pod = pod(name, json!({"app": app}));
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn on(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn affinity(kind: &str, term: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn preferred(kind: &str, term: &Value) -> Value {
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 100, "podAffinityTerm": term}]}}})
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pod.node_name.clone(),
        other => panic!("{other:?}"),
    }
}

fn placed(world: &mut World, pod: Value) -> Option<String> {
    let id = world.create(pod);
    world.settle();
    node_of(world, &id)
}

const THREE: [(&str, &str); 3] = [("a", "east"), ("b", "east"), ("c", "west")];

/// Assigning Pods to Nodes, "Inter-pod affinity and anti-affinity".
#[test]
fn pods_go_near_those_they_want_and_away_from_those_they_shun() {
    // (spec of the one that is there on node a, spec of the one that comes, where it goes)
    for (there, comes, expected) in [
        (json!({}), affinity("podAffinity", &term("db", "kubernetes.io/hostname")), Some("a")),
        (json!({}), affinity("podAffinity", &term("other", "zone")), None),
        (json!({}), affinity("podAffinity", &term("db", "absent")), None),
        (json!({}), affinity("podAffinity", &term("web", "zone")), Some("b")),
        (json!({}), affinity("podAntiAffinity", &term("db", "zone")), Some("c")),
        (json!({}), affinity("podAntiAffinity", &term("db", "absent")), Some("b")),
        (affinity("podAntiAffinity", &term("web", "zone")), json!({}), Some("c")),
        (json!({}), preferred("podAffinity", &term("db", "kubernetes.io/hostname")), Some("a")),
        (json!({}), preferred("podAntiAffinity", &term("db", "zone")), Some("c")),
        (preferred("podAntiAffinity", &term("web", "zone")), json!({}), Some("c")),
        (preferred("podAffinity", &term("web", "kubernetes.io/hostname")), json!({}), Some("a")),
        (affinity("podAffinity", &term("db", "kubernetes.io/hostname")), json!({}), Some("b")),
    ] {
        let mut world = world(&THREE);
        let mut first = there.clone();
        first["nodeSelector"] = on("a")["nodeSelector"].clone();
        let first = placed(&mut world, pod_with("db", "db", &first));
        assert_eq!(first.as_deref(), Some("a"));
        let second = placed(&mut world, pod_with("web", "web", &comes));
        assert_eq!(second.as_deref(), expected, "{there} {comes}");
    }
}

#[test]
fn terms_reach_their_own_namespace_those_named_and_those_selected() {
    // (what the term says of namespaces, whether the pod of namespace "shop" keeps away the one of
    // "other")
    for (namespaces, is_kept_away) in [
        (json!({}), false),
        (json!({"namespaces": ["other"]}), true),
        (json!({"namespaces": ["shop"]}), false),
        (json!({"namespaceSelector": {}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), false),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "red"}}, "namespaces": ["other"]}),
            true,
        ),
    ] {
        let mut world = world(&[("a", "east")]);
        world.create(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "other", "labels": {"team": "blue"}}}));
        let mut away = term("web", "zone");
        for (key, value) in namespaces.as_object().unwrap() {
            away[key] = value.clone();
        }
        placed(&mut world, pod_with("db", "db", &affinity("podAntiAffinity", &away)));
        let mut other = pod_with("web", "web", &json!({}));
        other["metadata"]["namespace"] = json!("other");
        let node = placed(&mut world, other);
        assert_eq!(node.is_none(), is_kept_away, "{namespaces}");
    }
}

#[test]
fn what_pods_refuse_is_said_in_the_words_of_upstream_and_tried_again_when_they_change() {
    let mut world = world(&[("a", "east")]);
    let db = world.create(pod_with("db", "db", &json!({})));
    let shy =
        world.create(pod_with("shy", "shy", &affinity("podAntiAffinity", &term("w", "zone"))));
    world.settle();
    let near = world.create(pod_with("near", "n", &affinity("podAffinity", &term("x", "zone"))));
    let away =
        world.create(pod_with("away", "n", &affinity("podAntiAffinity", &term("db", "zone"))));
    let shunned = world.create(pod_with("shunned", "w", &json!({})));
    world.settle();
    let message = |id: &ObjectId| match &world.api.objects[id] {
        ViewObject::Pod(pod) => {
            pod.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].message.clone().unwrap()
        }
        other => panic!("{other:?}"),
    };
    let none = "0/1 nodes are available: 1 node(s) didn't";
    let useless = "preemption: 0/1 nodes are available: 1";
    let no_help = format!("{useless} Preemption is not helpful for scheduling.");
    let no_victims = format!("{useless} No preemption victims found for incoming pod.");
    assert_eq!(message(&near), format!("{none} match pod affinity rules. {no_help}"));
    assert_eq!(message(&away), format!("{none} match pod anti-affinity rules. {no_victims}"));
    assert_eq!(
        message(&shunned),
        format!("{none} satisfy existing pods anti-affinity rules. {no_victims}")
    );
    world.api.change(&db, |pod| pod["metadata"]["labels"] = json!({"app": "x"}));
    world.settle();
    assert_eq!(node_of(&world, &near).as_deref(), Some("a"));
    assert_eq!(node_of(&world, &away).as_deref(), Some("a"));
    world.api.user_deletes(&shy, DependentPolicy::Default);
    world.settle();
    world.kubelet_at(&shy);
    world.settle();
    assert_eq!(node_of(&world, &shunned).as_deref(), Some("a"));
}

fn constraint(key: &str, more: &Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
    for (key, value) in more.as_object().unwrap() {
        constraint[key] = value.clone();
    }
    json!({"topologySpreadConstraints": [constraint]})
}

/// Pod Topology Spread Constraints, "Example: one topology spread constraint" and what its fields
/// mean.
#[test]
fn pods_are_spread_as_far_as_their_constraints_say() {
    // (the constraint, more of the spec, where pods of app web are, where the next one may not go)
    for (constraint, more, there, expected) in [
        (constraint("zone", &json!({})), json!({}), vec!["a", "a"], Some("c")),
        (constraint("zone", &json!({"maxSkew": 2})), on("a"), vec!["a"], Some("a")),
        (constraint("zone", &json!({})), on("a"), vec!["a"], Some("a")), // west does not count: node affinity
        (constraint("zone", &json!({"nodeAffinityPolicy": "Ignore"})), on("a"), vec!["a"], None),
        (constraint("zone", &json!({"minDomains": 3})), json!({}), vec!["a", "c"], None),
        (constraint("zone", &json!({"minDomains": 2})), on("a"), vec!["a", "c"], None),
        (constraint("rack", &json!({})), json!({}), vec![], None),
        (
            constraint("zone", &json!({"whenUnsatisfiable": "ScheduleAnyway"})),
            json!({}),
            vec!["a"],
            Some("c"),
        ),
        (
            constraint("zone", &json!({"whenUnsatisfiable": "ScheduleAnyway"})),
            on("a"),
            vec!["a", "a"],
            Some("a"),
        ),
    ] {
        let mut world = world(&THREE);
        for (index, node) in there.iter().enumerate() {
            let first = pod_with(&format!("p{index}"), "web", &on(node));
            assert_eq!(placed(&mut world, first).as_deref(), Some(*node));
        }
        let mut spec = constraint.clone();
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let node = placed(&mut world, pod_with("next", "web", &spec));
        assert_eq!(node.as_deref(), expected, "{spec} {there:?}");
    }
}

/// The same page, "nodeTaintsPolicy": a domain that the pod may not go to holds it up unless the
/// policy is Honor.
#[test]
fn tainted_nodes_count_for_spreading_unless_taints_are_honoured() {
    for (policy, expected) in [("Ignore", None), ("Honor", Some("a"))] {
        let mut world = world(&[("a", "east"), ("c", "west")]);
        world.api.change(&id(ResourceKind::Node, "c"), |node| {
            node["spec"]["taints"] = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        });
        placed(&mut world, pod_with("first", "web", &json!({})));
        let spec = constraint("zone", &json!({"nodeTaintsPolicy": policy}));
        let node = placed(&mut world, pod_with("next", "web", &spec));
        assert_eq!(node.as_deref(), expected, "{policy}");
    }
}

#[test]
fn a_pod_that_waits_for_its_domain_goes_when_another_begins_to_terminate() {
    let mut world = world(&[("a", "east"), ("c", "west")]);
    world
        .api
        .change(&id(ResourceKind::Node, "c"), |node| node["spec"]["unschedulable"] = json!(true));
    let first = world.create(pod_with("first", "web", &json!({})));
    world.settle();
    let next = world.create(pod_with("next", "web", &constraint("zone", &json!({}))));
    world.settle();
    assert_eq!(node_of(&world, &next), None);
    let said = "FailedScheduling: 0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
    assert!(world.said().contains(&said.to_owned()), "{:?}", world.said());
    world.api.user_deletes(&first, DependentPolicy::Default);
    world.settle();
    assert_eq!(node_of(&world, &next).as_deref(), Some("a"));
}

#[test]
fn two_pods_with_one_port_of_the_node_do_not_share_it() {
    let ports =
        |ports: Value| json!({"containers": [{"name": "main", "image": "one", "ports": ports}]});
    let tcp = ports(json!([{"containerPort": 80, "hostPort": 8080}]));
    // (ports of the one that comes, whether it fits)
    for (comes, fits) in [
        (tcp.clone(), false),
        (ports(json!([{"containerPort": 80, "hostPort": 8081}])), true),
        (ports(json!([{"containerPort": 8080}])), true),
        (ports(json!([{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}])), true),
        (ports(json!([{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}])), false),
    ] {
        let mut world = world(&[("a", "east")]);
        let first = world.create(pod_with("first", "web", &tcp));
        world.settle();
        let next = world.create(pod_with("next", "web", &comes));
        world.settle();
        assert_eq!(node_of(&world, &next).is_some(), fits, "{comes}");
        if !fits {
            let said = "FailedScheduling: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
            assert!(world.said().contains(&said.to_owned()), "{:?}", world.said());
            world.api.user_deletes(&first, DependentPolicy::Default);
            world.settle();
            assert_eq!(node_of(&world, &next), None, "the first still has the port");
            world.kubelet_at(&first);
            world.settle();
            assert_eq!(node_of(&world, &next).as_deref(), Some("a"));
        }
    }
}

#[test]
fn nodes_of_one_machine_share_its_ports() {
    let port = json!([{"containerPort": 80, "hostPort": 8080}]);
    let spec = json!({"containers": [{"name": "main", "image": "one", "ports": port}]});
    // (the address of the other node, whether the second pod goes there)
    for (address, fits) in [("10.0.0.1", false), ("10.0.0.2", true)] {
        let mut world = world(&[("a", "east"), ("b", "west")]);
        for (name, address) in [("a", "10.0.0.1"), ("b", address)] {
            world.api.change(&id(ResourceKind::Node, name), |node| {
                node["status"]["addresses"] =
                    json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": "x"}]);
            });
        }
        let first = world.create(pod_with("first", "web", &spec));
        world.settle();
        let next = world.create(pod_with("next", "web", &spec));
        world.settle();
        assert_eq!(node_of(&world, &next).is_some(), fits, "{address}");
        if !fits {
            let said = "FailedScheduling: 0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
            assert!(world.said().contains(&said.to_owned()), "{:?}", world.said());
            // the node of the first takes nobody else: it goes to the one beside
            let of_first = node_of(&world, &first).unwrap();
            world.api.change(&id(ResourceKind::Node, &of_first), |node| {
                node["spec"]["unschedulable"] = json!(true);
            });
            world.settle();
            assert_eq!(node_of(&world, &next), None);
            world.api.user_deletes(&first, DependentPolicy::Default);
            world.kubelet_at(&first);
            world.settle();
            let other = if of_first == "a" { "b" } else { "a" };
            assert_eq!(node_of(&world, &next).as_deref(), Some(other));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes in whatever order: anti-affinity holds between any two pods that have a node,
    /// in both directions, no constraint is broken by more than its skew, and the same pods go to
    /// the same nodes.
    #[test]
    fn placed_pods_respect_each_other(
        pods in proptest::collection::vec((0..3usize, 0..4usize, 0..3usize), 1..10),
    ) {
        const APPS: [&str; 3] = ["a", "b", "web"];
        let keys = ["kubernetes.io/hostname", "zone"];
        let run = || {
            let mut world = world(&THREE);
            let mut ids = Vec::new();
            for (index, (app, shuns, zone_or_host)) in pods.iter().enumerate() {
                let key = keys[zone_or_host % 2];
                let mut spec = json!({});
                if let Some(shunned) = APPS.get(*shuns) {
                    spec = affinity("podAntiAffinity", &term(shunned, key));
                }
                let pod = pod_with(&format!("p{index}"), APPS[*app], &spec);
                ids.push(world.create(pod));
                world.settle();
            }
            let nodes: Vec<_> = ids.iter().map(|id| node_of(&world, id)).collect();
            nodes
        };
        let nodes = run();
        prop_assert_eq!(&nodes, &run());
        let zones: BTreeMap<_, _> = THREE.into_iter().collect();
        for (one, (_, shuns, key)) in pods.iter().enumerate() {
            for (other, (app, ..)) in pods.iter().enumerate() {
                let (Some(here), Some(there)) = (&nodes[one], &nodes[other]) else { continue };
                if one == other || shuns != app {
                    continue;
                }
                let is_together = match keys[key % 2] {
                    "zone" => zones[here.as_str()] == zones[there.as_str()],
                    _ => here == there,
                };
                prop_assert!(!is_together, "{} shuns {}: {:?}", one, other, nodes);
            }
        }
    }
}
