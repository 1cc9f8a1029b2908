//! What a Node says of itself, for all who ask.

use k8s_openapi::api::core::v1::{Node, NodeCondition};

/// True when no new pods are to be placed on it (`kubectl cordon`).
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

/// Its condition Ready; none when it has not said anything yet.
pub fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready")
}

/// What that says: `True`, `False` or `Unknown`.
pub fn readiness(node: &Node) -> Option<&str> {
    ready_condition(node).map(|ready| ready.status.as_str())
}

/// True when it says that it is ready.
pub fn is_ready(node: &Node) -> bool {
    readiness(node) == Some("True")
}
