//! What is not done for want of an agent, or because an operator only observes.

use rekindle_types::v1alpha1::{LadderScope, Rung};

use crate::explanation::DecisionText;

/// Of a restart that is only noted.
pub(crate) const NOTHING_DONE: &str = "mode observe: nothing was done";

/// An operator acts where one only observed before.
pub(crate) fn acts_now() -> DecisionText {
    DecisionText::new(
        "the operator acts from now on: what it only noted before is no attempt",
        "the operator acts now",
        "noted attempts are dropped",
    )
}

/// The pod's node has an agent since the ladder was exhausted without one.
pub(crate) fn agent_came() -> DecisionText {
    DecisionText::new(
        "the pod's node has an agent now: rungs that were passed over for want of one may be tried",
        "the node has an agent now",
        "passed-over rungs may be tried",
    )
}

/// The rungs that need an agent on the pod's node, which has none; empty when there are none. A
/// group needs one on the node of each pod, and is restarted beside kubelets on rung Pod alone.
pub(crate) fn without_agent(rungs: &[Rung], scope: LadderScope) -> String {
    let names: Vec<&str> = rungs.iter().map(|rung| rung.name()).collect();
    let why = match scope {
        LadderScope::Pod => "the pod's node has no agent for",
        LadderScope::Group => "for a group no agent here carries out",
    };
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {why} rung {one}"),
        several => format!("; {why} rungs {}", several.join(" and ")),
    }
}
