//! ConfigMap (core/v1).

use k8s_openapi::api::core::v1::ConfigMap;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{defaults, keyed_data};
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, text};

impl ApiKind for ConfigMap {
    const NAMES: ResourceNames = ResourceNames {
        singular: "configmap",
        short_names: &["cm"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Data", "string", "Data contains the configuration data."), AGE];

    fn set_defaults(&mut self) {
        defaults::drop_empty_map(&mut self.data);
        defaults::drop_empty_map(&mut self.binary_data);
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut bytes = 0;
        for (key, value) in self.data.iter().flatten() {
            let field = Path::new("data").key(key);
            errors.extend(keyed_data::key(key, &field));
            if self.binary_data.as_ref().is_some_and(|data| data.contains_key(key)) {
                errors.push(FieldError::invalid(
                    field,
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.len();
        }
        for (key, value) in self.binary_data.iter().flatten() {
            errors.extend(keyed_data::key(key, &Path::new("binaryData").key(key)));
            bytes += value.0.len();
        }
        errors.extend(keyed_data::size(bytes));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        if old.immutable != Some(true) {
            return Vec::new();
        }
        let mut errors = Vec::new();
        errors.extend(keyed_data::stays_immutable(self.immutable));
        if self.data != old.data {
            errors.push(keyed_data::frozen("data"));
        }
        if self.binary_data != old.binary_data {
            errors.push(keyed_data::frozen("binaryData"));
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let entries = self.data.as_ref().map_or(0, |data| data.len())
            + self.binary_data.as_ref().map_or(0, |data| data.len());
        vec![
            text(self.metadata.name.as_ref()).into(),
            keyed_data::count(entries),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
