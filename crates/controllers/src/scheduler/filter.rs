//! Whether a pod fits a node, and how well. Reasons are worded as upstream's plugins word them.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::requests::Requests;
use super::{affinity, taints};

/// Taints are not named, so that nodes with different ones are counted together (upstream since 1.34).
const UNTOLERATED: &str = "node(s) had untolerated taint(s)";

/// Why the pod may not go to the node, whatever else is there. As upstream: the first plugin that refuses speaks.
pub(super) fn placement_reason(pod: &Pod, node: &Node) -> Option<String> {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if is_cordoned && !taints::tolerates_unschedulable(pod) {
        return Some("node(s) were unschedulable".to_owned());
    }
    if !is_ready(node) && !taints::tolerates_not_ready(pod) {
        return Some(UNTOLERATED.to_owned());
    }
    if taints::first_untolerated(pod, node).is_some() {
        return Some(UNTOLERATED.to_owned());
    }
    let matches = affinity::matches(pod, node);
    (!matches).then(|| "node(s) didn't match Pod's node affinity/selector".to_owned())
}

/// False when the node says that it is not ready, or when nobody has heard of it lately. The node lifecycle
/// controller turns that into a taint; the scheduler looks at the condition itself, so that it holds before the taint is there.
pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|c| c.type_ == "Ready").all(|c| c.status == "True")
}

/// Every resource that is short.
pub(super) fn shortages(
    requests: &Requests,
    allocatable: &Requests,
    used: &Requests,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if used.pods + 1 > allocatable.pods {
        reasons.push("Too many pods".to_owned());
    }
    let mut check = |name: &str, wanted: i64, has: i64, taken: i64| {
        if wanted > 0 && wanted > has - taken {
            reasons.push(format!("Insufficient {name}"));
        }
    };
    check("cpu", requests.cpu_millis, allocatable.cpu_millis, used.cpu_millis);
    check("memory", requests.memory_bytes, allocatable.memory_bytes, used.memory_bytes);
    check(
        "ephemeral-storage",
        requests.storage_bytes,
        allocatable.storage_bytes,
        used.storage_bytes,
    );
    for (name, wanted) in &requests.others {
        check(name, *wanted, allocatable.other(name), used.other(name));
    }
    reasons
}

/// How much of CPU and memory stays free, 0..=200, and on equal terms fewer pods: upstream's LeastAllocated.
pub(super) fn free_share(node: &Node, used: &Requests, requests: &Requests) -> i64 {
    let has = Requests::allocatable(node);
    let share = |has: i64, taken: i64, wanted: i64| {
        if has <= 0 { 0 } else { (has - taken - wanted).max(0).saturating_mul(100) / has }
    };
    let resources = share(has.cpu_millis, used.cpu_millis, requests.cpu_millis)
        + share(has.memory_bytes, used.memory_bytes, requests.memory_bytes);
    resources * 1000 + share(has.pods, used.pods, requests.pods)
}
