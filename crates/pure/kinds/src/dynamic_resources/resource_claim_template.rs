//! ResourceClaimTemplate (resource.k8s.io/v1): the claim that each pod gets for itself.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::device_constraint::{claim_errors, set_claim_defaults};
use super::stored_only;
use crate::pod::validate::volume_claims::template_metadata;
use crate::registry::metadata::drop_empty;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age};
use crate::validation::{Path, fixed, text};

impl ApiKind for ResourceClaimTemplate {
    const NAMES: ResourceNames = ResourceNames {
        singular: "resourceclaimtemplate",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const COLUMNS: &'static [TableColumn] = &[NAME, AGE];

    fn set_defaults(&mut self) {
        let template = self.spec.get_or_insert_default();
        drop_empty(template.metadata.get_or_insert_default());
        set_claim_defaults(template.spec.get_or_insert_default());
    }

    fn validate(&self) -> Vec<FieldError> {
        let Some(template) = &self.spec else { return Vec::new() };
        let field = Path::new("spec");
        let mut errors = Vec::new();
        if let Some(meta) = &template.metadata {
            errors.extend(template_metadata(meta, &field.child("metadata")));
        }
        errors.extend(claim_errors(template.spec.as_ref(), &field.child("spec")));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let error = || fixed(&Path::new("spec"), &self.spec);
        (self.spec != old.spec).then(error).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("ResourceClaimTemplate")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
