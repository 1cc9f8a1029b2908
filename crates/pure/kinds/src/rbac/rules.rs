//! What a rule of a role must look like. Source: upstream's `pkg/apis/rbac/validation`.

use k8s_openapi::api::rbac::v1::PolicyRule;
use rekindle_types::validation::field_error::FieldError;

use crate::registry::resource::ResourceScope;
use crate::validation::{Path, items};

/// Checks the rules of a role of this scope.
pub(super) fn check(rules: Option<&Vec<PolicyRule>>, scope: ResourceScope) -> Vec<FieldError> {
    let field = Path::new("rules");
    let rules = items(rules).iter().enumerate();
    rules.flat_map(|(index, rule)| check_one(rule, scope, &field.index(index))).collect()
}

fn check_one(rule: &PolicyRule, scope: ResourceScope, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if rule.verbs.is_empty() {
        let detail = "verbs must contain at least one value";
        errors.push(FieldError::required(field.child("verbs"), detail));
    }
    let groups = items(rule.api_groups.as_ref());
    let resources = items(rule.resources.as_ref());
    let paths = items(rule.non_resource_urls.as_ref());
    if !paths.is_empty() {
        let field = field.child("nonResourceURLs");
        if scope == ResourceScope::Namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid_json(&field, &paths, detail));
        }
        let names = items(rule.resource_names.as_ref());
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid_json(&field, &paths, detail));
        }
        return errors;
    }
    if groups.is_empty() {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(field.child("apiGroups"), detail));
    }
    if resources.is_empty() {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(field.child("resources"), detail));
    }
    errors
}
