//! The scheduler: which of the nodes that fit a pod goes to.

use rekindle_controllers::{ObjectId, ResourceKind, ViewObject};
use serde_json::{Value, json};

use crate::build::{pod, replica_set};
use crate::world::{World, id};

fn asks(name: &str, requests: &Value, node: Option<&str>) -> Value {
    let mut pod = pod(name, json!({}));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        ViewObject::Pod(pod) => pod.node_name.clone(),
        other => panic!("{other:?}"),
    }
}

/// On both nodes as much stays free; on the second the pod uses what is left over.
#[test]
fn a_pod_goes_where_it_evens_out_the_use_of_cpu_and_memory() {
    // (what the pod asks for, where it goes)
    for (requests, expected) in [
        (json!({"cpu": "1"}), "b"),
        (json!({"memory": "1Gi"}), "a"),
        (json!({"cpu": "1", "memory": "1Gi"}), "a"),
        (json!({}), "a"),
    ] {
        let mut world = World::new();
        for name in ["a", "b"] {
            world.api.add_node(name, "4", "4Gi", "110");
        }
        world.create(asks("busy", &json!({"cpu": "2", "memory": "0"}), Some("a")));
        world.create(asks("large", &json!({"cpu": "0", "memory": "2Gi"}), Some("b")));
        world.settle();
        let pod = world.create(asks("comes", &requests, None));
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), Some(expected), "{requests}");
    }
}

/// On the first node three pods run that ask for nothing, which counts as 100m and 200 MiB each; on
/// the second one that says so.
#[test]
fn pods_that_ask_for_nothing_fill_a_node_all_the_same() {
    let mut world = World::new();
    for name in ["a", "b"] {
        world.api.add_node(name, "4", "4Gi", "110");
    }
    for number in 0..3 {
        world.create(asks(&format!("silent-{number}"), &json!({}), Some("a")));
    }
    world.create(asks("says", &json!({"cpu": "100m", "memory": "200Mi"}), Some("b")));
    world.settle();
    let pod = world.create(asks("comes", &json!({}), None));
    world.settle();
    assert_eq!(node_of(&world, &pod).as_deref(), Some("b"));
}

/// Node `a` is four fifths full, `b` is empty, and each has a label with its name. Pods without an
/// owner go where there is room, all of them; the third of a ReplicaSet goes beside the others of
/// its own (68 points of room against 2 · 60 of spreading; the second had 2 · 34).
#[test]
fn pods_of_a_replica_set_do_not_all_go_to_the_emptiest_node() {
    for (has_owner, on_a) in [(false, 0), (true, 1)] {
        let mut world = World::new();
        for name in ["a", "b"] {
            world.api.add_node(name, "4", "4Gi", "110");
            world.api.change(&id(ResourceKind::Node, name), |node| {
                node["metadata"]["labels"] = json!({HOST: name});
            });
        }
        world.create(asks("busy", &json!({"cpu": "3200m", "memory": "3276Mi"}), Some("a")));
        world.settle();
        if has_owner {
            world.create(replica_set("web", 3));
        } else {
            for number in 0..3 {
                world.create(pod(&format!("web-{number}"), json!({"app": "web"})));
            }
        }
        world.settle();
        let nodes = world.api.objects.values().filter_map(|object| match object {
            ViewObject::Pod(pod) if pod.metadata.name.as_deref() != Some("busy") => {
                pod.node_name.as_deref()
            }
            _ => None,
        });
        let (a, b): (Vec<&str>, Vec<&str>) = nodes.partition(|node| *node == "a");
        assert_eq!((a.len(), b.len()), (on_a, 3 - on_a), "{has_owner}");
    }
}

#[test]
fn a_pod_goes_where_its_image_is_if_that_is_large_enough_to_count() {
    let listed = |name: &str, mib: i64| json!([{"names": [name], "sizeBytes": mib << 20}]);
    // (images of node b, the pod's image, where it goes)
    for (images, image, expected) in [
        (listed("one:latest", 600), "one", "b"),
        (listed("one:latest", 600), "one:latest", "b"),
        (listed("one:latest", 600), "one:2", "a"),
        (listed("example.com:5000/one:latest", 600), "example.com:5000/one", "b"),
        (listed("one:latest", 45), "one", "a"),
    ] {
        let mut world = World::new();
        for name in ["a", "b"] {
            world.api.add_node(name, "4", "4Gi", "110");
        }
        world
            .api
            .change(&id(ResourceKind::Node, "b"), |node| node["status"]["images"] = images.clone());
        world.settle();
        let mut pod = asks("comes", &json!({}), None);
        pod["spec"]["containers"][0]["image"] = json!(image);
        let pod = world.create(pod);
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), Some(expected), "{images} {image}");
    }
}

const HOST: &str = "kubernetes.io/hostname";

fn term(app: &str) -> Value {
    json!({"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}})
}

/// What draws a pod to a node.
#[derive(Clone, Copy, Debug)]
enum Pull {
    /// Pods that it prefers: InterPodAffinity, weight 2.
    Pods,
    /// Fewer pods of its kind: PodTopologySpread, weight 2.
    Spread,
    /// Labels that it prefers: NodeAffinity, weight 2.
    Labels,
    /// Its image, which is as large as counts: ImageLocality, weight 1.
    Image,
    /// Taints of the others: TaintToleration, weight 3.
    Clean,
}

/// Puts a pod on each of the nodes, so that they are equally full: `at` is the app of that on this
/// node.
fn fill(world: &mut World, name: &str, node: &str, at: &str, others: &str) {
    for host in ["a", "b", "c"] {
        let app = if host == node { at } else { others };
        let mut there = asks(&format!("{name}-{host}"), &json!({}), Some(host));
        there["metadata"]["labels"] = json!({"app": app});
        world.create(there);
    }
}

fn draw(world: &mut World, pod: &mut Value, pull: Pull, node: &str) {
    match pull {
        Pull::Pods => {
            fill(world, "pods", node, "db", "filler");
            pod["spec"]["affinity"]["podAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 1, "podAffinityTerm": term("db")}]});
        }
        Pull::Spread => {
            fill(world, "spread", node, "filler", "web");
            pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": HOST,
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]);
        }
        Pull::Labels => {
            pod["spec"]["affinity"]["nodeAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                    "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}}]});
        }
        Pull::Image => world.api.change(&id(ResourceKind::Node, node), |node| {
            node["status"]["images"] =
                json!([{"names": ["one:latest"], "sizeBytes": 3000_u64 << 20}]);
        }),
        Pull::Clean => {
            for other in ["a", "b", "c"].into_iter().filter(|other| *other != node) {
                world.api.change(&id(ResourceKind::Node, other), |other| {
                    other["spec"]["taints"] = json!([{"key": "old", "effect": "PreferNoSchedule"}]);
                });
            }
        }
    }
}

/// The default plugins of kube-scheduler and their weights; each draws with its 0 to 100 points.
/// Among equals the first by name.
#[test]
fn what_draws_a_pod_counts_by_its_weight() {
    let cases: [(&[Pull], &[Pull], &str); 12] = [
        // (what draws to b, what draws to c, where it goes)
        (&[Pull::Pods], &[Pull::Image], "b"),
        (&[Pull::Spread], &[Pull::Image], "b"),
        (&[Pull::Labels], &[Pull::Image], "b"),
        (&[Pull::Image], &[Pull::Pods], "c"),
        (&[Pull::Pods], &[Pull::Spread], "b"),
        (&[Pull::Spread], &[Pull::Pods], "b"),
        (&[Pull::Labels], &[Pull::Spread], "b"),
        (&[Pull::Pods], &[Pull::Labels, Pull::Image], "c"),
        (&[Pull::Spread], &[Pull::Clean], "c"),
        (&[Pull::Pods], &[Pull::Clean], "c"),
        (&[Pull::Pods, Pull::Image], &[Pull::Clean], "b"),
        (&[Pull::Clean], &[Pull::Pods, Pull::Spread], "c"),
    ];
    for (to_b, to_c, expected) in cases {
        let mut world = World::new();
        for name in ["a", "b", "c"] {
            world.api.add_node(name, "4", "4Gi", "110");
            world.api.change(&id(ResourceKind::Node, name), |node| {
                node["metadata"]["labels"] = json!({HOST: name});
            });
        }
        let mut pod = asks("comes", &json!({}), None);
        to_b.iter().for_each(|pull| draw(&mut world, &mut pod, *pull, "b"));
        to_c.iter().for_each(|pull| draw(&mut world, &mut pod, *pull, "c"));
        world.settle();
        let pod = world.create(pod);
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), Some(expected), "{to_b:?} {to_c:?}");
    }
}

/// The more domains a constraint has, the more a pod in one counts: 16 in the zone and 8 on the
/// host are less than 12 and 12, as there are two zones and three hosts.
#[test]
fn of_two_constraints_the_one_with_more_domains_weighs_more() {
    let mut world = World::new();
    for (name, zone, matching) in [("a", "east", 12), ("b", "west", 8), ("c", "west", 8)] {
        world.api.add_node(name, "4", "4Gi", "110");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({HOST: name, "zone": zone});
        });
        for number in 0..12 {
            let mut there = asks(&format!("{name}-{number}"), &json!({}), Some(name));
            let app = if number < matching { "web" } else { "filler" };
            there["metadata"]["labels"] = json!({"app": app});
            world.create(there);
        }
    }
    world.settle();
    let mut pod = asks("comes", &json!({}), None);
    pod["spec"]["topologySpreadConstraints"] = ["zone", HOST]
        .map(|key| {
            json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}})
        })
        .to_vec()
        .into();
    let pod = world.create(pod);
    world.settle();
    assert_eq!(node_of(&world, &pod).as_deref(), Some("b"));
}

/// Of more than a hundred nodes a part is looked at first, and then the others: what a node has
/// counts in either part.
#[test]
fn an_image_counts_on_nodes_that_are_looked_at_later() {
    let name = |number: usize| format!("node-{number:03}");
    for first in 0..20 {
        let with_image = first..first + 24;
        let mut world = World::new();
        for number in 0..120 {
            world.api.add_node(&name(number), "4", "4Gi", "110");
            let change = |node: &mut Value| {
                if with_image.contains(&number) {
                    let image = json!({"names": ["one:1"], "sizeBytes": 1000 << 20});
                    node["status"]["images"] = json!([image]);
                }
                // a hundred are left, which is how many are asked for
                if number >= 100 {
                    node["spec"] = json!({"unschedulable": true});
                }
            };
            world.api.change(&id(ResourceKind::Node, &name(number)), change);
        }
        world.settle();
        let mut value = asks("comes", &json!({}), None);
        value["spec"]["containers"][0]["image"] = json!("one:1");
        let pod = world.create(value);
        world.settle();
        assert_eq!(node_of(&world, &pod), Some(name(first)), "the first of those that have it");
    }
}
