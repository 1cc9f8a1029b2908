//! Validates objects against their schema, in the words and the order of kube-openapi.
//!
//! What was invalid before a change and did not change is not refused ("ratcheting", KEP-4008).
//! An old value is correlated by its field, and in a list of type `map` by the item's keys.

mod numbers;
mod outcome;
mod unchanged;
mod value_path;
mod values;

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use self::{
    unchanged::OldValue,
    values::{Validator, ValueKind},
};
pub(crate) use self::{
    unchanged::{OldItems, is_unchanged},
    value_path::{ValuePath, field_below},
};
use crate::{StructuralSchema, error_list::ErrorList};

impl StructuralSchema {
    /// Everything wrong with a custom resource. `old` is the object before an update.
    ///
    /// The order is upstream's: values, embedded resources, lists, rules.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = ErrorList::default();
        errors.extend(self.validate_below("", new, old));
        if !errors.is_full() {
            errors.extend(self.validate_embedded(new));
        }
        self.validate_lists_and_rules(errors, new, old)
    }

    /// Everything wrong with a write of the status. Of the values, only the status is looked at;
    /// lists and rules are those of the whole object, as upstream. `self` is the schema of the
    /// whole object.
    pub fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = ErrorList::default();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), new.get("status")) {
            errors.extend(schema.validate_below("status", status, old.get("status")));
        }
        self.validate_lists_and_rules(errors, new, Some(old))
    }

    fn validate_lists_and_rules(
        &self,
        mut errors: ErrorList,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        if !errors.is_full() {
            errors.extend(self.validate_lists(new, old));
        }
        if !errors.is_full() {
            let found = self.validate_rules(errors.as_slice(), new, old);
            errors.extend(found);
        }
        errors.into_vec()
    }

    /// Checks a value that lies at the field `prefix`: types, limits, formats, required fields.
    fn validate_below(&self, prefix: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_as(ValueKind::Content, prefix, new, old)
    }

    /// The same of the default of a field.
    pub(crate) fn validate_default(&self, prefix: &str, default: &Value) -> Vec<FieldError> {
        self.validate_as(ValueKind::Default, prefix, default, None)
    }

    fn validate_as(
        &self,
        kind: ValueKind,
        prefix: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let validator = Validator::new(prefix, kind);
        let old = old.map_or(OldValue::Uncorrelated, OldValue::Root);
        let mut outcome = validator.value(self, new, old, &ValuePath::Root);
        if validator.is_exhausted() {
            outcome.add(validator.reporter.of_whole(
                "the schema has too many alternatives for so large an object".to_owned(),
            ));
        }
        outcome.errors.into_vec()
    }
}

/// Whether errors keep the rules of an object from being run, as they keep them upstream.
pub(crate) fn has_blocking_error(errors: &[FieldError]) -> bool {
    errors.iter().any(|error| match error.problem {
        FieldProblem::NotSupported(_)
        | FieldProblem::Required
        | FieldProblem::TooLong(_)
        | FieldProblem::TooMany { .. }
        | FieldProblem::TypeInvalid(_) => true,
        FieldProblem::Invalid(_)
        | FieldProblem::Duplicate(_)
        | FieldProblem::NotFound(_)
        | FieldProblem::Forbidden
        | FieldProblem::Internal => false,
    })
}
