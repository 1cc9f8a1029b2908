//! What beside the pod core an update of a pod's object concerns.

use k8s_openapi::api::core::v1::Pod;

/// True when the pod may refer to other objects than before: all else that refers to some cannot be
/// changed.
pub(crate) fn concerns_references(old: &Pod, new: &Pod) -> bool {
    let ephemeral = |pod: &Pod| {
        let list = pod.spec.as_ref().and_then(|spec| spec.ephemeral_containers.as_ref());
        list.map_or(0, Vec::len)
    };
    ephemeral(old) != ephemeral(new)
}

/// True when files of a downward API volume may differ.
pub(crate) fn concerns_downward_files(old: &Pod, new: &Pod) -> bool {
    old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
}
