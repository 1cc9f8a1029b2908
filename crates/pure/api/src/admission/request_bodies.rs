//! Requests that write no object of their resource: those that open a connection (`pods/exec`,
//! `pods/proxy` …) and those with a body that is not stored (`pods/eviction`, `pods/binding`,
//! `serviceaccounts/token`). Policies and webhooks see what is asked for, and cannot change it.

use rekindle_types::ObjectJson;
use serde_json::{Map, Value};

use super::reviewed_request::Operation;
use super::table::{RULES, RuleHook};
use crate::call::ApiCall;
use crate::decode::UnstoredKind;
use crate::status::ApiError;

/// What such a request asks for.
pub(crate) struct RequestBody {
    pub(super) operation: Operation,
    pub(super) kind: UnstoredKind,
    /// The object, with its kind and version.
    pub(super) value: Value,
}

impl RequestBody {
    /// A body that is not stored.
    pub(crate) fn created(kind: UnstoredKind, object: &impl ObjectJson) -> Self {
        Self::new(Operation::Create, kind, object.to_value())
    }

    /// The options of a connection, of this kind of `v1`.
    pub(crate) fn connected(kind: &'static str, options: Map<String, Value>) -> Self {
        let kind = UnstoredKind { api_version: "v1", kind };
        Self::new(Operation::Connect, kind, Value::Object(options))
    }

    fn new(operation: Operation, kind: UnstoredKind, mut value: Value) -> Self {
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".to_owned(), kind.api_version.into());
            fields.insert("kind".to_owned(), kind.kind.into());
        }
        Self { operation, kind, value }
    }
}

/// Looks at such a request, once its sender is known to have the right to it. Gives the warnings.
///
/// # Errors
/// That of the first rule that refuses it.
pub(crate) fn check(call: &ApiCall<'_>, body: &RequestBody) -> Result<Vec<String>, ApiError> {
    let mut warnings = Vec::new();
    for rule in &RULES {
        let RuleHook::Request(check) = &rule.hook else { continue };
        match check(call, body) {
            Ok(more) => warnings.extend(more),
            Err(error) => return Err(error.with_warnings(warnings)),
        }
    }
    Ok(warnings)
}
