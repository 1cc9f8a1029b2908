//! A policy: rules in order, of which the first that matches a request decides.

mod matching;
mod rule;
#[cfg(test)]
mod tests;
mod written;

use rekindle_types::validation::FieldError;
use serde_json::Value;

use crate::level::{AuditLevel, StageSet};
use crate::recorded_object::ManagedFieldsMode;
use crate::subject::AuditSubject;
use rule::AuditRule;
use written::WrittenPolicy;

/// The version of policies and of events.
pub(crate) const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

/// A policy that was read and found valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPolicy {
    rules: Vec<AuditRule>,
}

/// What a policy says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditDecision {
    /// How much is recorded.
    pub level: AuditLevel,
    /// At these stages no event is made.
    pub omit_stages: StageSet,
    /// Whether bodies show their managed fields.
    pub managed_fields: ManagedFieldsMode,
}

/// Why a document is no policy.
#[derive(Debug, thiserror::Error)]
pub enum AuditPolicyError {
    /// It is of another kind or version.
    #[error("apiVersion {api_version:?}, kind {kind:?}: must be {KIND} of {API_VERSION}")]
    Kind {
        /// What it says.
        api_version: String,
        /// What it says.
        kind: String,
    },
    /// A field is not known, or of another type; the path leads to it.
    #[error("{0}")]
    Shape(#[from] serde_path_to_error::Error<serde_json::Error>),
    /// Values are not allowed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Fields(Vec<FieldError>),
}

impl AuditPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// When it is of another kind, has fields that are not known, or values that are not allowed:
    /// all of these at once.
    pub fn from_value(value: Value) -> Result<Self, AuditPolicyError> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind != KIND || api_version != API_VERSION {
            return Err(AuditPolicyError::Kind { api_version, kind });
        }
        let written: WrittenPolicy = serde_path_to_error::deserialize(value)?;
        let rules = written.rules().map_err(AuditPolicyError::Fields)?;
        Ok(Self { rules })
    }

    /// What is recorded of a request: the first rule that matches says it. Without one, nothing is.
    pub fn decide(&self, subject: &AuditSubject) -> AuditDecision {
        let rule = self.rules.iter().find(|rule| rule.matches(subject));
        rule.map_or(AuditDecision::NOTHING, |rule| rule.decision)
    }
}

impl AuditDecision {
    const NOTHING: Self = Self {
        level: AuditLevel::None,
        omit_stages: StageSet::NONE,
        managed_fields: ManagedFieldsMode::Keep,
    };
}
