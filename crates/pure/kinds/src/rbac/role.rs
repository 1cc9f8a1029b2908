//! Role.

use k8s_openapi::api::rbac::v1::Role;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::rules;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::names::NameRule;
use crate::validation::text;

impl ApiKind for Role {
    const NAMES: ResourceNames = ResourceNames {
        singular: "role",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const CREATES_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[NAME, CREATED_AT];

    fn nulls(&self) -> Vec<&'static str> {
        self.rules.is_none().then_some("rules").into_iter().collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        rules::check(self.rules.as_ref(), ResourceScope::Namespaced)
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            created_at(self.metadata.creation_timestamp.as_ref()).into(),
        ]
    }
}
