//! CustomResourceDefinition (apiextensions.k8s.io/v1): a kind that a user adds. `custom` of the API
//! serves it.

mod defaults;
pub mod json_path;
mod validate;

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionStatus,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::preparation;
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::text;

impl ApiKind for CustomResourceDefinition {
    const NAMES: ResourceNames = ResourceNames {
        singular: "customresourcedefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        scope: ResourceScope::Cluster,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[NAME, CREATED_AT];

    fn set_defaults(&mut self) {
        defaults::fill(self);
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(CustomResourceDefinitionStatus {
            accepted_names: Some(CustomResourceDefinitionNames::default()),
            ..CustomResourceDefinitionStatus::default()
        });
        self.note_stored_version();
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        let desired = preparation::DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        self.status.clone_from(&old.status);
        self.note_stored_version();
    }

    fn validate(&self) -> Vec<FieldError> {
        validate::definition(self)
    }

    fn validate_new(&self) -> Vec<FieldError> {
        validate::new_definition(self)
    }

    fn validate_created(&self) -> Vec<FieldError> {
        let mut errors = validate::name_errors(self);
        errors.extend(self.validate());
        errors.extend(self.validate_new());
        errors
    }

    fn warnings(&self) -> Vec<String> {
        validate::unrecognized_formats(self)
    }

    /// Of formats that were there before it is not warned again.
    fn warnings_of_change(&self, old: &Self) -> Vec<String> {
        let mut warnings = self.warnings();
        let known = BTreeSet::from_iter(old.warnings());
        warnings.retain(|warning| !known.contains(warning));
        warnings
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        validate::update(self, old)
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        let meta = &self.metadata;
        vec![text(meta.name.as_ref()).into(), created_at(meta.creation_timestamp.as_ref()).into()]
    }
}

impl SubresourceStrategy<StatusPart> for CustomResourceDefinition {
    preparation::updates_of_status_and_metadata!();
}

/// What a definition does with the version that objects are stored in.
trait StoredVersions {
    /// Lists it in the status: objects may be stored in it from now on.
    fn note_stored_version(&mut self);
}

impl StoredVersions for CustomResourceDefinition {
    fn note_stored_version(&mut self) {
        let Some(storage) = self.spec.versions.iter().find(|version| version.storage) else {
            return;
        };
        let status = self.status.get_or_insert_default();
        let stored = status.stored_versions.get_or_insert_default();
        if !stored.contains(&storage.name) {
            stored.push(storage.name.clone());
        }
    }
}
