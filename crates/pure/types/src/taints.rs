//! The taints that Kubernetes itself puts on nodes, and which taints a pod tolerates. Source:
//! documentation, "Taints and Tolerations", and the API reference of Toleration.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::pods::{AnyPod, AnySpec};

/// Its Ready condition is False.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Its Ready condition is Unknown: nothing is heard of it.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// It lacks memory.
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// It lacks disk space or inodes.
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// It lacks process ids.
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// Its network is not set up.
pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
/// It is cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Somebody vouches that it is down. Source: documentation, "Non-graceful node shutdown".
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The effect that keeps new pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect that ends pods, too.
pub const NO_EXECUTE: &str = "NoExecute";
/// The effect that keeps nobody away, but counts against a node.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Conditions of a node, what they say, and the taints that the node's lifecycle makes of them.
pub const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", MEMORY_PRESSURE),
    ("DiskPressure", "True", DISK_PRESSURE),
    ("PIDPressure", "True", PID_PRESSURE),
    ("NetworkUnavailable", "True", NETWORK_UNAVAILABLE),
];

/// The taints of a node.
pub fn node_taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The tolerations of a pod.
pub fn tolerations(pod: &impl AnyPod) -> &[Toleration] {
    pod.spec().map(AnySpec::tolerations).unwrap_or_default()
}

/// True when one of the tolerations is of this taint.
pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// True when the toleration is one of this taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
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
        "Lt" => compare(value, tainted).is_some_and(Ordering::is_gt),
        "Gt" => compare(value, tainted).is_some_and(Ordering::is_lt),
        _ => false,
    }
}

/// The numbers of a numeric toleration (KEP-5471): `Lt` tolerates a taint whose value is less than
/// the toleration's.
fn compare(toleration: &str, taint: &str) -> Option<Ordering> {
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
            (None, None, Some("a100"), None, false),
            (Some("gpu"), Some("Near"), Some("a100"), None, false),
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

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (operator, toleration, taint, expected) in [
            ("Lt", "100", "99", true),
            ("Lt", "100", "100", false),
            ("Gt", "100", "1000", true),
            ("Gt", "100", "many", false),
        ] {
            let taint = Taint {
                key: "cost".to_owned(),
                value: Some(taint.to_owned()),
                effect: NO_SCHEDULE.to_owned(),
                ..Default::default()
            };
            let toleration = Toleration {
                key: Some("cost".to_owned()),
                operator: Some(operator.to_owned()),
                value: Some(toleration.to_owned()),
                ..Default::default()
            };
            assert_eq!(tolerates(&toleration, &taint), expected, "{toleration:?}");
        }
    }
}
