//! Nodes whose agent does not answer: who waits for one is told so.

use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodRestart, ReplacementStep};

use super::{is_finished, pod_of};
use crate::{ClusterView, cluster, owners, pods};

/// The pod's node, when it is there and not ready.
pub(super) fn silent_node<'a>(view: &ClusterView, pod: &'a HeldPod) -> Option<&'a str> {
    let name = pods::node(pod)?;
    let node = view.node(name)?;
    (!cluster::is_ready(node)).then_some(name)
}

/// Why nobody takes a restart in place up.
pub(super) fn why_no_restart_begins(view: &ClusterView, pod: &HeldPod) -> Option<String> {
    let node = silent_node(view, pod)?;
    Some(format!("node {node} is not ready: nobody takes it up until its agent answers"))
}

/// Why a pod that is evicted does not end, when another one takes its place only after that: of the
/// same name, or on the same node.
pub(super) fn why_no_eviction_ends(view: &ClusterView, pod: &HeldPod) -> Option<String> {
    let controller = owners::controller_of(&pod.metadata).map(|owner| owner.kind.as_str());
    match controller {
        None | Some("StatefulSet" | "DaemonSet") => {}
        Some(_) => return None, // it makes another pod at once
    }
    let node = silent_node(view, pod)?;
    Some(format!(
        "node {node} is not ready: the pod does not end, and none takes its place, until its agent answers"
    ))
}

/// Whether it matters to a request that this node begins or ceases to answer.
pub(super) fn concerns(view: &ClusterView, restart: &PodRestart, node: &str) -> bool {
    let status = restart.status.as_ref();
    let replacement = status.and_then(|status| status.replacement.as_ref());
    let is_waited_for = match replacement {
        Some(replacement) => {
            replacement.step == ReplacementStep::Evicting && replacement.node_name == node
        }
        None => {
            let is_new = status.is_none_or(|status| status.phase.is_none());
            is_new && view.pod(&pod_of(restart)).is_some_and(|pod| pods::node(pod) == Some(node))
        }
    };
    is_waited_for && !is_finished(restart)
}
