//! The finalizer that keeps a pod until it is counted, and the index that it carries.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;

use crate::patches::{with_finalizer, without_finalizer};
use crate::plan::{PlannedWrite, WriteOperation};
use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, owners};

/// Keeps a pod until it is in its Job's status.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the completion index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// True when the pod waits to be counted.
pub(super) fn is_tracked(meta: &ObjectMeta) -> bool {
    owners::has_finalizer(meta, FINALIZER)
}

/// The completion index of a pod.
pub(super) fn index(pod: &HeldPod) -> Option<u32> {
    index_text(&pod.metadata)?.parse().ok()
}

/// The same as the pod says it.
pub(crate) fn index_text(pod: &ObjectMeta) -> Option<&str> {
    pod.annotations.as_ref()?.get(INDEX).map(String::as_str)
}

/// Lets a pod go.
pub(super) fn release(pod: &Arc<HeldPod>) -> PlannedWrite {
    without_finalizer(&ViewObject::Pod(pod.clone()), FINALIZER).into()
}

/// Tracks a pod that is not.
pub(super) fn track(pod: &Arc<HeldPod>) -> PlannedWrite {
    with_finalizer(&ViewObject::Pod(pod.clone()), FINALIZER).into()
}

/// The living Job that manages an object.
pub(super) fn job_of<'a>(view: &'a ClusterView, meta: &ObjectMeta) -> Option<&'a Arc<Job>> {
    match view.by_uid(&owners::controller_of(meta)?.uid) {
        Some(ViewObject::Job(job)) => Some(job),
        _ => None,
    }
}

/// Lets go of a pod that waits to be counted and whose Job is gone, or let it go.
pub(crate) fn reconcile_untracked(view: &ClusterView, name: &NamespacedName) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name).filter(|pod| is_tracked(&pod.metadata)) else { return plan };
    if job_of(view, &pod.metadata).is_some() {
        return plan;
    }
    let controller = owners::controller_of(&pod.metadata);
    if let Some(owner) = controller.filter(|owner| owner.kind == ResourceKind::Job.info().kind) {
        let job = NamespacedName::new(name.namespace.as_str(), owner.name.as_str());
        let id = ObjectId::new(ResourceKind::Job, job);
        plan.then(WriteOperation::CheckAbsent { id, uid: Some(owner.uid.clone()) });
    }
    plan.then_all(vec![release(pod)]);
    plan
}
