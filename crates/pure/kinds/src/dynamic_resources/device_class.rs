//! DeviceClass (resource.k8s.io/v1): which devices a request for this class may get.

use k8s_openapi::api::resource::v1::DeviceClass;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::entry_errors;
use super::device_configuration::{self, CONFIGURATIONS_MAX};
use super::{device_selector, stored_only};
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age};
use crate::validation::{Path, items, names, resource_names, text};
use crate::{defaults, preparation};

impl ApiKind for DeviceClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "deviceclass",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] = &[NAME, AGE];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        defaults::drop_empty_list(&mut spec.selectors);
        defaults::drop_empty_list(&mut spec.config);
    }

    preparation::writes_of!(spec);

    fn validate(&self) -> Vec<FieldError> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let field = Path::new("spec");
        let selectors = field.child("selectors");
        let mut errors = device_selector::list_errors(spec.selectors.as_ref(), &selectors);
        errors.extend(entry_errors(
            items(spec.config.as_ref()),
            CONFIGURATIONS_MAX,
            &field.child("config"),
            |config, field| device_configuration::errors(config.opaque.as_ref(), field),
        ));
        if let Some(name) = spec.extended_resource_name.as_ref().filter(|name| !is_extended(name)) {
            let why = "must be a valid extended resource name";
            errors.push(FieldError::invalid(field.child("extendedResourceName"), name, why));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("DeviceClass")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// Whether pods may ask for this resource as one that is none of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    resource_names::is_extended(name) && names::qualified(&format!("requests.{name}")).is_empty()
}
