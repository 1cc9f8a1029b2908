//! Where the content of a volume comes from, by name: what a pod's volume and a PersistentVolume
//! may say.

use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};

/// The sources that are set in a volume of a pod, in the order in which upstream looks at them. A
/// valid volume has one.
pub fn of_pod_volume(volume: &Volume) -> impl Iterator<Item = &'static str> {
    [
        ("emptyDir", volume.empty_dir.is_some()),
        ("hostPath", volume.host_path.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some()),
        ("secret", volume.secret.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("cephfs", volume.cephfs.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("downwardAPI", volume.downward_api.is_some()),
        ("fc", volume.fc.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("configMap", volume.config_map.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("storageos", volume.storageos.is_some()),
        ("projected", volume.projected.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("csi", volume.csi.is_some()),
        ("ephemeral", volume.ephemeral.is_some()),
        ("image", volume.image.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
}

/// The same of a PersistentVolume.
pub fn of_persistent_volume(spec: &PersistentVolumeSpec) -> impl Iterator<Item = &'static str> {
    [
        ("hostPath", spec.host_path.is_some()),
        ("gcePersistentDisk", spec.gce_persistent_disk.is_some()),
        ("awsElasticBlockStore", spec.aws_elastic_block_store.is_some()),
        ("glusterfs", spec.glusterfs.is_some()),
        ("flocker", spec.flocker.is_some()),
        ("nfs", spec.nfs.is_some()),
        ("rbd", spec.rbd.is_some()),
        ("quobyte", spec.quobyte.is_some()),
        ("cephfs", spec.cephfs.is_some()),
        ("iscsi", spec.iscsi.is_some()),
        ("cinder", spec.cinder.is_some()),
        ("fc", spec.fc.is_some()),
        ("flexVolume", spec.flex_volume.is_some()),
        ("azureFile", spec.azure_file.is_some()),
        ("vsphereVolume", spec.vsphere_volume.is_some()),
        ("photonPersistentDisk", spec.photon_persistent_disk.is_some()),
        ("portworxVolume", spec.portworx_volume.is_some()),
        ("azureDisk", spec.azure_disk.is_some()),
        ("scaleIO", spec.scale_io.is_some()),
        ("local", spec.local.is_some()),
        ("storageos", spec.storageos.is_some()),
        ("csi", spec.csi.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
}

/// Whether a node mounts volumes of this source. Others are stored, and a pod that uses one waits.
pub fn is_mounted(source: &str) -> bool {
    matches!(
        source,
        "configMap"
            | "downwardAPI"
            | "emptyDir"
            | "ephemeral"
            | "hostPath"
            | "image"
            | "local"
            | "nfs"
            | "persistentVolumeClaim"
            | "projected"
            | "secret"
    )
}
