//! ServiceAccount (core/v1).

use k8s_openapi::api::core::v1::ServiceAccount;
use rekindle_types::Tick;

use super::keyed_data;
use crate::registry::resource::{
    ApiKind, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{items, text};

impl ApiKind for ServiceAccount {
    const NAMES: ResourceNames = ResourceNames {
        singular: "serviceaccount",
        short_names: &["sa"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Token];
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Secrets", "string", "The secrets that pods with this account may use."),
        AGE,
    ];

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            keyed_data::count(items(self.secrets.as_ref()).len()),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}
