//! PersistentVolume (core/v1).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldProblem;
use serde_json::json;

use super::{
    FILESYSTEM, STORAGE, access_mode_errors, modes_cell, size_error, size_of, unsupported,
    volume_mode_error,
};
use crate::kinds::defaults;
use crate::kinds::pod::validate::affinity;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, or_unset, wide};
use crate::validation::{Path, invalid_each, items, names, quantities, text};

/// Keeps a volume until no claim is bound to it.
const PROTECTION: &str = "kubernetes.io/pv-protection";

impl ApiKind for PersistentVolume {
    const NAMES: ResourceNames = ResourceNames {
        singular: "persistentvolume",
        short_names: &["pv"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Capacity", "string", "The size of the volume."),
        column("Access Modes", "string", "How the volume may be mounted."),
        column("Reclaim Policy", "string", "What becomes of the volume when its claim is gone."),
        column("Status", "string", "The phase of the volume."),
        column("Claim", "string", "The claim that it is bound to."),
        column("StorageClass", "string", "The class that it belongs to."),
        column("VolumeAttributesClass", "string", "The attributes class of the volume."),
        column("Reason", "string", "Why it is in this phase."),
        AGE,
        wide("VolumeMode", "string", "Whether the volume holds files or is a block device."),
    ];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        defaults::text(&mut spec.volume_mode, FILESYSTEM);
        defaults::text(&mut spec.persistent_volume_reclaim_policy, "Retain");
        defaults::drop_empty_text(&mut spec.storage_class_name);
        if let Some(path) = &mut spec.host_path {
            path.type_.get_or_insert_default();
        }
        if let Some(claim) = &mut spec.claim_ref {
            defaults::drop_empty_text(&mut claim.uid);
        }
        quantities::canonicalize_list(spec.capacity.as_mut());
        defaults::text(&mut self.status.get_or_insert_default().phase, "Pending");
    }

    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        self.status = Some(PersistentVolumeStatus {
            phase: Some("Pending".to_owned()),
            last_phase_transition_time: Some(ctx.now.to_time()),
            ..PersistentVolumeStatus::default()
        });
        let finalizers = self.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
            finalizers.push(PROTECTION.to_owned());
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let none = PersistentVolumeSpec::default();
        spec_errors(self.spec.as_ref().unwrap_or(&none), &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let (Some(new), Some(old)) = (&self.spec, &old.spec) else { return Vec::new() };
        let mut errors = Vec::new();
        if new.local != old.local || new.host_path != old.host_path {
            errors.push(FieldError::forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        if new.volume_mode != old.volume_mode {
            let mode = text(new.volume_mode.as_ref());
            errors.push(FieldError::invalid("spec.volumeMode", mode, "field is immutable"));
        }
        if old.node_affinity.is_some() && new.node_affinity != old.node_affinity {
            let detail = "field is immutable";
            errors.push(FieldError::forbidden("spec.nodeAffinity", detail));
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = PersistentVolumeSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let status = self.status.as_ref();
        let phase = match self.metadata.deletion_timestamp {
            Some(_) => "Terminating",
            None => text(status.and_then(|status| status.phase.as_ref())),
        };
        let claim = spec.claim_ref.as_ref().map(|claim| {
            format!("{}/{}", text(claim.namespace.as_ref()), text(claim.name.as_ref()))
        });
        vec![
            text(self.metadata.name.as_ref()).into(),
            size_of(spec.capacity.as_ref()).map_or("", |size| size.0.as_str()).into(),
            modes_cell(spec.access_modes.as_ref()),
            text(spec.persistent_volume_reclaim_policy.as_ref()).into(),
            phase.into(),
            claim.unwrap_or_default().into(),
            text(spec.storage_class_name.as_ref()).into(),
            or_unset(spec.volume_attributes_class_name.as_ref()),
            text(status.and_then(|status| status.reason.as_ref())).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            or_unset(spec.volume_mode.as_ref()),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for PersistentVolume {
    fn prepare_part(&mut self, old: &Self, ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        let phase = |volume: &Self| volume.status.as_ref().and_then(|status| status.phase.clone());
        if phase(self) != phase(old) {
            let status = self.status.get_or_insert_default();
            status.last_phase_transition_time = Some(ctx.now.to_time());
        }
    }
}

fn spec_errors(spec: &PersistentVolumeSpec, field: &Path) -> Vec<FieldError> {
    let mut errors =
        access_mode_errors(spec.access_modes.as_ref(), "", &field.child("accessModes"));
    let capacity = field.child("capacity");
    if spec.capacity.as_ref().is_none_or(BTreeMap::is_empty) {
        errors.push(FieldError::required(&capacity, ""));
    }
    let size = size_of(spec.capacity.as_ref());
    if size.is_none() || spec.capacity.as_ref().is_some_and(|list| list.len() > 1) {
        errors.push(FieldError {
            field: (&capacity).into(),
            problem: FieldProblem::NotSupported(shown_capacity(spec)),
            detail: format!("supported values: {STORAGE:?}"),
        });
    }
    if let Some(size) = size {
        let field = capacity.key(STORAGE);
        if let Some(amount) = quantities::read(size).ok().filter(|amount| amount.is_negative()) {
            let detail = "must be a valid resource quantity";
            errors.push(FieldError::invalid(&field, amount.units(), detail));
        }
        errors.extend(size_error(size, &field));
    }
    errors.extend(source_errors(spec, field));
    match text(spec.persistent_volume_reclaim_policy.as_ref()) {
        "" | "Delete" | "Retain" => {}
        "Recycle" => errors.push(unsupported(
            field.child("persistentVolumeReclaimPolicy"),
            "no node scrubs volumes; use Delete or Retain",
        )),
        other => errors.push(FieldError::not_supported(
            field.child("persistentVolumeReclaimPolicy"),
            other,
            &["Delete", "Recycle", "Retain"],
        )),
    }
    let class = text(spec.storage_class_name.as_ref());
    if !class.is_empty() {
        let messages = names::dns_subdomain(class);
        errors.extend(invalid_each(&field.child("storageClassName"), class, messages));
    }
    errors.extend(volume_mode_error(spec.volume_mode.as_ref(), field.child("volumeMode")));
    if !items(spec.mount_options.as_ref()).is_empty() {
        let why = "folders of the node are bound, not mounted from a device";
        errors.push(unsupported(field.child("mountOptions"), why));
    }
    if let Some(affinity) = &spec.node_affinity {
        let field = field.child("nodeAffinity").child("required");
        match &affinity.required {
            None => {
                errors.push(FieldError::required(field, "must specify required node constraints"))
            }
            Some(required) => errors.extend(affinity::node_selector(required, &field)),
        }
    }
    errors
}

/// The capacity as an error shows it.
fn shown_capacity(spec: &PersistentVolumeSpec) -> String {
    let amounts = spec.capacity.as_ref().filter(|list| !list.is_empty());
    let shown = amounts
        .map(|list| list.iter().map(|(name, size)| (name, &size.0)).collect::<BTreeMap<_, _>>());
    json!(shown).to_string()
}

/// The places of a volume's content by name, and whether they are set.
fn sources(spec: &PersistentVolumeSpec) -> Vec<&'static str> {
    [
        ("awsElasticBlockStore", spec.aws_elastic_block_store.is_some()),
        ("azureDisk", spec.azure_disk.is_some()),
        ("azureFile", spec.azure_file.is_some()),
        ("cephfs", spec.cephfs.is_some()),
        ("cinder", spec.cinder.is_some()),
        ("csi", spec.csi.is_some()),
        ("fc", spec.fc.is_some()),
        ("flexVolume", spec.flex_volume.is_some()),
        ("flocker", spec.flocker.is_some()),
        ("gcePersistentDisk", spec.gce_persistent_disk.is_some()),
        ("glusterfs", spec.glusterfs.is_some()),
        ("hostPath", spec.host_path.is_some()),
        ("iscsi", spec.iscsi.is_some()),
        ("local", spec.local.is_some()),
        ("nfs", spec.nfs.is_some()),
        ("photonPersistentDisk", spec.photon_persistent_disk.is_some()),
        ("portworxVolume", spec.portworx_volume.is_some()),
        ("quobyte", spec.quobyte.is_some()),
        ("rbd", spec.rbd.is_some()),
        ("scaleIO", spec.scale_io.is_some()),
        ("storageos", spec.storageos.is_some()),
        ("vsphereVolume", spec.vsphere_volume.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, set)| set.then_some(name))
    .collect()
}

fn source_errors(spec: &PersistentVolumeSpec, field: &Path) -> Vec<FieldError> {
    let sources = sources(spec);
    let mut errors = Vec::new();
    if sources.is_empty() {
        errors.push(FieldError::required(field, "must specify a volume type"));
    }
    for (position, name) in sources.into_iter().enumerate() {
        if position > 0 {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(field.child(name), detail));
        } else if !matches!(name, "hostPath" | "local") {
            let why = "no node can mount it; volumes may be of the types hostPath, local";
            errors.push(unsupported(field.child(name), why));
        }
    }
    if let Some(local) = &spec.local {
        errors.extend(path_errors(&local.path, &field.child("local").child("path")));
        if !text(local.fs_type.as_ref()).is_empty() {
            let why = "a folder of the node is bound, no device is mounted";
            errors.push(unsupported(field.child("local").child("fsType"), why));
        }
        if spec.node_affinity.is_none() {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(field.child("nodeAffinity"), detail));
        }
    }
    if let Some(source) = &spec.host_path {
        errors.extend(path_errors(&source.path, &field.child("hostPath").child("path")));
    }
    errors
}

fn path_errors(path: &str, field: &Path) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(field, path, "must be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, path, "must not contain '..'"));
    }
    errors
}
