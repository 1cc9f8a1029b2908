//! What marks the revision of a workload's template, on the objects that are made from it. Source: the API reference, well-known labels
//! and annotations.

use crate::labels::Labels;

/// The label of a StatefulSet's and a DaemonSet's pods, and of a DaemonSet's ControllerRevisions.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// The annotation of a Deployment and of its ReplicaSets: how many revisions there were with it.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// What [`HASH_LABEL`] says; empty without it.
pub fn hash_of(labels: Option<&Labels>) -> &str {
    labels.and_then(|labels| labels.get(HASH_LABEL)).map_or("", String::as_str)
}
