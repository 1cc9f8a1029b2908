//! ServiceAccount (core/v1).

use k8s_openapi::api::core::v1::{ObjectReference, ServiceAccount};
use rekindle_types::Tick;

use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
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

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        names_only(&mut self.secrets);
    }

    fn prepare_for_update(&mut self, _old: &Self, _ctx: &RequestContext<'_>) {
        names_only(&mut self.secrets);
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// Secrets are in the account's namespace: only their names are kept, as upstream.
fn names_only(secrets: &mut Option<Vec<ObjectReference>>) {
    for secret in secrets.iter_mut().flatten() {
        let name = secret.name.take();
        *secret = ObjectReference { name, ..ObjectReference::default() };
    }
}
