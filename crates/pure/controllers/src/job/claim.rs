//! Which pods are the Job's.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;

use super::{selects, tracking};
use crate::patches::finalizers_with;
use crate::plan::PlannedWrite;
use crate::replica_set::{OwnershipClaim, claim};
use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject, WriteOperation, WritePlan};

/// The Jobs that would adopt a pod with this metadata.
pub(super) fn candidates<'a>(
    view: &'a ClusterView,
    pod: &'a ObjectMeta,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::Job, namespace).filter_map(move |object| match object {
        ViewObject::Job(job) if selects(job, pod) => Some(NamespacedName::from_meta(&job.metadata)),
        _ => None,
    })
}

/// Claims the pods that should be the Job's and lets go those that should not; the result is what
/// is its own now.
pub(super) fn claim_pods<'a>(
    view: &'a ClusterView,
    job: &'a Job,
    plan: &mut WritePlan,
) -> Vec<&'a Arc<HeldPod>> {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let mut own = Vec::new();
    let mut patches = Vec::new();
    for object in view
        .dependents_of(uid, ResourceKind::Pod)
        .chain(view.unmanaged(ResourceKind::Pod, namespace))
    {
        let ViewObject::Pod(pod) = object else { continue };
        match claim(ResourceKind::Job, &job.metadata, object, selects(job, &pod.metadata)) {
            OwnershipClaim::Own => own.push(pod),
            OwnershipClaim::Adopt(write) => patches.push(with_finalizer(write, pod)),
            // Its finalizer goes once it is nobody's (`tracking::reconcile_untracked`).
            OwnershipClaim::Release(write) => patches.push(PlannedWrite::from(write)),
            OwnershipClaim::Leave => {}
        }
    }
    plan.then_all(patches);
    own
}

/// An adopted pod is tracked from the moment it is the Job's.
fn with_finalizer(mut write: WriteOperation, pod: &HeldPod) -> PlannedWrite {
    if let WriteOperation::Patch { patch, .. } = &mut write
        && !tracking::is_tracked(&pod.metadata)
    {
        patch["metadata"]["finalizers"] = finalizers_with(&pod.metadata, tracking::FINALIZER);
    }
    write.into()
}
