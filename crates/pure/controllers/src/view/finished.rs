//! The pods that have ended, in the order in which they are given up when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons;

use crate::{NamespacedName, pods};

/// The pods that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct FinishedPods {
    by_worth: BTreeMap<RemovalRank, Arc<HeldPod>>,
}

/// The smaller, the sooner it goes (upstream's `byEvictionAndCreationTimestamp`): evicted ones
/// first, for nobody counts those, then the oldest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RemovalRank {
    is_of_use: bool,
    created: Option<Tick>,
    name: String,
    namespace: String,
}

impl RemovalRank {
    fn from_pod(pod: &HeldPod) -> Self {
        let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
        let NamespacedName { namespace, name } = NamespacedName::from_meta(&pod.metadata);
        Self {
            is_of_use: !(pods::phase(pod) == "Failed" && reason == Some(reasons::pod::EVICTED)),
            created: pod.metadata.creation_timestamp.as_ref().map(Tick::from),
            name,
            namespace,
        }
    }
}

impl FinishedPods {
    pub(super) fn insert(&mut self, pod: &Arc<HeldPod>) {
        if pods::is_finished(pod) {
            self.by_worth.insert(RemovalRank::from_pod(pod), pod.clone());
        }
    }

    pub(super) fn remove(&mut self, pod: &HeldPod) {
        if pods::is_finished(pod) {
            self.by_worth.remove(&RemovalRank::from_pod(pod));
        }
    }

    /// Those that go when only so many are kept.
    pub(super) fn beyond(&self, kept: usize) -> impl Iterator<Item = &Arc<HeldPod>> {
        self.by_worth.values().take(self.by_worth.len().saturating_sub(kept))
    }
}
