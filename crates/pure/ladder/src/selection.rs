//! Which ladder applies to a pod.

use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::RestartLadder;

/// The ladder that applies: of those in the pod's namespace that select it, the oldest, then the
/// first by name.
pub fn select<'a>(
    ladders: impl Iterator<Item = &'a RestartLadder>,
    pod: &HeldPod,
) -> Option<&'a RestartLadder> {
    let same_namespace =
        |ladder: &&RestartLadder| ladder.metadata.namespace == pod.metadata.namespace;
    ladders
        .filter(same_namespace)
        .filter(|ladder| ladder.selects(pod.metadata.labels.as_ref()))
        .min_by_key(|ladder| ladder.seniority())
}

#[cfg(test)]
mod tests;
