//! Taints and tolerations. `PreferNoSchedule` keeps nobody away, but counts against a node.

use k8s_openapi::api::core::v1::{Node, Taint};
use rekindle_types::held::HeldPod;
use rekindle_types::taints::{
    MEMORY_PRESSURE, NO_EXECUTE, NO_SCHEDULE, NOT_READY, PREFER_NO_SCHEDULE, UNSCHEDULABLE,
    is_tolerated, node_taints, tolerations,
};

use crate::cluster::ResourceAmounts;

/// The first taint of the node that the pod does not tolerate. A pod that asks for something, or is
/// limited in it, copes with want of memory [documentation, "Taint Nodes by Condition"].
pub(super) fn first_untolerated<'a>(pod: &HeldPod, node: &'a Node) -> Option<&'a Taint> {
    node_taints(node)
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), NO_SCHEDULE | NO_EXECUTE))
        .filter(|taint| taint.key != MEMORY_PRESSURE || is_best_effort(pod))
        .find(|taint| !is_tolerated(tolerations(pod), taint))
}

/// How many `PreferNoSchedule` taints of the node the pod does not tolerate.
pub(super) fn count_to_avoid(pod: &HeldPod, node: &Node) -> i64 {
    let avoided = node_taints(node)
        .iter()
        .filter(|taint| taint.effect == PREFER_NO_SCHEDULE)
        .filter(|taint| !is_tolerated(tolerations(pod), taint));
    avoided.fold(0, |count, _| count + 1)
}

/// It asks for neither CPU nor memory; the API makes requests of limits.
fn is_best_effort(pod: &HeldPod) -> bool {
    let requests = ResourceAmounts::from_pod(pod);
    requests.cpu_millis == 0 && requests.memory_bytes == 0
}

/// True when the pod may go to a cordoned node.
pub(super) fn tolerates_unschedulable(pod: &HeldPod) -> bool {
    tolerates_no_schedule(pod, UNSCHEDULABLE)
}

/// True when the pod may go to a node that is not ready.
pub(super) fn tolerates_not_ready(pod: &HeldPod) -> bool {
    tolerates_no_schedule(pod, NOT_READY)
}

fn tolerates_no_schedule(pod: &HeldPod, key: &str) -> bool {
    let taint = Taint { key: key.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Default::default() };
    is_tolerated(tolerations(pod), &taint)
}
