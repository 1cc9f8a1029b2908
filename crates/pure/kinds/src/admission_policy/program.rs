//! The expressions of a policy, compiled: once to check the policy, and once to run it.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, Variable};
use rekindle_structural_schema::{
    ExpressionPlace, ExpressionResult, PolicyExpression, PolicyNames, PolicyVariables,
    is_variable_name,
};
use rekindle_types::validation::field_error::FieldError;

use super::PolicyParts;
use crate::validation::{ListKeys, MISTAKES_MAX, Path, invalid_each, names};

/// An expression that says yes or no.
pub(super) const CONDITION: (ExpressionPlace, ExpressionResult) =
    (ExpressionPlace::Rule, ExpressionResult::Bool);

/// The most conditions that a policy may have.
const CONDITIONS_MAX: usize = 64;

/// A policy as it runs.
#[derive(Debug)]
pub struct PolicyProgram<S> {
    /// All of them must hold, else the policy is not for the request.
    pub conditions: Vec<ConditionProgram>,
    /// What the expressions below may use.
    pub variables: PolicyVariables,
    /// What it checks, or changes.
    pub steps: Vec<S>,
    /// What it adds to the audit log.
    pub annotations: Vec<AnnotationProgram>,
}

/// One annotation of the audit log.
#[derive(Debug)]
pub struct AnnotationProgram {
    /// Its name, without that of the policy.
    pub key: String,
    /// The expression as it was written, which errors name.
    pub text: String,
    /// The same, compiled.
    pub expression: PolicyExpression,
}

/// One match condition.
#[derive(Debug)]
pub struct ConditionProgram {
    /// The expression as it was written, which errors name.
    pub text: String,
    /// The same, compiled.
    pub expression: PolicyExpression,
}

/// Compiles the expressions of one policy, and collects what is wrong with them.
pub(crate) struct ProgramCompiler {
    names: PolicyNames,
    errors: Vec<FieldError>,
}

impl ProgramCompiler {
    /// For a policy with parameters, or without.
    pub(super) fn new(parts: &PolicyParts<'_>) -> Self {
        Self { names: PolicyNames::new(parts.param_kind.is_some()), errors: Vec::new() }
    }

    /// For expressions that see neither parameters nor variables.
    pub(crate) fn without_parameters() -> Self {
        Self { names: PolicyNames::new(false), errors: Vec::new() }
    }

    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    pub(super) fn refuse(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// An expression that must evaluate to `wanted`. Nothing is compiled once there are too many
    /// mistakes: to find the place of one takes long.
    pub(super) fn expression(
        &mut self,
        text: &str,
        (place, wanted): (ExpressionPlace, ExpressionResult),
        field: &Path,
    ) -> Option<PolicyExpression> {
        if self.errors.len() >= MISTAKES_MAX {
            return None;
        }
        match PolicyExpression::compile(text, &self.names, place, wanted) {
            Ok(expression) => Some(expression),
            Err(why) => {
                self.errors.push(FieldError::invalid(field, text, why));
                None
            }
        }
    }

    /// The match conditions, which know no variables.
    pub(crate) fn conditions(
        &mut self,
        conditions: &[MatchCondition],
        field: &Path,
    ) -> Vec<ConditionProgram> {
        if conditions.len() > CONDITIONS_MAX {
            let field = String::from(field);
            self.errors.push(FieldError::too_many_of(field, conditions.len(), CONDITIONS_MAX));
        }
        let mut known = ListKeys::new();
        let mut programs = Vec::new();
        for (index, condition) in conditions.iter().enumerate() {
            let field = field.index(index);
            let text = condition.expression.trim();
            if text.is_empty() {
                self.errors.push(FieldError::required(field.child("expression"), ""));
            } else if let Some(expression) =
                self.expression(text, CONDITION, &field.child("expression"))
            {
                programs.push(ConditionProgram { text: text.to_owned(), expression });
            }
            let (name, field) = (condition.name.as_str(), field.child("name"));
            if name.is_empty() {
                self.errors.push(FieldError::required(field, ""));
                continue;
            }
            self.errors.extend(invalid_each(&field, name, names::qualified(name)));
            if known.add(name).is_some() {
                self.errors.push(FieldError::duplicate(field, name));
            }
        }
        programs
    }

    /// The variables. Each may use those before it, and what is compiled after them all.
    pub(super) fn variables(&mut self, variables: &[Variable], field: &Path) -> PolicyVariables {
        let mut known = ListKeys::new();
        let mut programs = PolicyVariables::new();
        for (index, variable) in variables.iter().enumerate() {
            let field = field.index(index);
            let (name, text) = (variable.name.as_str(), variable.expression.as_str());
            if name.trim().is_empty() {
                let why = "name is not specified";
                self.errors.push(FieldError::required(field.child("name"), why));
            } else if !is_variable_name(name) {
                let why = "must be a valid CEL identifier";
                self.errors.push(FieldError::invalid(field.child("name"), name, why));
            }
            // one that stood for itself would be evaluated for ever
            if known.add(name).is_some() {
                self.errors.push(FieldError::duplicate(field.child("name"), name));
                continue;
            }
            let field = field.child("expression");
            if text.trim().is_empty() {
                self.errors.push(FieldError::required(field, "expression is not specified"));
                continue;
            }
            let wanted = (ExpressionPlace::Rule, ExpressionResult::Any);
            let expression = self.expression(text, wanted, &field);
            self.names.add_variable(name, expression.as_ref());
            programs.extend(expression.map(|expression| (name.to_owned(), expression)));
        }
        programs
    }
}

/// Why a policy that is stored cannot run: it was written by another version of the engine.
pub fn unusable(errors: &[FieldError]) -> Option<String> {
    errors.first().map(ToString::to_string)
}
