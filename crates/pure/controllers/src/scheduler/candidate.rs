//! A node that can take a pod, as those see it who say how well it would.

use crate::cluster::NodeEntry;

/// The best score of one plugin.
pub(super) const SCORE_MAX: i64 = 100;

/// A node that can take the pod.
pub(super) struct NodeCandidate<'v> {
    pub host: NodeEntry<'v>,
    /// As `filter::free_share` counts it.
    pub free_share: i64,
    /// As `filter::balance` counts it.
    pub balance: i64,
}
