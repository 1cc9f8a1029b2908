//! Which pods a new, empty node would take. It is tried on a copy of the world, with the
//! scheduler's own filters.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use rekindle_types::held::HeldPod;

use super::{ScalableNodes, placed};
use crate::{ClusterView, NamespacedName, ViewObject, owners, pods, scheduler};

/// The name of the node that is not there.
const NEW: &str = "rekindle-new-node";
/// The label that carries a node's name.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Labels that every node has from its agent.
const OF_AGENTS: [&str; 4] =
    ["kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"];

/// The pods that wait.
pub(super) struct PendingPods {
    /// A new node takes all of these.
    pub(super) helped: Vec<Arc<HeldPod>>,
    /// It takes none of these, and why.
    pub(super) not_helped: Vec<(Arc<HeldPod>, String)>,
}

/// Pods that the scheduler has given up on for now, in its order.
fn waiting(view: &ClusterView) -> Vec<Arc<HeldPod>> {
    let has_failed = |pod: &&Arc<HeldPod>| {
        pods::nominated_node(pod).is_none()
            && pods::condition(pod, "PodScheduled").is_some_and(|condition| {
                condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable")
            })
    };
    let all = view.unscheduled().filter(|pod| scheduler::is_waiting(pod)).filter(has_failed);
    let mut all: Vec<Arc<HeldPod>> = all.cloned().collect();
    all.sort_by_cached_key(|pod| scheduler::turn(view, &NamespacedName::from_meta(&pod.metadata)));
    all
}

pub(super) fn look(view: &ClusterView, nodes: ScalableNodes<'_>) -> PendingPods {
    let mut answer = PendingPods { helped: Vec::new(), not_helped: Vec::new() };
    let waiting = waiting(view);
    let source = nodes.further.iter().map(String::as_str).chain([nodes.first]);
    let mut sources = source.filter_map(|name| view.node(name));
    let (false, Some(source)) = (waiting.is_empty(), sources.next()) else { return answer };
    let mut world = view.clone();
    world.apply(ViewObject::from(empty(source)));
    for pod in daemons(view, source.metadata.name.as_deref().unwrap_or_default()) {
        world.apply(ViewObject::from(pod));
    }
    for pod in waiting {
        // one that fits somewhere by now needs no new node, and takes its place
        let there = scheduler::best_node(&world, &pod, &[NEW])
            .ok()
            .and_then(|node| node.metadata.name.clone());
        if let Some(node) = there {
            world.apply(ViewObject::from(placed(&pod, Some(&node))));
            continue;
        }
        match scheduler::fits_on(&world, &pod, NEW) {
            Ok(()) => {
                world.apply(ViewObject::from(placed(&pod, Some(NEW))));
                answer.helped.push(pod);
            }
            Err(why) => answer.not_helped.push((pod, why)),
        }
    }
    answer
}

/// A node such as this one without anything on it.
fn empty(source: &Node) -> Node {
    let mut node = source.clone();
    let meta = &mut node.metadata;
    meta.name = Some(NEW.to_owned());
    meta.uid = Some(NEW.to_owned());
    meta.annotations = None;
    let labels = meta.labels.get_or_insert_default();
    labels.retain(|key, _| OF_AGENTS.contains(&key.as_str()));
    labels.insert(HOSTNAME.to_owned(), NEW.to_owned());
    node.spec = None;
    let status = node.status.get_or_insert_default();
    status.images = None;
    let ready = NodeCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        ..NodeCondition::default()
    };
    status.conditions = Some(vec![ready]);
    node
}

/// What the DaemonSets that have a pod there would have on the new node.
fn daemons(view: &ClusterView, node: &str) -> Vec<HeldPod> {
    let of_daemon_set = |pod: &&Arc<HeldPod>| {
        owners::controller_of(&pod.metadata).is_some_and(|owner| owner.kind == "DaemonSet")
    };
    let copy = |pod: &Arc<HeldPod>| {
        let mut pod = placed(pod, Some(NEW));
        let name = pod.metadata.name.clone().unwrap_or_default();
        pod.metadata.name = Some(format!("{name}-{NEW}"));
        pod.metadata.uid = Some(format!("{name}-{NEW}"));
        pod
    };
    view.pods_on(node)
        .filter(|pod| !pods::is_finished(pod))
        .filter(of_daemon_set)
        .map(copy)
        .collect()
}
