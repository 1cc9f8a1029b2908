//! PersistentVolumeClaim (core/v1).

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Quantity, Tick};

use super::{
    FILESYSTEM, STORAGE, access_mode_errors, data_source, fractional_sizes, modes_cell,
    not_done_here, size_error, size_of, volume_mode_error, volume_mode_warning,
};
use crate::defaults;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, or_unset, wide};
use crate::validation::quantities::ResourceList;
use crate::validation::{Path, invalid_each, names, quantities, selector, text};

/// Keeps a claim until no pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

impl ApiKind for PersistentVolumeClaim {
    const NAMES: ResourceNames = ResourceNames {
        singular: "persistentvolumeclaim",
        short_names: &["pvc"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Status", "string", "The phase of the claim."),
        column("Volume", "string", "The volume that the claim is bound to."),
        column("Capacity", "string", "The size of the volume."),
        column("Access Modes", "string", "How the volume may be mounted."),
        column("StorageClass", "string", "The class that the claim asks for."),
        column("VolumeAttributesClass", "string", "The attributes class of the volume."),
        AGE,
        wide("VolumeMode", "string", "Whether the volume holds files or is a block device."),
    ];

    fn set_defaults(&mut self) {
        set_spec_defaults(self.spec.get_or_insert_default());
        defaults::text(&mut self.status.get_or_insert_default().phase, "Pending");
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        data_source::settle(self.spec.get_or_insert_default());
        self.status = Some(PersistentVolumeClaimStatus {
            phase: Some("Pending".to_owned()),
            ..PersistentVolumeClaimStatus::default()
        });
        let finalizers = self.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
            finalizers.push(PROTECTION.to_owned());
        }
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        data_source::settle(self.spec.get_or_insert_default());
        self.status.clone_from(&old.status);
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let field = Path::new("spec");
        let source = data_source::is_given(spec).then(|| {
            let why = "only a provisioner of your own fills a volume";
            not_done_here(&field.child("dataSourceRef"), why)
        });
        let class = text(spec.volume_attributes_class_name.as_ref());
        let attributes = (!class.is_empty()).then(|| {
            let why = "only a provisioner of your own knows attributes of volumes";
            not_done_here(&field.child("volumeAttributesClassName"), why)
        });
        let block = volume_mode_warning(spec.volume_mode.as_ref(), &field.child("volumeMode"));
        let mut warnings = fractional_sizes(spec, &field);
        warnings.extend(source.into_iter().chain(attributes).chain(block));
        warnings
    }

    fn validate(&self) -> Vec<FieldError> {
        let none = PersistentVolumeClaimSpec::default();
        spec_errors(self.spec.as_ref().unwrap_or(&none), &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let before = old.spec.clone().unwrap_or_default();
        let mut after = self.spec.clone().unwrap_or_default();
        if before.volume_name.is_none() {
            after.volume_name = None; // the binder's, or the user's wish
        }
        if is_bound(old) {
            keep_size(&mut after, &before);
            after.volume_attributes_class_name.clone_from(&before.volume_attributes_class_name);
        }
        if before != after {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            errors.push(FieldError::forbidden("spec", why));
        }
        // a claim that could not grow may ask for less again, if that is more than it has
        let had = amount(old.status.as_ref().and_then(|status| status.capacity.as_ref()));
        let asked = requested(self);
        if asked < requested(old) && asked <= had {
            let why = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let none = PersistentVolumeClaimSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&none);
        let status = self.status.as_ref();
        let is_bound = spec.volume_name.is_some();
        let phase = match self.metadata.deletion_timestamp {
            Some(_) => "Terminating",
            None => text(status.and_then(|status| status.phase.as_ref())),
        };
        let capacity = size_of(status.and_then(|status| status.capacity.as_ref()));
        let modes = status.and_then(|status| status.access_modes.as_ref());
        vec![
            text(self.metadata.name.as_ref()).into(),
            phase.into(),
            text(spec.volume_name.as_ref()).into(),
            if is_bound { capacity.map_or("0", |size| size.0.as_str()) } else { "" }.into(),
            modes_cell(modes.filter(|_| is_bound)),
            text(spec.storage_class_name.as_ref()).into(),
            or_unset(spec.volume_attributes_class_name.as_ref()),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            or_unset(spec.volume_mode.as_ref()),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for PersistentVolumeClaim {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
    }
}

/// Whether the claim has its volume.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

/// The storage that a claim asks for. What cannot be read is none.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    amount(claim.spec.as_ref().and_then(requests))
}

fn requests(spec: &PersistentVolumeClaimSpec) -> Option<&ResourceList> {
    spec.resources.as_ref()?.requests.as_ref()
}

fn amount(list: Option<&ResourceList>) -> Quantity {
    size_of(list).and_then(|size| quantities::read(size).ok()).unwrap_or_default()
}

/// Takes a change of the size back, and of nothing else.
fn keep_size(after: &mut PersistentVolumeClaimSpec, before: &PersistentVolumeClaimSpec) {
    let sizes = after.resources.as_mut().and_then(|resources| resources.requests.as_mut());
    if let Some(size) = sizes.and_then(|sizes| sizes.get_mut(STORAGE))
        && let Some(had) = size_of(requests(before))
    {
        size.clone_from(had);
    }
}

/// What is wrong with the spec of a claim, also of one that a pod brings along.
pub(crate) fn spec_errors(spec: &PersistentVolumeClaimSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = access_mode_errors(
        spec.access_modes.as_ref(),
        "at least 1 access mode is required",
        &field.child("accessModes"),
    );
    if let Some(selector) = &spec.selector {
        errors.extend(selector::check(selector, &field.child("selector")));
    }
    let at = field.child("resources").key(STORAGE);
    match size_of(requests(spec)) {
        None => errors.push(FieldError::required(at, "")),
        Some(size) => errors.extend(size_error(size, &at)),
    }
    let class = text(spec.storage_class_name.as_ref());
    if !class.is_empty() {
        let messages = names::dns_subdomain(class);
        errors.extend(invalid_each(&field.child("storageClassName"), class, messages));
    }
    errors.extend(volume_mode_error(spec.volume_mode.as_ref(), field.child("volumeMode")));
    errors.extend(data_source::errors(spec, field));
    let class = text(spec.volume_attributes_class_name.as_ref());
    if !class.is_empty() {
        let messages = names::dns_subdomain(class);
        errors.extend(invalid_each(&field.child("volumeAttributesClassName"), class, messages));
    }
    errors
}

/// Completes the spec of a claim, also of one that a pod or a StatefulSet brings along.
pub(crate) fn set_spec_defaults(spec: &mut PersistentVolumeClaimSpec) {
    defaults::absent_text(&mut spec.volume_mode, FILESYSTEM);
    defaults::drop_empty_text(&mut spec.volume_name);
    if let Some(resources) = &mut spec.resources {
        quantities::canonicalize_list(resources.requests.as_mut());
        quantities::canonicalize_list(resources.limits.as_mut());
    }
}
