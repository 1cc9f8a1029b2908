//! ClusterRole.

use k8s_openapi::api::rbac::v1::ClusterRole;
use rekindle_types::Tick;

use super::rules;
use crate::registry::field_error::FieldError;
use crate::registry::resource::{ApiKind, Cell, Column, NameRule, Names, Scope};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::{Path, items, selector, text};

impl ApiKind for ClusterRole {
    const NAMES: Names =
        Names { singular: "clusterrole", short_names: &[], categories: &[], scope: Scope::Cluster };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const COLUMNS: &'static [Column] = &[NAME, CREATED_AT];

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = rules::check(self.rules.as_ref(), Scope::Cluster);
        let Some(aggregation) = &self.aggregation_rule else { return errors };
        let field = Path::new("aggregationRule").child("clusterRoleSelectors");
        let selectors = items(aggregation.cluster_role_selectors.as_ref());
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&field, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            errors.extend(selector::check(selector, &field.index(index)));
        }
        errors
    }

    fn row(&self, _now: Tick) -> Vec<Cell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            created_at(self.metadata.creation_timestamp.as_ref()).into(),
        ]
    }
}
