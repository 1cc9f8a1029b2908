//! Volumes of storage systems: `csi`, `nfs`, `iscsi` and the others. Nodes mount `nfs` alone. All
//! are checked and completed as upstream does, so that a pod waits for its node and not for another
//! manifest.
//!
//! A pod's volume ([`pod_volume`]) and a PersistentVolume ([`persistent_volume`]) differ in how
//! they refer to Secrets. What they share is here.
//!
//! Source: upstream's `pkg/apis/core/validation` and `pkg/apis/core/v1/defaults.go`.

mod iscsi;
pub(crate) mod persistent_volume;
pub(crate) mod pod_volume;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, FCVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, NFSVolumeSource, PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource, QuobyteVolumeSource, VsphereVirtualDiskVolumeSource,
};

use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::numbers;

use crate::defaults;
use crate::validation::{Path, invalid_each, items, names, text};

const QUOBYTE_TENANT_MAX: usize = 64;

/// The sources that are the same in both.
struct SharedSources<'v> {
    gce_disk: Option<&'v GCEPersistentDiskVolumeSource>,
    aws_disk: Option<&'v AWSElasticBlockStoreVolumeSource>,
    azure_disk: Option<&'v AzureDiskVolumeSource>,
    nfs: Option<&'v NFSVolumeSource>,
    flocker: Option<&'v FlockerVolumeSource>,
    quobyte: Option<&'v QuobyteVolumeSource>,
    fibre_channel: Option<&'v FCVolumeSource>,
    vsphere: Option<&'v VsphereVirtualDiskVolumeSource>,
    photon: Option<&'v PhotonPersistentDiskVolumeSource>,
    portworx: Option<&'v PortworxVolumeSource>,
}

impl SharedSources<'_> {
    /// What is wrong with the source of this name; none if it is not one of these.
    fn errors(&self, source: &str, field: &Path) -> Option<Vec<FieldError>> {
        let at = field.child(source);
        match source {
            // as upstream calls it there
            "gcePersistentDisk" => Some(gce_disk(self.gce_disk?, &field.child("persistentDisk"))),
            "awsElasticBlockStore" => Some(aws_disk(self.aws_disk?, &at)),
            "azureDisk" => Some(azure_disk(self.azure_disk?, &at)),
            "nfs" => Some(nfs(self.nfs?, &at)),
            "flocker" => Some(flocker(self.flocker?, &at)),
            "quobyte" => Some(quobyte(self.quobyte?, &at)),
            "fc" => Some(fibre_channel(self.fibre_channel?, &at)),
            "vsphereVolume" => Some(required(&at, &[("volumePath", &self.vsphere?.volume_path)])),
            "photonPersistentDisk" => Some(required(&at, &[("pdID", &self.photon?.pd_id)])),
            "portworxVolume" => Some(required(&at, &[("volumeID", &self.portworx?.volume_id)])),
            _ => None,
        }
    }
}

/// Texts that must be there, by the names of their fields.
fn required(field: &Path, texts: &[(&str, &str)]) -> Vec<FieldError> {
    let missing = texts.iter().filter(|(_, text)| text.is_empty());
    missing.map(|(name, _)| FieldError::required(field.child(name), "")).collect()
}

fn nfs(source: &NFSVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = required(field, &[("server", &source.server), ("path", &source.path)]);
    if !source.path.starts_with('/') {
        let detail = "must be an absolute path";
        errors.push(FieldError::invalid(field.child("path"), &source.path, detail));
    }
    errors
}

fn gce_disk(source: &GCEPersistentDiskVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = required(field, &[("pdName", &source.pd_name)]);
    errors.extend(partition(source.partition, &field.child("partition")));
    errors
}

fn aws_disk(source: &AWSElasticBlockStoreVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = required(field, &[("volumeID", &source.volume_id)]);
    errors.extend(partition(source.partition, &field.child("partition")));
    errors
}

/// Zero is the whole disk. Upstream's words name the partitions alone.
fn partition(partition: Option<i32>, field: &Path) -> Option<FieldError> {
    let number = partition.filter(|number| !(0..=255).contains(number))?;
    Some(FieldError::invalid(field, number, "must be between 1 and 255, inclusive"))
}

/// A logical unit of a SCSI target.
fn logical_unit(number: i32, field: &Path) -> Option<FieldError> {
    numbers::in_range(number, 0, 255, field)
}

fn azure_disk(source: &AzureDiskVolumeSource, field: &Path) -> Vec<FieldError> {
    const CACHING_MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    const MANAGED_URI: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/\
                               microsoft.compute/disks/{disk-id}";
    const BLOB_URI: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let uri = &source.disk_uri;
    let mut errors = required(field, &[("diskName", &source.disk_name), ("diskURI", uri)]);
    for (name, value, known) in
        [("cachingMode", &source.caching_mode, CACHING_MODES), ("kind", &source.kind, KINDS)]
    {
        if let Some(value) = value.as_ref().filter(|value| !known.contains(&value.as_str())) {
            errors.push(FieldError::not_supported(field.child(name), value, &known));
        }
    }
    let (prefix, shown) = match source.kind.as_deref() {
        None => return errors,
        Some("Managed") => ("/subscriptions/", MANAGED_URI),
        Some(_) => ("https://", BLOB_URI),
    };
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(field.child("diskURI"), uri, &[shown]));
    }
    errors
}

fn set_azure_disk_defaults(source: &mut AzureDiskVolumeSource) {
    defaults::text(&mut source.caching_mode, "ReadWrite");
    defaults::text(&mut source.kind, "Shared");
    defaults::text(&mut source.fs_type, "ext4");
    source.read_only.get_or_insert(false);
}

fn fibre_channel(source: &FCVolumeSource, field: &Path) -> Vec<FieldError> {
    let (targets, ids) = (items(source.target_wwns.as_ref()), items(source.wwids.as_ref()));
    let mut errors = Vec::new();
    if targets.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(field.child("targetWWNs"), detail));
    }
    if !targets.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(field.child("targetWWNs"), targets, detail));
    }
    if !targets.is_empty() {
        let field = field.child("lun");
        match source.lun {
            None => {
                let detail = "lun is required if targetWWNs is specified";
                errors.push(FieldError::required(field, detail));
            }
            Some(lun) => errors.extend(logical_unit(lun, &field)),
        }
    }
    errors
}

fn flocker(source: &FlockerVolumeSource, field: &Path) -> Vec<FieldError> {
    let (name, uuid) = (text(source.dataset_name.as_ref()), text(source.dataset_uuid.as_ref()));
    let mut errors = Vec::new();
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => {
            let detail = "one of datasetName and datasetUUID is required";
            errors.push(FieldError::required(field, detail));
        }
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(field, "resource", detail));
        }
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        let detail = "must not contain '/'";
        errors.push(FieldError::invalid(field.child("datasetName"), name, detail));
    }
    errors
}

fn quobyte(source: &QuobyteVolumeSource, field: &Path) -> Vec<FieldError> {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = &source.registry;
    let mut errors = Vec::new();
    if registry.is_empty() {
        errors.push(FieldError::required(field.child("registry"), PAIRS));
    } else if text(source.tenant.as_ref()).len() > QUOBYTE_TENANT_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(field.child("tenant"), detail));
    } else {
        let wrong = registry.split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(wrong.map(|_| FieldError::invalid(field.child("registry"), registry, PAIRS)));
    }
    errors.extend(required(field, &[("volume", &source.volume)]));
    errors
}

/// `host:port` or `[host]:port`, either of which may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_is_one = match bracketed {
        Some(inner) => !inner.contains(['[', ']']),
        None => !host.contains([':', '[', ']']),
    };
    host_is_one && !port.contains(['[', ']'])
}

/// Ceph's monitors.
fn monitors(monitors: &[String], field: &Path) -> Option<FieldError> {
    monitors.is_empty().then(|| FieldError::required(field.child("monitors"), ""))
}

/// What a flexVolume asks for.
fn flex_volume(
    driver: &str,
    options: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = required(field, &[("driver", driver)]);
    for key in options.into_iter().flat_map(BTreeMap::keys) {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(field.child("options").key(key), key, detail));
        }
    }
    errors
}

/// The names of a StorageOS volume, which a name must be there of.
fn storageos(name: Option<&String>, namespace: Option<&String>, field: &Path) -> Vec<FieldError> {
    let mut errors = required(field, &[("volumeName", text(name))]);
    for (field, name) in
        [(field.child("volumeName"), text(name)), (field.child("volumeNamespace"), text(namespace))]
    {
        if !name.is_empty() {
            errors.extend(invalid_each(&field, name, names::dns_label(name)));
        }
    }
    errors
}

/// What upstream says of sources that it has given up.
fn deprecation(source: &str) -> Option<&'static str> {
    Some(match source {
        "gitRepo" => "deprecated in v1.11, and disabled by default in v1.33+",
        "photonPersistentDisk" => "deprecated in v1.11, non-functional in v1.16+",
        "scaleIO" => "deprecated in v1.16, non-functional in v1.22+",
        "flocker" | "storageos" | "quobyte" => "deprecated in v1.22, non-functional in v1.25+",
        "glusterfs" => "deprecated in v1.25, non-functional in v1.26+",
        "cephfs" | "rbd" => "deprecated in v1.28, non-functional in v1.31+",
        _ => return None,
    })
}

/// What a client should know of a volume that no node mounts.
fn warning(source: &str, field: &Path) -> Option<String> {
    if rekindle_types::volume_sources::is_mounted(source) {
        return None;
    }
    let why = deprecation(source).map_or_else(
        || "accepted, but no node of this version of Rekindle mounts it: pods wait".to_owned(),
        str::to_owned,
    );
    // upstream's warnings name this field so
    let shown = if source == "storageos" { "storageOS" } else { source };
    Some(format!("{}: {why}", field.child(shown)))
}

#[cfg(test)]
mod tests;
