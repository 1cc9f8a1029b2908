//! By what policy a pod's restarts go: the one lookup, for the ladder, for revisions and for
//! ledgers. Pure, as the controllers are.

use std::sync::Arc;

use rekindle_controllers::events::EventNote;
use rekindle_controllers::{ClusterView, NamespacedName, ResourceKind, ViewObject};
use rekindle_ladder::{LadderPolicy, LadderPolicyError, policy_of};
use rekindle_types::EventSeverity;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event::LADDER_INVALID;
use rekindle_types::v1alpha1::{RestartLadder, RestartLedger};

/// The policy of a pod; none when no ladder has anything to do with it.
pub(crate) fn policy_of_pod(
    view: &ClusterView,
    pod: &HeldPod,
) -> Result<Option<LadderPolicy>, LadderPolicyError> {
    policy_of(ladders(view, pod.metadata.namespace.as_deref().unwrap_or_default()), pod)
}

/// The policy that a ledger was kept by, whose pod may be gone. That of a pod's annotations is gone
/// with the pod.
pub(crate) fn policy_of_ledger(view: &ClusterView, ledger: &RestartLedger) -> Option<LadderPolicy> {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let name = NamespacedName::new(namespace, ledger.spec.ladder_name.as_str());
    view.restart_ladder(&name).and_then(|ladder| LadderPolicy::from_ladder(ladder).ok())
}

/// Says that a pod's ladder cannot be decided by, where nothing else says it: a RestartLadder has a
/// status of its own. Our API refuses such annotations; on another cluster they get in.
pub(crate) fn complaint(pod: &Arc<HeldPod>, error: &LadderPolicyError) -> Option<EventNote> {
    match error {
        LadderPolicyError::Annotations { .. } => {
            let about = ViewObject::Pod(Arc::clone(pod));
            let component = crate::restart_context::COMPONENT;
            let message = error.to_string();
            Some(EventNote::new(&about, EventSeverity::Warning, LADDER_INVALID, message, component))
        }
        LadderPolicyError::Ladder { .. } => None,
    }
}

/// The ladders of a namespace.
pub(crate) fn ladders<'a>(
    view: &'a ClusterView,
    namespace: &'a str,
) -> impl Iterator<Item = &'a RestartLadder> {
    view.in_namespace(ResourceKind::RestartLadder, namespace).filter_map(|object| match object {
        ViewObject::RestartLadder(ladder) => Some(ladder.as_ref()),
        _ => None,
    })
}
