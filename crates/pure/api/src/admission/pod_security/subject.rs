//! The pod in an object: the object itself, or the template of a workload.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Pod, PodSpec, PodTemplate, PodTemplateSpec, ReplicationController,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::AnyObject;

use super::controls::PodUnderReview;

/// The review of a pod with this spec.
pub(super) fn review<'a>(meta: Option<&'a ObjectMeta>, spec: &'a PodSpec) -> PodUnderReview<'a> {
    PodUnderReview::new(meta.and_then(|meta| meta.annotations.as_ref()), spec)
}

/// The pod, if it is one with a spec.
pub(super) fn pod(object: &dyn AnyObject) -> Option<&Pod> {
    object.as_any().downcast_ref::<Pod>().filter(|pod| pod.spec.is_some())
}

/// The pod template of a workload; none for other kinds, or where the template is absent.
pub(super) fn template(object: &dyn AnyObject) -> Option<&PodTemplateSpec> {
    let any = object.as_any();
    if let Some(of) = any.downcast_ref::<Deployment>() {
        Some(&of.spec.template)
    } else if let Some(of) = any.downcast_ref::<ReplicaSet>() {
        of.spec.template.as_ref()
    } else if let Some(of) = any.downcast_ref::<StatefulSet>() {
        Some(&of.spec.template)
    } else if let Some(of) = any.downcast_ref::<DaemonSet>() {
        Some(&of.spec.template)
    } else if let Some(of) = any.downcast_ref::<Job>() {
        Some(&of.spec.as_ref()?.template)
    } else if let Some(of) = any.downcast_ref::<CronJob>() {
        Some(&of.spec.job_template.spec.as_ref()?.template)
    } else if let Some(of) = any.downcast_ref::<ReplicationController>() {
        of.spec.as_ref()?.template.as_ref()
    } else if let Some(of) = any.downcast_ref::<PodTemplate>() {
        of.template.as_ref()
    } else {
        None
    }
}

/// Whether a change of a pod may bring a violation. Only images and ephemeral containers can
/// change.
pub(super) fn is_significant(new: &PodSpec, old: &PodSpec) -> bool {
    type Named<'a> = Vec<(&'a str, Option<&'a str>)>;
    fn named(spec: &PodSpec) -> [Named<'_>; 3] {
        macro_rules! names {
            ($containers:expr) => {
                $containers.map(|one| (one.name.as_str(), one.image.as_deref())).collect()
            };
        }
        [
            names!(spec.init_containers.iter().flatten()),
            names!(spec.containers.iter()),
            names!(spec.ephemeral_containers.iter().flatten()),
        ]
    }
    named(new) != named(old)
}
