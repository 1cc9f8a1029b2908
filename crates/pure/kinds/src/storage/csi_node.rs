//! CSINode (storage.k8s.io/v1): which drivers a node has. Stored for drivers that a user installs.

use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::driver_name::name_errors;
use crate::validation::{ListKeys, MISTAKES_MAX, Path, invalid_each, items, json, names, text};

impl ApiKind for CSINode {
    const NAMES: ResourceNames = ResourceNames {
        singular: "csinode",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const ALWAYS_SHOWN: &'static [&'static str] = &["drivers"];
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("Drivers", "integer", "The number of drivers on the node."), AGE];

    fn validate(&self) -> Vec<FieldError> {
        let mut known: ListKeys<&str> = ListKeys::new();
        let mut errors = Vec::new();
        for (index, driver) in self.spec.drivers.iter().enumerate() {
            if errors.len() >= MISTAKES_MAX {
                break;
            }
            let field = Path::new("spec").child("drivers").index(index);
            errors.extend(driver_errors(driver, &field));
            if known.add(&driver.name).is_some() {
                errors.push(FieldError::duplicate(field.child("name"), &driver.name));
            }
        }
        errors
    }

    /// A driver may get an amount that it lacks; else it is the driver that it was.
    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let names: ListKeys<&str> =
            self.spec.drivers.iter().map(|driver| driver.name.as_str()).collect();
        for was in &old.spec.drivers {
            let Some(place) = names.place(was.name.as_str()) else { continue };
            let driver = &self.spec.drivers[place];
            let mut allowed = was.clone();
            allowed.allocatable.clone_from(&driver.allocatable);
            if *driver != allowed {
                errors.push(FieldError {
                    field: "spec.drivers".to_owned(),
                    problem: FieldProblem::Invalid(json(driver)),
                    detail: "field is immutable".to_owned(),
                });
            }
        }
        errors
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            TableCell::Int(i64::try_from(self.spec.drivers.len()).unwrap_or(i64::MAX)),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn driver_errors(driver: &CSINodeDriver, field: &Path) -> Vec<FieldError> {
    /// The longest identity of a node.
    const ID_BYTES_MAX: usize = 192;
    let mut errors = name_errors(&driver.name, &field.child("name"));
    let id = field.child("nodeID");
    if driver.node_id.is_empty() {
        errors.push(FieldError::required(&id, ""));
    } else if driver.node_id.len() > ID_BYTES_MAX {
        errors.push(FieldError::too_long(&id, ID_BYTES_MAX));
    }
    let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
    if let Some(count) = count.filter(|count| *count < 0) {
        let field = field.child("allocatable").child("count");
        errors.push(FieldError::invalid(field, count, "must be greater than or equal to 0"));
    }
    let mut keys: ListKeys<&str> = ListKeys::new();
    for key in items(driver.topology_keys.as_ref()) {
        if keys.add(key).is_some() {
            errors.push(FieldError::duplicate(field, key));
        }
        errors.extend(invalid_each(field, key, names::qualified(key)));
    }
    errors
}
