//! The pods that have ended, in the order in which they are given up when there are too many.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::Pod;
use rekindle_types::reasons;

use crate::{NamespacedName, pods};

/// The pods that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Finished {
    by_worth: BTreeMap<Worth, Arc<Pod>>,
}

/// The smaller, the sooner it goes (upstream's `byEvictionAndCreationTimestamp`): evicted ones
/// first, for nobody counts those, then the oldest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    is_of_use: bool,
    created: Option<Tick>,
    name: String,
    namespace: String,
}

impl Worth {
    fn of(pod: &Pod) -> Self {
        let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
        let NamespacedName { namespace, name } = NamespacedName::of(&pod.metadata);
        Self {
            is_of_use: !(pods::phase(pod) == "Failed" && reason == Some(reasons::pod::EVICTED)),
            created: pod.metadata.creation_timestamp.as_ref().map(Tick::from),
            name,
            namespace,
        }
    }
}

impl Finished {
    pub(super) fn insert(&mut self, pod: &Arc<Pod>) {
        if pods::is_finished(pod) {
            self.by_worth.insert(Worth::of(pod), pod.clone());
        }
    }

    pub(super) fn remove(&mut self, pod: &Pod) {
        if pods::is_finished(pod) {
            self.by_worth.remove(&Worth::of(pod));
        }
    }

    /// Those that go when only so many are kept.
    pub(super) fn beyond(&self, kept: usize) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_worth.values().take(self.by_worth.len().saturating_sub(kept))
    }
}
