//! The looks at waiting pods that found no node, and how long each pod backs off after them. What
//! follows from that is decided by the scheduler (`scheduler::queue`).

use std::collections::BTreeMap;

use rekindle_types::held::Pod;
use rekindle_types::{Tick, TickDuration};

use crate::cluster::Requests;
use crate::{NamespacedName, Object, View, pods};

/// The wait after the first look; it doubles with each further one.
const BACKOFF_MIN: TickDuration = TickDuration::from_secs(1);
/// The longest wait.
const BACKOFF_MAX: TickDuration = TickDuration::from_secs(10);

/// One look at a pod that found no node. The driver hands it to [`View::remember`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The pod.
    pub(crate) pod: NamespacedName,
    /// Its UID.
    pub(crate) uid: String,
    /// What it asks for.
    pub(crate) requests: Requests,
    /// When it was.
    pub(crate) at: Tick,
}

impl Attempt {
    pub(super) fn of(pod: &Pod, at: Tick) -> Self {
        Self {
            pod: NamespacedName::of(&pod.metadata),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            requests: Requests::of(pod),
            at,
        }
    }
}

/// The looks that found no node, by pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts(BTreeMap<NamespacedName, Tried>);

/// What is known of one pod.
#[derive(Clone, Debug)]
struct Tried {
    count: u32,
    last: Attempt,
}

impl Attempts {
    /// One more look found no node.
    fn add(&mut self, attempt: Attempt) {
        let before = self.0.get(&attempt.pod).filter(|before| before.last.uid == attempt.uid);
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        self.0.insert(attempt.pod.clone(), Tried { count, last: attempt });
    }

    /// A pod that has a node, or is gone, is forgotten.
    pub(crate) fn follow(&mut self, before: Option<&Object>, after: Option<&Object>) {
        match (before, after) {
            (_, Some(Object::Pod(pod))) if pods::node(pod).is_some() => {
                self.forget(&NamespacedName::of(&pod.metadata));
            }
            (Some(Object::Pod(pod)), None) => self.forget(&NamespacedName::of(&pod.metadata)),
            (_, Some(_) | None) => {}
        }
    }

    fn forget(&mut self, pod: &NamespacedName) {
        self.0.remove(pod);
    }

    /// What the pod asked for when it was looked at last; nothing for one that was not looked at
    /// yet.
    pub(super) fn requests_of(&self, pod: &NamespacedName) -> Option<&Requests> {
        self.0.get(pod).map(|tried| &tried.last.requests)
    }

    /// Until when the pod backs off.
    pub(super) fn backoff_end(&self, pod: &NamespacedName) -> Option<Tick> {
        let tried = self.0.get(pod)?;
        let doublings = tried.count.saturating_sub(1).min(16);
        Some(tried.last.at + BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX))
    }
}

impl View {
    /// A pod was looked at and fits no node (`Plan::unfit`).
    pub fn remember(&mut self, attempt: Attempt) {
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
        let mut attempts = Attempts::default();
        let name = NamespacedName::new("shop", "web");
        let attempt = |uid: &str, at| Attempt {
            pod: name.clone(),
            uid: uid.to_owned(),
            requests: Requests::default(),
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
