//! Volumes of storage systems in a pod.

use k8s_openapi::api::core::v1::{
    CSIVolumeSource, GitRepoVolumeSource, ISCSIVolumeSource, LocalObjectReference, Volume,
};
use rekindle_types::validation::field_error::FieldError;

use super::iscsi::{self, IscsiHolder, IscsiTarget};
use super::{
    SharedSources, flex_volume, monitors, required, set_azure_disk_defaults, storageos, warning,
};
use crate::defaults;
use crate::validation::driver_name::name_errors;
use crate::validation::paths::descending_path;
use crate::validation::{Path, invalid_each, names, text};

/// Completes what is set, as upstream.
pub(crate) fn set_defaults(volume: &mut Volume) {
    if let Some(source) = &mut volume.iscsi {
        iscsi::set_defaults(&mut source.iscsi_interface);
    }
    if let Some(source) = &mut volume.rbd {
        defaults::text(&mut source.pool, "rbd");
        defaults::text(&mut source.user, "admin");
        defaults::text(&mut source.keyring, "/etc/ceph/keyring");
    }
    if let Some(source) = &mut volume.azure_disk {
        set_azure_disk_defaults(source);
    }
    if let Some(source) = &mut volume.scale_io {
        defaults::text(&mut source.storage_mode, "ThinProvisioned");
        defaults::text(&mut source.fs_type, "xfs");
    }
}

/// What is wrong with this source of a volume. None of a source that is no storage system's.
pub(crate) fn errors(source: &str, volume: &Volume, field: &Path) -> Vec<FieldError> {
    let at = field.child(source);
    let errors = match source {
        "gitRepo" => volume.git_repo.as_ref().map(|source| git_repo(source, &at)),
        "iscsi" => volume.iscsi.as_ref().map(|source| iscsi(source, (&volume.name, field), &at)),
        "glusterfs" => volume.glusterfs.as_ref().map(|source| {
            required(&at, &[("endpoints", &source.endpoints), ("path", &source.path)])
        }),
        "rbd" => volume.rbd.as_ref().map(|source| {
            let mut errors: Vec<_> = monitors(&source.monitors, &at).into_iter().collect();
            errors.extend(required(&at, &[("image", &source.image)]));
            errors
        }),
        "cinder" => volume.cinder.as_ref().map(|source| {
            let mut errors = required(&at, &[("volumeID", &source.volume_id)]);
            errors.extend(secret(source.secret_ref.as_ref(), &at));
            errors
        }),
        "cephfs" => volume
            .cephfs
            .as_ref()
            .map(|source| monitors(&source.monitors, &at).into_iter().collect()),
        "flexVolume" => volume
            .flex_volume
            .as_ref()
            .map(|source| flex_volume(&source.driver, source.options.as_ref(), &at)),
        "azureFile" => volume.azure_file.as_ref().map(|source| {
            required(&at, &[("secretName", &source.secret_name), ("shareName", &source.share_name)])
        }),
        "storageos" => volume.storageos.as_ref().map(|source| {
            let names = (source.volume_name.as_ref(), source.volume_namespace.as_ref());
            let mut errors = storageos(names.0, names.1, &at);
            errors.extend(secret(source.secret_ref.as_ref(), &at));
            errors
        }),
        "scaleIO" => volume.scale_io.as_ref().map(|source| {
            let name = text(source.volume_name.as_ref());
            let texts =
                [("gateway", &*source.gateway), ("system", &source.system), ("volumeName", name)];
            required(&at, &texts)
        }),
        "csi" => volume.csi.as_ref().map(|source| csi(source, &at)),
        _ => shared(volume).errors(source, field),
    };
    errors.unwrap_or_default()
}

fn shared(volume: &Volume) -> SharedSources<'_> {
    SharedSources {
        gce_disk: volume.gce_persistent_disk.as_ref(),
        aws_disk: volume.aws_elastic_block_store.as_ref(),
        azure_disk: volume.azure_disk.as_ref(),
        nfs: volume.nfs.as_ref(),
        flocker: volume.flocker.as_ref(),
        quobyte: volume.quobyte.as_ref(),
        fibre_channel: volume.fc.as_ref(),
        vsphere: volume.vsphere_volume.as_ref(),
        photon: volume.photon_persistent_disk.as_ref(),
        portworx: volume.portworx_volume.as_ref(),
    }
}

/// What a client should know of a volume that no node mounts.
pub(crate) fn warnings(volume: &Volume, field: &Path) -> Option<String> {
    let source = rekindle_types::volume_sources::of_pod_volume(volume).next()?;
    warning(source, field)
}

fn git_repo(source: &GitRepoVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = required(field, &[("repository", &source.repository)]);
    errors.extend(descending_path(text(source.directory.as_ref()), &field.child("directory")));
    errors
}

fn iscsi(
    source: &ISCSIVolumeSource,
    (volume, field_of_volume): (&str, &Path),
    field: &Path,
) -> Vec<FieldError> {
    let target = IscsiTarget {
        portal: &source.target_portal,
        iqn: &source.iqn,
        lun: source.lun,
        initiator: source.initiator_name.as_ref(),
        authenticates: source.chap_auth_discovery == Some(true)
            || source.chap_auth_session == Some(true),
        has_secret: source.secret_ref.is_some(),
    };
    let mut errors = target.errors(field, IscsiHolder::Pod);
    if let Some(why) = target.session_name_error(volume) {
        errors.push(FieldError::invalid(field_of_volume.child("name"), volume, why));
    }
    errors
}

fn csi(source: &CSIVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = name_errors(&source.driver, &field.child("driver"));
    if let Some(secret) = &source.node_publish_secret_ref {
        if secret.name.is_empty() {
            let field = field.child("nodePublishSecretRef").child("name");
            errors.push(FieldError::required(field, ""));
        } else {
            let messages = names::dns_subdomain(&secret.name);
            errors.extend(invalid_each(&field.child("name"), &secret.name, messages));
        }
    }
    errors
}

/// A Secret that is referred to needs a name.
fn secret(secret: Option<&LocalObjectReference>, field: &Path) -> Option<FieldError> {
    let field = field.child("secretRef").child("name");
    secret?.name.is_empty().then(|| FieldError::required(field, ""))
}
