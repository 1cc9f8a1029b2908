//! Whether an update of a pod's object concerns the pod core: most updates are echoes of the status that it wrote itself.

use k8s_openapi::api::core::v1::Pod;

/// True when anything but the status, the version and the bookkeeping of writers differs.
pub(crate) fn concerns_core(old: &Pod, new: &Pod) -> bool {
    let (a, b) = (&old.metadata, &new.metadata);
    a.labels != b.labels
        || a.annotations != b.annotations
        || a.deletion_timestamp != b.deletion_timestamp
        || a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        || a.generation != b.generation
        || old.spec != new.spec
}

/// True when files of a downward API volume may differ.
pub(crate) fn concerns_downward_files(old: &Pod, new: &Pod) -> bool {
    old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
}
