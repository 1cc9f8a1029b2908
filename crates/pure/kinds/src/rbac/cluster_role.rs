//! ClusterRole.

use k8s_openapi::api::rbac::v1::ClusterRole;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::rules;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::names::NameRule;
use crate::validation::{Path, items, selector, text};

impl ApiKind for ClusterRole {
    const NAMES: ResourceNames = ResourceNames {
        singular: "clusterrole",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const CREATES_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = &[NAME, CREATED_AT];

    fn nulls(&self) -> Vec<&'static str> {
        self.rules.is_none().then_some("rules").into_iter().collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = rules::check(self.rules.as_ref(), ResourceScope::Cluster);
        let Some(aggregation) = &self.aggregation_rule else { return errors };
        let field = Path::new("aggregationRule").child("clusterRoleSelectors");
        let selectors = items(aggregation.cluster_role_selectors.as_ref());
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&field, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            let field = field.index(index);
            let mistakes = selector::check(selector, &field);
            if !mistakes.is_empty() {
                errors.extend(mistakes);
                errors.push(FieldError {
                    field: field.into(),
                    problem: FieldProblem::Invalid("null".to_owned()),
                    detail: "invalid label selector.".to_owned(),
                });
            }
        }
        errors
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            created_at(self.metadata.creation_timestamp.as_ref()).into(),
        ]
    }
}
