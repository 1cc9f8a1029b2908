//! VolumeAttributesClass (storage.k8s.io/v1): attributes of volumes that can change while they are
//! used. Stored for drivers that a user installs.

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::class::{driver_name_errors, parameter_errors};
use super::stored_only;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, text};

/// Keeps a class that is in use.
const PROTECTION: &str = "kubernetes.io/vac-protection";

impl ApiKind for VolumeAttributesClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "volumeattributesclass",
        short_names: &["vac"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("DriverName", "string", "The driver that knows the attributes."), AGE];

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        let finalizers = self.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
            finalizers.push(PROTECTION.to_owned());
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = driver_name_errors(&self.driver_name, &Path::new("driverName"));
        errors.extend(parameter_errors(self.parameters.as_ref()));
        if self.parameters.as_ref().is_none_or(|parameters| parameters.is_empty()) {
            let why = "must contain at least one key/value pair";
            errors.push(FieldError::required("parameters", why));
        }
        errors
    }

    const IS_COMPARED_FIRST: bool = true;

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.driver_name != old.driver_name {
            let why = "updates to driverName are forbidden.";
            errors.push(FieldError::forbidden("driverName", why));
        }
        if self.parameters != old.parameters {
            let why = "updates to parameters are forbidden.";
            errors.push(FieldError::forbidden("parameters", why));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("VolumeAttributesClass", "no volume changes its attributes")
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.driver_name.as_str().into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
