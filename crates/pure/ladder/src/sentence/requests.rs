//! PodRestarts of the ladder that wait, are given up, or come to nothing.

use rekindle_types::v1alpha1::{PodRestart, ReplacementHold, Rung};

use super::{after_the_last, doing, object, rolling_back};
use crate::explanation::{DecisionText, Phrase};
use crate::{LadderPolicy, RollbackTarget};

/// `replacing the pod by one on another node was given up after 10m: …`, where `why` is what the
/// request says.
pub(super) fn was_given_up(rung: Rung, why: &str) -> Phrase {
    Phrase::new(format!("{} was {why}", doing(rung)), format!("{} {why}", object(rung)))
}

/// `other node given up after 10m`: the words before what the request says of it.
fn given_up_in_brief(rung: Rung, why: &str) -> String {
    let why = why.split_once(':').map_or(why, |(why, _)| why);
    was_given_up(rung, why).brief
}

/// A request was over before anything was done to the pod.
pub(super) fn not_carried_out(rung: Rung, why: &str) -> Phrase {
    let Phrase { full, brief } = doing(rung);
    Phrase::new(format!("{full} was not carried out: {why}"), format!("{brief} not done: {why}"))
}

/// A request was held back until it was given up.
pub(crate) fn given_up(rung: Rung, why: &str) -> DecisionText {
    DecisionText::from_phrase(was_given_up(rung, why))
}

/// … and the revision before was healthy.
pub(crate) fn rollback_after(rung: Rung, why: &str, target: &RollbackTarget) -> DecisionText {
    let (given_up, rollback) = (was_given_up(rung, why), rolling_back(target));
    DecisionText::new(
        format!("{given_up}: {rollback}"),
        &given_up_in_brief(rung, why),
        &rollback.brief,
    )
}

/// … and nothing is left to try.
pub(crate) fn exhausted_after(
    rung: Rung,
    why: &str,
    policy: &LadderPolicy,
    left: &Phrase,
) -> DecisionText {
    let (given_up, after) = (was_given_up(rung, why), after_the_last(policy));
    let action = format!("{}, {}", left.brief, after.brief);
    DecisionText::new(
        format!("{given_up}; {left}: {after}"),
        &given_up_in_brief(rung, why),
        &action,
    )
}

/// A request was over before anything was done to the pod, and counts.
pub(crate) fn over_undone(rung: Rung, request: &str, why: &str) -> DecisionText {
    let Phrase { full, brief } = not_carried_out(rung, why);
    DecisionText::from_phrase(Phrase::new(
        format!("{full} (PodRestart {request} counts as an attempt)"),
        brief,
    ))
}

/// A request that was held back is not any more.
pub(crate) fn goes_on(request: Option<(Rung, &str)>) -> DecisionText {
    DecisionText::from_phrase(match request {
        Some((rung, name)) => {
            let Phrase { full, brief } = doing(rung);
            Phrase::new(
                format!("{full} goes on: evicting (PodRestart {name})"),
                format!("{brief} goes on: evicting"),
            )
        }
        None => Phrase::new(
            "the restart that was held back has gone on",
            "the restart held back has gone on",
        ),
    })
}

/// A disruption budget, or the lack of another node, holds a request back that is made already.
pub(crate) fn held_request(request: &PodRestart, why: &str) -> DecisionText {
    let Phrase { full, brief } = doing(request.spec.rung());
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let replacement = request.status.as_ref().and_then(|status| status.replacement.as_ref());
    let by = match replacement.and_then(|replacement| replacement.held_by) {
        Some(ReplacementHold::DisruptionBudget) => "disruption budget forbids it",
        Some(ReplacementHold::DeadlockedBudget) => "disruption budget never allows it",
        Some(ReplacementHold::EvictionRefused) => "the API refuses the eviction",
        Some(ReplacementHold::NoOtherNode) => "no other node can take the pod",
        Some(ReplacementHold::PodNotTaken) => "the API would refuse the new pod",
        Some(ReplacementHold::LadderLimits) => "restart budget is full",
        None => why,
    };
    DecisionText::from_phrase(Phrase::new(
        format!("{full} is held back: {why} (PodRestart {name} waits)"),
        format!("{brief} waits: {by}"),
    ))
}

/// A request of the ladder was not begun, and will not be.
pub(crate) fn withdrawn(rung: Rung, request: &str, why: &str) -> DecisionText {
    let Phrase { full, brief } = doing(rung);
    DecisionText::from_phrase(Phrase::new(
        format!(
            "{full} was not begun: {why} (PodRestart {request} was withdrawn and does not count)"
        ),
        format!("{brief} withdrawn: {why}"),
    ))
}

/// A request of the ladder was not made yet, and the ladder is another one by now.
pub(crate) fn unlisted(rung: Rung, request: &str) -> DecisionText {
    let Phrase { full, brief } = doing(rung);
    DecisionText::from_phrase(Phrase::new(
        format!(
            "{full} was not begun: the ladder does not list it any more (PodRestart {request} is not made and does not count)"
        ),
        format!("{brief} dropped: the ladder lists it no more"),
    ))
}
