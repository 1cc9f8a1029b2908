//! The scheduler: when all is quiet no pod waits that a scheduler which sees everything for the
//! first time would place, or would make room for. What wakes a pod is guessed from changes; this
//! looks for changes that wake too few.

use proptest::prelude::*;
use rekindle_controllers::plan::{DependentPolicy, PatchTarget};
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectId, ResourceKind, WriteOperation, pods,
    reconcile,
};
use rekindle_types::TickDuration;
use rekindle_types::held::HeldPod;
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

const NODES: [&str; 3] = ["a", "b", "c"];
/// Each is some forty looks at a small cluster.
const CASES: u32 = 256;
const APPS: [&str; 2] = ["one", "two"];

/// What a pod thinks of others.
#[derive(Clone, Copy, Debug)]
enum Stance {
    Indifferent,
    /// It keeps pods of an app away, from its whole zone or from its node.
    Shuns(usize, &'static str),
    /// The same, while its namespace has a label.
    ShunsByNamespace(usize),
    Wants(usize, &'static str),
    IsSpread,
}

/// A pod that comes; the numbers choose among a few of each.
#[derive(Clone, Debug)]
struct Wish {
    cpus: u8,
    priority: i32,
    port: u8,
    app: usize,
    stance: Stance,
    tolerates: bool,
    /// Bound by hand.
    node: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum NodeChange {
    IsCordoned(bool),
    IsTainted(bool),
    IsReady(&'static str),
    HasCpus(u8),
    IsInZone(&'static str),
    HasAddress(u8),
    Goes,
}

#[derive(Clone, Debug)]
enum Happening {
    Comes(Wish),
    Goes(u8),
    /// Its node gets one pod on: it runs, or it ends when it is to.
    GetsOn(u8),
    /// One of those that are to end is gone.
    IsGone(u8),
    Finishes(u8),
    LooksDifferent(u8, usize),
    Node(usize, NodeChange),
    /// The same to a node where room is being made, if there is one.
    NodeInTheMaking(NodeChange),
    NamespaceIsLabelled(bool),
    TimePasses(u8),
}

fn stance() -> impl Strategy<Value = Stance> {
    let key = || prop_oneof![3 => Just("zone"), 1 => Just("kubernetes.io/hostname")];
    prop_oneof![
        4 => Just(Stance::Indifferent),
        4 => (0..2usize, key()).prop_map(|(app, key)| Stance::Shuns(app, key)),
        1 => (0..2usize).prop_map(Stance::ShunsByNamespace),
        1 => (0..2usize, key()).prop_map(|(app, key)| Stance::Wants(app, key)),
        1 => Just(Stance::IsSpread),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let port = prop_oneof![3 => Just(0), 1 => 1..3u8];
    let tolerates = prop_oneof![9 => Just(false), 1 => Just(true)];
    let node = prop_oneof![6 => Just(None), 1 => (0..3usize).prop_map(Some)];
    let cpus = prop_oneof![3 => 1..3u8, 2 => 3..5u8];
    let priority = prop_oneof![2 => Just(0), 1 => 1..3i32];
    (cpus, priority, port, 0..2usize, stance(), tolerates, node).prop_map(
        |(cpus, priority, port, app, stance, tolerates, node)| Wish {
            cpus,
            priority,
            port,
            app,
            stance,
            tolerates,
            node,
        },
    )
}

fn node_change() -> impl Strategy<Value = NodeChange> {
    let zone = prop_oneof![Just("x"), Just("y"), Just("")];
    let ready = prop_oneof![2 => Just("True"), 1 => Just("False"), 1 => Just("Unknown")];
    prop_oneof![
        3 => any::<bool>().prop_map(NodeChange::IsCordoned),
        1 => any::<bool>().prop_map(NodeChange::IsTainted),
        1 => ready.prop_map(NodeChange::IsReady),
        1 => (2..6u8).prop_map(NodeChange::HasCpus),
        2 => zone.prop_map(NodeChange::IsInZone),
        1 => (0..2u8).prop_map(NodeChange::HasAddress),
        1 => Just(NodeChange::Goes),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => wish().prop_map(Happening::Comes),
        2 => any::<u8>().prop_map(Happening::Goes),
        5 => any::<u8>().prop_map(Happening::GetsOn),
        3 => any::<u8>().prop_map(Happening::IsGone),
        1 => any::<u8>().prop_map(Happening::Finishes),
        1 => (any::<u8>(), 0..2usize).prop_map(|(pod, app)| Happening::LooksDifferent(pod, app)),
        4 => (0..3usize, node_change()).prop_map(|(node, change)| Happening::Node(node, change)),
        2 => node_change().prop_map(Happening::NodeInTheMaking),
        1 => any::<bool>().prop_map(Happening::NamespaceIsLabelled),
        1 => (0..20u8).prop_map(Happening::TimePasses),
    ]
}

fn required(kind: &str, app: usize, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": APPS[app]}}});
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

fn wanted(number: usize, wish: &Wish) -> Value {
    let app = APPS[wish.app];
    let mut value = pod(&format!("p{number}"), json!({"app": app}));
    let spec = &mut value["spec"];
    spec["priority"] = json!(wish.priority);
    spec["containers"][0]["resources"] = json!({"requests": {"cpu": wish.cpus.to_string()}});
    if wish.port > 0 {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": wish.port}]);
    }
    if wish.tolerates {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if let Some(node) = wish.node {
        spec["nodeName"] = json!(NODES[node]);
    }
    match wish.stance {
        Stance::Indifferent => {}
        Stance::Shuns(app, key) => spec["affinity"] = required("podAntiAffinity", app, key),
        Stance::ShunsByNamespace(app) => {
            spec["affinity"] = required("podAntiAffinity", app, "zone");
            let terms =
                "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
            spec.pointer_mut(terms).unwrap()["namespaceSelector"] =
                json!({"matchLabels": {"kept": "away"}});
        }
        Stance::Wants(app, key) => spec["affinity"] = required("podAffinity", app, key),
        Stance::IsSpread => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]);
        }
    }
    value
}

fn add_node(world: &mut World, number: usize) {
    let name = NODES[number];
    world.api.add_node(name, "4", "16Gi", "110");
    world.api.change(&id(ResourceKind::Node, name), |node| {
        let zone = if number < 2 { "x" } else { "y" };
        node["metadata"]["labels"] = json!({"zone": zone, "kubernetes.io/hostname": name});
    });
}

fn change_node(world: &mut World, number: usize, change: NodeChange) {
    let node = id(ResourceKind::Node, NODES[number]);
    if !world.api.objects.contains_key(&node) {
        return add_node(world, number);
    }
    match change {
        NodeChange::Goes => world.api.user_deletes(&node, DependentPolicy::Default),
        NodeChange::IsCordoned(is) => {
            world.api.change(&node, |node| node["spec"]["unschedulable"] = json!(is));
        }
        NodeChange::IsTainted(is) => world.api.change(&node, |node| {
            let taint = json!([{"key": "gpu", "effect": "NoSchedule"}]);
            node["spec"]["taints"] = if is { taint } else { json!([]) };
        }),
        NodeChange::IsReady(status) => world.api.change(&node, |node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
        }),
        NodeChange::HasCpus(cpus) => world.api.change(&node, |node| {
            node["status"]["allocatable"]["cpu"] = json!(cpus.to_string());
        }),
        NodeChange::IsInZone(zone) => world.api.change(&node, |node| {
            node["metadata"]["labels"]["zone"] = json!(zone);
            if zone.is_empty() {
                node["metadata"]["labels"].as_object_mut().unwrap().remove("zone");
            }
        }),
        NodeChange::HasAddress(address) => world.api.change(&node, |node| {
            let address = format!("10.0.0.{address}");
            node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address}]);
        }),
    }
}

/// Pods that keep their node full and others away from its whole zone.
fn fill(world: &mut World) {
    for (number, cpus, stance) in
        [(100, 1, Stance::Shuns(0, "zone")), (101, 3, Stance::Indifferent)]
    {
        let wish =
            Wish { cpus, priority: 2, port: 0, app: 1, stance, tolerates: false, node: Some(0) };
        world.create(wanted(number, &wish));
    }
    world.settle();
}

fn happens(world: &mut World, number: usize, happening: &Happening) {
    let nth = |world: &World, n: u8| -> Option<(ObjectId, bool)> {
        let all = world.api.pods();
        let pod = all.get(usize::from(n) % all.len().max(1))?;
        let name = pod.metadata.name.as_deref().unwrap();
        Some((id(ResourceKind::Pod, name), pods::node(pod).is_some()))
    };
    match happening {
        Happening::Comes(wish) => drop(world.create(wanted(number, wish))),
        Happening::Goes(n) => {
            if let Some((pod, _)) = nth(world, *n) {
                world.api.user_deletes(&pod, DependentPolicy::Default);
            }
        }
        Happening::GetsOn(n) => {
            if let Some((pod, _)) = nth(world, *n) {
                world.kubelet_at(&pod);
            }
        }
        Happening::IsGone(n) => {
            let ends = |pod: &&HeldPod| pods::node(pod).is_some() && pods::is_terminating(pod);
            let ending: Vec<_> = world.api.pods().into_iter().filter(ends).collect();
            if let Some(pod) = ending.get(usize::from(*n) % ending.len().max(1)) {
                let pod = id(ResourceKind::Pod, pod.metadata.name.as_deref().unwrap());
                world.api.pod_ended(&pod);
            }
        }
        Happening::Finishes(n) => {
            if let Some((pod, true)) = nth(world, *n) {
                world.api.change(&pod, |pod| pod["status"]["phase"] = json!("Succeeded"));
            }
        }
        Happening::LooksDifferent(n, app) => {
            if let Some((pod, _)) = nth(world, *n) {
                world.api.change(&pod, |pod| pod["metadata"]["labels"]["app"] = json!(APPS[*app]));
            }
        }
        Happening::Node(node, change) => change_node(world, *node, *change),
        Happening::NodeInTheMaking(change) => {
            let nominated = world.api.pods().into_iter().find_map(pods::nominated_node);
            let number = NODES.iter().position(|name| Some(*name) == nominated);
            if let Some(number) = number {
                change_node(world, number, *change);
            }
        }
        Happening::NamespaceIsLabelled(is) => {
            world.api.change(&id(ResourceKind::Namespace, "shop"), |shop| {
                shop["metadata"]["labels"] = if *is { json!({"kept": "away"}) } else { json!({}) };
            });
        }
        Happening::TimePasses(seconds) => {
            world.advance(TickDuration::from_secs(u64::from(*seconds)));
        }
    }
    world.settle();
}

/// True when others end already where the pod is to go. It is looked at when they are gone,
/// whatever comes between.
fn is_waited_for(world: &World, pod: &HeldPod) -> bool {
    let Some(nominated) = pods::nominated_node(pod) else { return false };
    let is_there = world.api.objects.contains_key(&id(ResourceKind::Node, nominated));
    let mut ending = world.api.pods().into_iter().filter(|other| {
        pods::node(other) == Some(nominated)
            && pods::is_terminating(other)
            && !pods::is_finished(other)
    });
    is_there && ending.next().is_some()
}

/// What a scheduler would do for the pods that wait that sees everything for the first time.
fn left_undone(world: &World) -> Vec<String> {
    let mut view = ClusterView::new();
    view.set_time(world.api.now);
    for object in world.api.objects.values() {
        view.apply(object.clone());
    }
    let mut undone = Vec::new();
    for pod in world.api.pods().into_iter().filter(|pod| !is_waited_for(world, pod)) {
        let name = NamespacedName::from_meta(&pod.metadata);
        let plan = reconcile(&view, &ControllerKey::Schedule(name.clone()), world.api.now);
        undone.extend(plan.writes().filter_map(|write| match write {
            WriteOperation::Bind { node, .. } => Some(format!("{name} goes to {node}")),
            WriteOperation::Delete(delete) => {
                Some(format!("{name} needs the room of {}", delete.id.name))
            }
            WriteOperation::Patch { id, part: PatchTarget::Status, patch } if id.name == name => {
                let nominated = patch["status"]["nominatedNodeName"].as_str();
                (nominated != pods::nominated_node(pod))
                    .then(|| format!("{name} waits for {nominated:?}"))
            }
            _ => None,
        }));
    }
    undone
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn when_all_is_quiet_no_pod_waits_that_could_be_helped(
        is_filled in any::<bool>(),
        happenings in proptest::collection::vec(happening(), 1..40),
    ) {
        let mut world = World::new();
        (0..2).for_each(|number| add_node(&mut world, number));
        if is_filled {
            fill(&mut world);
        }
        for (number, happening) in happenings.iter().enumerate() {
            happens(&mut world, number, happening);
            let undone = left_undone(&world);
            prop_assert!(undone.is_empty(), "after {}: {:?}: {:?}", number, happening, undone);
        }
    }
}
