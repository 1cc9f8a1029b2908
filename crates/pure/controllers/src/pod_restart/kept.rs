//! The pod without a controller that a request keeps to create it again: nobody else has it once it
//! is evicted.
//!
//! A finalizer is put on the request before the copy is written and stays until the new pod is
//! there or the request has ended: a client that deletes the request waits for the pod instead
//! of losing it. A request that failed with the pod still to be created *owes* it: the copy stays,
//! and so does the request, until a pod of that name is there again or a client deletes the
//! request.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodReplacement, PodRestart, PodRestartPhase, ReplacementStep};
use rekindle_types::{ObjectJson, Tick};

use super::replace::is_meant;
use super::{is_finished, is_namespace_terminating, pod_of};
use crate::avoidance::{self, Avoided};
use crate::patches::{with_finalizer, without_finalizer};
use crate::plan::WriteOperation;
use crate::{ClusterView, NamespacedName, ViewObject, owners, pods};

/// Keeps a request whose status has the only copy of a pod.
pub(super) const FINALIZER: &str = "rekindle.dev/kept-pod";

/// Puts the finalizer on; none when it is there. Metadata and status are two writes, and this one
/// is the first.
pub(super) fn guard(restart: &PodRestart) -> Option<WriteOperation> {
    (!owners::has_finalizer(&restart.metadata, FINALIZER))
        .then(|| with_finalizer(&ViewObject::from(restart.clone()), FINALIZER))
}

/// Takes the finalizer off when nothing depends on the request any more.
pub(super) fn release(restart: &PodRestart) -> Option<WriteOperation> {
    let is_guarded = owners::has_finalizer(&restart.metadata, FINALIZER);
    (is_guarded && !is_needed(restart))
        .then(|| without_finalizer(&ViewObject::from(restart.clone()), FINALIZER))
}

fn is_needed(restart: &PodRestart) -> bool {
    let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
    !is_finished(restart)
        && match replacement.map(|replacement| replacement.step) {
            // the copy may be about to be written
            None | Some(ReplacementStep::Held) => !owners::is_terminating(&restart.metadata),
            Some(ReplacementStep::Evicting) => copied(restart).is_some(),
            Some(ReplacementStep::Starting) => false,
        }
}

/// A request that evicts a pod, and keeps a copy of it.
fn copied(restart: &PodRestart) -> Option<(&PodReplacement, &RawExtension)> {
    let replacement = restart.status.as_ref()?.replacement.as_ref()?;
    let copy = replacement.pod.as_ref()?;
    (replacement.step == ReplacementStep::Evicting).then_some((replacement, copy))
}

fn has_failed(restart: &PodRestart) -> bool {
    restart.status.as_ref().is_some_and(|status| status.phase == Some(PodRestartPhase::Failed))
}

/// What a request that failed has still to create.
pub(super) fn owed(restart: &PodRestart) -> Option<&PodReplacement> {
    copied(restart).filter(|_| has_failed(restart)).map(|(replacement, _)| replacement)
}

/// What has become of a pod of which a request has the only copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptPod {
    /// It still ends.
    Ends,
    /// It is gone, and none of its name is there.
    Gone,
    /// The same, but the copy has another name or namespace, or is no pod at all.
    Foreign,
}

/// A pod that was evicted, and of which this request has the only copy. None when it was not
/// evicted after all, is there again, or is let go: with its namespace, or because a failed request
/// was deleted.
pub fn kept_pod(view: &ClusterView, restart: &PodRestart) -> Option<KeptPod> {
    let (replacement, copy) = copied(restart)?;
    let is_open = !is_finished(restart)
        || (has_failed(restart) && !owners::is_terminating(&restart.metadata));
    let name = pod_of(restart);
    let is_its_own = v1::Pod::from_value(&copy.0)
        .is_ok_and(|pod| NamespacedName::from_meta(&pod.metadata) == name);
    if !is_open || is_namespace_terminating(view, restart) {
        return None;
    }
    match view.pod(&name) {
        None if is_its_own => Some(KeptPod::Gone),
        None => Some(KeptPod::Foreign),
        Some(pod) if is_its_own && is_meant(pod, replacement) && pods::is_terminating(pod) => {
            Some(KeptPod::Ends)
        }
        Some(_) => None,
    }
}

/// The pod as it would be created again if a request of rung Recreate evicted it; none when its
/// controller makes the next one.
pub fn created_again(pod: &HeldPod) -> Option<v1::Pod> {
    owners::controller_of(&pod.metadata).is_none().then(|| without_what_was_added(pod))
}

/// What a pod needs to be created again: nothing that the server, the scheduler or the node added
/// for this very object. Its priority is what its class says when it is created: one that is given
/// is refused when the class says another by then.
fn without_what_was_added(pod: &HeldPod) -> v1::Pod {
    let mut again = v1::Pod {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            labels: pod.metadata.labels.clone(),
            annotations: pod.metadata.annotations.clone(),
            owner_references: pod.metadata.owner_references.clone(),
            ..Default::default()
        },
        spec: pod.whole_spec(),
        status: None,
    };
    if let Some(spec) = &mut again.spec {
        spec.ephemeral_containers = None;
        spec.priority = None;
        spec.preemption_policy = None;
    }
    again
}

/// The copy that is kept of a pod.
pub(super) fn copy(pod: &HeldPod) -> RawExtension {
    RawExtension(without_what_was_added(pod).to_value())
}

/// The pod to be created from the copy.
///
/// # Errors
/// When the copy is none of a pod.
pub(super) fn from_copy(
    restart: &PodRestart,
    replacement: &PodReplacement,
    copy: &RawExtension,
    now: Tick,
) -> Result<v1::Pod, serde_json::Error> {
    let mut pod = v1::Pod::from_value(&copy.0)?;
    let mut avoided: Avoided = avoidance::nodes_avoided_by(&pod);
    pod = avoidance::without_exclusions(pod);
    avoided.retain(|_, until| Tick::from(&*until) > now);
    if let Some(until) = &replacement.avoid_node_until {
        avoided.insert(replacement.node_name.clone(), until.clone());
    }
    avoidance::exclude(&mut pod, &avoided);
    // whatever the status says, the pod is the one that was asked for, in the request's own
    // namespace
    pod.metadata.name = Some(restart.spec.pod_name.clone());
    pod.metadata.namespace.clone_from(&restart.metadata.namespace);
    Ok(pod)
}
