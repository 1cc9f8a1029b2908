//! Ports of a node that pods ask for (`hostPort`, and every port of a pod on the node's network):
//! words that scheduler, node and controllers share. Source: scheduler, `plugins/nodeports`;
//! kubelet, `pkg/kubelet/lifecycle/predicate.go`.

/// What is said of nodes where that is so.
pub const NO_FREE_PORT: &str = "node(s) didn't have free ports for the requested pod ports";
