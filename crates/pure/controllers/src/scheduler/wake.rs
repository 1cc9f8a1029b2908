//! Which waiting pods a change may help: only those are looked at again (upstream's queueing
//! hints).
//!
//! ```text
//!   what happens                       who is helped
//!   room comes up on a node            those that fit there now, or could make the rest of the room they need
//!   the same                           those for which room is being made there: they may need another node
//!   ports come up on a machine         those with ports that fit on another node of it
//!   pods come, go, or look different   those that look at other pods
//!   pods go, or their node does, or
//!   it is in another zone              those that these pods kept away from elsewhere, by anti-affinity
//!   volumes and claims change          those with claims
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;

use super::{filter, is_waiting, machine_ports, neighbours, preemption, priority};
use crate::cluster::{self, NodeEntry, PodHostPorts, ResourceAmounts};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ViewObject, avoidance, pods, volumes,
};

/// The pods that a change may give a node.
pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let before = change.before.as_ref();
    match &change.after {
        Some(ViewObject::Pod(pod)) if is_waiting(pod) => {
            let had_same_needs = matches!(before, Some(ViewObject::Pod(before))
                if is_waiting(before) && looks_the_same(before, pod));
            if !had_same_needs || lost_nomination(change).is_some() {
                keys.insert(ControllerKey::Schedule(change.id.name.clone()));
            }
            if let Some(ViewObject::Pod(before)) = before {
                affected_by_leaving(view, change, before, change.after.as_ref(), keys);
            }
        }
        Some(ViewObject::Pod(pod)) if before.is_none() => {
            if pods::node(pod).is_some() {
                keys.extend(waiting_for_pods(view));
            }
        }
        Some(ViewObject::Namespace(namespace)) => {
            let is_same = matches!(before, Some(ViewObject::Namespace(before))
                if before.metadata.labels == namespace.metadata.labels);
            if !is_same {
                keys.extend(waiting_for_pods(view));
                keys.extend(meant_by_namespace(view, &change.id.name.name));
            }
        }
        Some(ViewObject::Node(node)) => {
            let before = match before {
                Some(ViewObject::Node(before)) => Some(before),
                Some(_) | None => None,
            };
            affected_by_node(view, before, node, keys);
        }
        Some(
            ViewObject::PersistentVolumeClaim(_)
            | ViewObject::PersistentVolume(_)
            | ViewObject::StorageClass(_),
        ) => keys.extend(waiting_for_volumes(view)),
        after => match before {
            Some(ViewObject::Node(before)) => {
                keys.extend(waiting_for_pods(view));
                keys.extend(with_room_in_the_making(view, &change.id.name.name));
                keys.extend(kept_away_from(view, &change.id.name.name));
                wake_beside(view, before, keys);
            }
            Some(ViewObject::Pod(before)) => {
                affected_by_leaving(view, change, before, after.as_ref(), keys);
            }
            Some(_) | None => {}
        },
    }
}

/// A node came, or is not as it was.
fn affected_by_node(
    view: &ClusterView,
    before: Option<&Arc<Node>>,
    node: &Node,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if !before.is_some_and(|before| looks_alike(before, node)) {
        wake_for_room(view, name, keys);
        // A node that is no domain any more makes others count.
        keys.extend(waiting_for_pods(view));
    }
    let Some(before) = before else { return };
    if before.metadata.labels != node.metadata.labels {
        keys.extend(kept_away_from(view, name));
    }
    if gives_ports_back(before, node) {
        wake_beside(view, before, keys);
    }
}

/// A bound pod changed or went, or is not bound after all; or one lost the node where room was made
/// for it.
fn affected_by_leaving(
    view: &ClusterView,
    change: &ObjectChange,
    before: &HeldPod,
    after: Option<&ViewObject>,
    keys: &mut BTreeSet<ControllerKey>,
) {
    if let Some(node) = lost_nomination(change) {
        wake_for_going(view, before, node, keys);
    }
    let left = pods::node(before).filter(|_| !pods::is_finished(before)).filter(|_| match after {
        Some(ViewObject::Pod(pod)) => {
            pods::is_finished(pod)
                || pods::node(pod).is_none()
                || asks_for_something_else(view, before, pod)
        }
        _ => true,
    });
    match left {
        Some(node) => {
            wake_for_going(view, before, node, keys);
            keys.extend(waiting_for_pods(view));
            keys.extend(waiting_for_volumes(view));
            keys.extend(kept_away_by(view, before));
        }
        None if is_news_to_others(before, after) => keys.extend(waiting_for_pods(view)),
        None => {}
    }
}

/// The node where room was kept for a pod and is not any more: it has another nomination or none,
/// went elsewhere, or is gone.
fn lost_nomination(change: &ObjectChange) -> Option<&str> {
    let Some(ViewObject::Pod(before)) = &change.before else { return None };
    if pods::node(before).is_some() || !pods::is_active(before) {
        return None;
    }
    let kept = pods::nominated_node(before)?;
    let keeps = match &change.after {
        Some(ViewObject::Pod(pod)) if pods::is_active(pod) => {
            pods::node(pod).or(pods::nominated_node(pod)) == Some(kept)
        }
        _ => false,
    };
    (!keeps).then_some(kept)
}

/// A pod is not to be on its node any more: wakes those that are helped by its room there, and by
/// its ports on the whole machine.
fn wake_for_going(
    view: &ClusterView,
    pod: &HeldPod,
    node: &str,
    keys: &mut BTreeSet<ControllerKey>,
) {
    wake_for_room(view, node, keys);
    if let Some(host) = view.cluster().node(node)
        && !PodHostPorts::from_pod(pod).is_empty()
    {
        wake_beside(view, host.node, keys);
    }
}

/// Wakes the pods that the node may take now, or where it may help that some of its pods end, and
/// those for which they end already.
fn wake_for_room(view: &ClusterView, node: &str, keys: &mut BTreeSet<ControllerKey>) {
    keys.extend(helped_among(view.unscheduled(), view, node));
    keys.extend(with_room_in_the_making(view, node));
}

/// Wakes the pods with ports that the other nodes of the machine may take now that this one has
/// fewer ports.
fn wake_beside(view: &ClusterView, node: &Node, keys: &mut BTreeSet<ControllerKey>) {
    let with_ports = || view.unscheduled().filter(|pod| !PodHostPorts::from_pod(pod).is_empty());
    for (name, _) in view.cluster().beside(node) {
        keys.extend(helped_among(with_ports(), view, name));
    }
}

/// The pods that wait until others have ended on this node. Should it not take them after all, they
/// look for another one: as long as pods ended for them they did not.
fn with_room_in_the_making<'a>(
    view: &'a ClusterView,
    node: &'a str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let nominated = view.nominated_to(node).filter(|pod| is_waiting(pod));
    nominated.map(|pod| ControllerKey::Schedule(NamespacedName::from_meta(&pod.metadata)))
}

/// The pods that this one kept away, be it from other nodes of its zone.
fn kept_away_by<'a>(
    view: &'a ClusterView,
    pod: &'a HeldPod,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let opinion = neighbours::anti_affinity_of(pod);
    refused(view, move |waiting| opinion.is_some_and(|opinion| opinion.means(view, waiting)))
}

/// The pods that those on this node kept away, be it from other nodes of its zone.
fn kept_away_from<'a>(
    view: &'a ClusterView,
    node: &'a str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let opinions: Vec<_> = neighbours::anti_affinities_on(view, node).collect();
    refused(view, move |waiting| opinions.iter().any(|opinion| opinion.means(view, waiting)))
}

/// The pods of this namespace that some others keep away, or do not any more, because of its
/// labels.
fn meant_by_namespace<'a>(
    view: &'a ClusterView,
    namespace: &'a str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let opinions: Vec<_> = neighbours::anti_affinities_by_namespace(view).collect();
    refused(view, move |waiting| {
        waiting.metadata.namespace.as_deref() == Some(namespace)
            && opinions.iter().any(|opinion| opinion.may_mean(waiting))
    })
}

/// The pods that found no node and of which this is true.
fn refused<'a>(
    view: &'a ClusterView,
    is_so: impl Fn(&HeldPod) -> bool + 'a,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let waiting = view.unscheduled().filter(move |pod| is_waiting(pod) && is_so(pod));
    let names = waiting.map(|pod| NamespacedName::from_meta(&pod.metadata));
    names
        .filter(|name| view.memories().attempts.requests_of(name).is_some())
        .map(ControllerKey::Schedule)
}

/// Those of the pods that the node may take now. One that was not looked at yet is looked at
/// anyhow.
fn helped_among<'a>(
    pods: impl Iterator<Item = &'a Arc<HeldPod>> + 'a,
    view: &'a ClusterView,
    node: &str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let there = view.cluster().node(node);
    let weakest = view.pods_on(node).map(|pod| priority(pod)).min();
    pods.filter(|pod| is_waiting(pod))
        .map(|pod| (pod, NamespacedName::from_meta(&pod.metadata)))
        .filter(move |(pod, name)| match (view.memories().attempts.requests_of(name), there) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(requests), Some(host)) => {
                pods::looks_at_others(pod) || is_helped(view, pod, requests, host, weakest)
            }
        })
        .map(|(_, name)| ControllerKey::Schedule(name))
}

fn is_helped(
    view: &ClusterView,
    pod: &HeldPod,
    requests: &ResourceAmounts,
    NodeEntry { node, state, .. }: NodeEntry<'_>,
    weakest: Option<i32>,
) -> bool {
    let lifted = avoidance::lifted(pod);
    let pod = lifted.as_ref().unwrap_or(pod);
    if filter::placement_refusal(pod, node, state).is_some() {
        return false;
    }
    let may_preempt =
        weakest.is_some_and(|weakest| weakest < priority(pod)) && !preemption::is_never(pod);
    let has_room = || filter::shortages(requests, state.allocatable(), state.used()).is_none();
    let ports = PodHostPorts::from_pod(pod);
    let has_ports =
        || !ports.are_taken_on(state) && !machine_ports::are_taken_beside(view, pod, &ports, node);
    may_preempt || (has_room() && has_ports())
}

/// The pods without a node that use claims.
fn waiting_for_volumes(view: &ClusterView) -> impl Iterator<Item = ControllerKey> {
    view.unscheduled()
        .filter(|pod| is_waiting(pod) && volumes::claims_of(pod).next().is_some())
        .map(|pod| ControllerKey::Schedule(NamespacedName::from_meta(&pod.metadata)))
}

/// The pods without a node whose place depends on other pods. One that was not looked at yet will
/// be, or waits for its volumes: that is asked first, as it is nearly all of them when many pods
/// come at once, and each that is placed comes by here.
fn waiting_for_pods(view: &ClusterView) -> impl Iterator<Item = ControllerKey> {
    view.looking_around()
        .filter(|name| view.memories().attempts.requests_of(name).is_some())
        .filter(|name| view.pod(name).is_some_and(|pod| is_waiting(pod)))
        .map(|name| ControllerKey::Schedule(name.clone()))
}

/// True when those who look at other pods see another one now: it got a node, other labels, or
/// began to terminate.
fn is_news_to_others(before: &HeldPod, after: Option<&ViewObject>) -> bool {
    let Some(ViewObject::Pod(after)) = after else { return false };
    pods::node(after).is_some()
        && (pods::node(before).is_none()
            || before.metadata.labels != after.metadata.labels
            || pods::is_terminating(before) != pods::is_terminating(after))
}

/// True when nothing differs that the pod is placed by: what it asks for, and what others make of
/// its labels.
fn looks_the_same(a: &HeldPod, b: &HeldPod) -> bool {
    a.node_name == b.node_name && a.has_spec_of(b) && a.metadata.labels == b.metadata.labels
}

/// True when its resources were changed in place; looked at only when somebody waits for room.
fn asks_for_something_else(view: &ClusterView, before: &HeldPod, after: &HeldPod) -> bool {
    view.unscheduled().next().is_some()
        && ResourceAmounts::from_pod(before) != ResourceAmounts::from_pod(after)
}

/// True when ports that the node had may be had by those beside it: it is not heard of any more, or
/// is another machine's.
fn gives_ports_back(before: &Node, after: &Node) -> bool {
    (cluster::is_silent(after) && !cluster::is_silent(before))
        || !cluster::addresses(before).eq(cluster::addresses(after))
}

/// True when nothing differs that the scheduler looks at: a heartbeat must not wake every waiting
/// pod.
fn looks_alike(a: &Node, b: &Node) -> bool {
    a.spec == b.spec
        && a.metadata.labels == b.metadata.labels
        && cluster::is_ready(a) == cluster::is_ready(b)
        && cluster::is_silent(a) == cluster::is_silent(b)
        && a.metadata.deletion_timestamp == b.metadata.deletion_timestamp
        && ResourceAmounts::allocatable(a) == ResourceAmounts::allocatable(b)
        && cluster::addresses(a).eq(cluster::addresses(b))
}
