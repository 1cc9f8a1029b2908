//! Taints and tolerations. `PreferNoSchedule` keeps nobody away, but counts against a node.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use crate::cluster::Requests;

/// The taint that stands for `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The taint of a node that lacks memory.
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// The taint that stands for a Ready condition that is not True.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The first taint of the node that the pod does not tolerate. A pod that asks for something, or is limited in it, copes with want
/// of memory [documentation, "Taint Nodes by Condition"].
pub(super) fn first_untolerated<'a>(pod: &Pod, node: &'a Node) -> Option<&'a Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .filter(|taint| taint.key != MEMORY_PRESSURE || is_best_effort(pod))
        .find(|taint| !tolerations(pod).iter().any(|toleration| tolerates(toleration, taint)))
}

/// How many `PreferNoSchedule` taints of the node the pod does not tolerate.
pub(super) fn count_to_avoid(pod: &Pod, node: &Node) -> i64 {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let avoided = taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerations(pod).iter().any(|toleration| tolerates(toleration, taint)));
    avoided.fold(0, |count, _| count + 1)
}

/// It asks for neither CPU nor memory; the API makes requests of limits.
fn is_best_effort(pod: &Pod) -> bool {
    let requests = Requests::of(pod);
    requests.cpu_millis == 0 && requests.memory_bytes == 0
}

/// True when the pod may go to a cordoned node.
pub(super) fn tolerates_unschedulable(pod: &Pod) -> bool {
    tolerates_no_schedule(pod, UNSCHEDULABLE)
}

/// True when the pod may go to a node that is not ready.
pub(super) fn tolerates_not_ready(pod: &Pod) -> bool {
    tolerates_no_schedule(pod, NOT_READY)
}

fn tolerates_no_schedule(pod: &Pod, key: &str) -> bool {
    let taint =
        Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Default::default() };
    tolerations(pod).iter().any(|toleration| tolerates(toleration, &taint))
}

fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

/// True when the toleration is one of this taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    let tainted = taint.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && value == tainted,
        "Lt" => compare(value, tainted).is_some_and(std::cmp::Ordering::is_gt),
        "Gt" => compare(value, tainted).is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// The numbers of a numeric toleration (KEP-5471): `Lt` tolerates a taint whose value is less than the toleration's.
fn compare(toleration: &str, taint: &str) -> Option<std::cmp::Ordering> {
    let toleration: i64 = toleration.parse().ok()?;
    let taint: i64 = taint.parse().ok()?;
    Some(toleration.cmp(&taint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_match_as_the_api_reference_says() {
        let taint = Taint {
            key: "gpu".to_owned(),
            value: Some("a100".to_owned()),
            effect: "NoSchedule".to_owned(),
            ..Default::default()
        };
        for (key, operator, value, effect, expected) in [
            (Some("gpu"), None, Some("a100"), None, true),
            (Some("gpu"), Some("Equal"), Some("a100"), Some("NoSchedule"), true),
            (Some("gpu"), Some("Equal"), Some("t4"), None, false),
            (Some("gpu"), Some("Exists"), None, None, true),
            (Some("gpu"), Some("Exists"), None, Some("NoExecute"), false),
            (None, Some("Exists"), None, None, true),
            (Some("tpu"), Some("Exists"), None, None, false),
        ] {
            let toleration = Toleration {
                key: key.map(str::to_owned),
                operator: operator.map(str::to_owned),
                value: value.map(str::to_owned),
                effect: effect.map(str::to_owned),
                ..Default::default()
            };
            assert_eq!(tolerates(&toleration, &taint), expected, "{toleration:?}");
        }
    }
}
