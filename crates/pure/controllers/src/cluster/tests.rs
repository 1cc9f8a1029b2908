//! The index after any changes equals one that is made anew from what is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use proptest::prelude::*;
use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;
use serde_json::{Value, json};

use super::crowds::CrowdCount;
use super::*;
use crate::node_lifecycle::Zones;
use crate::view::ClusterView;
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject};

/// The largest quantity.
const MOST: &str = "9223372036854775807";

/// One thing that happens; the numbers choose among a few of each.
#[derive(Clone, Debug)]
enum Happening {
    Pod { number: u8, node: u8, looks: u8, state: u8 },
    PodGoes(u8),
    Node { number: u8, cpu: u8, images: u8, health: u8 },
    NodeGoes(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..6u8, 0..4u8, 0..4u8, 0..4u8)
            .prop_map(|(number, node, looks, state)| Happening::Pod { number, node, looks, state }),
        2 => (0..6u8).prop_map(Happening::PodGoes),
        2 => (0..3u8, 1..4u8, 0..4u8, 0..12u8).prop_map(|(number, cpu, images, health)| {
            Happening::Node { number, cpu, images, health }
        }),
        1 => (0..3u8).prop_map(Happening::NodeGoes),
    ]
}

fn pod(number: u8, node: u8, looks: u8, state: u8) -> HeldPod {
    let node = (node < 3).then(|| format!("n{node}"));
    let terms = json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}]);
    let affinity = match looks {
        0 => Value::Null,
        1 => json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}),
        _ => json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}),
    };
    let owners = match looks {
        3 => json!([]),
        looks => json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner",
            "uid": format!("o{}", looks % 2), "controller": state != 3}]),
    };
    // as much as the API lets in of each, more than once in a pod
    let asks = match state {
        3 => {
            json!({"cpu": MOST, "memory": MOST, "ephemeral-storage": MOST, "example.com/gpu": MOST})
        }
        state => json!({"cpu": format!("{state}00m"), "example.com/gpu": "1"}),
    };
    let deleted = (state == 1).then_some("2026-11-21T12:00:00Z");
    let phase = if state == 2 { "Failed" } else { "Running" };
    serde_json::from_value(json!({
        "metadata": {"name": format!("p{number}"), "namespace": if number < 4 { "shop" } else { "other" },
            "uid": format!("u{number}"), "deletionTimestamp": deleted,
            "labels": {"app": if looks == 1 { "a" } else { "b" }}, "ownerReferences": owners},
        "spec": {"nodeName": node, "affinity": affinity, "overhead": if state == 3 { asks.clone() } else { Value::Null },
            "initContainers": [{"name": "init", "resources": {"requests": asks}}],
            "containers": [{"name": "main", "resources": {"requests": asks}, 
            "ports": [{"containerPort": 80, "hostPort": 8000 + u16::from(looks)}]}]},
        "status": {"phase": phase, "nominatedNodeName": (looks == 2).then_some("n1")},
    }))
    .unwrap()
}

/// `health`: three states of Ready, two zones, with and without the taint that ends pods.
fn node(number: u8, cpu: u8, images: u8, health: u8) -> Node {
    let ready = ["True", "False", "Unknown"][usize::from(health % 3)];
    let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute",
        "timeAdded": format!("2026-11-21T12:00:0{}Z", health % 5)}]);
    let images: Vec<Value> = (0..images)
        .map(|image| json!({"names": [format!("i{image}"), "same"], "sizeBytes": 100 + i64::from(image)}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": format!("n{number}"), "uid": format!("node{number}"),
            "labels": {"topology.kubernetes.io/zone": if health < 6 { "a" } else { "b" }}},
        "spec": {"taints": if health.is_multiple_of(2) { taint } else { Value::Null }},
        "status": {"conditions": [{"type": "Ready", "status": ready,
                "lastTransitionTime": format!("2026-11-21T11:00:0{}Z", health % 7)}],
            "addresses": [{"type": "InternalIP", "address": format!("10.0.0.{}", cpu % 2)}],
            "allocatable": {"cpu": cpu.to_string(), "pods": "10"}, "images": images},
    }))
    .unwrap()
}

fn happens(view: &mut ClusterView, happening: &Happening) {
    let gone = |view: &mut ClusterView, kind, name: NamespacedName| {
        let id = ObjectId::new(kind, name);
        if let Some(uid) = view.get(&id).map(|object| object.uid().to_owned()) {
            view.delete(&id, &uid);
        }
    };
    match happening {
        Happening::Pod { number, node, looks, state } => {
            view.apply(pod(*number, *node, *looks, *state).into());
        }
        Happening::PodGoes(number) => {
            let namespace = if *number < 4 { "shop" } else { "other" };
            gone(view, ResourceKind::Pod, NamespacedName::new(namespace, format!("p{number}")));
        }
        Happening::Node { number, cpu, images, health } => {
            view.apply(node(*number, *cpu, *images, *health).into());
        }
        Happening::NodeGoes(number) => {
            gone(view, ResourceKind::Node, NamespacedName::new("", format!("n{number}")));
        }
    }
}

/// What the indexes find, each pod as it is now.
fn found(view: &ClusterView) -> Vec<Vec<ViewObject>> {
    let pods = |pods: Vec<&Arc<HeldPod>>| pods.into_iter().cloned().map(ViewObject::Pod).collect();
    let mut found: Vec<Vec<ViewObject>> = vec![pods(view.unscheduled().collect())];
    for node in ["n0", "n1", "n2"] {
        found.push(pods(view.pods_on(node).collect()));
        found.push(pods(view.nominated_to(node).collect()));
    }
    for owner in ["o0", "o1"] {
        found.push(view.dependents(owner).cloned().collect());
        found.push(pods(view.pods_of(owner).collect()));
    }
    found.extend(
        ["shop", "other"].map(|name| view.unmanaged(ResourceKind::Pod, name).cloned().collect()),
    );
    found
}

/// A cluster without the numbers of its nodes and crowds, which tell only in which order they came.
#[derive(Debug, PartialEq)]
struct Picture<'a> {
    nodes: &'a ClusterNodes,
    /// By namespace, labels and node.
    crowds: BTreeMap<(&'a str, &'a Labels, String), CrowdCount>,
    found_by_label: Vec<(&'a str, &'a str, &'a str, Option<&'a Labels>)>,
    /// By namespace, terms and node.
    opinions: BTreeMap<(&'a str, String, String), i64>,
    images: &'a NodeImageIndex,
    machines: &'a NodeAddresses,
}

impl<'a> Picture<'a> {
    fn of(cluster: &'a ClusterIndex) -> Self {
        let ClusterIndex { nodes, crowds, opinions, images, machines } = cluster;
        let name = |node| nodes.name_of(node).to_owned();
        let mut picture = Self {
            nodes,
            crowds: BTreeMap::new(),
            found_by_label: crowds.found_by_label(),
            opinions: BTreeMap::new(),
            images,
            machines,
        };
        for namespace in crowds.namespaces() {
            for (labels, crowd) in crowds.of_namespace(namespace) {
                let places = crowd.places();
                let places = places.map(|(node, n)| ((namespace, labels, name(node)), n));
                picture.crowds.extend(places);
            }
        }
        for opinion in opinions.iter() {
            let terms = serde_json::to_string(opinion.affinity()).unwrap();
            let places = opinion.places();
            let places =
                places.map(|(node, n)| ((opinion.namespace(), terms.clone(), name(node)), n));
            picture.opinions.extend(places);
        }
        picture
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_index_equals_one_made_anew_after_any_changes(
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let mut view = ClusterView::new();
        for happening in &happenings {
            happens(&mut view, happening);
            let mut anew = ClusterIndex::default();
            for kind in [ResourceKind::Pod, ResourceKind::Node] {
                view.of_kind(kind).for_each(|(_, object)| anew.insert(object));
            }
            prop_assert_eq!(Picture::of(view.cluster()), Picture::of(&anew));
            let mut again = ClusterView::new();
            for kind in [ResourceKind::Pod, ResourceKind::Node] {
                view.of_kind(kind).for_each(|(_, object)| drop(again.apply(object.clone())));
            }
            prop_assert_eq!(&view.memories().zones, &again.memories().zones);
            prop_assert_eq!(found(&view), found(&again));
        }
        for number in 0..6 {
            happens(&mut view, &Happening::PodGoes(number));
            happens(&mut view, &Happening::NodeGoes(number));
        }
        let nothing = ClusterIndex::default();
        prop_assert_eq!(Picture::of(view.cluster()), Picture::of(&nothing), "nothing is left of what went");
        prop_assert_eq!(&view.memories().zones, &Zones::default());
        prop_assert_eq!(found(&view), found(&ClusterView::new()));
    }
}
