//! Ports of a machine that has several nodes: what a pod has on one of them is taken on all.

use k8s_openapi::api::core::v1::Node;
use rekindle_types::held::HeldPod;

use super::those_ahead;
use crate::cluster::{NodeState, PodHostPorts, PodShift};
use crate::{ClusterView, pods};

/// True when one of the pod's ports is taken on another node of the same machine, or kept there for
/// a pod that this one does not get ahead of.
pub(super) fn are_taken_beside(
    view: &ClusterView,
    pod: &HeldPod,
    ports: &PodHostPorts<'_>,
    node: &Node,
) -> bool {
    if ports.is_empty() {
        return false;
    }
    let bound = pod.metadata.uid.as_deref().and_then(|uid| view.pod_by_uid(uid));
    let bound = bound.filter(|bound| !pods::is_finished(bound));
    view.cluster().beside(node).any(|(name, state)| {
        let is_held = match bound.filter(|bound| pods::node(bound) == Some(name)) {
            // A pod is not in its own way, where it is bound already.
            Some(itself) => ports.are_held_on(&without(state, itself)),
            None => ports.are_held_on(state),
        };
        is_held
            || those_ahead(view, pod, name)
                .any(|other| ports.collide_with(&PodHostPorts::from_pod(other)))
    })
}

fn without(state: &NodeState, pod: &HeldPod) -> NodeState {
    let mut state = state.clone();
    state.shift(pod, PodShift::Out);
    state
}
