//! Pods that fitted nowhere: how often they were looked at, and when they are looked at again.
//!
//! ```text
//!             ┌───────────── something that may help (`wake`) ──────────────┐
//!             ▼                                                             │
//!   active: looked at, the highest priority first ─── fits nowhere ─► unschedulable ─── 5 min ─► active
//!             ▲                                                             │
//!             └── nothing is ahead, or 1, 2, 4, 8, 10 s are over ─ backing off ◄── something that may help, too soon
//! ```
//! A pod that backs off goes behind those that do not. Upstream takes it as soon as nothing else is
//! due (KEP-5142), and so it is here, unless there is a crowd: then its time must be over. Source:
//! kube-scheduler's queue (podInitialBackoffSeconds, podMaxBackoffSeconds,
//! podMaxInUnschedulablePodsDuration).

use rekindle_types::{Tick, TickDuration};

use crate::{ClusterView, NamespacedName};

/// After this a pod is looked at again although nothing is known that helps it.
pub(super) const FLUSHED_AFTER: TickDuration = TickDuration::from_secs(5 * 60);
/// Pods that wait for a node, from which on those that back off are held back.
const CROWD: usize = 100;

/// Where a pod stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueState {
    /// It is looked at in its turn.
    #[default]
    Active,
    /// It was looked at a short time ago.
    BacksOff,
}

pub(super) fn standing(view: &ClusterView, pod: &NamespacedName, now: Tick) -> QueueState {
    match view.memories().attempts.backoff_end(pod) {
        Some(end) if end > now => QueueState::BacksOff,
        Some(_) | None => QueueState::Active,
    }
}

/// Until when the pod is held back, if it is.
pub(super) fn held_until(view: &ClusterView, pod: &NamespacedName, now: Tick) -> Option<Tick> {
    let end = view.memories().attempts.backoff_end(pod).filter(|end| *end > now)?;
    (view.unscheduled_count() > CROWD).then_some(end)
}
