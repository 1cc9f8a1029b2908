//! When a pod ended, and how long its Job waits before it makes the next one.

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use crate::creation_brake::AFTER_FAILURES;
use crate::pods;

/// When the wait after the last of these failures ends; none when there was none.
pub(crate) fn next_after(failures: impl Iterator<Item = Tick>) -> Option<Tick> {
    let (count, last) = failures
        .fold((0u32, None), |(count, last), at| (count.saturating_add(1), last.max(Some(at))));
    Some(after(count.saturating_sub(1), last?))
}

/// When the wait after a failure ends that so many came before.
pub(crate) fn after(before: u32, failed_at: Tick) -> Tick {
    failed_at + AFTER_FAILURES.after(before.saturating_add(1))
}

/// When a pod ended: with its last container; else when it was no longer ready; else when it was
/// made.
pub(crate) fn finished_at(pod: &HeldPod) -> Tick {
    let containers =
        pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = containers
        .filter_map(|container| container.state.terminated()?.finished_at.as_ref().map(Tick::from));
    let unready = || pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(Tick::from);
    let made = || pod.metadata.creation_timestamp.as_ref().map(Tick::from);
    ends.max().or_else(unready).or_else(made).unwrap_or(Tick::ZERO)
}
