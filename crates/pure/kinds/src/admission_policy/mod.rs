//! Admission policies (admissionregistration.k8s.io/v1): rules in CEL that every write is checked
//! by, or changed by, and their bindings. `admission::policies` runs them.
//!
//! Wording and order of mistakes follow upstream's `pkg/apis/admissionregistration/validation`.

mod bindings;
pub mod match_resources;
mod mutating;
mod parameters;
pub mod program;
mod validating;

pub use mutating::{MutationForm, MutationProgram, is_run_again, program as mutating_program};
pub use validating::{ValidationProgram, program as validating_program};

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, ParamKind, Variable,
};

use match_resources::PolicyEffect;
use rekindle_types::validation::field_error::FieldError;

use crate::registry::resource::TableCell;
use crate::validation::{Path, items, text};

/// The group of these kinds.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// What both kinds of policies say.
#[derive(Clone, Copy)]
pub struct PolicyParts<'p> {
    /// `Fail` or `Ignore`.
    pub failure_policy: Option<&'p String>,
    /// The kind of its parameters.
    pub param_kind: Option<&'p ParamKind>,
    /// Which requests it is for.
    pub match_constraints: Option<&'p MatchResources>,
    /// What else is asked of a request that it is for.
    pub match_conditions: &'p [MatchCondition],
    /// What its expressions share.
    pub variables: &'p [Variable],
}

/// What becomes of a request when a policy cannot be evaluated, or a webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is refused.
    Fail,
    /// The policy or the webhook counts as met.
    Ignore,
}

impl FailurePolicy {
    /// Of a value that was checked.
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            IGNORE => Self::Ignore,
            _ => Self::Fail,
        }
    }
}

impl PolicyParts<'_> {
    /// What a failure of the policy means for the request.
    pub fn on_failure(&self) -> FailurePolicy {
        FailurePolicy::parse(text(self.failure_policy))
    }

    /// What is wrong with all that stands before the expressions.
    fn errors(&self, effect: PolicyEffect, field: &Path) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let policy_field = field.child("failurePolicy");
        match self.failure_policy.map(String::as_str) {
            None => errors.push(FieldError::required(policy_field, "")),
            Some(FAIL | IGNORE) => {}
            Some(other) => {
                errors.push(FieldError::not_supported(policy_field, other, &[FAIL, IGNORE]));
            }
        }
        if let Some(kind) = self.param_kind {
            errors.extend(parameters::kind_errors(kind, &field.child("paramKind")));
        }
        let field = field.child("matchConstraints");
        match self.match_constraints {
            None => errors.push(FieldError::required(field, "")),
            Some(constraints) => {
                errors.extend(match_resources::errors(constraints, &field));
                if items(constraints.resource_rules.as_ref()).is_empty() {
                    errors.push(FieldError::required(field.child("resourceRules"), ""));
                }
                errors.extend(match_resources::operation_errors(constraints, effect, &field));
            }
        }
        errors
    }

    /// The parameter kind as a table shows it.
    fn param_kind_cell(&self) -> TableCell {
        let shown = self.param_kind.map(|kind| {
            format!("{}/{}", text(kind.api_version.as_ref()), text(kind.kind.as_ref()))
        });
        shown.unwrap_or_else(|| UNSET.to_owned()).into()
    }
}

pub(super) const FAIL: &str = "Fail";
pub(super) const IGNORE: &str = "Ignore";
/// Runs again when others changed the object.
pub(super) const IF_NEEDED: &str = "IfNeeded";
pub(super) const NEVER: &str = "Never";
const UNSET: &str = "<unset>";

fn set_failure_policy(slot: &mut Option<String>) {
    super::defaults::absent_text(slot, FAIL);
}
