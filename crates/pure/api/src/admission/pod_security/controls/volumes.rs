//! Volumes: none of the node's folders; at `restricted` none that is tied to a machine or a storage
//! service by the pod itself.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;

use super::wording::{plural, quoted};
use super::{ControlViolation, PodUnderReview, wording};

/// Forbids folders of the node.
pub(super) fn host_paths(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let bad = pod.volumes().iter().filter(|volume| volume.host_path.is_some());
    let names: Vec<&str> = bad.map(|volume| volume.name.as_str()).collect();
    (!names.is_empty())
        .then(|| ControlViolation { reason: "hostPath volumes", detail: wording::volumes(&names) })
}

/// Forbids all types but those that hold nothing of the node.
pub(super) fn restricted(pod: &PodUnderReview<'_>) -> Option<ControlViolation> {
    let bad = pod.volumes().iter().filter(|volume| !is_allowed(volume));
    let (names, types): (Vec<&str>, BTreeSet<&str>) =
        bad.map(|volume| (volume.name.as_str(), restricted_type(volume))).unzip();
    (!names.is_empty()).then(|| ControlViolation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {}",
            wording::volumes(&names),
            plural(names.len(), "uses", "use"),
            plural(types.len(), "restricted volume type", "restricted volume types"),
            quoted(types)
        ),
    })
}

fn is_allowed(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.csi.is_some()
        || volume.downward_api.is_some()
        || volume.empty_dir.is_some()
        || volume.ephemeral.is_some()
        || volume.image.is_some()
        || volume.persistent_volume_claim.is_some()
        || volume.projected.is_some()
        || volume.secret.is_some()
}

/// The type of a volume that is not allowed.
fn restricted_type(volume: &Volume) -> &'static str {
    let types = [
        ("hostPath", volume.host_path.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("cephfs", volume.cephfs.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("fc", volume.fc.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("storageos", volume.storageos.is_some()),
    ];
    types.into_iter().find(|(_, is_set)| *is_set).map_or("unknown", |(name, _)| name)
}
