//! Most pods of a revision fail in the same way.

use rekindle_types::v1alpha1::Rung;

use super::{NAME_CHARS_MAX, attempt, doing, object};
use crate::explanation::{DecisionText, Phrase, shorten_front};
use crate::policy::RungPolicy;
use crate::{RevisionPeers, Trial};

fn alike(peers: &RevisionPeers) -> Phrase {
    let RevisionPeers { revision, replicas, failing_alike, .. } = peers;
    Phrase::new(
        format!("{failing_alike} of {replicas} pods of {revision} fail in the same way"),
        format!("{failing_alike} of {replicas} pods fail alike"),
    )
}

/// The rung does not help against it.
pub(super) fn all_held(peers: &RevisionPeers, rung: Rung) -> Phrase {
    let alike = alike(peers);
    let why = match rung {
        Rung::Recreate | Rung::Reschedule => "a new pod would be the same".to_owned(),
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => {
            format!("{} did not help", doing(rung))
        }
    };
    Phrase::new(
        format!(
            "{alike}: the ladder holds, {why}. It looks like a bad rollout or a dependency that is down; the container's own \
             backoff goes on"
        ),
        format!("holding, {}", alike.brief),
    )
}

/// The rung is being tried on one of them.
pub(super) fn trial_first(peers: &RevisionPeers, trial: &Trial, pod: &str) -> Phrase {
    let Trial { pod: other, rung, .. } = trial;
    Phrase::new(
        format!(
            "{}: {} is tried on pod {other} first; the container's own backoff goes on",
            alike(peers),
            doing(*rung)
        ),
        format!("{} next, after {}", object(*rung), beside(other, pod)),
    )
}

/// Nothing failed since, and the rung does not help against it.
pub(crate) fn held_for_all(peers: &RevisionPeers, rung: Rung) -> DecisionText {
    DecisionText::from_phrase(all_held(peers, rung))
}

/// Nothing failed since in `pod`, and the rung is being tried on another one.
pub(crate) fn awaits_trial(peers: &RevisionPeers, trial: &Trial, pod: &str) -> DecisionText {
    let Phrase { full, brief } = trial_first(peers, trial, pod);
    DecisionText::new(full, &alike(peers).brief, &brief)
}

/// A pod waited for what came of a trial.
pub(crate) fn after_trial(peers: &RevisionPeers, step: &RungPolicy, number: u32) -> DecisionText {
    let why = match peers.helped {
        Some(rung) => Phrase::new(
            format!("{} helped another pod of {}", doing(rung), peers.revision),
            "helped another pod",
        ),
        None => Phrase::new("the trial on another pod told nothing", "the trial told nothing"),
    };
    let attempt = attempt(step, number);
    DecisionText::new(format!("{why}: {attempt}"), &why.brief, &attempt.brief)
}

/// What tells a pod from another one: `v7pgm` of `web-5d4f-v7pgm` beside `web-5d4f-x2x4x`. Of a
/// StatefulSet's it would be a bare number: `web-1`.
fn beside(other: &str, pod: &str) -> String {
    let common = other.char_indices().zip(pod.chars()).find(|((_, one), two)| one != two);
    let common = common.map_or_else(|| other.len().min(pod.len()), |((at, _), _)| at);
    let common = other.floor_char_boundary(common);
    let suffix = other[..common].rfind('-').map_or(other, |dash| &other[dash + 1..]);
    let is_number = suffix.chars().all(|char| char.is_ascii_digit());
    shorten_front(if is_number { other } else { suffix }, NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_called_by_what_tells_it_from_its_sibling() {
        for (other, pod, name) in [
            ("web-5d4f-v7pgm", "web-5d4f-x2x4x", "v7pgm"),
            ("web-5d4f-v7pgm", "web-5d4f-v7x4x", "v7pgm"),
            ("web-1", "web-0", "web-1"),
            ("web-10", "web-1", "web-10"),
            ("orders-of-the-whole-shop-1", "orders-of-the-whole-shop-0", "…of-the-whole-shop-1"),
            ("api-x", "web-x", "api-x"),
            ("web", "web-1", "web"),
            ("wéb-é", "wéb-è", "é"),
        ] {
            assert_eq!(beside(other, pod), name, "{other} beside {pod}");
        }
    }
}
