//! ServiceAccount (core/v1).

use k8s_openapi::api::core::v1::ServiceAccount;
use rekindle_types::Tick;

use crate::registry::resource::{
    ApiKind, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age};
use crate::validation::text;

impl ApiKind for ServiceAccount {
    const NAMES: ResourceNames = ResourceNames {
        singular: "serviceaccount",
        short_names: &["sa"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Token];
    const COLUMNS: &'static [TableColumn] = &[NAME, AGE];

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
