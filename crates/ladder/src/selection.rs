//! Which ladder applies to a pod.

use rekindle_types::held::Pod;
use rekindle_types::v1alpha1::RestartLadder;
use rekindle_types::{Tick, labels};

/// The ladder that applies: of those in the pod's namespace that select it, the oldest, then the first by name. A ladder with an
/// empty selector, and one that is being deleted, selects nothing.
pub fn select<'a>(
    ladders: impl Iterator<Item = &'a RestartLadder>,
    pod: &Pod,
) -> Option<&'a RestartLadder> {
    ladders
        .filter(|ladder| {
            ladder.metadata.namespace == pod.metadata.namespace
                && ladder.metadata.deletion_timestamp.is_none()
                && !labels::is_empty(&ladder.spec.selector)
                && labels::matches(&ladder.spec.selector, pod.metadata.labels.as_ref())
        })
        .min_by_key(|ladder| (created(ladder), ladder.metadata.name.as_deref()))
}

/// A ladder that was not stored yet is the youngest.
fn created(ladder: &RestartLadder) -> Tick {
    let created = ladder.metadata.creation_timestamp.as_ref();
    created.map_or(Tick::from_micros(u64::MAX), Tick::from)
}

#[cfg(test)]
mod tests;
