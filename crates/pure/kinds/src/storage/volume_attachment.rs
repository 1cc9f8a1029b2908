//! VolumeAttachment (storage.k8s.io/v1): that a volume is to be attached to a node. Stored for
//! drivers that a user installs; nothing here attaches volumes.

use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentStatus};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::stored_only;
use crate::preparation;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::driver_name::name_errors;
use crate::validation::{Path, fixed, invalid_each, names, text};

impl ApiKind for VolumeAttachment {
    const NAMES: ResourceNames = ResourceNames {
        singular: "volumeattachment",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Attacher", "string", "The driver that attaches the volume."),
        column("PV", "string", "The volume."),
        column("Node", "string", "The node."),
        column("Attached", "boolean", "Whether the volume is attached."),
        AGE,
    ];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = Some(VolumeAttachmentStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let (spec, field) = (&self.spec, Path::new("spec"));
        let mut errors = name_errors(&spec.attacher, &field.child("attacher"));
        let source = &spec.source;
        match (&source.persistent_volume_name, &source.inline_volume_spec) {
            (Some(_), Some(_)) => {
                let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                errors.push(FieldError::forbidden(field.child("source"), why));
            }
            (None, None) => {
                let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
                errors.push(FieldError::required(field.child("source"), why));
            }
            (Some(name), None) => {
                let field = field.child("source").child("persistentVolumeName");
                if name.is_empty() {
                    let why = "must specify non empty persistentVolumeName";
                    errors.push(FieldError::required(&field, why));
                }
                errors.extend(invalid_each(&field, name, names::dns_subdomain(name)));
            }
            (None, Some(_)) => {}
        }
        let messages = names::dns_subdomain(&spec.node_name);
        errors.extend(invalid_each(&field.child("nodeName"), &spec.node_name, messages));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let error = fixed(&Path::new("spec"), &self.spec);
        (self.spec != old.spec).then_some(error).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("VolumeAttachment", "nothing attaches volumes")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let attached = self.status.as_ref().is_some_and(|status| status.attached);
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.spec.attacher.as_str().into(),
            text(self.spec.source.persistent_volume_name.as_ref()).into(),
            self.spec.node_name.as_str().into(),
            TableCell::Json(attached.into()),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for VolumeAttachment {
    preparation::updates_of_status_alone!();
}
