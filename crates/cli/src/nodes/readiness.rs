//! What a Node says of itself.

use k8s_openapi::api::core::v1::Node;

/// What a node's condition Ready says: True, False, Unknown.
pub fn readiness(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    let ready = conditions.unwrap_or_default().iter().find(|c| c.type_ == "Ready");
    ready.map(|condition| condition.status.as_str())
}

/// Whether it is Ready.
pub fn is_ready(node: &Node) -> bool {
    readiness(node) == Some("True")
}
