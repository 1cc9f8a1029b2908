//! PersistentVolume (core/v1).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;
use rekindle_types::{Tick, volume_sources};
use serde_json::json;

use super::{
    FILESYSTEM, STORAGE, access_mode_errors, modes_cell, size_error, size_of, volume_mode_error,
    volume_mode_warning,
};
use crate::defaults;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, or_unset, wide};
use crate::validation::{Path, invalid_each, names, quantities, text};
use crate::validation::{node_selector::node_selector, paths};
use crate::volume_sources::persistent_volume;

/// Keeps a volume until no claim is bound to it.
const PROTECTION: &str = "kubernetes.io/pv-protection";

/// A policy of old: a released volume is emptied, and used again.
const RECYCLE: &str = "Recycle";

impl ApiKind for PersistentVolume {
    const NAMES: ResourceNames = ResourceNames {
        singular: "persistentvolume",
        short_names: &["pv"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
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
        defaults::absent_text(&mut spec.volume_mode, FILESYSTEM);
        defaults::text(&mut spec.persistent_volume_reclaim_policy, "Retain");
        defaults::drop_empty_text(&mut spec.storage_class_name);
        if let Some(path) = &mut spec.host_path {
            path.type_.get_or_insert_default();
        }
        persistent_volume::set_defaults(spec);
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
        let spec = self.spec.as_ref().unwrap_or(&none);
        spec_errors((text(self.metadata.name.as_ref()), spec), &Path::new("spec"))
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let source = persistent_volume::warnings(spec, &Path::new("spec"));
        let recycled = spec.persistent_volume_reclaim_policy.as_deref() == Some(RECYCLE);
        let recycled = recycled.then(|| {
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. \
             Instead, the recommended approach is to use dynamic provisioning."
                .to_owned()
        });
        let mode = Path::new("spec").child("volumeMode");
        let block = volume_mode_warning(spec.volume_mode.as_ref(), &mode);
        source.into_iter().chain(recycled).chain(block).collect()
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let (Some(new), Some(old)) = (&self.spec, &old.spec) else { return Vec::new() };
        // upstream looks at the new volume twice: its causes are there twice
        let mut errors = self.validate();
        if source_to_compare(new, old) != source_alone(old.clone()) {
            errors.push(FieldError::forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        if new.volume_mode != old.volume_mode {
            let mode = text(new.volume_mode.as_ref());
            errors.push(FieldError::invalid("volumeMode", mode, "field is immutable"));
        }
        if old.node_affinity.is_some() && new.node_affinity != old.node_affinity {
            // upstream names the field without its parent
            let shown = json!({"nodeAffinity": new.node_affinity});
            errors.push(FieldError {
                field: "nodeAffinity".into(),
                problem: FieldProblem::Invalid(shown["nodeAffinity"].to_string()),
                detail: "field is immutable, except for updating from beta label to GA".to_owned(),
            });
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
        let is_same = phase(self) == phase(old);
        let before =
            old.status.as_ref().and_then(|status| status.last_phase_transition_time.clone());
        let status = self.status.get_or_insert_default();
        match is_same {
            true if status.last_phase_transition_time.is_none() => {
                status.last_phase_transition_time = before;
            }
            true => {}
            false => status.last_phase_transition_time = Some(ctx.now.to_time()),
        }
    }
}

fn spec_errors((name, spec): (&str, &PersistentVolumeSpec), field: &Path) -> Vec<FieldError> {
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
    errors.extend(source_errors((name, spec), field));
    match text(spec.persistent_volume_reclaim_policy.as_ref()) {
        "" | "Delete" | "Retain" => {}
        RECYCLE => {
            let path = spec.host_path.as_ref().map(|source| source.path.as_str());
            if path.is_some_and(|path| path.split('/').all(|part| part.is_empty() || part == ".")) {
                let detail = "may not be 'recycle' for a hostPath mount of '/'";
                let field = field.child("persistentVolumeReclaimPolicy");
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        other => errors.push(FieldError::not_supported(
            field.child("persistentVolumeReclaimPolicy"),
            other,
            &["Delete", RECYCLE, "Retain"],
        )),
    }
    let class = text(spec.storage_class_name.as_ref());
    if !class.is_empty() {
        let messages = names::dns_subdomain(class);
        errors.extend(invalid_each(&field.child("storageClassName"), class, messages));
    }
    errors.extend(volume_mode_error(spec.volume_mode.as_ref(), field.child("volumeMode")));
    if let Some(affinity) = &spec.node_affinity {
        let field = field.child("nodeAffinity").child("required");
        match &affinity.required {
            None => {
                errors.push(FieldError::required(field, "must specify required node constraints"))
            }
            Some(required) => errors.extend(node_selector(required, &field)),
        }
    }
    errors
}

/// What a volume says of its source, and nothing else.
fn source_alone(spec: PersistentVolumeSpec) -> PersistentVolumeSpec {
    PersistentVolumeSpec {
        access_modes: None,
        capacity: None,
        claim_ref: None,
        mount_options: None,
        node_affinity: None,
        persistent_volume_reclaim_policy: None,
        storage_class_name: None,
        volume_attributes_class_name: None,
        volume_mode: None,
        ..spec
    }
}

/// The source as it may not change. A CSI volume may get a Secret for its expansion later.
fn source_to_compare(
    new: &PersistentVolumeSpec,
    old: &PersistentVolumeSpec,
) -> PersistentVolumeSpec {
    let mut source = source_alone(new.clone());
    if let (Some(new), Some(old)) = (&mut source.csi, &old.csi)
        && old.controller_expand_secret_ref.is_none()
    {
        new.controller_expand_secret_ref = None;
    }
    source
}

/// The capacity as an error shows it.
fn shown_capacity(spec: &PersistentVolumeSpec) -> String {
    let amounts = spec.capacity.as_ref().filter(|list| !list.is_empty());
    let shown = amounts
        .map(|list| list.iter().map(|(name, size)| (name, &size.0)).collect::<BTreeMap<_, _>>());
    json!(shown).to_string()
}

fn source_errors((volume, spec): (&str, &PersistentVolumeSpec), field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if volume_sources::of_persistent_volume(spec).next().is_none() {
        errors.push(FieldError::required(field, "must specify a volume type"));
    }
    for (position, name) in volume_sources::of_persistent_volume(spec).enumerate() {
        // upstream counts no flexVolume, and has another name for one of the sources
        if position > 0 && name != "flexVolume" {
            let name = if name == "cephfs" { "cephFS" } else { name };
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(field.child(name), detail));
        } else {
            errors.extend(persistent_volume::errors(name, (volume, spec), field));
        }
    }
    if let Some(local) = &spec.local {
        errors.extend(path_errors(&local.path, &field.child("local").child("path")));
        if spec.node_affinity.is_none() {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(field.child("nodeAffinity"), detail));
        }
    }
    if let Some(source) = &spec.host_path {
        errors.extend(paths::host_path(source, &field.child("hostPath")));
    }
    errors
}

fn path_errors(path: &str, field: &Path) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, path, "must not contain '..'"));
    }
    errors
}
