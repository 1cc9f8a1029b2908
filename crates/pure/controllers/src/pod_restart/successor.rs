//! Which pod of a workload takes the place of an evicted one.
//!
//! A StatefulSet gives the new pod the same name, a DaemonSet the same node. Of the others nothing
//! in the API says so: a ReplicaSet makes a pod because one is missing, not because that one is.
//! Taken is the order of creation: the first eviction of the workload gets the first pod that was
//! made since, the second the second, and so on. A pod that another request has already is left
//! out. Whichever way round two of them are, each has one of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodReplacement, PodRestart, ReplacementStep};

use super::is_finished;
use crate::{ClusterView, ResourceKind, ViewObject, owners, pods};

/// The new pod, if it is there.
pub(super) fn find_successor<'a>(
    view: &'a ClusterView,
    restart: &'a PodRestart,
    replacement: &PodReplacement,
    workload: &'a str,
) -> Option<&'a Arc<HeldPod>> {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let since = Tick::from(&replacement.since);
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut earlier = 0;
    for object in view.in_namespace(ResourceKind::PodRestart, namespace) {
        let ViewObject::PodRestart(other) = object else { continue };
        let Some(theirs) = other.status.as_ref().and_then(|s| s.replacement.as_ref()) else {
            continue;
        };
        taken.insert(theirs.pod_uid.as_str());
        taken.extend(theirs.new_pod_uid.as_deref());
        let is_waiting = theirs.step == ReplacementStep::Evicting
            && !is_finished(other)
            && theirs.workload_uid.as_deref() == Some(workload);
        let order = |r: &PodReplacement, p: &PodRestart| (r.since.clone(), p.metadata.name.clone());
        if is_waiting && order(theirs, other) < order(replacement, restart) {
            earlier += 1;
        }
    }
    let new: Vec<&Arc<HeldPod>> = pods_of(view, namespace, workload)
        .filter(|pod| pods::is_active(pod))
        .filter(|pod| !taken.contains(pod.metadata.uid.as_deref().unwrap_or_default()))
        .collect();
    let own = new.iter().find(|pod| match known_by(pod) {
        SuccessorMatch::Name => pod.metadata.name.as_ref() == Some(&restart.spec.pod_name),
        SuccessorMatch::Node => pods::node(pod) == Some(replacement.node_name.as_str()),
        SuccessorMatch::Order => false,
    });
    // the API dates pods by its own clock, so only those that nothing else tells are asked for
    // their age
    let of_order =
        |pod: &&&Arc<HeldPod>| known_by(pod) == SuccessorMatch::Order && created(pod) >= since;
    let mut others: Vec<_> = new.iter().filter(of_order).collect();
    others.sort_by_key(|pod| (created(pod), pod.metadata.name.clone()));
    own.or_else(|| others.get(earlier).copied()).copied()
}

/// By what a pod is known to take the place of another one of its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SuccessorMatch {
    Name,
    Node,
    Order,
}

fn known_by(pod: &HeldPod) -> SuccessorMatch {
    match owners::controller_of(&pod.metadata).map(|owner| owner.kind.as_str()) {
        Some("StatefulSet") => SuccessorMatch::Name,
        Some("DaemonSet") => SuccessorMatch::Node,
        Some(_) | None => SuccessorMatch::Order,
    }
}

fn pods_of<'a>(
    view: &'a ClusterView,
    namespace: &'a str,
    workload: &'a str,
) -> impl Iterator<Item = &'a Arc<HeldPod>> {
    view.in_namespace(ResourceKind::Pod, namespace).filter_map(move |object| match object {
        ViewObject::Pod(pod) if owners::root_uid(view, object) == workload => Some(pod),
        _ => None,
    })
}

fn created(pod: &HeldPod) -> Tick {
    pod.metadata.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}
