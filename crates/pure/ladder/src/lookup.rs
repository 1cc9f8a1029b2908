//! By what a pod's restarts go: a RestartLadder that selects it, else the ladder of its
//! annotations, else Kubernetes' own rules.

use rekindle_types::digest::fold;
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{LADDER_ANNOTATIONS, RestartLadder, annotated_ladder};

use crate::{LadderPolicy, LadderPolicyError, select};
use rekindle_types::owners::controller_of;

/// The policy of a pod; none when no ladder has anything to do with it. A RestartLadder counts
/// before annotations: whoever looks after a namespace must be able to say something else without a
/// rollout of the workload.
///
/// # Errors
/// When there is a ladder, and it cannot be decided by.
pub fn policy_of<'a>(
    ladders: impl Iterator<Item = &'a RestartLadder>,
    pod: &HeldPod,
) -> Result<Option<LadderPolicy>, LadderPolicyError> {
    match select(ladders, pod) {
        Some(ladder) => LadderPolicy::from_ladder(ladder).map(Some),
        None => policy_from_annotations(pod),
    }
}

/// The ladder of the pod's own annotations. It is named after the workload that the pod belongs to,
/// as no object can be: `replicaset/web-5d8f`, `pod/web`.
fn policy_from_annotations(pod: &HeldPod) -> Result<Option<LadderPolicy>, LadderPolicyError> {
    let annotations = pod.metadata.annotations.as_ref();
    let spec = annotated_ladder(annotations).map_err(|broken| LadderPolicyError::Annotations {
        pod: pod.metadata.name.clone().unwrap_or_default(),
        broken,
    })?;
    Ok(spec.map(|spec| LadderPolicy::of_spec(name_of(pod), Some(generation_of(pod)), &spec)))
}

fn name_of(pod: &HeldPod) -> String {
    match controller_of(&pod.metadata) {
        Some(owner) => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
        None => format!("pod/{}", pod.metadata.name.as_deref().unwrap_or_default()),
    }
}

/// Another number when the annotations are edited, as an object's generation is: a pod that had
/// exhausted them is tried again.
fn generation_of(pod: &HeldPod) -> i64 {
    let all = pod.metadata.annotations.as_ref();
    let texts = LADDER_ANNOTATIONS.map(|name| {
        all.and_then(|all| all.get(name)).map_or_else(String::new, |value| format!("{value}\n"))
    });
    1 + i64::from(fold(&texts.join("\n")))
}

#[cfg(test)]
mod tests;
