//! The scheduler: a binding never breaks what a pod or a node asks for, whatever comes and goes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, pods};
use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

const NODES: [&str; 3] = ["a", "b", "c"];

/// What a pod asks for; the numbers choose among a few of each.
#[derive(Clone, Debug)]
struct Wish {
    cpus: u8,
    priority: i32,
    port: u8,
    disk: u8,
    tolerates: bool,
}

#[derive(Clone, Debug)]
enum Happening {
    Comes(Wish),
    Goes(u8),
    Ends(u8),
    NodeChanges { node: u8, cpus: u8, disk: u8 },
    TimePasses(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    let wish = (1..5u8, 0..3i32, 0..3u8, 0..3u8, any::<bool>()).prop_map(
        |(cpus, priority, port, disk, tolerates)| Wish { cpus, priority, port, disk, tolerates },
    );
    prop_oneof![
        6 => wish.prop_map(Happening::Comes),
        1 => any::<u8>().prop_map(Happening::Goes),
        2 => any::<u8>().prop_map(Happening::Ends),
        1 => (0..3u8, 4..9u8, 1..3u8)
            .prop_map(|(node, cpus, disk)| Happening::NodeChanges { node, cpus, disk }),
        1 => (0..20u8).prop_map(Happening::TimePasses),
    ]
}

fn wanted(number: usize, wish: &Wish) -> Value {
    let mut value = pod(&format!("p{number}"), json!({}));
    let spec = &mut value["spec"];
    spec["priority"] = json!(wish.priority);
    spec["containers"][0]["resources"] = json!({"requests": {"cpu": wish.cpus.to_string()}});
    if wish.port > 0 {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": wish.port}]);
    }
    if wish.disk > 0 {
        spec["nodeSelector"] = json!({"disk": wish.disk.to_string()});
    }
    if wish.tolerates {
        spec["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    }
    value
}

/// A world that heeds each binding as it is made.
fn run(happenings: &[Happening]) -> (World, BTreeMap<String, Wish>) {
    let mut world = World::new();
    for (number, name) in NODES.iter().enumerate() {
        world.api.add_node(name, "6", "16Gi", "4");
        world.api.change(&id(ResourceKind::Node, name), |node| {
            node["metadata"]["labels"] = json!({"disk": (1 + number % 2).to_string()});
            if number == 2 {
                node["spec"]["taints"] = json!([{"key": "gpu", "effect": "NoSchedule"}]);
            }
        });
    }
    let mut wishes = BTreeMap::new();
    for (number, happening) in happenings.iter().enumerate() {
        let nth = |world: &World, n: u8| {
            let pods = world.api.ids(ResourceKind::Pod, "shop");
            (!pods.is_empty()).then(|| pods[usize::from(n) % pods.len()].clone())
        };
        match happening {
            Happening::Comes(wish) => {
                wishes.insert(format!("p{number}"), wish.clone());
                world.create(wanted(number, wish));
            }
            Happening::Goes(n) => {
                if let Some(pod) = nth(&world, *n) {
                    world.api.user_deletes(&pod, DependentPolicy::Default);
                }
            }
            Happening::Ends(n) => {
                if let Some(pod) = nth(&world, *n) {
                    world.kubelet_at(&pod);
                }
            }
            Happening::NodeChanges { node, cpus, disk } => {
                world.api.change(&id(ResourceKind::Node, NODES[usize::from(*node)]), |node| {
                    // What runs stays: a node does not become smaller or another one.
                    node["metadata"]["labels"]["more"] = json!(disk.to_string());
                    let had: u8 =
                        node["status"]["allocatable"]["cpu"].as_str().unwrap().parse().unwrap();
                    node["status"]["allocatable"]["cpu"] = json!(had.max(*cpus).to_string());
                });
            }
            Happening::TimePasses(seconds) => {
                world.advance(TickDuration::from_secs(u64::from(*seconds)));
            }
        }
        world.settle();
    }
    (world, wishes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_pods_and_nodes_ask_for_holds_on_every_node(
        happenings in proptest::collection::vec(happening(), 1..25),
    ) {
        let (world, wishes) = run(&happenings);
        let places = |world: &World| -> BTreeMap<String, Option<String>> {
            let pods = world.api.pods();
            pods.iter().map(|p| (p.metadata.name.clone().unwrap(), pods::node(p).map(str::to_owned))).collect()
        };
        prop_assert_eq!(places(&world), places(&run(&happenings).0), "the same again");
        for (number, name) in NODES.iter().enumerate() {
            let all = world.api.pods();
            let there: Vec<_> = all.iter().filter(|pod| pods::node(pod) == Some(name)).collect();
            let of = |pod: &rekindle_types::held::HeldPod| &wishes[pod.metadata.name.as_ref().unwrap()];
            let cpus: u8 = there.iter().map(|pod| of(pod).cpus).sum();
            let node = match &world.api.objects[&id(ResourceKind::Node, name)] {
                rekindle_controllers::ViewObject::Node(node) => node.clone(),
                other => panic!("{other:?}"),
            };
            let has: u8 = node.status.as_ref().unwrap().allocatable.as_ref().unwrap()["cpu"].0.parse().unwrap();
            prop_assert!(cpus <= has, "{}: {} of {} CPUs", name, cpus, has);
            prop_assert!(there.len() <= 4, "{}: {} pods", name, there.len());
            let ports: Vec<u8> = there.iter().map(|pod| of(pod).port).filter(|port| *port > 0).collect();
            prop_assert_eq!(ports.len(), ports.iter().collect::<BTreeSet<_>>().len(), "{}: {:?}", name, ports);
            for pod in there {
                let disk = of(pod).disk;
                prop_assert!(disk == 0 || usize::from(disk) == 1 + number % 2);
                prop_assert!(number != 2 || of(pod).tolerates);
            }
        }
    }
}
