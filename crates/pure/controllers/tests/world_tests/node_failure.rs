//! Nodes that fail while others do not: what becomes of their taints, how fast, and of their pods.

use rekindle_controllers::node_lifecycle::NodeLifecycleSettings;
use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn secs(seconds: u64) -> TickDuration {
    TickDuration::from_secs(seconds)
}

/// Nodes by name and zone, all ready.
fn world(nodes: &[(&str, &str)]) -> World {
    let mut world = World::new();
    for (name, zone) in nodes {
        world.api.add_node(name, "100", "100Gi", "1000");
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = labels.clone()
        });
        says(&mut world, name, "True");
    }
    world.settle();
    world
}

fn says(world: &mut World, node: &str, ready: &str) {
    let conditions = json!([{"type": "Ready", "status": ready}]);
    world.api.change(&id(ResourceKind::Node, node), |node| {
        node["status"]["conditions"] = conditions.clone();
    });
}

fn as_node(world: &World, name: &str) -> Value {
    match &world.api.objects[&id(ResourceKind::Node, name)] {
        ViewObject::Node(node) => serde_json::to_value(node.as_ref()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The keys of the node's taints NoExecute.
fn evicting(world: &World, name: &str) -> Vec<String> {
    let node = as_node(world, name);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let evicting = taints.iter().filter(|taint| taint["effect"] == "NoExecute");
    evicting.map(|t| t["key"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
}

/// Those of all nodes, in their order.
fn all(world: &World, nodes: &[&str]) -> Vec<String> {
    nodes.iter().map(|node| evicting(world, node).join(",")).collect()
}

const FIVE: [(&str, &str); 5] = [("a", "z"), ("b", "z"), ("c", "z"), ("d", "z"), ("e", "z")];

#[test]
fn a_node_that_fails_among_others_evicts_until_it_is_back() {
    let mut world = world(&FIVE);
    says(&mut world, "b", "False");
    world.settle();
    assert_eq!(evicting(&world, "b"), ["not-ready"]);
    says(&mut world, "b", "Unknown");
    world.settle();
    assert_eq!(evicting(&world, "b"), ["unreachable"], "one of the two at a time");
    says(&mut world, "b", "True");
    world.settle();
    assert_eq!(as_node(&world, "b")["spec"]["taints"].as_array().map_or(0, Vec::len), 0);
}

/// `--node-eviction-rate`: 0.1 a second.
#[test]
fn nodes_that_fail_together_follow_each_other_slowly() {
    let mut world = world(&FIVE);
    for node in ["a", "b"] {
        says(&mut world, node, "Unknown");
    }
    world.settle();
    assert_eq!(all(&world, &["a", "b"]), ["unreachable", ""]);
    world.advance(secs(9));
    assert_eq!(all(&world, &["a", "b"]), ["unreachable", ""]);
    world.advance(secs(1));
    assert_eq!(all(&world, &["a", "b"]), ["unreachable", "unreachable"]);
}

/// `--unhealthy-zone-threshold`: 0.55; in a zone of up to 50 nodes nothing is evicted then.
#[test]
fn where_most_of_a_zone_fails_nothing_is_evicted_until_it_is_better() {
    let mut world = world(&FIVE);
    for node in ["a", "b", "c"] {
        says(&mut world, node, "Unknown");
    }
    world.settle();
    world.advance(secs(1000));
    assert_eq!(all(&world, &["a", "b", "c"]), ["", "", ""]);
    says(&mut world, "c", "True");
    world.settle();
    assert_eq!(all(&world, &["a", "b", "c"]), ["unreachable", "", ""]);
}

#[test]
fn in_a_large_zone_most_of_which_fails_eviction_is_ten_times_slower() {
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "z")).collect();
    let mut world = world(&nodes);
    for name in &names[..40] {
        says(&mut world, name, "Unknown");
    }
    let tainted = |world: &World| names.iter().filter(|n| !evicting(world, n).is_empty()).count();
    world.settle();
    assert_eq!(tainted(&world), 1);
    world.advance(secs(99));
    assert_eq!(tainted(&world), 1);
    world.advance(secs(1));
    assert_eq!(tainted(&world), 2);
}

/// `--unhealthy-zone-threshold`, `--large-cluster-size-threshold`,
/// `--secondary-node-eviction-rate`: three of five nodes fail.
#[test]
fn what_a_disrupted_and_a_large_zone_are_can_be_set() {
    let with = |threshold: u32, large: usize| NodeLifecycleSettings {
        unhealthy_zone_ppm: threshold,
        large_zone_nodes: large,
        eviction_interval_disrupted: secs(30),
        ..NodeLifecycleSettings::default()
    };
    // (settings, seconds until each of two more nodes evicts)
    for (settings, expected) in [
        (with(550_000, 50), None),
        (with(600_000, 5), None),
        (with(600_000, 4), Some(30)),
        (with(600_001, 50), Some(10)),
    ] {
        let mut world = world(&FIVE);
        world.view.set_node_settings(settings.clone());
        for node in ["a", "b", "c"] {
            says(&mut world, node, "Unknown");
        }
        world.settle();
        let tainted = |world: &World| {
            all(world, &["a", "b", "c"]).iter().filter(|taints| !taints.is_empty()).count()
        };
        let Some(interval) = expected else {
            world.advance(secs(1000));
            assert_eq!(tainted(&world), 0, "{settings:?}");
            continue;
        };
        for count in [1, 2] {
            assert_eq!(tainted(&world), count, "{settings:?}");
            world.advance(secs(interval - 1));
            assert_eq!(tainted(&world), count, "{settings:?}");
            world.advance(secs(1));
        }
        assert_eq!(tainted(&world), 3, "{settings:?}");
    }
}

#[test]
fn where_every_node_fails_it_is_us_who_cannot_see() {
    let mut world = world(&FIVE);
    says(&mut world, "a", "Unknown");
    world.settle();
    assert_eq!(evicting(&world, "a"), ["unreachable"]);
    for node in ["b", "c", "d", "e"] {
        says(&mut world, node, "Unknown");
    }
    world.settle();
    world.advance(secs(1000));
    assert_eq!(all(&world, &["a", "b", "c", "d", "e"]), ["", "", "", "", ""]);
}

#[test]
fn a_zone_that_fails_as_a_whole_is_left_for_another() {
    let mut world = world(&[("a", "y"), ("b", "y"), ("c", "z")]);
    for node in ["a", "b"] {
        says(&mut world, node, "Unknown");
    }
    world.settle();
    assert_eq!(all(&world, &["a", "b"]), ["unreachable", ""]);
    world.advance(secs(10));
    assert_eq!(all(&world, &["a", "b"]), ["unreachable", "unreachable"]);
}

/// A pod as the API makes it, on a node.
fn placed(name: &str, node: &str) -> Value {
    let mut pod = pod(name, json!({}));
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]);
    pod
}

fn is_deleted(world: &World, pod: &ObjectId) -> bool {
    world.api.objects.get(pod).is_none_or(|pod| pod.meta().deletion_timestamp.is_some())
}

#[test]
fn pods_stay_300_seconds_on_a_node_that_is_gone_and_for_good_on_one_that_comes_back() {
    for comes_back in [true, false] {
        let mut world = world(&FIVE);
        let web = world.create(placed("web", "a"));
        world.converge();
        says(&mut world, "a", "Unknown");
        world.settle();
        world.advance(secs(299));
        assert!(!is_deleted(&world, &web));
        if comes_back {
            says(&mut world, "a", "True");
            world.settle();
        }
        world.advance(secs(1000));
        assert_eq!(is_deleted(&world, &web), !comes_back);
    }
}

/// As upstream: what a pod has used up of its time is not given back when the node's failure gets
/// another name.
#[test]
fn the_time_that_pods_have_goes_on_when_a_node_that_is_not_ready_is_not_heard_of_either() {
    for (first, then) in [("False", "Unknown"), ("Unknown", "False")] {
        let mut world = world(&FIVE);
        let mut web = placed("web", "a");
        web["spec"]["tolerations"] = json!(["not-ready", "unreachable"].map(|key| json!({
            "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})));
        let web = world.create(web);
        world.converge();
        says(&mut world, "a", first);
        world.advance(secs(200));
        says(&mut world, "a", then);
        world.advance(secs(99));
        assert!(!is_deleted(&world, &web), "{first}, {then}");
        world.advance(secs(1));
        assert!(is_deleted(&world, &web), "{first}, {then}");
    }
}

/// Whoever may write a node's taints must not keep the pods of others where they are.
#[test]
fn a_taint_of_the_future_holds_up_no_other_node_of_its_zone() {
    let mut world = world(&FIVE);
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        node["spec"]["taints"] = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute",
            "timeAdded": "2099-01-01T00:00:00Z"}]);
    });
    world.settle();
    says(&mut world, "b", "False");
    world.settle();
    assert_eq!(all(&world, &["a", "b"]), ["not-ready", "not-ready"]);
}

/// Its texts are upstream's.
#[test]
fn the_pods_of_a_silent_node_are_not_ready() {
    let mut world = world(&FIVE);
    world
        .create(json!({"kind": "Lease", "metadata": {"name": "a", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "a", "renewTime": "1970-01-01T00:00:00.000000Z"}}));
    let (there, elsewhere) =
        (world.create(placed("there", "a")), world.create(placed("elsewhere", "b")));
    world.converge();
    let ready = |world: &World, pod: &ObjectId| {
        let ViewObject::Pod(pod) = &world.api.objects[pod] else { panic!() };
        rekindle_controllers::pods::is_ready(pod)
    };
    assert!(ready(&world, &there) && ready(&world, &elsewhere));
    world.advance(secs(50));
    assert!(!ready(&world, &there) && ready(&world, &elsewhere));
    let said = world.said();
    assert!(said.iter().any(|said| said == "NodeNotReady: Node is not ready"), "{said:?}");
}

#[test]
fn pods_that_cannot_end_on_a_node_out_of_service_are_taken_away() {
    let mut world = world(&FIVE);
    let web = world.create(placed("web", "a"));
    world.converge();
    says(&mut world, "a", "Unknown");
    world.api.change(&web, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    });
    world.settle();
    assert!(world.api.objects.contains_key(&web), "its node may come back");
    world.api.change(&id(ResourceKind::Node, "a"), |node| {
        node["spec"]["taints"] = json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    });
    world.settle();
    assert!(!world.api.objects.contains_key(&web));
}
