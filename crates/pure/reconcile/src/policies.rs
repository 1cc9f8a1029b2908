//! By what policy a pod's restarts go: the one lookup, for the ladder, for revisions and for
//! ledgers. Pure, as the controllers are.

use std::sync::Arc;

use rekindle_controllers::events::{Note, Severity};
use rekindle_controllers::{Kind, NamespacedName, Object, View};
use rekindle_ladder::{Policy, PolicyError, policy_of};
use rekindle_types::held::Pod;
use rekindle_types::reasons::event::LADDER_INVALID;
use rekindle_types::v1alpha1::{RestartLadder, RestartLedger};

/// The policy of a pod; none when no ladder has anything to do with it.
pub(crate) fn of_pod(view: &View, pod: &Pod) -> Result<Option<Policy>, PolicyError> {
    policy_of(ladders(view, pod.metadata.namespace.as_deref().unwrap_or_default()), pod)
}

/// The policy that a ledger was kept by, whose pod may be gone. That of a pod's annotations is gone
/// with the pod.
pub(crate) fn of_ledger(view: &View, ledger: &RestartLedger) -> Option<Policy> {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let name = NamespacedName::new(namespace, ledger.spec.ladder_name.as_str());
    view.restart_ladder(&name).and_then(|ladder| Policy::of(ladder).ok())
}

/// Says that a pod's ladder cannot be decided by, where nothing else says it: a RestartLadder has a
/// status of its own. Our API refuses such annotations; on another cluster they get in.
pub(crate) fn complaint(pod: &Arc<Pod>, error: &PolicyError) -> Option<Note> {
    match error {
        PolicyError::Annotations { .. } => {
            let about = Object::Pod(Arc::clone(pod));
            let component = crate::restart_context::COMPONENT;
            let message = error.to_string();
            Some(Note::new(&about, Severity::Warning, LADDER_INVALID, message, component))
        }
        PolicyError::Ladder { .. } => None,
    }
}

/// The ladders of a namespace.
pub(crate) fn ladders<'a>(
    view: &'a View,
    namespace: &'a str,
) -> impl Iterator<Item = &'a RestartLadder> {
    view.in_namespace(Kind::RestartLadder, namespace).filter_map(|object| match object {
        Object::RestartLadder(ladder) => Some(ladder.as_ref()),
        _ => None,
    })
}
