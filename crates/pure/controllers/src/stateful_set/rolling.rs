//! What a StatefulSet's update strategy allows.

use k8s_openapi::api::apps::v1::StatefulSet;
use rekindle_types::int_or_percent::{Rounding, scaled};

/// How pods get a new template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatefulSetStrategy {
    /// When somebody deletes them.
    OnDelete,
    /// By the controller, the highest ordinals first.
    RollingUpdate {
        /// The first pods, so many, stay at the current revision.
        partition: usize,
        /// So many may be unavailable at once; at least 1.
        max_unavailable: usize,
    },
}

/// The set's strategy.
pub(super) fn strategy(set: &StatefulSet) -> StatefulSetStrategy {
    let strategy = set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return StatefulSetStrategy::OnDelete;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let replicas = set.spec.replicas.unwrap_or(1);
    let max = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    // "Absolute number is calculated from percentage by rounding up" (API reference)
    let max = max.map_or(1, |max| scaled(max, replicas, Rounding::Up)).max(1);
    StatefulSetStrategy::RollingUpdate {
        partition: usize::try_from(partition).unwrap_or(0),
        max_unavailable: usize::try_from(max).unwrap_or(1),
    }
}
