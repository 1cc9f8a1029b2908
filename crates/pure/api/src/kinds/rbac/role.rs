//! Role.

use k8s_openapi::api::rbac::v1::Role;
use rekindle_types::Tick;

use super::rules;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{ApiKind, Cell, Column, NameRule, Names, Scope};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::text;

impl ApiKind for Role {
    const NAMES: Names =
        Names { singular: "role", short_names: &[], categories: &[], scope: Scope::Namespaced };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const COLUMNS: &'static [Column] = &[NAME, CREATED_AT];

    fn validate(&self) -> Vec<FieldError> {
        rules::check(self.rules.as_ref(), Scope::Namespaced)
    }

    fn row(&self, _now: Tick) -> Vec<Cell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            created_at(self.metadata.creation_timestamp.as_ref()).into(),
        ]
    }
}
