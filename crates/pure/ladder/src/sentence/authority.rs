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

/// The rungs that need an agent on the pod's node, which has none; empty when there are none. No
/// agent beside a kubelet holds back the pods of a group.
pub(crate) fn without_agent(rungs: &[Rung], scope: LadderScope) -> String {
    let names: Vec<&str> = rungs.iter().map(|rung| rung.name()).collect();
    let why = match scope {
        LadderScope::Pod => "the pod's node has no agent for",
        LadderScope::Group => "beside a kubelet no group is restarted on",
    };
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {why} rung {one}"),
        several => format!("; {why} rungs {}", several.join(" and ")),
    }
}
