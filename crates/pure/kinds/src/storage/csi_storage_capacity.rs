//! CSIStorageCapacity (storage.k8s.io/v1): how much room a class has in a part of the cluster.
//! Stored for drivers that a user installs.

use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::stored_only;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{NAME, column};
use crate::validation::{Path, fixed, invalid_each, names, quantities, selector, text};

impl ApiKind for CSIStorageCapacity {
    const NAMES: ResourceNames = ResourceNames {
        singular: "csistoragecapacity",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("StorageClassName", "string", "The class that has the room."),
        column("Capacity", "string", "The room that is left."),
    ];

    fn set_defaults(&mut self) {
        for amount in [&mut self.capacity, &mut self.maximum_volume_size].into_iter().flatten() {
            quantities::canonicalize(amount);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let class = &self.storage_class_name;
        let field = Path::new("storageClassName");
        let mut errors: Vec<FieldError> =
            invalid_each(&field, class, names::dns_subdomain(class)).collect();
        if let Some(topology) = &self.node_topology {
            errors.extend(selector::check(topology, &Path::new("nodeTopology")));
        }
        if let Some(capacity) = &self.capacity {
            errors.extend(quantities::check_non_negative(capacity, &Path::new("capacity")).err());
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.node_topology != old.node_topology {
            errors.push(fixed(&Path::new("nodeTopology"), &self.node_topology));
        }
        if self.storage_class_name != old.storage_class_name {
            let field = Path::new("storageClassName");
            errors.push(fixed(&field, &self.storage_class_name));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        stored_only("CSIStorageCapacity", "the scheduler does not read it")
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.storage_class_name.as_str().into(),
            self.capacity.as_ref().map_or("<unset>", |amount| amount.0.as_str()).into(),
        ]
    }
}
