//! How long after failures the next pod waits.
//!
//! Source: documentation, "Pod backoff failure policy": 10 s after a failure, doubled with each that follows without a success
//! between, at most 10 minutes. Upstream remembers failures in memory; here they are those of the Failed pods that exist, so
//! that a restarted controller waits as long as the one before. A pod that was deleted is replaced at once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::{Tick, TickDuration};

use super::tracking;
use crate::pods;

const FIRST: TickDuration = TickDuration::from_secs(10);
const LONGEST: TickDuration = TickDuration::from_secs(600);

/// From when on the next pod may be created; absent when nothing failed since the last success.
pub(super) fn next_creation(own: &[&Arc<Pod>]) -> Option<Tick> {
    let of_phase = |phase: &'static str| {
        own.iter().filter(move |pod| pods::phase(pod) == phase).filter(|pod| {
            // One that the Job itself gave up is no failure.
            !pods::is_terminating(pod) || tracking::is_tracked(&pod.metadata)
        })
    };
    let last_success = of_phase("Succeeded").map(|pod| finished_at(pod)).max();
    let failures: Vec<Tick> = of_phase("Failed")
        .map(|pod| finished_at(pod))
        .filter(|at| last_success.is_none_or(|success| *at > success))
        .collect();
    let last = failures.iter().max()?;
    let before = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX);
    Some(after(before, *last))
}

/// When the wait after a failure ends that so many came before.
pub(crate) fn after(before: u32, failed_at: Tick) -> Tick {
    let factor = 1u64.checked_shl(before).unwrap_or(u64::MAX);
    failed_at + FIRST.saturating_mul(factor).min(LONGEST)
}

/// When a pod ended: with its last container; else when it was no longer ready; else when it was made.
pub(crate) fn finished_at(pod: &Pod) -> Tick {
    let containers =
        pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = containers.filter_map(|container| {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.as_ref().map(Tick::from)
    });
    let unready = || pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(Tick::from);
    let made = || pod.metadata.creation_timestamp.as_ref().map(Tick::from);
    ends.max().or_else(unready).or_else(made).unwrap_or(Tick::ZERO)
}
