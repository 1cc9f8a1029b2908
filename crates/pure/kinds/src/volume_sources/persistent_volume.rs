//! PersistentVolumes of storage systems.

use k8s_openapi::api::core::v1::{
    AzureFilePersistentVolumeSource, CSIPersistentVolumeSource, GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource, PersistentVolumeSpec, SecretReference,
};
use rekindle_types::validation::field_error::FieldError;

use super::iscsi::{self, IscsiHolder, IscsiTarget};
use super::{
    SharedSources, flex_volume, monitors, required, set_azure_disk_defaults, storageos, warning,
};
use crate::defaults;
use crate::validation::driver_name::name_errors;
use crate::validation::{Path, invalid_each, names, text};

/// Completes what is set, as upstream.
pub(crate) fn set_defaults(spec: &mut PersistentVolumeSpec) {
    if let Some(source) = &mut spec.iscsi {
        iscsi::set_defaults(&mut source.iscsi_interface);
    }
    if let Some(source) = &mut spec.rbd {
        defaults::text(&mut source.pool, "rbd");
        defaults::text(&mut source.user, "admin");
        defaults::text(&mut source.keyring, "/etc/ceph/keyring");
    }
    if let Some(source) = &mut spec.azure_disk {
        set_azure_disk_defaults(source);
    }
    if let Some(source) = &mut spec.scale_io {
        defaults::text(&mut source.storage_mode, "ThinProvisioned");
        defaults::text(&mut source.fs_type, "xfs");
    }
}

/// What is wrong with this source of the volume of this name. None of a source that is no storage
/// system's.
pub(crate) fn errors(
    source: &str,
    (name, spec): (&str, &PersistentVolumeSpec),
    field: &Path,
) -> Vec<FieldError> {
    let at = field.child(source);
    let errors = match source {
        "glusterfs" => spec.glusterfs.as_ref().map(|source| glusterfs(source, &at)),
        "rbd" => spec.rbd.as_ref().map(|source| {
            let mut errors: Vec<_> = monitors(&source.monitors, &at).into_iter().collect();
            errors.extend(required(&at, &[("image", &source.image)]));
            errors
        }),
        "cephfs" => {
            spec.cephfs.as_ref().map(|source| monitors(&source.monitors, &at).into_iter().collect())
        }
        "iscsi" => spec.iscsi.as_ref().map(|source| iscsi(source, name, &at)),
        "cinder" => spec.cinder.as_ref().map(|source| {
            let mut errors = required(&at, &[("volumeID", &source.volume_id)]);
            errors.extend(source.secret_ref.iter().flat_map(|secret| named_secret(secret, &at)));
            errors
        }),
        "flexVolume" => spec
            .flex_volume
            .as_ref()
            .map(|source| flex_volume(&source.driver, source.options.as_ref(), &at)),
        "azureFile" => spec.azure_file.as_ref().map(|source| azure_file(source, &at)),
        "scaleIO" => spec.scale_io.as_ref().map(|source| {
            let name = text(source.volume_name.as_ref());
            let texts =
                [("gateway", &*source.gateway), ("system", &source.system), ("volumeName", name)];
            required(&at, &texts)
        }),
        "storageos" => spec.storageos.as_ref().map(|source| {
            let names = (source.volume_name.as_ref(), source.volume_namespace.as_ref());
            let mut errors = storageos(names.0, names.1, &at);
            if let Some(secret) = &source.secret_ref {
                let texts = [
                    ("name", text(secret.name.as_ref())),
                    ("namespace", text(secret.namespace.as_ref())),
                ];
                errors.extend(required(&at.child("secretRef"), &texts));
            }
            errors
        }),
        "csi" => spec.csi.as_ref().map(|source| csi(source, &at)),
        _ => shared(spec).errors(source, field),
    };
    errors.unwrap_or_default()
}

fn shared(spec: &PersistentVolumeSpec) -> SharedSources<'_> {
    SharedSources {
        gce_disk: spec.gce_persistent_disk.as_ref(),
        aws_disk: spec.aws_elastic_block_store.as_ref(),
        azure_disk: spec.azure_disk.as_ref(),
        nfs: spec.nfs.as_ref(),
        flocker: spec.flocker.as_ref(),
        quobyte: spec.quobyte.as_ref(),
        fibre_channel: spec.fc.as_ref(),
        vsphere: spec.vsphere_volume.as_ref(),
        photon: spec.photon_persistent_disk.as_ref(),
        portworx: spec.portworx_volume.as_ref(),
    }
}

/// What a client should know of a volume that no node mounts.
pub(crate) fn warnings(spec: &PersistentVolumeSpec, field: &Path) -> Option<String> {
    let source = rekindle_types::volume_sources::of_persistent_volume(spec).next()?;
    warning(source, field)
}

fn glusterfs(source: &GlusterfsPersistentVolumeSource, field: &Path) -> Vec<FieldError> {
    let texts = [("endpoints", &*source.endpoints), ("path", &source.path)];
    let mut errors = required(field, &texts);
    if let Some(namespace) = &source.endpoints_namespace {
        let field = field.child("endpointsNamespace");
        if namespace.is_empty() {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(field, namespace, detail));
        } else {
            errors.extend(invalid_each(&field, namespace, names::dns_label(namespace)));
        }
    }
    errors
}

fn iscsi(source: &ISCSIPersistentVolumeSource, volume: &str, field: &Path) -> Vec<FieldError> {
    let target = IscsiTarget {
        portal: &source.target_portal,
        iqn: &source.iqn,
        lun: source.lun,
        initiator: source.initiator_name.as_ref(),
        authenticates: source.chap_auth_discovery == Some(true)
            || source.chap_auth_session == Some(true),
        has_secret: source.secret_ref.is_some(),
    };
    let mut errors = target.errors(field, IscsiHolder::PersistentVolume);
    if let Some(why) = target.session_name_error(volume) {
        errors.push(FieldError::invalid(field.child("targetportal"), target.portal, why));
    }
    if let Some(secret) = &source.secret_ref {
        let name = text(secret.name.as_ref());
        errors.extend(required(&field.child("secretRef"), &[("name", name)]));
    }
    errors
}

fn azure_file(source: &AzureFilePersistentVolumeSource, field: &Path) -> Vec<FieldError> {
    let texts = [("secretName", &*source.secret_name), ("shareName", &source.share_name)];
    let mut errors = required(field, &texts);
    if source.secret_namespace.as_ref().is_some_and(String::is_empty) {
        errors.push(FieldError::required(field.child("secretNamespace"), ""));
    }
    errors
}

fn csi(source: &CSIPersistentVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = name_errors(&source.driver, &field.child("driver"));
    errors.extend(required(field, &[("volumeHandle", &source.volume_handle)]));
    for (name, secret) in [
        ("controllerPublishSecretRef", &source.controller_publish_secret_ref),
        ("controllerExpandSecretRef", &source.controller_expand_secret_ref),
        ("nodePublishSecretRef", &source.node_publish_secret_ref),
        ("nodeExpandSecretRef", &source.node_expand_secret_ref),
    ] {
        let field = field.child(name);
        errors.extend(secret.iter().flat_map(|secret| valid_secret(secret, &field)));
    }
    errors
}

/// A Secret that is referred to needs a name and a namespace.
fn named_secret(secret: &SecretReference, field: &Path) -> Vec<FieldError> {
    let (name, namespace) = (text(secret.name.as_ref()), text(secret.namespace.as_ref()));
    required(&field.child("secretRef"), &[("name", name), ("namespace", namespace)])
}

/// The same, and both must be names.
fn valid_secret(secret: &SecretReference, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, namespace) = (text(secret.name.as_ref()), text(secret.namespace.as_ref()));
    for (field, text, messages) in [
        (field.child("name"), name, names::dns_subdomain(name)),
        (field.child("namespace"), namespace, names::dns_label(namespace)),
    ] {
        match text.is_empty() {
            true => errors.push(FieldError::required(field, "")),
            false => errors.extend(invalid_each(&field, text, messages)),
        }
    }
    errors
}
