//! What marks the revision of a workload's template, on the objects that are made from it. Source:
//! the API reference, well-known labels and annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::labels::Labels;
use crate::owners::controller_of;

/// The label of a StatefulSet's and a DaemonSet's pods, and of a DaemonSet's ControllerRevisions.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// The label of a Deployment's ReplicaSets and of their pods.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// The annotation of a Deployment and of its ReplicaSets: how many revisions there were with it.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// What [`HASH_LABEL`] says; empty without it.
pub fn hash_of(labels: Option<&Labels>) -> &str {
    labels.and_then(|labels| labels.get(HASH_LABEL)).map_or("", String::as_str)
}

/// By what it is known of which revision a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionMark<'a> {
    /// Its controller has one only: another template is another controller.
    Only,
    /// What [`HASH_LABEL`] says, if the pod has it.
    Label(Option<&'a str>),
    /// What its containers run: the template is edited in place, and nothing on the pods tells of
    /// which one they are.
    Containers,
}

/// By what it is known of this pod.
pub fn mark_of(pod: &ObjectMeta) -> RevisionMark<'_> {
    let label = |name: &str| pod.labels.as_ref().and_then(|labels| labels.get(name));
    match controller_of(pod).map(|owner| owner.kind.as_str()) {
        Some("StatefulSet" | "DaemonSet") => {
            RevisionMark::Label(label(HASH_LABEL).map(String::as_str))
        }
        Some("ReplicaSet") if label(TEMPLATE_HASH_LABEL).is_some() => RevisionMark::Only,
        Some("ReplicaSet" | "ReplicationController") | None => RevisionMark::Containers,
        Some(_) => RevisionMark::Only,
    }
}
