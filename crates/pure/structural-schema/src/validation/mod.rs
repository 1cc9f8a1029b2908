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

use self::{outcome::Reporter, unchanged::OldValue, values::Validator};
pub(crate) use self::{
    unchanged::{OldItems, is_unchanged},
    value_path::{ValuePath, field_below},
};
use crate::StructuralSchema;

impl StructuralSchema {
    /// Everything wrong with a custom resource. `old` is the object before an update.
    ///
    /// The order is upstream's: values, embedded resources, lists, rules. Callers that have errors
    /// of their own between those call the parts one by one.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.validate_values(new, old);
        errors.extend(self.validate_embedded(new));
        errors.extend(self.validate_lists(new, old));
        errors.extend(self.validate_rules(&errors, new, old));
        errors
    }

    /// Checks the values of a whole object: types, limits, formats, required fields.
    pub fn validate_values(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_below("", new, old)
    }

    /// Checks the status alone, as a write of the subresource does. `self` is the schema of the
    /// whole object.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let (Some(schema), Some(status)) = (self.properties.get("status"), new.get("status"))
        else {
            return Vec::new();
        };
        schema.validate_below("status", status, old.and_then(|old| old.get("status")))
    }

    /// Checks a value that lies at the field `prefix`.
    pub(crate) fn validate_below(
        &self,
        prefix: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        let validator = Validator { reporter: Reporter { prefix } };
        let old = old.map_or(OldValue::Uncorrelated, OldValue::Root);
        validator.value(self, new, old, &ValuePath::Root).errors
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
        | FieldProblem::Forbidden => false,
    })
}
