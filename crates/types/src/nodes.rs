//! What a Node says of itself, for all who ask.

use k8s_openapi::api::core::v1::Node;

/// True when no new pods are to be placed on it (`kubectl cordon`).
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

/// What its condition Ready says: `True`, `False` or `Unknown`; none when it has not said anything yet.
pub fn readiness(node: &Node) -> Option<&str> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready").map(|ready| ready.status.as_str())
}

/// True when it says that it is ready.
pub fn is_ready(node: &Node) -> bool {
    readiness(node) == Some("True")
}
