//! Whether a node is needed: what is used of it, what keeps its pods there, and whether they have a
//! place elsewhere.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use rekindle_types::held::{HeldPod, HeldVolumeSource};
use rekindle_types::nodes;
use rekindle_types::pod_annotations::{SAFE_TO_EVICT, is_mirror};

use super::{name_of, placed};
use crate::cluster::{self, ResourceAmounts};
use crate::{
    ClusterView, NamespacedName, ResourceKind, ViewObject, disruption, owners, pods, scheduler,
};

/// `"true"` on a Node keeps it.
const DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// On a Pod: the names of local volumes that may be lost.
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// Why a node stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNeed {
    /// It has not registered yet, or somebody deletes it.
    Absent,
    /// Its user says so.
    Disabled,
    /// It is cordoned: somebody has it in hand.
    Cordoned,
    /// It is not ready: nobody knows what is on it.
    NotReady,
    /// So many hundredths of its CPU or memory are asked for.
    Used(i64),
    /// Persistent volumes are on it, this one among them.
    Volume(String),
    /// This pod keeps it.
    Pod(NamespacedName, NodeKeepReason),
}

/// Why a pod keeps its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKeepReason {
    /// Its annotation says so.
    Annotated,
    /// Nobody makes it again.
    Naked,
    /// It has local storage, in this volume.
    LocalStorage(String),
    /// It is one of the system's, and no budget says how many may go.
    System,
    /// A disruption budget does not let it go now.
    Budget,
    /// It has no place elsewhere, in the scheduler's words.
    NoPlace(String),
}

/// Why the node stays; none when it is not needed.
pub(super) fn need(view: &ClusterView, name: &str, used_percent: i64) -> Option<NodeNeed> {
    let Some(node) = view.node(name) else { return Some(NodeNeed::Absent) };
    if let Some(need) = need_by_annotation(node) {
        return Some(need);
    }
    if !cluster::is_ready(node) {
        return need_of_unready_node(view, node, name);
    }
    let used = used(&view.requested_on(name), &ResourceAmounts::allocatable(node));
    if used >= used_percent {
        return Some(NodeNeed::Used(used));
    }
    if let Some(volume) = volume_of(view, node) {
        return Some(NodeNeed::Volume(volume));
    }
    let movable: Vec<&Arc<HeldPod>> =
        view.pods_on(name).filter(|pod| !pods::is_finished(pod) && !belongs_to_node(pod)).collect();
    let held = |pod: &&Arc<HeldPod>| hold(view, pod).map(|hold| NodeNeed::Pod(name_of(pod), hold));
    movable
        .iter()
        .find_map(held)
        .or_else(|| {
            let broken = scheduler::breaking_a_budget(view, movable.clone());
            broken.map(|pod| NodeNeed::Pod(name_of(pod), NodeKeepReason::Budget))
        })
        .or_else(|| without_place(view, name, &movable))
}

fn need_by_annotation(node: &Node) -> Option<NodeNeed> {
    let says = |key: &str| node.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    if owners::is_terminating(&node.metadata) {
        return Some(NodeNeed::Absent);
    }
    if says(DISABLED) == Some("true") {
        return Some(NodeNeed::Disabled);
    }
    if nodes::is_cordoned(node) {
        return Some(NodeNeed::Cordoned);
    }
    None
}

/// What is to end on it may never do so, as nobody is heard of there; what stays may come back with
/// it.
fn need_of_unready_node(view: &ClusterView, node: &Node, name: &str) -> Option<NodeNeed> {
    let is_over = |pod: &Arc<HeldPod>| {
        pods::is_finished(pod) || belongs_to_node(pod) || owners::is_terminating(&pod.metadata)
    };
    if view.pods_on(name).all(is_over) {
        volume_of(view, node).map(NodeNeed::Volume)
    } else {
        Some(NodeNeed::NotReady)
    }
}

/// The larger of both, in hundredths.
fn used(taken: &ResourceAmounts, has: &ResourceAmounts) -> i64 {
    let share = |taken: i128, has: i128| {
        let percent = if has <= 0 { 0 } else { taken * 100 / has };
        i64::try_from(percent).unwrap_or(i64::MAX)
    };
    share(taken.cpu_millis, has.cpu_millis).max(share(taken.memory_bytes, has.memory_bytes))
}

/// A volume that can be used on this node only, or on few others: its data is here.
fn volume_of(view: &ClusterView, node: &Node) -> Option<String> {
    let is_here = |volume: &PersistentVolume| {
        volume.spec.as_ref().is_some_and(|spec| spec.node_affinity.is_some())
            && scheduler::fits_volume(volume, node)
    };
    view.of_kind(ResourceKind::PersistentVolume).find_map(|(id, object)| match object {
        ViewObject::PersistentVolume(volume) if is_here(volume) => Some(id.name.name.clone()),
        _ => None,
    })
}

/// Pods of a DaemonSet, and those that stand for the node's own files, go with it.
fn belongs_to_node(pod: &HeldPod) -> bool {
    let owner = owners::controller_of(&pod.metadata);
    is_mirror(pod) || owner.is_some_and(|owner| owner.kind == "DaemonSet")
}

fn annotation<'a>(pod: &'a HeldPod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn hold(view: &ClusterView, pod: &HeldPod) -> Option<NodeKeepReason> {
    match annotation(pod, SAFE_TO_EVICT) {
        Some("true") => return None,
        Some("false") => return Some(NodeKeepReason::Annotated),
        Some(_) | None => {}
    }
    if owners::controller_of(&pod.metadata).is_none() {
        return Some(NodeKeepReason::Naked);
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.as_ref();
    let has_a_budget = || disruption::covering(view, labels, namespace).next().is_some();
    if namespace == "kube-system" && !has_a_budget() {
        return Some(NodeKeepReason::System);
    }
    local_storage(pod).map(NodeKeepReason::LocalStorage)
}

/// A volume of the pod that is lost when it moves.
fn local_storage(pod: &HeldPod) -> Option<String> {
    let given_up: Vec<&str> =
        annotation(pod, SAFE_VOLUMES).unwrap_or_default().split(',').map(str::trim).collect();
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    let mut local = volumes.filter(|volume| volume.source == HeldVolumeSource::Disk);
    local.find(|volume| !given_up.contains(&volume.name.as_str())).map(|volume| volume.name.clone())
}

/// The first pod that has no place on the other nodes, once those before it have theirs.
fn without_place(view: &ClusterView, node: &str, movable: &[&Arc<HeldPod>]) -> Option<NodeNeed> {
    if movable.is_empty() {
        return None;
    }
    let mut world = view.clone();
    for pod in movable {
        let object = ViewObject::Pod(Arc::clone(pod));
        world.delete(&object.id(), object.uid());
    }
    for pod in movable {
        let mut moved = placed(pod, None);
        // as the one that its controller makes: another pod
        moved.metadata.uid = moved.metadata.uid.map(|uid| format!("{uid}-moved"));
        let place = scheduler::best_node(&world, &moved, &[node])
            .map(|node| node.metadata.name.clone().unwrap_or_default());
        match place {
            Ok(place) => drop(world.apply(ViewObject::from(placed(&moved, Some(&place))))),
            Err(why) => return Some(NodeNeed::Pod(name_of(pod), NodeKeepReason::NoPlace(why))),
        }
    }
    None
}

impl fmt::Display for NodeNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it is not registered"),
            Self::Disabled => f.write_str("its annotation disables scale-down"),
            Self::Cordoned => f.write_str("it is cordoned"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Used(percent) => write!(f, "{percent} % of it are asked for"),
            Self::Volume(name) => write!(f, "volume {name} is on it"),
            Self::Pod(pod, hold) => write!(f, "pod {pod} {hold}"),
        }
    }
}

impl fmt::Display for NodeKeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotated => f.write_str("is annotated as not safe to evict"),
            Self::Naked => f.write_str("is made again by nobody"),
            Self::LocalStorage(volume) => write!(f, "has local storage ({volume})"),
            Self::System => f.write_str("is of kube-system and has no disruption budget"),
            Self::Budget => f.write_str("is held by a disruption budget"),
            Self::NoPlace(why) => write!(f, "has no place elsewhere: {why}"),
        }
    }
}
