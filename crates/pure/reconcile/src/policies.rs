//! By what policy a pod's restarts go: the one lookup, for the ladder, for revisions and for
//! ledgers. Pure, as the controllers are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rekindle_controllers::events::EventNote;
use rekindle_controllers::{ClusterView, NamespacedName, ResourceKind, ViewObject};
use rekindle_ladder::{LadderMode, LadderPolicy, LadderPolicyError, policy_of};
use rekindle_types::EventSeverity;
use rekindle_types::held::HeldPod;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::reasons::event::LADDER_INVALID;
use rekindle_types::spared_pods::{ON_FAILURE, RESTART_INCLUDES_ANNOTATION};
use rekindle_types::v1alpha1::{RestartLadder, RestartLedger};

use crate::proposed_ladder::proposed_policy;
use crate::restart_context::RestartContext;

/// The policy of a pod; none when no ladder has anything to do with it. On a cluster its namespace
/// has to be enabled, and a pod of the node itself has to be named; while an operator only
/// observes, a pod without a ladder goes by the one that would be proposed for it.
pub(crate) fn policy_of_pod(
    context: &RestartContext<'_>,
    pod: &HeldPod,
) -> Result<Option<LadderPolicy>, LadderPolicyError> {
    let view = context.view;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let Some(cluster) = context.role.cluster() else {
        return policy_of(ladders(view, namespace), pod);
    };
    if !cluster.enables(view, namespace) {
        return Ok(None);
    }
    let own = own_policy(view, pod)?;
    Ok(match cluster.mode {
        LadderMode::Act => own,
        LadderMode::Observe => own.or_else(|| policy_to_propose(pod)),
    })
}

/// The policy of a pod of a cluster, in a namespace that is enabled: of the ladder that selects it,
/// or of its own annotations.
pub(crate) fn own_policy(
    view: &ClusterView,
    pod: &HeldPod,
) -> Result<Option<LadderPolicy>, LadderPolicyError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let of_node = PodOfNode::from_pod(pod);
    let named =
        ladders(view, namespace).filter(|ladder| of_node.is_none_or(|of| of.is_named(ladder)));
    policy_of(named, pod)
}

/// The policy that is proposed for a pod without one of its own. A pod of the node has to be named,
/// so nothing is proposed for it.
pub(crate) fn policy_to_propose(pod: &HeldPod) -> Option<LadderPolicy> {
    match PodOfNode::from_pod(pod) {
        Some(PodOfNode::Static | PodOfNode::HostNetwork) => None,
        None => proposed_policy(pod),
    }
}

/// A pod that belongs to its node more than to its namespace: a network plugin or a node's own
/// component may be among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodOfNode {
    /// It is made from a file of the node.
    Static,
    /// It has the node's network.
    HostNetwork,
}

/// On a RestartLadder of a cluster: the pods of the node that it is meant for beside all others
/// that it selects, `Static` and `HostNetwork`, with a comma between them. A pod's own annotations
/// name the pod itself. With `OnFailure` agents may kill pods of that restartPolicy.
pub const INCLUDES_ANNOTATION: &str = "rekindle.dev/ladder-includes";

impl PodOfNode {
    fn from_pod(pod: &HeldPod) -> Option<Self> {
        let has_host_network =
            pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        if is_mirror(pod) {
            Some(PodOfNode::Static)
        } else {
            has_host_network.then_some(PodOfNode::HostNetwork)
        }
    }

    fn name(self) -> &'static str {
        match self {
            PodOfNode::Static => "Static",
            PodOfNode::HostNetwork => "HostNetwork",
        }
    }

    /// Whether a ladder names pods of this kind.
    fn is_named(self, ladder: &RestartLadder) -> bool {
        included(ladder).any(|word| word == self.name())
    }
}

fn included(ladder: &RestartLadder) -> impl Iterator<Item = &str> {
    let annotations = ladder.metadata.annotations.as_ref();
    let words = annotations.and_then(|all| all.get(INCLUDES_ANNOTATION));
    let words = words.into_iter().flat_map(|words| words.split(','));
    words.map(str::trim).filter(|word| !word.is_empty())
}

/// What a request has to name before agents take these pods: the ladder of this policy has named
/// them.
pub(crate) fn named_pods<'a>(
    context: &RestartContext<'_>,
    policy: &LadderPolicy,
    namespace: &str,
    pods: impl IntoIterator<Item = &'a HeldPod>,
) -> Option<BTreeMap<String, String>> {
    context.role.cluster()?;
    let ladder = NamespacedName::new(namespace, policy.name.as_str());
    let ladder = context.view.restart_ladder(&ladder);
    let ladder = ladder.filter(|ladder| policy.uid.is_some() && ladder.metadata.uid == policy.uid);
    let names_on_failure =
        ladder.is_some_and(|ladder| included(ladder).any(|word| word == ON_FAILURE));
    let mut words: BTreeSet<&str> = names_on_failure.then_some(ON_FAILURE).into_iter().collect();
    for pod in pods {
        let is_static = is_mirror(pod).then_some(PodOfNode::Static);
        let has_host_network =
            pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        let of_node = [is_static, has_host_network.then_some(PodOfNode::HostNetwork)];
        words.extend(of_node.into_iter().flatten().map(PodOfNode::name));
    }
    let words: Vec<&str> = words.into_iter().collect();
    let named = !words.is_empty();
    named.then(|| BTreeMap::from([(RESTART_INCLUDES_ANNOTATION.to_owned(), words.join(", "))]))
}

/// What of a ladder's annotation names no pods; none when all of it does.
pub(crate) fn unknown_inclusion(ladder: &RestartLadder) -> Option<String> {
    let known = [PodOfNode::Static.name(), PodOfNode::HostNetwork.name(), ON_FAILURE];
    let unknown = included(ladder).find(|word| !known.contains(word))?;
    Some(format!(
        "annotation {INCLUDES_ANNOTATION}: {unknown:?} is none of Static, HostNetwork and OnFailure"
    ))
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
