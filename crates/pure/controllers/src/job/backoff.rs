//! How long after failures the next pod waits: the failures since the last success count.
//!
//! Upstream remembers failures in memory; here they are those of the Failed pods that exist, so
//! that a restarted controller waits as long as the one before. A pod that was deleted is replaced
//! at once. Source: documentation, "Pod backoff failure policy".

use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use super::tracking;
use crate::failed_pods::{finished_at, next_after};
use crate::pods;

/// From when on the next pod may be created; absent when nothing failed since the last success.
pub(super) fn next_creation(own: &[&Arc<HeldPod>]) -> Option<Tick> {
    let of_phase = |phase: &'static str| {
        own.iter().filter(move |pod| pods::phase(pod) == phase).filter(|pod| {
            // One that the Job itself gave up is no failure.
            !pods::is_terminating(pod) || tracking::is_tracked(&pod.metadata)
        })
    };
    let last_success = of_phase("Succeeded").map(|pod| finished_at(pod)).max();
    let failures = of_phase("Failed").map(|pod| finished_at(pod));
    next_after(failures.filter(|at| last_success.is_none_or(|success| *at > success)))
}
