//! The looks at waiting pods that found no node, and how long each pod backs off after them. What
//! follows from that is decided by the scheduler (`scheduler::queue`).

use std::collections::BTreeMap;

use rekindle_types::held::HeldPod;
use rekindle_types::{Tick, TickDuration};

use crate::cluster::ResourceAmounts;
use crate::{ClusterView, NamespacedName, ViewObject, pods};

/// The wait after the first look; it doubles with each further one.
const BACKOFF_MIN: TickDuration = TickDuration::from_secs(1);
/// The longest wait.
const BACKOFF_MAX: TickDuration = TickDuration::from_secs(10);

/// One look at a pod that found no node. The driver hands it to [`ClusterView::remember`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingAttempt {
    /// The pod.
    pub(crate) pod: NamespacedName,
    /// Its UID.
    pub(crate) uid: String,
    /// What it asks for.
    pub(crate) requests: ResourceAmounts,
    /// When it was.
    pub(crate) at: Tick,
}

impl SchedulingAttempt {
    pub(super) fn new(pod: &HeldPod, at: Tick) -> Self {
        Self {
            pod: NamespacedName::from_meta(&pod.metadata),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            requests: ResourceAmounts::from_pod(pod),
            at,
        }
    }
}

/// The looks that found no node, by pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchedulingAttempts(BTreeMap<NamespacedName, PodAttempts>);

/// What is known of one pod.
#[derive(Clone, Debug)]
struct PodAttempts {
    count: u32,
    last: SchedulingAttempt,
}

impl SchedulingAttempts {
    /// One more look found no node.
    fn add(&mut self, attempt: SchedulingAttempt) {
        let before = self.0.get(&attempt.pod).filter(|before| before.last.uid == attempt.uid);
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        self.0.insert(attempt.pod.clone(), PodAttempts { count, last: attempt });
    }

    /// A pod that has a node, or is gone, is forgotten.
    pub(crate) fn follow(&mut self, before: Option<&ViewObject>, after: Option<&ViewObject>) {
        match (before, after) {
            (_, Some(ViewObject::Pod(pod))) if pods::node(pod).is_some() => {
                self.forget(&NamespacedName::from_meta(&pod.metadata));
            }
            (Some(ViewObject::Pod(pod)), None) => {
                self.forget(&NamespacedName::from_meta(&pod.metadata))
            }
            (_, Some(_) | None) => {}
        }
    }

    fn forget(&mut self, pod: &NamespacedName) {
        self.0.remove(pod);
    }

    /// What the pod asked for when it was looked at last; nothing for one that was not looked at
    /// yet.
    pub(super) fn requests_of(&self, pod: &NamespacedName) -> Option<&ResourceAmounts> {
        self.0.get(pod).map(|tried| &tried.last.requests)
    }

    /// Until when the pod backs off.
    pub(super) fn backoff_end(&self, pod: &NamespacedName) -> Option<Tick> {
        let tried = self.0.get(pod)?;
        let doublings = tried.count.saturating_sub(1).min(16);
        Some(tried.last.at + BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX))
    }
}

impl ClusterView {
    /// A pod was looked at and fits no node (`WritePlan::unfit`).
    pub fn remember(&mut self, attempt: SchedulingAttempt) {
        if self.pod(&attempt.pod).is_some_and(|pod| pods::node(pod).is_none()) {
            self.memories_mut().attempts.add(attempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_one_second_to_ten_and_begins_anew_with_another_pod_of_the_name() {
        let mut attempts = SchedulingAttempts::default();
        let name = NamespacedName::new("shop", "web");
        let attempt = |uid: &str, at| SchedulingAttempt {
            pod: name.clone(),
            uid: uid.to_owned(),
            requests: ResourceAmounts::default(),
            at,
        };
        let at = Tick::from_secs(100);
        let mut waits = Vec::new();
        for _ in 0..6 {
            attempts.add(attempt("u1", at));
            waits.push(attempts.backoff_end(&name).unwrap().since(at).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        attempts.add(attempt("u2", at));
        assert_eq!(attempts.backoff_end(&name), Some(at + BACKOFF_MIN));
        attempts.forget(&name);
        assert_eq!(attempts.backoff_end(&name), None);
    }
}
