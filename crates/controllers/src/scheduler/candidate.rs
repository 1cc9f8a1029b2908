//! A node that can take a pod, as those see it who say how well it would.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::cluster::NodeState;

/// The best score of one plugin.
pub(super) const SCORE_MAX: i64 = 100;

/// A node that can take the pod.
pub(super) struct Candidate<'v> {
    pub name: &'v str,
    pub node: &'v Arc<Node>,
    pub state: &'v NodeState,
    /// As `filter::free_share` counts it.
    pub free_share: i64,
    /// As `filter::balance` counts it.
    pub balance: i64,
}
