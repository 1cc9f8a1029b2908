//! Pods that fitted nowhere: how often they were looked at, and when they are looked at again.
//!
//! ```text
//!             ┌───────────── something that may help (`wake`) ──────────────┐
//!             ▼                                                             │
//!   active: looked at, the highest priority first ─── fits nowhere ─► unschedulable ─── 5 min ─► active
//!             ▲                                                             │
//!             └── nothing is ahead, or 1, 2, 4, 8, 10 s are over ─ backing off ◄── something that may help, too soon
//! ```
//! A pod that backs off goes behind those that do not. Upstream takes it as soon as nothing else is due (KEP-5142), and so it is
//! here, unless there is a crowd: then its time must be over. Source: kube-scheduler's queue (podInitialBackoffSeconds,
//! podMaxBackoffSeconds, podMaxInUnschedulablePodsDuration).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::{Tick, TickDuration};

use super::requests::Requests;
use crate::{NamespacedName, View};

/// The wait after the first look; it doubles with each further one.
const BACKOFF_MIN: TickDuration = TickDuration::from_secs(1);
/// The longest wait.
const BACKOFF_MAX: TickDuration = TickDuration::from_secs(10);
/// After this a pod is looked at again although nothing is known that helps it.
pub(super) const FLUSHED_AFTER: TickDuration = TickDuration::from_secs(5 * 60);
/// Pods that wait for a node, from which on those that back off are held back.
const CROWD: usize = 100;

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
    pub(crate) fn add(&mut self, attempt: Attempt) {
        let before = self.0.get(&attempt.pod).filter(|before| before.last.uid == attempt.uid);
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        self.0.insert(attempt.pod.clone(), Tried { count, last: attempt });
    }

    /// The pod has a node, or is gone.
    pub(crate) fn forget(&mut self, pod: &NamespacedName) {
        self.0.remove(pod);
    }

    /// What the pod asked for when it was looked at last; nothing for one that was not looked at yet.
    pub(super) fn requests_of(&self, pod: &NamespacedName) -> Option<&Requests> {
        self.0.get(pod).map(|tried| &tried.last.requests)
    }

    /// Until when the pod backs off.
    fn backoff_end(&self, pod: &NamespacedName) -> Option<Tick> {
        let tried = self.0.get(pod)?;
        let doublings = tried.count.saturating_sub(1).min(16);
        Some(tried.last.at + BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX))
    }
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It is looked at in its turn.
    #[default]
    Active,
    /// It was looked at a short time ago.
    BacksOff,
}

pub(super) fn standing(view: &View, pod: &NamespacedName, now: Tick) -> Standing {
    match view.attempts().backoff_end(pod) {
        Some(end) if end > now => Standing::BacksOff,
        Some(_) | None => Standing::Active,
    }
}

/// Until when the pod is held back, if it is.
pub(super) fn held_until(view: &View, pod: &NamespacedName, now: Tick) -> Option<Tick> {
    let end = view.attempts().backoff_end(pod).filter(|end| *end > now)?;
    (view.unscheduled_count() > CROWD).then_some(end)
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
