//! Nodes that new pods of a workload keep away from, after a PodRestart of rung Reschedule.
//!
//! The PodRestart says which node and until when; it is kept as long as that. Whoever makes a new
//! pod of the workload (the ReplicaSet controller, or the PodRestart controller for a pod without
//! one) excludes the node in the pod's required node affinity and notes in an annotation until
//! when. The scheduler takes an exclusion that is over for void, and a node that is avoided rather
//! than none: no pod waits for a node for that alone.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::Tick;
pub use rekindle_types::avoided_nodes::ANNOTATION;
pub(crate) use rekindle_types::avoided_nodes::{
    Avoided, exclude, nodes_avoided_by, without_exclusions,
};
use rekindle_types::avoided_nodes::{RemainingAffinity, lift};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::PodRestart;

use crate::{ClusterView, ResourceKind, ViewObject};

/// The node that a request keeps new pods away from, with the time.
pub(crate) fn node_avoided_by(restart: &PodRestart) -> Option<(&str, &Time)> {
    let replacement = restart.status.as_ref()?.replacement.as_ref()?;
    Some((replacement.node_name.as_str(), replacement.avoid_node_until.as_ref()?))
}

/// What new pods of a workload avoid at `now`.
pub(crate) fn nodes_avoided_by_workload(
    view: &ClusterView,
    namespace: &str,
    workload: &str,
    now: Tick,
) -> Avoided {
    let mut avoided = Avoided::new();
    for object in view.in_namespace(ResourceKind::PodRestart, namespace) {
        let ViewObject::PodRestart(restart) = object else { continue };
        let replacement = restart.status.as_ref().and_then(|s| s.replacement.as_ref());
        if replacement.and_then(|r| r.workload_uid.as_deref()) != Some(workload) {
            continue;
        }
        let Some((node, until)) =
            node_avoided_by(restart).filter(|(_, until)| !is_over(until, now))
        else {
            continue;
        };
        let latest = avoided.entry(node.to_owned()).or_insert_with(|| until.clone());
        *latest = latest.clone().max(until.clone());
    }
    avoided
}

/// The pod as the scheduler is to see it first: without the exclusions that are over.
pub(crate) fn as_of(pod: &HeldPod, now: Tick) -> Cow<'_, HeldPod> {
    let mut over = nodes_avoided_by(pod);
    over.retain(|_, until| is_over(until, now));
    if over.is_empty() { Cow::Borrowed(pod) } else { Cow::Owned(without(pod, &over)) }
}

/// The pod without any exclusion, if it has one.
pub(crate) fn lifted(pod: &HeldPod) -> Option<HeldPod> {
    let all = nodes_avoided_by(pod);
    (!all.is_empty()).then(|| without(pod, &all))
}

/// The pod with one exclusion less each time, those first that end first.
pub(crate) fn ever_less(pod: &HeldPod) -> impl Iterator<Item = HeldPod> {
    let mut ends: Vec<(Time, String)> =
        nodes_avoided_by(pod).into_iter().map(|(node, until)| (until, node)).collect();
    ends.sort();
    let mut without_these = Avoided::new();
    ends.into_iter().map(move |(until, node)| {
        without_these.insert(node, until);
        without(pod, &without_these)
    })
}

fn without(pod: &HeldPod, nodes: &Avoided) -> HeldPod {
    let mut pod = pod.clone();
    if let Some(spec) = &mut pod.spec {
        let affinity = &mut Arc::make_mut(spec).affinity;
        affinity.take_if(|affinity| lift(affinity, nodes) == RemainingAffinity::Nothing);
    }
    pod
}

fn is_over(until: &Time, now: Tick) -> bool {
    Tick::from(until) <= now
}

#[cfg(test)]
mod tests;
