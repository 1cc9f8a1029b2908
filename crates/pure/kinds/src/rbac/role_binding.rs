//! RoleBinding.

use k8s_openapi::api::rbac::v1::RoleBinding;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::binding;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::validation::names::NameRule;

impl ApiKind for RoleBinding {
    const NAMES: ResourceNames = ResourceNames {
        singular: "rolebinding",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const NAME_RULE: NameRule = NameRule::PathSegment;
    const CREATES_ON_UPDATE: bool = true;
    const COLUMNS: &'static [TableColumn] = binding::COLUMNS;

    fn set_defaults(&mut self) {
        binding::set_defaults(&mut self.role_ref, self.subjects.as_mut());
    }

    fn validate(&self) -> Vec<FieldError> {
        binding::check(&self.role_ref, self.subjects.as_ref(), ResourceScope::Namespaced)
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        binding::check_update(&self.role_ref, &old.role_ref)
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        binding::row(&self.metadata, &self.role_ref, self.subjects.as_ref(), now)
    }
}
